package client

import (
	"context"
	"errors"
	"slices"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

// intact holds what an agent sent against the digests on it, where chunk-integrity is in effect. d has what came before
// on the same stream.
func (x *exchange) intact(d *extension.Digests, ev a2a.Event) error {
	if !slices.Contains(x.info.Activated, extension.ChunkIntegrity) {
		return nil
	}
	err := d.Check(ev)
	if err == nil {
		return nil
	}
	return a2a.Errorf(a2a.ErrInvalidAgentResponse, "%s: read the task anew (GetTask)", err).WithCause(err)
}

func damaged(err error) bool { return errors.Is(err, extension.ErrDamaged) }

// mend reads a task by GetTask, to its end, whose stream cannot be trusted. The Task that it yields first is a new
// beginning: whoever folds the entries holds nothing of what was damaged.
func (f *follower) mend(why error) {
	f.c.log.WarnContext(f.ctx, "a stream was damaged on its way, reading the task without it", "task", f.task, "error", why)
	f.at = 0 // the next answer is not to wait for a change
	f.poll(0, why)
}

// mended returns by GetTask the task of an answer that was damaged.
func (c *Client) mended(ctx context.Context, task *a2a.Task, history *int32, why error) (*a2a.Task, error) {
	c.log.WarnContext(ctx, "an answer was damaged on its way, reading the task anew", "task", task.ID, "error", why)
	return c.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID, HistoryLength: history})
}

func historyLength(req *a2a.SendMessageRequest) *int32 {
	if req.Configuration == nil {
		return nil
	}
	return req.Configuration.HistoryLength
}
