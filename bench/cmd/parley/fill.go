package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// fillSpan is the time over which the filled tasks ended, until now.
const fillSpan = 30 * 24 * time.Hour

// fill stores n finished tasks of the anonymous caller: every fourth failed, ten to a context.
func fill(s taskstore.Store, n int) error {
	begin := time.Now().Add(-fillSpan).UTC().Truncate(time.Millisecond)
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 512)
	for i := range errs {
		wg.Go(func() {
			for k := next.Add(1); k <= int64(n) && errs[i] == nil; k = next.Add(1) {
				_, errs[i] = s.Commit(context.Background(), finished(k, begin.Add(fillSpan/time.Duration(n)*time.Duration(k))))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// finished is a task with its whole log: what a SendMessage of 100 bytes leaves.
func finished(k int64, at time.Time) taskstore.Change {
	id, contextID := uuid.NewString(), fmt.Sprintf("context-%d", k/10)
	text := a2a.TextPart(strings.Repeat("x", 100))
	status := func(s a2a.TaskState) a2a.Event {
		return &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: contextID, Status: a2a.TaskStatus{State: s, Timestamp: at}}
	}
	end := a2a.TaskStateCompleted
	if k%4 == 0 {
		end = a2a.TaskStateFailed
	}
	c := taskstore.Change{Key: taskstore.Key{Scope: taskstore.Scope{Agent: "bench"}, Task: id}, Create: true}
	for _, ev := range []a2a.Event{
		&a2a.Task{ID: id, ContextID: contextID, Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: at}, History: []*a2a.Message{
			{MessageID: uuid.NewString(), ContextID: contextID, TaskID: id, Role: a2a.RoleUser, Parts: []*a2a.Part{text}},
		}},
		status(a2a.TaskStateWorking),
		&a2a.TaskArtifactUpdateEvent{
			TaskID: id, ContextID: contextID, LastChunk: true,
			Artifact: &a2a.Artifact{ArtifactID: uuid.NewString(), Parts: []*a2a.Part{text}},
		},
		status(end),
	} {
		c.Records = append(c.Records, taskstore.Record{Entry: a2a.Entry{Event: ev}})
	}
	return c
}
