package a2a

import (
	"maps"
	"slices"

	"github.com/parley-a2a/parley/internal/single"
)

// Apply folds an event into the task, as a client that follows a stream does (specification 4.2): a Task
// replaces everything, a status update replaces the status, an artifact update adds, replaces or extends an
// artifact. A chunk for an artifact that was never begun begins it. A Message changes nothing.
//
// The task must be the caller's own: made by it, or by [Task.Snapshot]. The event is not changed.
func (t *Task) Apply(ev Event) {
	switch ev := ev.(type) {
	case *Task:
		ev.copyTo(t)
	case *TaskStatusUpdateEvent:
		t.Status = ev.Status
	case *TaskArtifactUpdateEvent:
		t.applyArtifact(ev)
	case *Message:
	}
}

func (t *Task) applyArtifact(ev *TaskArtifactUpdateEvent) {
	i := len(t.Artifacts) - 1 // the artifact that changes is mostly the last
	for i >= 0 && t.Artifacts[i].ArtifactID != ev.Artifact.ArtifactID {
		i--
	}
	switch {
	case t.Artifacts == nil:
		t.Artifacts = single.Of(*ev.Artifact)
		t.Artifacts[0].Parts = slices.Clip(ev.Artifact.Parts)
	case i < 0:
		t.Artifacts = append(t.Artifacts, ev.Artifact.snapshot())
	case !ev.Append:
		t.Artifacts[i] = ev.Artifact.snapshot()
	default:
		t.Artifacts[i].extend(ev.Artifact)
	}
}

// extend adds a chunk: its parts follow, its other fields win where they say something.
func (a *Artifact) extend(chunk *Artifact) {
	a.Parts = append(a.Parts, chunk.Parts...)
	if chunk.Name != "" {
		a.Name = chunk.Name
	}
	if chunk.Description != "" {
		a.Description = chunk.Description
	}
	if len(chunk.Metadata) > 0 {
		m := maps.Clone(a.Metadata)
		if m == nil {
			m = make(Struct, len(chunk.Metadata))
		}
		maps.Copy(m, chunk.Metadata)
		a.Metadata = m
	}
	for _, u := range chunk.Extensions {
		if !slices.Contains(a.Extensions, u) {
			a.Extensions = append(slices.Clip(a.Extensions), u)
		}
	}
}

// Snapshot returns a copy of the task that no later Apply to t disturbs, nor the other way round. What
// Apply never changes, messages and parts, is shared.
func (t *Task) Snapshot() *Task {
	out := new(Task)
	t.copyTo(out)
	return out
}

func (t *Task) copyTo(out *Task) {
	*out = *t
	out.History = slices.Clip(t.History)
	if t.Artifacts != nil {
		out.Artifacts = make([]*Artifact, len(t.Artifacts))
		headers := make([]Artifact, len(t.Artifacts))
		for i, a := range t.Artifacts {
			headers[i] = *a
			headers[i].Parts = slices.Clip(a.Parts)
			out.Artifacts[i] = &headers[i]
		}
	}
}

func (a *Artifact) snapshot() *Artifact {
	out := *a
	out.Parts = slices.Clip(a.Parts)
	return &out
}
