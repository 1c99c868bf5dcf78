package client

import (
	"github.com/parley-a2a/parley/a2a"
)

// checkTask refuses a task that is not the one that was asked for: an agent must not pass off another.
func checkTask(task *a2a.Task, id string) error {
	switch {
	case task == nil || task.ID == "":
		return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent answered with a task that has no id")
	case id != "" && task.ID != id:
		return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent answered with another task than the one asked for")
	}
	return nil
}

// streamCheck holds a stream to specification 3.1.2 and 3.1.6: a Message alone, or the Task and then its updates.
type streamCheck struct {
	id      string // of the task, once it is known
	begun   bool
	message bool
}

func (s *streamCheck) check(ev a2a.Event) error {
	first := !s.begun
	s.begun = true
	id := s.id
	switch ev := ev.(type) {
	case *a2a.Message:
		if !first {
			return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent sent a message in the stream of a task")
		}
		s.message = true
		return nil
	case *a2a.Task:
		if s.message {
			break
		}
		if err := checkTask(ev, id); err != nil {
			return err
		}
		s.id = ev.ID
		return nil
	case *a2a.TaskStatusUpdateEvent:
		id = ev.TaskID
	case *a2a.TaskArtifactUpdateEvent:
		id = ev.TaskID
	}
	switch {
	case s.message:
		return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent sent more after a message, which is a whole answer")
	case first:
		return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent's stream does not begin with the task or a message")
	case id != s.id:
		return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent sent an update of another task")
	}
	return nil
}
