package cli

import (
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/approval"
)

// showTask prints a task as the result of a command.
func (s *session) showTask(task *a2a.Task, history bool) error {
	if s.json {
		return s.line(task.AppendJSON(nil))
	}
	return s.print(func(t *text) { t.task(task, s.resume(task), history) })
}

// showSent prints the answer to a message, in the wrapper that the protocol has for it.
func (s *session) showSent(result a2a.SendMessageResult) error {
	task, ok := result.(*a2a.Task)
	switch {
	case s.json:
		return s.line((&a2a.SendMessageResponse{Result: result}).AppendJSON(nil))
	case ok:
		return s.showTask(task, false)
	}
	return s.print(func(t *text) { t.event(result, "") })
}

// showEvent prints an event under --stream, and otherwise tells a person who waits how far the task is.
func (s *session) showEvent(e a2a.Entry, task *a2a.Task, last bool) error {
	switch {
	case s.flags.stream && s.json:
		return s.line(e.JSON())
	case s.flags.stream && last && task != nil:
		return s.print(func(t *text) { t.lastEvent(e.Event, task, s.resume(task)) })
	case s.flags.stream:
		return s.printEvent(e.Event)
	case s.person && !s.json:
		s.progress(e.Event)
	}
	return nil
}

// printEvent prints an event. The chunks of an artifact's text that follow one another are one block, which stays open
// until something else comes, or endText.
func (o *output) printEvent(ev a2a.Event) error {
	u, ok := ev.(*a2a.TaskArtifactUpdateEvent)
	if !ok || o.verbose {
		return o.print(func(t *text) { t.event(ev, "") })
	}
	goesOn := u.Append && o.open.is && o.open.artifact == u.Artifact.ArtifactID
	chunk, ok := onlyText(u.Artifact.Parts)
	if !ok || !goesOn && len(u.Artifact.Parts) == 0 {
		return o.print(func(t *text) { t.event(ev, "") })
	}
	t := new(text)
	if !goesOn {
		o.open.end(t)
		o.open.begin(t, u.Artifact)
	}
	o.open.add(t, chunk)
	if u.LastChunk {
		o.open.end(t)
	}
	return o.write(t.Bytes())
}

// endText ends the block that printEvent left open, if it did.
func (o *output) endText() error { return o.print(func(*text) {}) }

// onlyText returns the text of parts that are nothing else.
func onlyText(parts []*a2a.Part) (string, bool) {
	var all strings.Builder
	for _, p := range parts {
		s, ok := p.Content.(a2a.Text)
		if !ok {
			return "", false
		}
		all.WriteString(string(s))
	}
	return all.String(), true
}

func (t *text) event(ev a2a.Event, resume string) {
	switch ev := ev.(type) {
	case *a2a.Task:
		t.task(ev, resume, false)
	case *a2a.Message:
		t.direct(ev)
	case *a2a.TaskStatusUpdateEvent:
		t.field("State", stateName(ev.Status.State))
		t.metadata(ev.Metadata)
		t.statusMessage(ev.Status.Message)
	case *a2a.TaskArtifactUpdateEvent:
		t.artifact(ev.Artifact)
		t.metadata(ev.Metadata)
	}
}

// lastEvent writes the event that a task ends with, or waits: it says again which task that is.
func (t *text) lastEvent(ev a2a.Event, task *a2a.Task, resume string) {
	if _, ok := ev.(*a2a.Task); ok {
		t.event(ev, resume)
		return
	}
	t.header(task.ID, task.ContextID, task.Status, resume)
	t.statusMessage(task.Status.Message)
}

// progress tells a person what a task is at.
func (s *session) progress(ev a2a.Event) {
	if ev, ok := ev.(*a2a.TaskStatusUpdateEvent); ok && !settled(ev.Status.State) {
		line := stateName(ev.Status.State)
		if ev.Status.Message != nil {
			line += ": " + ev.Status.Message.Text()
		}
		s.note(line)
	}
}

// resume returns the command that answers a task which waits for its caller, or "".
func (s *session) resume(task *a2a.Task) string {
	if !task.Status.State.Interrupted() {
		return ""
	}
	if q := approval.Pending(task); q != nil {
		return s.command("send", "--task-id", task.ID, "--approve", q.ID)
	}
	return s.command("send", "--task-id", task.ID, "your answer")
}

// warnOutcome names on stderr how a task ended that did not succeed, or why it waits (specification 11.6).
func (s *session) warnOutcome(task *a2a.Task) {
	switch task.Status.State {
	case a2a.TaskStateFailed:
		s.warn("the task failed")
	case a2a.TaskStateRejected:
		s.warn("the agent rejected the task")
	case a2a.TaskStateCanceled:
		s.warn("the task was canceled")
	case a2a.TaskStateInputRequired:
		s.warn("the agent needs an answer before it goes on")
	case a2a.TaskStateAuthRequired:
		s.warn("the agent needs an authorization before it goes on")
	default:
		return
	}
	if r := s.resume(task); r != "" && s.json {
		s.note("Resume: " + r) // text has it in the result
	}
}
