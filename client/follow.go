package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

// Send sends a message and yields what comes of it, as [Client.SendStreamingMessage] does, and goes on when the
// stream is lost: once an entry has named the task, Send subscribes to that task again, for as long as it takes
// with pauses of 100 ms to 5 s, until for a minute nothing was heard. Where the agent answers GetTask and no stream
// comes about, it asks for the task instead, see Options.Poll.
//
// Under task-log it goes on after the entry that was yielded last, also when the host was restarted or the task has
// ended meanwhile: every entry comes once, with its Generation. Without it, or where the agent's log no longer goes
// back there, the first entry after a lost stream is the Task as it is then, with what was missed. So entries are to
// be folded with [a2a.Task.Apply], to which a Task is a new beginning, and not just printed one after the other.
//
// Under chunk-integrity a stream that lost or changed a part of an artifact on its way is given up: the Task as GetTask
// has it is yielded in its place, and again whenever it is found changed, see Options.Poll. Where that is damaged too, it
// is an error ([extension.ErrDamaged]).
//
// The events keep the generation in their metadata, as it was sent. In a task that they were folded to, it is that of
// the last Task: the place in the log is Entry.Generation.
//
// Until the first entry the message is sent again under safe-retry, see [Client.SendMessage], and without it never;
// an error before the first entry is the caller's, who alone knows whether the message may be sent again.
//
// It ends after a Message, a terminal state, or INPUT_REQUIRED. AUTH_REQUIRED does not end it, since the
// authorization mostly comes by another way; only an agent that closes the stream then does.
//
// Where the card offers no streaming, the message is sent with ReturnImmediately, and the Task is yielded whenever
// it is found changed, see Options.Poll.
//
// When ctx ends, the last yield is its error.
func (c *Client) Send(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		f := c.follower(ctx, yield, sendEnds)
		f.resumes = req.Message != nil && req.Message.TaskID != ""
		f.history = historyLength(req)
		if !c.streams() {
			f.sendAndPoll(req)
			return
		}
		done, err := f.read(c.SendStreamingMessage(f.ctx, req))
		switch {
		case done:
		case f.task == "":
			f.fail(err)
		default:
			f.run(err)
		}
	}
}

func sendEnds(s a2a.TaskState) bool { return s.Terminal() || s == a2a.TaskStateInputRequired }

// Follow yields a task as it is and then its updates, as [Client.SubscribeToTask] does, and goes on when the stream
// is lost, as [Client.Send] does: under task-log where it broke, and otherwise with the Task. An error before the
// first entry is the caller's.
// It ends at a terminal state, or when an agent closes the stream because the task waits for its caller. Of a task
// that has ended it yields the Task, once.
//
// Where there is no streaming, the Task is yielded whenever it is found changed, see Options.Poll.
//
// A task that is gone is an error (ErrTaskNotFound). When ctx ends, the last yield is its error.
func (c *Client) Follow(ctx context.Context, taskID string) iter.Seq2[a2a.Entry, error] {
	return c.follow(ctx, taskID, a2a.TaskState.Terminal)
}

func (c *Client) follow(ctx context.Context, taskID string, ends func(a2a.TaskState) bool) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		f := c.follower(ctx, yield, ends)
		f.task = taskID
		f.run(nil)
	}
}

// Wait waits until a task has ended or waits for its caller, and returns it as the agent has it then. It follows
// the task's stream where the card offers one. Where not, it asks from time to time, see Options.Poll, and under
// task-log each answer waits, for up to 30 s, until the task has changed.
func (c *Client) Wait(ctx context.Context, taskID string) (*a2a.Task, error) {
	var last a2a.Event
	ends := func(s a2a.TaskState) bool { return s.Terminal() || s.Interrupted() }
	for e, err := range c.follow(ctx, taskID, ends) {
		if err != nil {
			return nil, err
		}
		last = e.Event
	}
	if task, ok := last.(*a2a.Task); ok {
		return task, nil
	}
	f := c.follower(ctx, nil, nil)
	f.task, f.seen = taskID, true
	return f.get()
}

// follower is a reader of one task, through all the streams and requests that it takes.
type follower struct {
	c       *Client
	ctx     context.Context
	yield   func(a2a.Entry, error) bool
	ends    func(a2a.TaskState) bool // whether the reader has all it wants
	history *int32                   // as in GetTaskRequest
	info    *a2a.CallInfo            // of ctx: what is in effect
	retry   retry
	sum     [sha256.Size]byte // of the task as last asked for

	begin     [sha256.Size]byte // of the first two entries of the last stream, and how many it had
	fruitless int               // streams in a row that brought nothing new
	answered  int               // of them, how often in a row GetTask worked right after

	task    string        // its id; empty: not known yet
	state   a2a.TaskState // as last heard
	seen    bool          // an entry was yielded
	at      int64         // its generation under task-log; 0: not known
	strays  bool          // the agent's generations were wrong once: they do not count
	resumes bool          // the next entry may show the task as it was before the message that resumes it
}

func (c *Client) follower(ctx context.Context, yield func(a2a.Entry, error) bool, ends func(a2a.TaskState) bool) *follower {
	f := &follower{c: c, yield: yield, ends: ends, retry: retry{c: c}}
	f.ctx, f.info = withInfo(ctx)
	return f
}

// entry returns what a call brought that is no stream.
func (f *follower) entry(ev a2a.Event) a2a.Entry {
	e := a2a.NewEntry(0, ev)
	if f.counts() {
		e.Generation = extension.Generation(ev)
	}
	return e
}

// counts reports whether the last call was under task-log, and generations are to be believed.
func (f *follower) counts() bool {
	return !f.strays && slices.Contains(f.info.Activated, extension.TaskLog)
}

// past returns the context of a call whose answer is to begin after what was yielded.
func (f *follower) past(name string) context.Context {
	if f.at == 0 {
		return f.ctx
	}
	return with(f.ctx, name, f.at)
}

// fail ends the reading with an error.
func (f *follower) fail(err error) {
	if f.ctx.Err() != nil {
		err = f.ctx.Err()
	}
	f.yield(a2a.Entry{}, err)
}

// run reads the task to its end. lost says how an earlier stream ended, if there was one.
func (f *follower) run(lost error) {
	for {
		switch {
		case lost == nil:
		case damaged(lost):
			f.mend(lost)
			return
		case f.lostCount(lost):
		case noStream(lost), f.deaf(lost):
			f.poll(0, lost)
			return
		default:
			if err := f.again(lost); err != nil {
				f.fail(err)
				return
			}
		}
		var done bool
		if done, lost = f.read(f.c.SubscribeToTask(f.past(extension.LastEventID), &a2a.SubscribeToTaskRequest{ID: f.task})); done {
			return
		}
	}
}

// lostCount reports whether the generations led to what cannot be: entries that are missing or come twice, or a task
// that has not come so far. From then on they do not count, and the next stream is to begin with the Task.
func (f *follower) lostCount(err error) bool {
	code := a2a.AsError(err).Code
	if f.at == 0 || code != a2a.ErrInvalidAgentResponse && code != a2a.ErrInvalidParams {
		return false
	}
	f.c.log.DebugContext(f.ctx, "the agent's generations are wrong, going on without them", "task", f.task, "generation", f.at, "error", err)
	f.at, f.strays = 0, true
	return true
}

// noStream reports whether there is nothing to subscribe to: the task has ended or is gone, or the agent does not
// do it. GetTask knows which.
func noStream(err error) bool {
	switch a2a.AsError(err).Code {
	case a2a.ErrUnsupportedOperation, a2a.ErrTaskNotFound, a2a.ErrMethodNotFound, a2a.ErrMethodNotAllowed:
		return true
	default:
		return false
	}
}

// deaf reports whether the agent answers while no stream of the task comes about, as behind a proxy that takes none: two
// streams in a row brought nothing new, and each time GetTask, asked right after, worked. A host that is being restarted
// answers neither. Before the first entry one stream is enough.
func (f *follower) deaf(lost error) bool {
	need := 2
	if !f.seen {
		need = 1
	}
	if f.fruitless < need || !transient(lost) {
		return false
	}
	if _, err := f.c.GetTask(f.ctx, &a2a.GetTaskRequest{ID: f.task, HistoryLength: f.history}); err != nil {
		f.answered = 0
		return false
	}
	f.answered++
	return f.answered >= need
}

var errEndedEarly = a2a.Errorf(a2a.ErrUnavailable, "the stream ended before the task did")

// read yields the entries of a stream. It returns true when the reader has all it wants, and otherwise why the
// stream came to its end.
func (f *follower) read(entries iter.Seq2[a2a.Entry, error]) (done bool, lost error) {
	began, n, begin := time.Now(), 0, sha256.New()
	defer func() {
		// A stream that only ever shows the task as it is, or what the last one did, and breaks again is no progress, unless
		// it held.
		last := f.begin
		_, _ = fmt.Fprint(begin, n)
		f.begin = [sha256.Size]byte(begin.Sum(nil))
		if n > 1 && f.begin != last || n >= 1 && time.Since(began) >= f.c.timing.most {
			f.retry.reset()
			f.fruitless, f.answered = 0, 0
		} else {
			f.fruitless++
		}
	}()
	rejoined := f.seen
	for e, err := range entries {
		if err != nil {
			return false, err
		}
		if _, ok := e.Event.(*a2a.Task); rejoined && n == 0 && !ok {
			return false, a2a.Errorf(a2a.ErrInvalidAgentResponse,
				"the subscription did not begin with the Task (specification 3.1.6): what was missed is not known")
		}
		if n++; n <= 2 {
			_, _ = begin.Write(e.JSON()) // a hash takes everything
		}
		had, err := f.had(e, rejoined && n == 1)
		if err != nil {
			return false, err
		}
		if !had && !f.take(e) {
			return true, nil
		}
	}
	switch {
	case n > 0 && (f.state.Terminal() || f.state.Interrupted()):
		return true, nil
	case f.task == "":
		return false, a2a.Errorf(a2a.ErrInvalidAgentResponse, "the stream ended without an event")
	}
	return false, errEndedEarly
}

// had reports whether the reader has an entry already: the Task with which a stream begins that was taken up where
// the last one broke. Where the log no longer goes back there the Task is a later one, a new beginning. All other
// entries follow one another.
func (f *follower) had(e a2a.Entry, begins bool) (bool, error) {
	n := e.Generation
	if n == 0 || f.at == 0 || !f.counts() {
		return false, nil
	}
	switch _, whole := e.Event.(*a2a.Task); {
	case begins && whole && n == f.at:
		return true, nil
	case n == f.at+1, whole && n > f.at:
		return false, nil
	}
	return false, a2a.Errorf(a2a.ErrInvalidAgentResponse,
		"the agent sent generation %d of the task after generation %d (extension task-log)", n, f.at)
}

// take yields an entry and reports whether the reader wants more.
func (f *follower) take(e a2a.Entry) bool {
	ended := false
	switch ev := e.Event.(type) {
	case *a2a.Task:
		ended = f.enters(ev.ID, ev.Status.State)
	case *a2a.TaskStatusUpdateEvent:
		ended = f.enters(ev.TaskID, ev.Status.State)
	case *a2a.TaskArtifactUpdateEvent:
		f.task = cmp.Or(f.task, ev.TaskID)
	case *a2a.Message:
		ended = true
	}
	if f.strays {
		e.Generation = 0
	}
	f.resumes, f.seen, f.at = false, true, 0
	if f.counts() {
		f.at = e.Generation
	}
	return f.yield(e, nil) && !ended
}

// enters notes a state that the task is in and reports whether the reader wants no more than that.
func (f *follower) enters(task string, s a2a.TaskState) bool {
	f.task, f.state = cmp.Or(f.task, task), s
	return f.ends(s) && !(f.resumes && s.Interrupted())
}

// sendAndPoll is Send for an agent without streams.
func (f *follower) sendAndPoll(req *a2a.SendMessageRequest) {
	now := *req
	now.Configuration = new(a2a.SendMessageConfiguration)
	if req.Configuration != nil {
		*now.Configuration = *req.Configuration
	}
	now.Configuration.ReturnImmediately = true
	res, err := f.c.SendMessage(f.ctx, &now)
	if err != nil {
		f.fail(err)
		return
	}
	e := f.entry(res)
	f.changed(e)
	if f.take(e) {
		f.poll(f.c.poll, nil)
	}
}

// poll asks for the task until it ends, first after wait, and yields it when it has changed. why says what was
// hoped for instead. Under task-log the answer waits for a change, and its time is a part of the pause.
func (f *follower) poll(wait time.Duration, why error) {
	f.c.log.DebugContext(f.ctx, "there is no stream, asking for the task", "task", f.task, "error", why)
	if f.at > 0 {
		wait = 0
	}
	for pause := wait; ; {
		if err := sleep(f.ctx, wait); err != nil {
			f.fail(err)
			return
		}
		asked, waited := time.Now(), f.at > 0
		task, err := f.get()
		if err != nil {
			f.fail(err)
			return
		}
		pause = min(max(f.c.poll, pause*3/2), 5*f.c.poll)
		if e := f.entry(task); f.changed(e) {
			pause = f.c.poll
			if !f.take(e) {
				return
			}
		} else if f.ends(task.Status.State) {
			return
		}
		switch wait = pause; {
		case waited: // or it did not, and then there must be a pause
			wait -= time.Since(asked)
		case f.at > 0:
			wait = 0
		}
	}
}

// changed reports whether a task is another than what was yielded last, or than at the last call.
func (f *follower) changed(e a2a.Entry) bool {
	if e.Generation > 0 && f.at > 0 {
		return e.Generation != f.at
	}
	last := f.sum
	f.sum = sha256.Sum256(e.JSON())
	return f.sum != last
}

// get returns the task, however often it takes to ask.
func (f *follower) get() (*a2a.Task, error) {
	for {
		task, err := f.c.GetTask(f.past(extension.CurrentGeneration), &a2a.GetTaskRequest{ID: f.task, HistoryLength: f.history})
		if err == nil {
			f.retry.reset()
			return task, nil
		}
		if err := f.again(err); err != nil {
			return nil, err
		}
	}
}

// again waits before the next try, or returns the error that ends them. Before the first entry there is none: who
// never reached the agent learns so at once.
func (f *follower) again(err error) error {
	if !f.seen {
		return err
	}
	return f.retry.pause(f.ctx, f.task, err)
}

// timing says how a lost connection is tried again: with pauses that double from first to most, until for giveUp
// nothing was heard.
type timing struct{ first, most, giveUp time.Duration }

var defaultTiming = timing{first: 100 * time.Millisecond, most: 5 * time.Second, giveUp: time.Minute}

// retry is what is known of a connection that was lost.
type retry struct {
	c     *Client
	since time.Time     // when it was lost; zero: it was not
	delay time.Duration // the next pause
}

// reset says that there was progress.
func (r *retry) reset() { r.since = time.Time{} }

// pause waits before the next try. It returns an error when there is to be none: that of ctx, or err, if it is one
// that another try will not change, or if it is time to give up.
func (r *retry) pause(ctx context.Context, task string, err error) error {
	t := &r.c.timing
	if ctx.Err() != nil {
		return ctx.Err()
	}
	level := slog.LevelDebug
	if r.since.IsZero() {
		r.since, r.delay, level = time.Now(), t.first, slog.LevelWarn
	}
	if !transient(err) || time.Since(r.since) >= t.giveUp {
		return err
	}
	delay := r.delay/2 + rand.N(r.delay/2+1) //nolint:gosec // jitter is no secret
	r.delay = min(2*r.delay, t.most)
	var e *a2a.Error
	if errors.As(err, &e) {
		delay = max(delay, min(e.RetryAfter, t.giveUp))
	}
	r.c.log.Log(ctx, level, "the agent was lost, trying again", "task", task, "in", delay, "error", err)
	return sleep(ctx, delay)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
