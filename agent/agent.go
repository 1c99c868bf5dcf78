// Package agent is what an author of an agent implements: a function that handles a message, and an
// [Updater] through which it says what happens.
//
// The host does the rest: it records the task before the function runs, writes every update to the task's
// log before anybody sees it, and ends the task when the function returns.
package agent

import (
	"context"
	"log/slog"

	"github.com/parley-a2a/parley/a2a"
)

// Agent does the work of tasks.
type Agent interface {
	// Handle runs one turn of a task: from its start, or from the answer to a question that an earlier run
	// parked on. It may run for many tasks at once, but for one task only once at a time.
	//
	// When it returns nil and the task has neither ended nor been parked, the task is COMPLETED. When it
	// returns an error the task is FAILED: the caller reads the message of an [a2a.Error] (see [Errorf]),
	// and of any other error only a number under which the log has it. A panic is such an error.
	//
	// ctx ends when the task is canceled, when the host shuts down, and when another node took the task
	// over; context.Cause says which. Updates still work after a cancel for the grace (5 s), so that an
	// agent can clean up and say so. ctx carries nothing of the caller; the Request has that.
	Handle(ctx context.Context, r *Request, u *Updater) error
}

// Func makes an ordinary function an Agent.
type Func func(ctx context.Context, r *Request, u *Updater) error

// Handle calls f.
func (f Func) Handle(ctx context.Context, r *Request, u *Updater) error { return f(ctx, r, u) }

// Accepter is implemented by an agent that decides about a message before anything is recorded.
type Accepter interface {
	// Accept is asked about every message that names no task. A Message is the whole answer: no task is
	// ever made. An error refuses the message with that error, such as a2a.ErrContentTypeNotSupported.
	// nil, nil makes a task. The caller waits for Accept, even with returnImmediately: be quick.
	Accept(ctx context.Context, r *Request) (*a2a.Message, error)
}

// Canceler is implemented by an agent that wants to know when a task was canceled that no run was at work
// on, such as a parked one. (A run learns it from its context.)
type Canceler interface {
	Canceled(ctx context.Context, task *a2a.Task)
}

// Restartable is implemented by an agent whose Handle may run again for a turn that the end of the host's process
// cut short. A turn is run at most 3 times. Without it, or where Restartable returns false, such a task is FAILED.
type Restartable interface {
	// Restartable reports whether Handle may see a turn twice: its effects must bear that.
	Restartable() bool
}

// Request is a message with what belongs to it. It must not be changed.
type Request struct {
	// Message is this turn's message.
	Message *a2a.Message
	// Task is the task as this run found it, with the Message as the last of its history. It is nil in
	// Accept.
	Task *a2a.Task
	// Configuration is what the caller asked for, never nil.
	Configuration *a2a.SendMessageConfiguration
	// Metadata is the request's.
	Metadata a2a.Struct
	// Caller is who sent the message.
	Caller a2a.Caller
	// Extensions are those in effect for this message.
	Extensions []string
	// References are the tasks that the message refers to and its sender may see; others are left out
	// without a sign.
	References []*a2a.Task
	// Attempt is 1, or higher where earlier runs of this turn were cut short: see Restartable. What they recorded is in
	// Task.
	Attempt int
	// Values is the record that the context keeps from task to task. It is nil in Accept.
	Values *Values
	// Log has the task's and context's ids in every line.
	Log *slog.Logger
}

// Text returns the text parts of the message as one text.
func (r *Request) Text() string { return r.Message.Text() }

// Errorf returns an error whose text the caller may read: the message of a task that failed. An operand of
// %w is left out of the text and goes to the log.
func Errorf(format string, args ...any) error {
	return a2a.Errorf(a2a.ErrInternal, format, args...)
}

// Values is a small record of strings that a context keeps from task to task, such as the session of a
// program behind the agent. It belongs to the caller's context: no other caller reaches it. It expires when
// the context was not used for 90 days.
type Values struct {
	m    map[string]string
	sink Sink
}

// Get returns the value of key, or "".
func (v *Values) Get(key string) string { return v.m[key] }

// Set records the value of key; an empty value removes it. A record holds at most 16 keys of 128 bytes with
// values of 4 KiB.
func (v *Values) Set(key, value string) error {
	if len(key) == 0 || len(key) > 128 || len(value) > 4096 {
		return Errorf("a value's key has 1 to 128 bytes and the value at most 4096")
	}
	m := make(map[string]string, len(v.m)+1)
	for k, old := range v.m {
		m[k] = old
	}
	if value == "" {
		delete(m, key)
	} else {
		m[key] = value
	}
	if len(m) > 16 {
		return Errorf("a context keeps at most 16 values")
	}
	if err := v.sink.SetValues(m); err != nil {
		return err
	}
	v.m = m
	return nil
}

// NewValues is for hosts: the record m, written back through sink.
func NewValues(m map[string]string, sink Sink) *Values { return &Values{m: m, sink: sink} }
