package taskstore

import "github.com/parley-a2a/parley/a2a"

// Lease is who may write a task.
type Lease struct {
	Epoch     int64  // grows with every claim
	Node      string // empty: nobody holds it
	Latched   bool   // a cancel was recorded during this run
	Committed bool   // the run is past its point of no return
}

// Head is where a task's log stands.
type Head struct {
	Generation       int64 // of the last record; 0: the task is new
	StatusGeneration int64
	State            a2a.TaskState
}

// Check says whether the change may be committed on a task at this head under this lease, and what the
// lease then is. Every store asks it inside its transaction, so that the rules stand once.
func (c *Change) Check(head Head, lease Lease) (Lease, error) {
	if err := c.preconditions(head, lease); err != nil {
		return lease, err
	}
	end := c.end()
	if lease.Latched && (c.Committed || end != a2a.TaskStateCanceled && (c.Release || c.Seize != "" || end.Terminal())) {
		return lease, ErrLatched
	}
	if c.Claim != "" {
		lease = Lease{Epoch: lease.Epoch + 1, Node: c.Claim}
	}
	if c.Latch {
		if lease.Node == "" {
			return lease, ErrNotHeld
		}
		if lease.Committed {
			return lease, ErrCommitted
		}
		lease.Latched = true
	}
	if c.Committed {
		lease.Committed = true
	}
	if c.Release || end.Terminal() {
		lease = Lease{Epoch: lease.Epoch}
	}
	return lease, nil
}

func (c *Change) preconditions(head Head, lease Lease) error {
	switch {
	case c.Create:
		if len(c.Records) == 0 {
			return ErrConflict
		}
		if _, ok := c.Records[0].Event.(*a2a.Task); !ok {
			return ErrConflict
		}
		return nil
	case head.State.Terminal() && c.changesTask():
		return ErrTerminal
	case c.IfHead != 0 && c.IfHead != head.Generation, c.IfStatus != 0 && c.IfStatus != head.StatusGeneration:
		return ErrConflict
	case c.Epoch != 0 && (c.Epoch != lease.Epoch || lease.Node == ""):
		return ErrFenced
	case c.Claim != "" && lease.Node != "" && lease.Node != c.Seize:
		return ErrHeld
	case c.Seize != "" && lease.Node != c.Seize:
		return ErrConflict
	case c.Epoch == 0 && lease.Node != "" && c.Seize == "" && len(c.Records) > 0 && c.IfStatus == 0:
		return ErrHeld
	}
	return nil
}

func (c *Change) changesTask() bool {
	return len(c.Records) > 0 || c.Claim != "" || c.Release || c.Latch || c.Committed
}

// end returns the state that the change's last status sets, TaskStateUnspecified if there is none.
func (c *Change) end() a2a.TaskState {
	for i := len(c.Records) - 1; i >= 0; i-- {
		switch ev := c.Records[i].Event.(type) {
		case *a2a.TaskStatusUpdateEvent:
			return ev.Status.State
		case *a2a.Task:
			return ev.Status.State
		case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
		}
	}
	return a2a.TaskStateUnspecified
}

// OnlySent reports whether the change does nothing but say that a message was taken, for which it needs no task.
func (c *Change) OnlySent() bool { return c.Sent != nil && c.Key.Task == "" }

// Hook returns the change's webhook as it is recorded with the last record of the given generation.
func (c *Change) Hook(generation int64) *Webhook {
	if c.Webhook == nil {
		return nil
	}
	h := *c.Webhook
	h.Key = c.Key
	if h.Delivered == 0 {
		h.Delivered = generation
	}
	return &h
}
