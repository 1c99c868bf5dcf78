package proxy

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/extension"
)

const (
	beatTime = time.Minute     // between two signs of life
	lateTime = 2 * time.Second // for the answer to a message whose task was canceled meanwhile
	lookTime = 5 * time.Second // before a task is looked at again whose authorization nobody waits for there
)

// turn is one Handle: a message on its way to the remote agent, and what comes of it.
type turn struct {
	a      *Agent
	remote *remote
	links  *links
	r      *agent.Request
	u      *agent.Updater
	out    *mirror

	ctx     context.Context // of the calls: it outlives the run's for a moment
	message *a2a.Message    // the turn's
	link    link            // of the task
	number  int             // of the turn
	stream  *stream
	sent    bool               // the stream is that of a message, which answers what the task waits for
	status  *a2a.TaskStatus    // the last one
	said    string             // the id of the last message of progress
	asking  context.CancelFunc // withdraws the question; nil: none is open
	answers <-chan answer      // of the question
}

func newTurn(a *Agent, remote *remote, l *links, r *agent.Request, u *agent.Updater) *turn {
	t := &turn{
		a: a, remote: remote, links: l, r: r, u: u, out: newMirror(u, r.Task.Artifacts),
		message: r.Message, link: l.of(r.Task.ID),
	}
	if parked := a.unpark(r.Task.ID); t.link.Remote == "" {
		t.link.Remote = parked
	}
	for _, m := range r.Task.History {
		if m.Role == a2a.RoleUser {
			t.number++
			t.message = m // the last one: after a restart it may be an answer to a question of this turn
		}
	}
	return t
}

// run does the turn.
func (t *turn) run(ctx context.Context) error {
	var end context.CancelFunc
	t.ctx, end = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), requestKey{}, t.r))
	defer end()
	if err := t.begin(ctx); err != nil {
		return t.failed(err)
	}
	err := t.read(ctx)
	t.stream.stop()
	if t.asking != nil {
		t.asking()
		<-t.answers
	}
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, agent.ErrCanceled) && t.link.Remote != "":
		t.a.cancel(t.ctx, t.remote, t.link.Remote)
		return cause
	default:
		return cause
	}
}

// extensions are those of the caller that the remote agent has, too.
func (t *turn) extensions() []string {
	return slices.DeleteFunc(slices.Clone(t.r.Extensions), func(uri string) bool {
		return slices.Contains(hop, uri) || !t.remote.offers(uri)
	})
}

// begin sends the message, or, after a restart, follows what came of it.
func (t *turn) begin(ctx context.Context) error {
	again := t.r.Attempt > 1
	switch {
	case t.link.Remote != "" && t.link.Turn >= t.number:
		t.follow()
		return nil
	case !again || t.safe():
		return t.send(ctx)
	case t.link.Remote == "":
		return a2a.Errorf(a2a.ErrUnavailable, "The host was restarted when the message was on its way, and it is not known whether it arrived. Send it again if it may be done twice.")
	}
	task, err := t.remote.GetTask(t.ctx, &a2a.GetTaskRequest{ID: t.link.Remote})
	if err != nil {
		return err
	}
	if task.Status.State.Interrupted() {
		return t.send(ctx)
	}
	t.follow()
	return nil
}

// safe reports whether the remote agent takes a message that is sent twice once.
func (t *turn) safe() bool {
	if !t.remote.offers(extension.SafeRetry) {
		return false
	}
	one, info := int32(1), new(a2a.CallInfo)
	_, err := t.remote.ListTasks(a2a.WithCallInfo(t.ctx, info), &a2a.ListTasksRequest{PageSize: &one})
	return err == nil && slices.Contains(info.Activated, extension.SafeRetry)
}

func (t *turn) follow() {
	t.sent = false
	t.open(func(ctx context.Context) iter.Seq2[a2a.Entry, error] { return t.remote.Follow(ctx, t.link.Remote) })
}

// namespace is that of the ids of messages: the same message of the same task has the same at every try.
var namespace = uuid.MustParse("5a5f1a7c-0b0c-4a43-9d0e-2f5a3c9be1d4")

// send sends the turn's message.
func (t *turn) send(ctx context.Context) error {
	m := *t.message
	m.MessageID = uuid.NewSHA1(namespace, []byte(t.r.Task.ID+"/"+strconv.Itoa(t.number)+"/"+m.MessageID)).String()
	m.TaskID, m.ContextID = t.link.Remote, ""
	if m.TaskID == "" {
		m.ContextID = t.links.context()
	}
	m.Extensions = t.extensions()
	m.ReferenceTaskIDs = nil
	for _, task := range t.r.References {
		if k := t.links.of(task.ID); k.Remote != "" {
			m.ReferenceTaskIDs = append(m.ReferenceTaskIDs, k.Remote)
		}
	}
	req, err := delegation.Request(ctx, &a2a.SendMessageRequest{
		Message: &m, Metadata: t.r.Metadata,
		Configuration: &a2a.SendMessageConfiguration{AcceptedOutputModes: t.r.Configuration.AcceptedOutputModes},
	})
	if err != nil {
		return err
	}
	t.sent = true
	t.open(func(ctx context.Context) iter.Seq2[a2a.Entry, error] { return t.remote.Send(ctx, req) })
	return nil
}

// stream is what the remote agent says.
type stream struct {
	entries <-chan entry
	stop    context.CancelFunc
}

type entry struct {
	event a2a.Event
	err   error
}

// open begins to read a stream in place of the last one.
func (t *turn) open(read func(context.Context) iter.Seq2[a2a.Entry, error]) {
	if t.stream != nil {
		t.stream.stop()
	}
	ctx, stop := context.WithCancel(a2a.WithCallInfo(t.ctx, &a2a.CallInfo{Extensions: t.extensions()}))
	out := make(chan entry)
	go func() {
		defer close(out)
		for e, err := range read(ctx) {
			select {
			case out <- entry{e.Event, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.stream = &stream{out, stop}
}

// read records what the remote agent says until the turn is over.
func (t *turn) read(ctx context.Context) error {
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	ended := ctx.Done()
	var late, look <-chan time.Time
	for {
		select {
		case e, ok := <-t.stream.entries:
			again, done, err := t.next(ctx, e, ok)
			if done || err != nil || ended == nil {
				return err
			}
			if again {
				look = time.After(lookTime)
			}
		case answer := <-t.answers:
			if err := t.answered(ctx, answer); err != nil {
				return err
			}
		case <-look:
			look = nil
			if t.asking != nil {
				t.follow()
			}
		case <-beat.C:
			t.u.Alive()
		case <-ended:
			if t.link.Remote != "" {
				return context.Cause(ctx)
			}
			ended, late = nil, time.After(lateTime) // the remote task is to be known, to be canceled
		case <-late:
			return context.Cause(ctx)
		}
	}
}

// next records an entry of the stream, or its end. done says that the turn is over, again that the task is to be looked at
// later.
func (t *turn) next(ctx context.Context, e entry, ok bool) (again, done bool, err error) {
	switch {
	case ok && e.err == nil:
		done, err = t.event(e.event)
		return false, done, err
	case ok && t.sent && t.link.Remote != "" && errors.Is(e.err, a2a.ErrUnsupportedOperation):
		t.follow() // the task no longer waits: what came of it?
		return false, false, nil
	case ok:
		return false, true, t.failed(e.err)
	case t.asking != nil:
		t.stream.entries = nil
		return true, false, nil
	case t.status != nil && t.status.State.Interrupted():
		done, err = t.entered(t.status)
		return false, done, err
	}
	return false, true, t.failed(a2a.Errorf(a2a.ErrInvalidAgentResponse, "the remote agent's stream ended before the task did"))
}

func (t *turn) event(ev a2a.Event) (done bool, err error) {
	switch ev := ev.(type) {
	case *a2a.Message:
		if t.link.Remote == "" && ev.ContextID != "" {
			_ = t.links.join(t.r, link{Task: t.r.Task.ID, Turn: t.number}, ev.ContextID) // else the next message begins anew
		}
		return true, t.u.Complete(ev.Parts...)
	case *a2a.Task:
		first := t.status == nil
		if err := t.joined(ev.ID, ev.ContextID); err != nil {
			return true, err
		}
		if err := t.out.task(ev); err != nil {
			return true, t.failed(err)
		}
		if t.status = &ev.Status; first && t.sent && ev.Status.State.Interrupted() {
			return false, nil // perhaps it is still what the message answers
		}
		return t.entered(&ev.Status)
	case *a2a.TaskStatusUpdateEvent:
		if err := t.joined(ev.TaskID, ev.ContextID); err != nil {
			return true, err
		}
		t.status = &ev.Status
		return t.entered(&ev.Status)
	case *a2a.TaskArtifactUpdateEvent:
		if err := t.joined(ev.TaskID, ev.ContextID); err != nil {
			return true, err
		}
		if err := t.out.chunk(ev); err != nil {
			return true, t.failed(err)
		}
	}
	return false, nil
}

// joined records the remote task before anything else that is said of it.
func (t *turn) joined(task, context string) error {
	if t.link.Remote == task && t.link.Turn >= t.number {
		return nil
	}
	t.link.Remote, t.link.Turn = task, t.number
	return t.links.join(t.r, t.link, context)
}

// entered does what a status of the remote task says.
func (t *turn) entered(s *a2a.TaskStatus) (done bool, err error) {
	var parts []*a2a.Part
	if s.Message != nil {
		parts = s.Message.Parts
	}
	if s.State != a2a.TaskStateAuthRequired && t.asking != nil {
		t.withdraw()
	}
	if s.State.Terminal() {
		t.links.end(t.r.Task.ID)
	}
	switch s.State {
	case a2a.TaskStateCompleted:
		return true, t.u.Complete(parts...)
	case a2a.TaskStateFailed:
		return true, t.u.Fail(parts...)
	case a2a.TaskStateRejected:
		return true, t.u.Reject(parts...)
	case a2a.TaskStateCanceled:
		return true, agent.Errorf("the remote agent canceled the task: %w", agent.ErrCanceled)
	case a2a.TaskStateInputRequired:
		t.a.park(t.r.Task.ID, t.link.Remote)
		return true, t.u.Park(parts...)
	case a2a.TaskStateAuthRequired:
		return false, t.ask(s.Message, parts)
	case a2a.TaskStateWorking, a2a.TaskStateSubmitted, a2a.TaskStateUnspecified:
	}
	if s.Message == nil || s.Message.MessageID != "" && s.Message.MessageID == t.said {
		return false, nil
	}
	t.said = s.Message.MessageID
	return false, t.u.Progress(parts...)
}

// ask asks the caller for an authorization that the remote agent needs, in its words, until it is answered here or comes
// there by another way. A question of the extension approval goes on as it is, since it may not become more on its way,
// and the answer to it, too; one that is not whole does not go on.
func (t *turn) ask(m *a2a.Message, parts []*a2a.Part) error {
	if t.asking != nil {
		return nil
	}
	if _, err := extension.ApprovalRequestIn(m); err != nil {
		return t.failed(a2a.Errorf(a2a.ErrInvalidAgentResponse, "the remote agent asks for an approval that cannot be handed on: %w", err))
	}
	ctx, withdraw := context.WithCancel(t.ctx)
	answers := make(chan answer, 1)
	t.asking, t.answers = withdraw, answers
	go func() {
		m, err := t.u.AskAuth(ctx, parts...)
		answers <- answer{m, err}
	}()
	return nil
}

// answer is what came of a question.
type answer struct {
	message *a2a.Message
	err     error
}

// withdraw takes the question back. An answer that came before is not needed any more.
func (t *turn) withdraw() {
	t.asking()
	<-t.answers
	t.asking, t.answers = nil, nil
}

// answered hands the answer to a question on.
func (t *turn) answered(ctx context.Context, answer answer) error {
	t.asking()
	t.asking, t.answers = nil, nil
	if answer.err != nil {
		return answer.err
	}
	t.message, t.status = answer.message, nil
	t.number++
	return t.send(ctx)
}

// failed ends the task because of an error of the remote agent, or on the way there. The caller reads the error's words
// and its code, the log has the rest.
func (t *turn) failed(err error) error {
	if t.ctx.Err() != nil || errors.Is(err, agent.ErrEnded) || errors.Is(err, agent.ErrCanceled) {
		return err
	}
	t.r.Log.Warn("the remote agent failed", "remote", t.link.Remote, "err", err)
	if errors.Is(err, agent.ErrSealed) {
		err = a2a.Errorf(a2a.ErrInvalidAgentResponse, "the remote agent went on with an artifact after its last chunk")
	}
	e := a2a.AsError(err)
	text := t.remote.hide.in(e.Error())
	switch {
	case errors.Is(err, client.ErrUnreachable):
		text = "The agent behind this host cannot be reached."
	case e.Code == a2a.ErrUnauthenticated:
		text = "The agent behind this host does not take this host's credential."
	}
	t.links.end(t.r.Task.ID)
	return t.u.Fail(a2a.TextPart(text), a2a.DataPart(map[string]any{"code": int32(e.Code), "reason": e.ErrorReason()}))
}
