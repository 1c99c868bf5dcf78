package extension

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/gowebpki/jcs"

	"github.com/parley-a2a/parley/a2a"
)

// Names in the metadata of what is under chunk-integrity.
const (
	// DigestKey is, on an artifact update, where the [Digest] of the artifact is as it is with that update.
	DigestKey = ChunkIntegrity + "/digest"
	// DigestsKey is where a Task, and a status update that ends or interrupts it, has the Digest of every artifact, by
	// the artifact's id.
	DigestsKey = ChunkIntegrity + "/digests"
)

// ErrDamaged is in every error that says that artifacts are not as the agent sent them.
var ErrDamaged = errors.New("parts of an artifact were lost or changed on the way (extension chunk-integrity)")

// Digest says how much of an artifact there is, and what.
type Digest struct {
	Parts  int    `json:"parts"`  // how many
	SHA256 string `json:"sha256"` // of all that the artifact has, in lower-case hex
}

// Digests follows a task's events and knows the digests of its artifacts. An event costs what its own parts cost,
// however much came before. The zero value has seen nothing.
type Digests struct {
	task string
	of   map[string]*running
}

// running is the digest of an artifact as far as it has come.
type running struct {
	head  a2a.Task // one artifact, without its parts
	begin []byte   // what comes before the parts' hash; nil: to be made
	parts int
	hash  hash.Hash // of the parts
}

// Apply folds an event, as [a2a.Task.Apply] does.
func (d *Digests) Apply(ev a2a.Event) {
	switch ev := ev.(type) {
	case *a2a.Task:
		d.task, d.of = ev.ID, make(map[string]*running, len(ev.Artifacts))
		for _, a := range ev.Artifacts {
			d.chunk(a, false)
		}
	case *a2a.TaskArtifactUpdateEvent:
		d.chunk(ev.Artifact, ev.Append)
	case *a2a.TaskStatusUpdateEvent, *a2a.Message:
	}
}

func (d *Digests) chunk(a *a2a.Artifact, add bool) {
	r := d.of[a.ArtifactID]
	if r == nil || !add {
		r = &running{hash: sha256.New()}
		if d.of == nil {
			d.of = make(map[string]*running, 1)
		}
		d.of[a.ArtifactID] = r
	}
	if r.begin == nil || a.Name != "" || a.Description != "" || len(a.Metadata) > 0 || len(a.Extensions) > 0 {
		head := *a
		head.Parts = nil
		r.head.Apply(&a2a.TaskArtifactUpdateEvent{Artifact: &head, Append: add})
		r.begin = d.header(r.head.Artifacts[0])
	}
	for _, p := range a.Parts {
		r.hash.Write(append(canonicalPart(p), '\n'))
	}
	r.parts += len(a.Parts)
}

// header returns what an artifact's digest has before the parts: the task's id and all that the artifact says besides.
func (d *Digests) header(a *a2a.Artifact) []byte {
	head := *a
	if len(head.Metadata) == 0 { // an empty object says nothing, and not every binding keeps it
		head.Metadata = nil
	}
	return append(canonical(head.AppendJSON([]byte(d.task+"\n")), len(d.task)+1), '\n')
}

// canonicalPart returns a part's JSON in canonical form (RFC 8785).
func canonicalPart(p *a2a.Part) []byte {
	if _, data := p.Content.(a2a.Data); !data && len(p.Metadata) == 0 && p.Filename == "" && p.MediaType == "" {
		bare := a2a.Part{Content: p.Content}
		return bare.AppendJSON(nil) // one member, which is canonical as it is written
	}
	if p.Metadata != nil && len(p.Metadata) == 0 {
		q := *p
		q.Metadata = nil
		p = &q
	}
	return canonical(p.AppendJSON(nil), 0)
}

// canonical brings the JSON after the first n bytes into canonical form. JSON that has none, such as a number that no
// double can hold, stays as it is.
func canonical(b []byte, n int) []byte {
	c, err := jcs.Transform(b[n:])
	if err != nil {
		return b
	}
	return append(b[:n], c...)
}

func (r *running) digest() Digest {
	h := sha256.New()
	h.Write(r.begin)
	h.Write(r.hash.Sum(nil))
	return Digest{Parts: r.parts, SHA256: hex.EncodeToString(h.Sum(nil))}
}

func (d *Digests) all() map[string]Digest {
	out := make(map[string]Digest, len(d.of))
	for id, r := range d.of {
		out[id] = r.digest()
	}
	return out
}

// With returns a copy of the event that was folded last with the digests that belong on it, or the event itself if
// none do.
func (d *Digests) With(ev a2a.Event) a2a.Event {
	switch ev := ev.(type) {
	case *a2a.Task:
		c := *ev
		c.Metadata = c.Metadata.With(DigestsKey, d.all())
		return &c
	case *a2a.TaskStatusUpdateEvent:
		if s := ev.Status.State; s.Terminal() || s.Interrupted() {
			c := *ev
			c.Metadata = c.Metadata.With(DigestsKey, d.all())
			return &c
		}
	case *a2a.TaskArtifactUpdateEvent:
		c := *ev
		c.Metadata = c.Metadata.With(DigestKey, d.of[ev.Artifact.ArtifactID].digest())
		return &c
	case *a2a.Message:
	}
	return ev
}

// Check folds an event that came under chunk-integrity and holds what it was folded to against the digests on it. The
// error is an ErrDamaged; then the task is to be read anew.
func (d *Digests) Check(ev a2a.Event) error {
	d.Apply(ev)
	switch ev := ev.(type) {
	case *a2a.Task:
		return d.checkAll(ev.Metadata)
	case *a2a.TaskStatusUpdateEvent:
		if s := ev.Status.State; s.Terminal() || s.Interrupted() {
			return d.checkAll(ev.Metadata)
		}
	case *a2a.TaskArtifactUpdateEvent:
		var want Digest
		if !ev.Metadata.Get(DigestKey, &want) {
			return fmt.Errorf("%w: an update of the artifact %q has no digest", ErrDamaged, ev.Artifact.ArtifactID)
		}
		return d.check(ev.Artifact.ArtifactID, want)
	case *a2a.Message:
	}
	return nil
}

func (d *Digests) checkAll(metadata a2a.Struct) error {
	var want map[string]Digest
	if !metadata.Get(DigestsKey, &want) {
		return fmt.Errorf("%w: the digests of the task's artifacts are missing", ErrDamaged)
	}
	for id := range d.of {
		if _, ok := want[id]; !ok {
			return fmt.Errorf("%w: the agent knows of no artifact %q", ErrDamaged, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if err := d.check(id, want[id]); err != nil {
			return err
		}
	}
	return nil
}

func (d *Digests) check(id string, want Digest) error {
	r := d.of[id]
	switch {
	case r == nil:
		return fmt.Errorf("%w: the artifact %q is missing", ErrDamaged, id)
	case r.parts != want.Parts:
		return fmt.Errorf("%w: the artifact %q has %d parts here and %d at the agent", ErrDamaged, id, r.parts, want.Parts)
	case r.digest() != want:
		return fmt.Errorf("%w: the artifact %q differs", ErrDamaged, id)
	}
	return nil
}
