package rules

import (
	"fmt"
	"slices"
)

// event is what the clauses about streams read of a frame.
type event struct {
	Task *struct {
		ID, ContextID string
		Status        struct{ State string }
		Artifacts     []struct{ ArtifactID string }
	}
	Message      *struct{}
	StatusUpdate *struct {
		TaskID, ContextID string
		Status            struct {
			State   string
			Message *struct{}
		}
	}
	ArtifactUpdate *struct {
		TaskID, ContextID string
		Append            bool
		Artifact          struct{ ArtifactID string }
	}
}

// Terminal reports whether a state ends a task.
func Terminal(state string) bool {
	return slices.Contains([]string{"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}, state)
}

// Interrupted reports whether a task in the state waits for its caller.
func Interrupted(state string) bool {
	return state == "TASK_STATE_INPUT_REQUIRED" || state == "TASK_STATE_AUTH_REQUIRED"
}

// streamCheck follows one stream.
type streamCheck struct {
	v         *Verdict
	subscribe bool
	first     event
	artifacts map[string]bool // that were sent
	ended     bool            // at a terminal state
}

func (s *streamCheck) begin(e event, path string) {
	s.first = e
	kind := e.kind()
	if s.subscribe {
		s.v.hold(e.Task != nil, "subscribe-first", path, kind, "the Task")
	} else {
		s.v.hold(e.Task != nil || e.Message != nil, "stream-first", path, kind, "the Task, or a Message")
	}
	if e.Task != nil {
		for _, a := range e.Task.Artifacts {
			s.sent(a.ArtifactID)
		}
		s.ended = Terminal(e.Task.Status.State)
	}
}

func (s *streamCheck) sent(artifact string) {
	if s.artifacts == nil {
		s.artifacts = map[string]bool{}
	}
	s.artifacts[artifact] = true
}

func (e *event) kind() string {
	switch {
	case e.Task != nil:
		return "task"
	case e.Message != nil:
		return "message"
	case e.StatusUpdate != nil:
		return "statusUpdate"
	case e.ArtifactUpdate != nil:
		return "artifactUpdate"
	}
	return "nothing that is known"
}

func (s *streamCheck) update(e event, path string) {
	if s.first.Message != nil {
		s.v.fail("stream-message-only", path, e.kind(), "the end of the stream, after its one Message")
		return
	}
	s.v.hold(e.Message == nil, "stream-lifecycle", path, e.kind(), "an update of the task's status or artifacts")
	if s.ended && e.Task == nil { // the final task may be sent once more
		s.v.fail("stream-nothing-after-end", path, e.kind(), "the end of the stream, after the terminal state")
	}
	var taskID, contextID string
	switch {
	case e.StatusUpdate != nil:
		taskID, contextID = e.StatusUpdate.TaskID, e.StatusUpdate.ContextID
		if Terminal(e.StatusUpdate.Status.State) {
			s.ended = true
			s.v.see("stream-nothing-after-end")
		}
	case e.ArtifactUpdate != nil:
		taskID, contextID = e.ArtifactUpdate.TaskID, e.ArtifactUpdate.ContextID
		id := e.ArtifactUpdate.Artifact.ArtifactID
		if e.ArtifactUpdate.Append {
			s.v.hold(s.artifacts[id], "stream-append", path, "append to "+id, "an artifact that was sent before")
		}
		s.sent(id)
	default:
		if e.Task != nil && Terminal(e.Task.Status.State) {
			s.ended = true
		}
		return
	}
	if t := s.first.Task; t != nil {
		s.v.hold(taskID == t.ID && contextID == t.ContextID, "stream-one-task", path,
			fmt.Sprintf("task %s, context %s", taskID, contextID), fmt.Sprintf("task %s, context %s", t.ID, t.ContextID))
	}
}

func (s *streamCheck) end(x *Exchange, events int, end *Error) {
	if events == 0 && end == nil && !x.Open {
		rule := "stream-first"
		if s.subscribe {
			rule = "subscribe-first"
		}
		s.v.fail(rule, "", "a stream without an event", "the Task")
		return
	}
	if s.first.Message != nil && events == 1 {
		s.v.hold(!x.Open && x.Err == "", "stream-message-only", "", "a stream that goes on", "the end, after its one Message")
	}
	if s.first.Task == nil || !s.ended {
		return
	}
	rule := "stream-closes"
	if s.subscribe {
		rule = "subscribe-closes"
	}
	s.v.hold(!x.Open && x.Err == "", rule, "", "a stream that goes on, or breaks: "+x.Err, "its orderly end, after the terminal state")
}
