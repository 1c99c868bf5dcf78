package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/single"
	"github.com/parley-a2a/parley/taskstore"
)

// turn is a message that was taken: a direct reply, or the place in a task's log where its turn begins.
type turn struct {
	message *a2a.Message

	key   taskstore.Key
	first a2a.Entry // the Task with which a stream begins
	last  int64     // generation of the last record written for the message
	task  *a2a.Task // as of last
}

// SendMessage implements a2a.Service.
func (s *Server) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	c, err := s.begin(ctx, req.Tenant)
	if err != nil {
		return nil, err
	}
	t, err := s.send(ctx, &c, req)
	if err != nil {
		return nil, err
	}
	if t.message != nil {
		return t.message, nil
	}
	task, generation := t.task, t.last
	if req.Configuration == nil || !req.Configuration.ReturnImmediately {
		snap, err := s.wait(ctx, t)
		if err != nil {
			return nil, err
		}
		task, generation = snap.Task, snap.Generation
	}
	return c.view(task, generation, history(historyLength(req))), nil
}

func historyLength(req *a2a.SendMessageRequest) *int32 {
	if req.Configuration == nil {
		return nil
	}
	return req.Configuration.HistoryLength
}

// wait returns the task as of the record that ends it or interrupts it.
func (s *Server) wait(ctx context.Context, t *turn) (taskstore.Snapshot, error) {
	if st := t.task.Status.State; st.Terminal() { // joined late
		return taskstore.Snapshot{Task: t.task, Generation: t.last}, nil
	}
	for rec, err := range s.follow.Follow(ctx, t.key, t.last) {
		if errors.Is(err, taskstore.ErrTrimmed) {
			break
		}
		if err != nil {
			return taskstore.Snapshot{}, internal(err)
		}
		st, ok := rec.Event.(*a2a.TaskStatusUpdateEvent)
		if !ok || !(st.Status.State.Terminal() || st.Status.State.Interrupted()) {
			continue
		}
		snap, err := s.store.Task(ctx, t.key, rec.Generation)
		if errors.Is(err, taskstore.ErrTrimmed) {
			break
		}
		return snap, internal(err)
	}
	snap, err := s.store.Task(ctx, t.key, 0) // it ended so long ago that its log is gone
	return snap, internal(err)
}

// SendStreamingMessage implements a2a.Service.
func (s *Server) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		c, err := s.begin(ctx, req.Tenant)
		if err == nil {
			err = c.streaming()
		}
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		t, err := s.send(ctx, &c, req)
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		if t.message != nil {
			yield(a2a.NewEntry(0, t.message), nil)
			return
		}
		first := t.first
		if n := history(historyLength(req)); n >= 0 {
			first = a2a.NewEntry(first.Generation, taskstore.View(first.Event.(*a2a.Task), n, true)) //nolint:forcetypeassert // it is the Task
		}
		s.stream(ctx, t.key, first, c.dressed(yield), func(st a2a.TaskState) bool {
			return st.Terminal() || st == a2a.TaskStateInputRequired
		})
	}
}

func (c *call) streaming() error {
	if on := c.card.Capabilities.Streaming; on == nil || !*on {
		return a2a.Errorf(a2a.ErrUnsupportedOperation, "this agent does not stream (capabilities.streaming): use SendMessage and GetTask")
	}
	return nil
}

// stream yields first and then every later record of the log, up to the status at which ends holds.
func (s *Server) stream(ctx context.Context, key taskstore.Key, first a2a.Entry, yield func(a2a.Entry, error) bool, ends func(a2a.TaskState) bool) {
	if !yield(first, nil) {
		return
	}
	if t, ok := first.Event.(*a2a.Task); ok && t.Status.State.Terminal() { // joined late
		return
	}
	for rec, err := range s.follow.Follow(ctx, key, first.Generation) {
		if errors.Is(err, taskstore.ErrTrimmed) {
			// The reader came so late that the rest of the log is gone. The task as it ended says it all
			// (specification 11.7).
			snap, err := s.store.Task(ctx, key, 0)
			if err != nil {
				yield(a2a.Entry{}, internal(err))
				return
			}
			yield(a2a.NewEntry(snap.Generation, snap.Task), nil)
			return
		}
		if err != nil {
			yield(a2a.Entry{}, internal(err))
			return
		}
		end := false
		if st, ok := rec.Event.(*a2a.TaskStatusUpdateEvent); ok {
			end = ends(st.Status.State)
		}
		if end {
			rec.More = false
		}
		if !yield(rec.Entry, nil) || end {
			return
		}
	}
}

// send takes a message: it records it, and starts or continues a run.
func (s *Server) send(ctx context.Context, c *call, req *a2a.SendMessageRequest) (*turn, error) {
	if err := s.checkSend(req, c.card); err != nil {
		return nil, err
	}
	if cfg := req.Configuration; cfg != nil && cfg.TaskPushNotificationConfig != nil && s.cfg.Push == nil {
		return nil, pushNotSupported()
	}
	if c.active(extension.SafeRetry) {
		return s.sendOnce(ctx, c, req)
	}
	return s.take(ctx, c, req)
}

// take takes a message that was checked.
func (s *Server) take(ctx context.Context, c *call, req *a2a.SendMessageRequest) (*turn, error) {
	if req.Message.TaskID != "" {
		return s.resume(ctx, c, req)
	}
	return s.create(ctx, c, req)
}

// create makes a task, unless the agent answers directly or refuses.
func (s *Server) create(ctx context.Context, c *call, req *a2a.SendMessageRequest) (*turn, error) {
	history := single.Of(*req.Message)
	m := history[0]
	known := m.ContextID != ""
	if !known {
		m.ContextID = newID()
	}
	ar, err := s.request(ctx, c, req, m)
	if err != nil {
		return nil, err
	}
	if a, ok := s.cfg.Agent.(agent.Accepter); ok {
		reply, err := s.accept(ctx, a, ar)
		if err == nil && reply != nil {
			err = internal(s.keepReply(ctx, c, reply))
		}
		if reply != nil || err != nil {
			return &turn{message: reply}, err
		}
	}
	if err := s.room(ctx, c.scope); err != nil {
		return nil, err
	}
	m.TaskID = newID()
	ar.Log = s.taskLog(m.TaskID, m.ContextID)
	r := s.newRun(c.key(m.TaskID), m.ContextID, known, ar)
	task := &a2a.Task{
		ID: m.TaskID, ContextID: m.ContextID, History: history,
		Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: now()},
	}
	ch := taskstore.Change{Key: r.key, Create: true, Sent: c.sent, Records: make([]taskstore.Record, 1, 4)} // of a short task, the whole log
	ch.Records[0] = taskstore.Record{Entry: a2a.Entry{Event: task}}
	if ch.Webhook, err = s.inlineWebhook(ctx, r.key, req); err != nil {
		return nil, err
	}
	if ch.Webhook != nil {
		ch.Webhook.Delivered = 1 // its receiver gets the task from the beginning
	}
	starts := s.turns.take(c.scope)
	if !starts || s.restartable() {
		ch.Records[0].Request = keepRequest(ar)
	}
	if err := s.register(r, starts); err != nil {
		s.leave(starts, c.scope)
		return nil, err
	}
	if starts {
		ch.Claim = r.node
		ch.Records = append(ch.Records, r.status(a2a.TaskStateWorking, nil, false))
	}
	rec, err := s.store.Commit(context.WithoutCancel(ctx), ch)
	switch {
	case err != nil && starts:
		s.failedToBegin(r, err)
		return nil, internal(err)
	case err != nil: // if it is recorded all the same, it is found as one that never started
		s.unregister(r)
		return nil, internal(err)
	}
	t := r.begun(rec)
	if starts {
		s.start(r, rec)
	} else if s.turns.wait(r) {
		s.startWaiting(r)
	}
	return t, nil
}

func (s *Server) leave(has bool, scope taskstore.Scope) {
	if !has {
		return
	}
	if next := s.turns.leave(scope); next != nil {
		s.startWaiting(next)
	}
}

// interruptedStates are those of tasks that wait for their caller.
var interruptedStates = []a2a.TaskState{a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired}

// room refuses a new task of a caller who has too many that wait.
func (s *Server) room(ctx context.Context, scope taskstore.Scope) error {
	if s.turns.full(scope) {
		return overLimit("waiting", "%d tasks of this caller already wait for a turn (limit waiting): wait for some to end", s.cfg.Limits.Waiting)
	}
	n, err := s.store.Count(ctx, scope, interruptedStates...)
	if err != nil {
		return internal(err)
	}
	if n >= s.cfg.Limits.Parked {
		return overLimit("parked", "%d tasks of this caller wait for an answer (limit parked): answer or cancel some", n)
	}
	return nil
}

// overLimit is the refusal of what goes over one of the Limits.
func overLimit(limit, format string, n int) error {
	e := a2a.Errorf(a2a.ErrResourceExhausted, format, n)
	e.Metadata = map[string]string{"limit": limit}
	return e
}

// request is what the agent gets to see of the message.
func (s *Server) request(ctx context.Context, c *call, req *a2a.SendMessageRequest, m *a2a.Message) (*agent.Request, error) {
	ar := &agent.Request{
		Message: m, Configuration: req.Configuration, Metadata: req.Metadata,
		Caller: c.caller, Extensions: c.info.Activated, Log: s.log, Attempt: 1,
	}
	if ar.Configuration == nil {
		ar.Configuration = &a2a.SendMessageConfiguration{}
	}
	for _, id := range m.ReferenceTaskIDs {
		snap, err := s.store.Task(ctx, c.key(id), 0)
		if errors.Is(err, taskstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, internal(err)
		}
		ar.References = append(ar.References, snap.Task)
	}
	return ar, nil
}

// accept asks the agent about a message. The agent's context is the server's, ended when the caller leaves.
func (s *Server) accept(ctx context.Context, a agent.Accepter, ar *agent.Request) (reply *a2a.Message, err error) {
	actx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, internal(fmt.Errorf("agent: Accept panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	reply, err = a.Accept(actx, ar)
	if err != nil {
		return nil, internal(err)
	}
	if reply == nil {
		return nil, nil
	}
	out := *reply
	out.Role, out.ContextID, out.TaskID = a2a.RoleAgent, ar.Message.ContextID, ""
	if out.MessageID == "" {
		out.MessageID = newID()
	}
	if len(out.Parts) == 0 {
		return nil, a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent answered with a message without parts")
	}
	return &out, nil
}

// resume gives a message to a task that waits for one.
func (s *Server) resume(ctx context.Context, c *call, req *a2a.SendMessageRequest) (*turn, error) {
	key := c.key(req.Message.TaskID)
	for {
		snap, err := s.store.Task(ctx, key, 0)
		if errors.Is(err, taskstore.ErrNotFound) {
			return nil, notFound(key.Task)
		}
		if err != nil {
			return nil, internal(err)
		}
		t, err := s.answer(ctx, c, req, key, snap)
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, errWorking):
			if err := s.queue(ctx, key, snap); err != nil {
				return nil, err
			}
		case errors.Is(err, taskstore.ErrConflict), errors.Is(err, taskstore.ErrHeld), errors.Is(err, taskstore.ErrTerminal):
			// Somebody was faster: look again.
		default:
			return nil, internal(err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

var errWorking = errors.New("server: the task is working")

// answer records the message in the task as it was found, or says why not.
func (s *Server) answer(ctx context.Context, c *call, req *a2a.SendMessageRequest, key taskstore.Key, snap taskstore.Snapshot) (*turn, error) {
	state := snap.Task.Status.State
	want, conditional, err := c.generation(extension.IfGenerationMatch)
	switch {
	case err != nil:
		return nil, err
	case conditional && want != snap.Generation:
		return nil, mismatch(key.Task, want, snap.Generation)
	case req.Message.ContextID != "" && req.Message.ContextID != snap.Task.ContextID:
		return nil, a2a.InvalidField("message.contextId", "the task %s belongs to another context; leave contextId out to continue the task", key.Task)
	case state.Terminal():
		e := a2a.Errorf(a2a.ErrUnsupportedOperation, "the task has ended (%s) and takes no more messages: send a new message with its contextId instead of its taskId", state)
		e.Metadata = map[string]string{"taskId": key.Task, "state": state.String()}
		return nil, e
	case !state.Interrupted() || snap.Latched:
		return nil, errWorking
	}
	if err := c.checkApproval(snap.Task, req.Message); err != nil {
		return nil, err
	}
	m := *req.Message
	m.ContextID = snap.Task.ContextID
	ch := taskstore.Change{Key: key, IfStatus: snap.StatusGeneration, Sent: c.sent}
	if conditional {
		ch.IfHead = want
	}
	if ch.Webhook, err = s.inlineWebhook(ctx, key, req); err != nil {
		return nil, err
	}
	if snap.Node != "" { // a run waits for it, here or on another node, and reads it from the log
		r := run{key: key, contextID: m.ContextID}
		rec := r.status(a2a.TaskStateWorking, nil, false)
		rec.Turn = &m
		ch.Records = []taskstore.Record{rec}
		receipt, err := s.store.Commit(context.WithoutCancel(ctx), ch)
		if err != nil {
			return nil, err
		}
		return s.joined(ctx, key, receipt.Generation)
	}
	ar, err := s.request(ctx, c, req, &m)
	if err != nil {
		return nil, err
	}
	ar.Log = s.taskLog(key.Task, m.ContextID)
	r := s.newRun(key, m.ContextID, true, ar)
	rec := r.status(a2a.TaskStateWorking, nil, false)
	rec.Turn = &m
	if s.restartable() {
		rec.Request = keepRequest(ar)
	}
	ch.Records = []taskstore.Record{rec}
	if !s.turns.take(key.Scope) {
		return nil, overLimit("running", "%d tasks of this caller are running (limit running): send the answer again when one has ended", s.cfg.Limits.Running)
	}
	if err := s.register(r, true); err != nil {
		s.leave(true, key.Scope)
		return nil, err
	}
	ch.Claim = r.node
	receipt, err := s.store.Commit(context.WithoutCancel(ctx), ch)
	if err != nil {
		s.failedToBegin(r, err)
		return nil, err
	}
	t, err := s.joined(ctx, key, receipt.Generation)
	if err != nil { // recorded all the same: the run goes on from what is known
		t = &turn{key: key, task: snap.Task}
	}
	r.req.Task = t.task
	s.start(r, receipt)
	return t, err
}

// joined is the turn that begins with the record of the given generation.
func (s *Server) joined(ctx context.Context, key taskstore.Key, generation int64) (*turn, error) {
	snap, err := s.store.Task(ctx, key, generation)
	if errors.Is(err, taskstore.ErrTrimmed) {
		snap, err = s.store.Task(ctx, key, 0)
	}
	if err != nil {
		return nil, internal(err)
	}
	return &turn{key: key, first: a2a.NewEntry(snap.Generation, snap.Task), last: snap.Generation, task: snap.Task}, nil
}

// queue waits until the working task can take a message, if the agent lets messages wait.
func (s *Server) queue(ctx context.Context, key taskstore.Key, snap taskstore.Snapshot) error {
	if s.queued.Add(1) > int64(s.cfg.Queue) {
		s.queued.Add(-1)
		e := a2a.Errorf(a2a.ErrUnsupportedOperation, "the task is %s and takes no message now: wait until it asks for input (SubscribeToTask or GetTask), or cancel it", snap.Task.Status.State)
		e.Metadata = map[string]string{"taskId": key.Task, "state": snap.Task.Status.State.String()}
		return e
	}
	defer s.queued.Add(-1)
	for rec, err := range s.follow.Follow(ctx, key, snap.Generation) {
		if err != nil {
			return internal(err)
		}
		if st, ok := rec.Event.(*a2a.TaskStatusUpdateEvent); ok && (st.Status.State.Terminal() || st.Status.State.Interrupted()) {
			return nil
		}
	}
	return nil
}
