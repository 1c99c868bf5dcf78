package client

import (
	"errors"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

// TestAnswersAboutAnotherTask: what an agent must not pass off as an answer.
func TestAnswersAboutAnotherTask(t *testing.T) {
	task := func(id string) *a2a.Task { return &a2a.Task{ID: id} }
	status := func(id string) *a2a.TaskStatusUpdateEvent { return &a2a.TaskStatusUpdateEvent{TaskID: id} }
	chunk := func(id string) *a2a.TaskArtifactUpdateEvent {
		return &a2a.TaskArtifactUpdateEvent{TaskID: id, Artifact: &a2a.Artifact{}}
	}
	for name, c := range map[string]struct {
		id     string
		events []a2a.Event
		ok     bool
	}{
		"a task":                 {"", []a2a.Event{task("a"), status("a"), chunk("a"), task("a")}, true},
		"a message":              {"", []a2a.Event{&a2a.Message{}}, true},
		"the one asked for":      {"a", []a2a.Event{task("a"), status("a")}, true},
		"another":                {"a", []a2a.Event{task("b")}, false},
		"no id":                  {"", []a2a.Event{task("")}, false},
		"a status first":         {"", []a2a.Event{status("a")}, false},
		"a chunk first":          {"a", []a2a.Event{chunk("a")}, false},
		"another's status":       {"", []a2a.Event{task("a"), status("b")}, false},
		"another's chunk":        {"", []a2a.Event{task("a"), chunk("b")}, false},
		"another task later":     {"", []a2a.Event{task("a"), task("b")}, false},
		"a message later":        {"", []a2a.Event{task("a"), &a2a.Message{}}, false},
		"after a message":        {"", []a2a.Event{&a2a.Message{}, status("")}, false},
		"two messages":           {"", []a2a.Event{&a2a.Message{}, &a2a.Message{}}, false},
		"a task after a message": {"", []a2a.Event{&a2a.Message{}, task("a")}, false},
	} {
		s := streamCheck{id: c.id}
		var err error
		for _, ev := range c.events {
			if err = s.check(ev); err != nil {
				break
			}
		}
		if (err == nil) != c.ok || err != nil && !errors.Is(err, a2a.ErrInvalidAgentResponse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []*a2a.Task{nil, task(""), task("b")} {
		if checkTask(bad, "a") == nil {
			t.Errorf("%+v was taken for a", bad)
		}
	}
}
