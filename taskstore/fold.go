package taskstore

import (
	"slices"

	"github.com/parley-a2a/parley/a2a"
)

// State is what a log folds to. Every store and every reader folds with it, so that a snapshot and the log
// up to it cannot differ.
type State struct {
	Task             a2a.Task
	Generation       int64
	StatusGeneration int64
	keep             bool // the current status message moves to the history when it is replaced
}

// Apply folds the next record. Records come in order.
func (s *State) Apply(r Record) {
	s.Generation = r.Generation
	switch ev := r.Event.(type) {
	case *a2a.Task:
		s.Task.Apply(ev)
		s.StatusGeneration, s.keep = r.Generation, r.Keep
	case *a2a.TaskStatusUpdateEvent:
		if s.keep && s.Task.Status.Message != nil {
			s.Task.History = append(s.Task.History, s.Task.Status.Message)
		}
		if r.Turn != nil {
			s.Task.History = append(s.Task.History, r.Turn)
		}
		s.Task.Apply(ev)
		s.StatusGeneration, s.keep = r.Generation, r.Keep
	case *a2a.TaskArtifactUpdateEvent:
		s.Task.Apply(ev)
	case *a2a.Message: // never in a task's log
	}
}

// View returns the task with at most history messages (negative: all), the newest, and with or without its
// artifacts. It shares what t holds.
func View(t *a2a.Task, history int, artifacts bool) *a2a.Task {
	if (history < 0 || history >= len(t.History)) && artifacts {
		return t
	}
	out := *t
	if history >= 0 && history < len(t.History) {
		out.History = slices.Clip(t.History[len(t.History)-history:])
	}
	if !artifacts {
		out.Artifacts = nil
	}
	return &out
}
