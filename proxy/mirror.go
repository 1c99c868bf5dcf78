package proxy

import (
	"crypto/sha256"
	"hash"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// mirror makes the artifacts of a task those of the remote task. It knows what there is, so that after a lost stream,
// where all there is comes again, only what is new is recorded.
type mirror struct {
	u  *agent.Updater
	of map[string]*copied
}

// copied is an artifact as far as it has come.
type copied struct {
	w     *agent.ArtifactWriter
	parts int
	hash  hash.Hash // of the parts
}

// newMirror returns the mirror of a task that has artifacts of earlier runs.
func newMirror(u *agent.Updater, artifacts []*a2a.Artifact) *mirror {
	m := &mirror{u: u, of: map[string]*copied{}}
	for _, a := range artifacts {
		c := &copied{w: u.Open(a.ArtifactID), hash: sha256.New()}
		c.count(a.Parts)
		m.of[a.ArtifactID] = c
	}
	return m
}

func (c *copied) count(parts []*a2a.Part) {
	c.parts += len(parts)
	digest(c.hash, parts)
}

func digest(h hash.Hash, parts []*a2a.Part) {
	for _, p := range parts {
		h.Write(append(p.AppendJSON(nil), '\n'))
	}
}

// chunk records an update.
func (m *mirror) chunk(ev *a2a.TaskArtifactUpdateEvent) error {
	c := m.of[ev.Artifact.ArtifactID]
	if c == nil || !ev.Append {
		return m.replace(ev.Artifact, ev.LastChunk)
	}
	return c.write(ev.Artifact.Parts, ev.LastChunk)
}

func (c *copied) write(parts []*a2a.Part, last bool) error {
	c.count(parts)
	switch {
	case len(parts) == 0 && last:
		return c.w.Close()
	case len(parts) == 0:
		return nil
	case last:
		return c.w.Last(parts...)
	}
	return c.w.Write(parts...)
}

// replace records an artifact in place of what there was of it.
func (m *mirror) replace(a *a2a.Artifact, last bool) error {
	head := *a
	head.Parts = nil
	c := &copied{w: m.u.BeginArtifact(head), hash: sha256.New()}
	m.of[a.ArtifactID] = c
	return c.write(a.Parts, last)
}

// task records what of a task's artifacts is new.
func (m *mirror) task(t *a2a.Task) error {
	for _, a := range t.Artifacts {
		c := m.of[a.ArtifactID]
		var err error
		switch {
		case c == nil || !c.begins(a.Parts):
			err = m.replace(a, t.Status.State.Terminal())
		case len(a.Parts) > c.parts:
			err = c.write(a.Parts[c.parts:], false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begins reports whether parts begin with those that there are.
func (c *copied) begins(parts []*a2a.Part) bool {
	if len(parts) < c.parts {
		return false
	}
	h := sha256.New()
	digest(h, parts[:c.parts])
	return string(h.Sum(nil)) == string(c.hash.Sum(nil))
}
