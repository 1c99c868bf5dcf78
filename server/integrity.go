package server

import (
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore"
)

// view returns the task as the caller wants to see it, with what the extensions in effect put on it.
func (c *call) view(task *a2a.Task, generation int64, history int) *a2a.Task {
	var ev a2a.Event = taskstore.View(task, history, true)
	if c.active(extension.TaskLog) {
		ev = extension.WithGeneration(ev, generation)
	}
	if c.active(extension.ChunkIntegrity) {
		var d extension.Digests
		d.Apply(ev)
		ev = d.With(ev)
	}
	return ev.(*a2a.Task) //nolint:forcetypeassert // a copy of it
}

// dressed puts on what is yielded what the extensions in effect say: generations and digests. What is yielded first is
// the Task.
func (c *call) dressed(yield func(a2a.Entry, error) bool) func(a2a.Entry, error) bool {
	numbered, digested := c.active(extension.TaskLog), c.active(extension.ChunkIntegrity)
	if !numbered && !digested {
		return yield
	}
	var d extension.Digests
	return func(e a2a.Entry, err error) bool {
		if err != nil {
			return yield(e, err)
		}
		if numbered {
			e = e.Variant(func(e a2a.Entry) a2a.Event { return extension.WithGeneration(e.Event, e.Generation) })
		}
		if digested {
			d.Apply(e.Event)
			e = withDigests(e, &d, numbered)
		}
		return yield(e, nil)
	}
}

// withDigests returns the entry with the digests on its event. What has its generation has one variant, which is this;
// what has not is made anew, since its variant is the one with the generation.
func withDigests(e a2a.Entry, d *extension.Digests, numbered bool) a2a.Entry {
	derive := func(e a2a.Entry) a2a.Event { return d.With(e.Event) }
	if numbered {
		return e.Variant(derive)
	}
	out := a2a.NewEntry(e.Generation, derive(e))
	out.More = e.More
	return out
}
