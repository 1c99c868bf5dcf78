package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
	"github.com/parley-a2a/parley/internal/single"
)

// Errors that an Updater tells an agent's author.
var (
	// ErrEnded: the task has ended, is parked, or belongs to another run; nothing was written.
	ErrEnded = errors.New("agent: the task takes no more updates from this run")
	// ErrCanceled: a cancel came first. From Committed it means: do not do it.
	ErrCanceled = errors.New("agent: the task was canceled")
	// ErrUnknownArtifact: a chunk for an artifact that the task does not have.
	ErrUnknownArtifact = errors.New("agent: no such artifact: Begin it, or Open one of the task's")
	// ErrSealed: a chunk for an artifact after its last.
	ErrSealed = errors.New("agent: the artifact is complete: it takes no more chunks")
)

// Ids are made many times a second: take the randomness for them in blocks, not by a system call each.
func init() { uuid.EnableRandPool() }

// Updater says what happens with a task. A method that changes the task's status returns when that is recorded: nil
// means that nothing short of a lost disk loses it. Progress and artifacts do not wait: they are recorded in their
// order, soon, and before any status that follows; if that fails, the next call says so and the task does not
// complete. What is passed in may be reused afterwards. An Updater is safe for use by several goroutines, whose
// updates are then recorded in some order.
//
// Text that is not UTF-8 is mended, and a part that could not cross the wire is an error.
type Updater struct {
	sink Sink

	mu        sync.Mutex
	artifact1 artifactState            // the first that this run knows: most have one, and need no map
	artifacts map[string]artifactState // the others
}

type artifactState struct {
	id     string
	sealed bool
}

// Sink takes an Updater's updates: a host's run, or a recorder in an agent's own tests.
type Sink interface {
	// Status records a state with the message that explains it, if parts are given. keep says that the
	// message moves to the history when it is replaced. Neither parts nor what they hold change later.
	Status(state a2a.TaskState, parts []*a2a.Part, keep bool) error
	// Artifact records an artifact update; the sink fills in the task's and context's ids.
	Artifact(ev *a2a.TaskArtifactUpdateEvent) error
	// Ask records an interrupted state and waits for the answer.
	Ask(ctx context.Context, state a2a.TaskState, parts []*a2a.Part) (*a2a.Message, error)
	// Park notes an interrupted state, to be recorded when Handle returns.
	Park(state a2a.TaskState, parts []*a2a.Part) error
	// Committed records that the task can no longer be canceled.
	Committed() error
	// Alive notes that the run is at work.
	Alive()
	// SetValues records the context's values.
	SetValues(m map[string]string) error
	// HasArtifact reports whether the task had the artifact when the run began.
	HasArtifact(id string) bool
}

// NewUpdater returns an Updater that writes to sink.
func NewUpdater(sink Sink) *Updater { return &Updater{sink: sink} }

// Progress says what the run is at. It is transient: those who follow the task see it, and it is gone when
// the next status replaces it.
func (u *Updater) Progress(parts ...*a2a.Part) error {
	return u.status(a2a.TaskStateWorking, parts, false)
}

// Message says something that belongs to the conversation: it moves to the task's history when the next
// status replaces it. Results are artifacts, not messages (specification 3.7).
func (u *Updater) Message(parts ...*a2a.Part) error {
	return u.status(a2a.TaskStateWorking, parts, true)
}

// Complete ends the task as COMPLETED, with a message if parts are given.
func (u *Updater) Complete(parts ...*a2a.Part) error {
	return u.status(a2a.TaskStateCompleted, parts, true)
}

// Fail ends the task as FAILED with a message for the caller.
func (u *Updater) Fail(parts ...*a2a.Part) error { return u.status(a2a.TaskStateFailed, parts, true) }

// Reject ends the task as REJECTED: the agent will not do it.
func (u *Updater) Reject(parts ...*a2a.Part) error {
	return u.status(a2a.TaskStateRejected, parts, true)
}

func (u *Updater) status(state a2a.TaskState, parts []*a2a.Part, keep bool) error {
	parts, err := keepParts(parts)
	if err != nil {
		return err
	}
	return u.sink.Status(state, parts, keep)
}

// Ask asks the caller for input and waits for the next message of the task: it records INPUT_REQUIRED and
// returns the answer, whose arrival records WORKING. The run keeps its place; a restart of the host ends it
// like any other run. When ctx ends first, the question is withdrawn and ctx's error returned, unless the
// answer was recorded before.
func (u *Updater) Ask(ctx context.Context, parts ...*a2a.Part) (*a2a.Message, error) {
	return u.ask(ctx, a2a.TaskStateInputRequired, parts)
}

// AskAuth is Ask for an authorization: AUTH_REQUIRED (specification 7.6). The credential mostly comes by
// another way: end ctx when it is there. A message that arrives authorises nothing by itself.
func (u *Updater) AskAuth(ctx context.Context, parts ...*a2a.Part) (*a2a.Message, error) {
	return u.ask(ctx, a2a.TaskStateAuthRequired, parts)
}

func (u *Updater) ask(ctx context.Context, state a2a.TaskState, parts []*a2a.Part) (*a2a.Message, error) {
	parts, err := keepParts(parts)
	if err != nil {
		return nil, err
	}
	return u.sink.Ask(ctx, state, parts)
}

// Park asks the caller for input and gives the task out of hand: return from Handle after it. The task
// waits, through restarts, and the next message runs Handle again. Nothing may be written after Park.
func (u *Updater) Park(parts ...*a2a.Part) error { return u.park(a2a.TaskStateInputRequired, parts) }

// ParkAuth is Park for an authorization: AUTH_REQUIRED.
func (u *Updater) ParkAuth(parts ...*a2a.Part) error { return u.park(a2a.TaskStateAuthRequired, parts) }

func (u *Updater) park(state a2a.TaskState, parts []*a2a.Part) error {
	parts, err := keepParts(parts)
	if err != nil {
		return err
	}
	return u.sink.Park(state, parts)
}

// Committed marks the point of no return: call it before the effect that cannot be undone. After nil the
// task can no longer be canceled. [ErrCanceled] means that a cancel came first: do not do it.
func (u *Updater) Committed() error { return u.sink.Committed() }

// Alive says that the run is at work though it has nothing to tell. A run that neither writes nor says so
// for 10 minutes is ended.
func (u *Updater) Alive() { u.sink.Alive() }

// Artifact records a whole artifact. An empty ArtifactID is filled in; that of an artifact the task has
// already replaces it.
func (u *Updater) Artifact(a a2a.Artifact) error {
	if a.ArtifactID == "" {
		a.ArtifactID = uuid.NewString()
	}
	u.note(a.ArtifactID, true)
	return u.artifact(&a, false, true)
}

// Begin begins an artifact that comes in chunks. Nothing is recorded before the first chunk.
func (u *Updater) Begin(name string) *ArtifactWriter {
	return u.BeginArtifact(a2a.Artifact{Name: name})
}

// BeginArtifact is Begin with more than a name: what a holds besides its parts goes with the first chunk,
// its parts are the start of it. An artifact that the task has already is replaced.
func (u *Updater) BeginArtifact(a a2a.Artifact) *ArtifactWriter {
	if a.ArtifactID == "" {
		a.ArtifactID = uuid.NewString()
	}
	u.note(a.ArtifactID, false)
	return &ArtifactWriter{u: u, first: &a, id: a.ArtifactID}
}

// Open continues an artifact that an earlier run of the task began.
func (u *Updater) Open(artifactID string) *ArtifactWriter {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := &ArtifactWriter{u: u, id: artifactID}
	if u.known(artifactID).id == "" {
		if !u.sink.HasArtifact(artifactID) {
			w.err = ErrUnknownArtifact
			return w
		}
		u.set(artifactID, false)
	}
	return w
}

func (u *Updater) note(id string, sealed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set(id, sealed)
}

func (u *Updater) set(id string, sealed bool) {
	a := artifactState{id, sealed}
	switch {
	case u.artifact1.id == "" || u.artifact1.id == id:
		u.artifact1 = a
		return
	case u.artifacts == nil:
		u.artifacts = map[string]artifactState{}
	}
	u.artifacts[id] = a
}

// known returns what this run knows of an artifact, without an id if nothing.
func (u *Updater) known(id string) artifactState {
	if u.artifact1.id == id {
		return u.artifact1
	}
	return u.artifacts[id]
}

func (u *Updater) sealed(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known(id).sealed
}

// artifact records an artifact update; a is then the log's.
func (u *Updater) artifact(a *a2a.Artifact, add, last bool) error {
	parts, err := keepParts(a.Parts)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return errors.New("agent: an artifact has at least one part")
	}
	metadata, err := keepStruct(a.Metadata)
	if err != nil {
		return err
	}
	a.Parts, a.Metadata = parts, metadata
	a.Name, a.Description = valid(a.Name), valid(a.Description)
	a.Extensions = slices.Clone(a.Extensions)
	return u.sink.Artifact(&a2a.TaskArtifactUpdateEvent{Artifact: a, Append: add, LastChunk: last})
}

// ArtifactWriter writes an artifact chunk by chunk.
type ArtifactWriter struct {
	u     *Updater
	first *a2a.Artifact // until the first chunk went out
	id    string
	err   error
}

// ID returns the artifact's id.
func (w *ArtifactWriter) ID() string { return w.id }

// Write records a chunk.
func (w *ArtifactWriter) Write(parts ...*a2a.Part) error { return w.write(parts, false) }

// WriteText records a chunk of text.
func (w *ArtifactWriter) WriteText(text string) error {
	return w.write([]*a2a.Part{a2a.TextPart(text)}, false)
}

// Last records the last chunk.
func (w *ArtifactWriter) Last(parts ...*a2a.Part) error { return w.write(parts, true) }

// Close says that nothing follows, without an event: later writes in this run are refused.
func (w *ArtifactWriter) Close() error {
	w.u.note(w.id, true)
	return w.err
}

func (w *ArtifactWriter) write(parts []*a2a.Part, last bool) error {
	if w.err != nil {
		return w.err
	}
	if w.u.sealed(w.id) {
		return ErrSealed
	}
	a, add := w.first, w.first == nil
	if add {
		a = &a2a.Artifact{ArtifactID: w.id}
	}
	before := a.Parts
	a.Parts = append(slices.Clip(before), parts...)
	if err := w.u.artifact(a, add, last); err != nil {
		a.Parts = before
		return err
	}
	w.first = nil
	if last {
		w.u.note(w.id, true)
	}
	return nil
}

// keepParts returns a copy of parts that no author's later write reaches, with text that is UTF-8.
func keepParts(parts []*a2a.Part) ([]*a2a.Part, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	var out []*a2a.Part
	for i, p := range parts {
		if p == nil || p.Content == nil {
			return nil, errors.New("agent: a part has no content")
		}
		if i == 0 {
			out = single.Of(*p)
		} else {
			c := *p
			out = append(out, &c)
		}
		q := out[i]
		switch c := p.Content.(type) {
		case a2a.Text:
			if !utf8.ValidString(string(c)) {
				q.Content = a2a.Text(valid(string(c)))
			}
		case a2a.URL:
			q.Content = a2a.URL(valid(string(c)))
		case a2a.Raw:
			q.Content = a2a.Raw(bytes.Clone(c))
		case a2a.Data:
			if err := jsonx.Valid(c); err != nil {
				return nil, fmt.Errorf("agent: a data part is not JSON that every reader takes: %w", err)
			}
			if !jsonx.InDoubles(c) {
				return nil, errors.New("agent: a data part has a number beyond the range of a double, which gRPC cannot carry")
			}
			q.Content = a2a.Data(bytes.Clone(c))
		}
		q.Filename, q.MediaType = valid(q.Filename), valid(q.MediaType)
		var err error
		if q.Metadata, err = keepStruct(q.Metadata); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keepStruct returns a copy of an author's metadata, whose values must be JSON that every reader takes.
func keepStruct(s a2a.Struct) (a2a.Struct, error) {
	for name, value := range s {
		if err := jsonx.Valid(value); err != nil || !utf8.ValidString(name) {
			return nil, fmt.Errorf("agent: the metadata %q is not JSON that every reader takes: %w", name, err)
		}
		if !jsonx.InDoubles(value) {
			return nil, fmt.Errorf("agent: the metadata %q has a number beyond the range of a double, which gRPC cannot carry", name)
		}
	}
	return maps.Clone(s), nil
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
