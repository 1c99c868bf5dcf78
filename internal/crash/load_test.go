package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

const (
	workers = 24
	// running is how many tasks of a caller the host runs at once.
	running = 8
	// patience is how long a call may take that outlives a kill.
	patience = 30 * time.Second
)

const (
	submitted = a2a.TaskStateSubmitted
	working   = a2a.TaskStateWorking
	completed = a2a.TaskStateCompleted
	failed    = a2a.TaskStateFailed
	canceled  = a2a.TaskStateCanceled
	input     = a2a.TaskStateInputRequired
	auth      = a2a.TaskStateAuthRequired
)

// load is what the workers of one round have in common.
type load struct {
	*book
	shared  bool // several hosts serve the calls
	things  []thing
	workers sync.WaitGroup
	killed  atomic.Bool
	shaken  atomic.Int64 // grows with whatever may cut calls while others go on
	shaking atomic.Int64 // how much of that lasts
	cut     atomic.Int64 // calls that a kill cut short
}

// newLoad starts the workers. They end after the kill, those that try again when the host is back.
func newLoad(ctx context.Context, b *book, cs map[string]clients, seed uint64) *load {
	l := &load{book: b, things: things}
	l.start(ctx, cs, seed)
	return l
}

func (l *load) start(ctx context.Context, cs map[string]clients, seed uint64) {
	for n := range workers {
		binding := bindings[n%len(bindings)]
		w := &worker{
			load: l, ctx: ctx, clients: cs[binding], binding: binding, caller: "worker" + strconv.Itoa(n),
			rng: rand.New(rand.NewPCG(seed, uint64(n))),
		}
		l.calls(w.caller, binding)
		l.workers.Go(w.work)
	}
}

// shake does what may cut calls.
func (l *load) shake(f func()) {
	l.shaking.Add(1)
	l.shaken.Add(1)
	f()
	l.shaking.Add(-1)
}

// worker is a caller who uses one binding and does one thing after the other.
type worker struct {
	*load
	clients

	ctx             context.Context // of the thing that it does
	binding, caller string
	rng             *rand.Rand
}

// thing is something that workers do, with how often.
type thing struct {
	often int
	do    func(*worker) error
}

// gentle are things that no orderly end of a host cuts short.
var gentle = []thing{
	{4, (*worker).block},
	{4, (*worker).stream},
	{3, (*worker).leave},
	{3, (*worker).park},
	{2, (*worker).remember},
	{2, (*worker).retry},
	{1, (*worker).follow},
}

var things = []thing{
	{4, (*worker).block},
	{4, (*worker).stream},
	{3, (*worker).leave},
	{3, (*worker).park},
	{2, (*worker).ask},
	{2, (*worker).cancel},
	{2, (*worker).remember},
	{2, (*worker).register},
	{2, (*worker).retry},
	{1, (*worker).follow},
	{1, (*worker).wait},
}

func (w *worker) work() {
	total := 0
	for _, t := range w.things {
		total += t.often
	}
	all := w.ctx
	for !w.killed.Load() {
		n := w.rng.IntN(total)
		for _, t := range w.things {
			if n -= t.often; n >= 0 {
				continue
			}
			before := w.shaken.Load()
			calm := w.shaking.Load() == 0
			ctx, cancel := context.WithTimeout(all, 2*patience)
			w.ctx = ctx
			err := t.do(w)
			cancel()
			switch {
			case err != nil && (w.killed.Load() || !calm || w.shaken.Load() != before):
				w.cut.Add(1)
			case err != nil:
				w.report.wrong(&w.report.unexpected, 1, "%s over %s: %v", w.caller, w.binding, err)
				return
			}
			break
		}
	}
}

// step is one step of a script.
type step = map[string]any

// request returns a message with a script.
func (b *book) request(steps ...step) *a2a.SendMessageRequest {
	m := &a2a.Message{MessageID: b.id("m"), Role: a2a.RoleUser}
	if len(steps) > 0 {
		m.Parts = []*a2a.Part{a2a.DataPart(steps)}
	} else {
		m.Parts = []*a2a.Part{a2a.TextPart("echo of " + m.MessageID)}
	}
	return &a2a.SendMessageRequest{Message: m, Configuration: &a2a.SendMessageConfiguration{}}
}

func result(res a2a.SendMessageResult, err error) (*a2a.Task, error) {
	if err != nil {
		return nil, err
	}
	task, ok := res.(*a2a.Task)
	if !ok {
		return nil, fmt.Errorf("the answer is %T, not a task", res)
	}
	return task, nil
}

// send sends a message and enters what the answer says of its task, which then can be in these states.
func (w *worker) send(it *item, req *a2a.SendMessageRequest, may ...a2a.TaskState) error {
	task, err := result(w.plain.SendMessage(as(w.ctx, it.caller, 0), req))
	if err != nil {
		return err
	}
	first := it.task == ""
	it.answered(task)
	it.messages = append(it.messages, req.Message.MessageID)
	if it.may = may; task.Status.State.Terminal() {
		it.may = []a2a.TaskState{task.Status.State}
	}
	if first {
		w.enter(it)
	}
	return nil
}

// in reports an item that an answer did not show in the state.
func (it *item) in(state a2a.TaskState) error {
	if it.acked.Status.State != state {
		return fmt.Errorf("%v is %v, want %v", it, it.acked.Status.State, state)
	}
	return nil
}

func (w *worker) item(kind string) *item {
	return &item{kind: kind, binding: w.binding, caller: w.caller}
}

// other returns a caller who is new.
func (w *worker) other() string {
	caller := w.id(w.caller + "-")
	w.calls(caller, w.binding)
	return caller
}

// maybeHook adds a webhook to some requests.
func (w *worker) maybeHook(req *a2a.SendMessageRequest, caller string) *hook {
	if w.rng.IntN(3) > 0 {
		return nil
	}
	return w.hook(req, caller)
}

// hook adds a webhook to a request.
func (w *worker) hook(req *a2a.SendMessageRequest, caller string) *hook {
	h := w.hooks.add(w.id("hook"), w.binding, caller)
	req.Configuration.TaskPushNotificationConfig = h.config
	return h
}

// hooked notes that the webhook of a request was acknowledged, if there is one.
func (w *worker) hooked(h *hook, task string) {
	if h != nil {
		h.registered(task)
		w.report.add("webhooks", 1)
	}
}

func (w *worker) chance(percent int) bool { return w.rng.IntN(100) < percent }

// numbers are the texts of so many chunks: each says where it belongs.
func numbers(n int) (texts []string) {
	for i := range n {
		texts = append(texts, strconv.Itoa(i)+";")
	}
	return texts
}

// block waits for a task that says and makes several things.
func (w *worker) block() error {
	it := w.item("blocking")
	req := w.request(
		step{"artifact": step{"id": "a", "text": "an artifact"}}, step{"message": "one"},
		step{"chunks": step{"id": "c", "texts": numbers(1 + w.rng.IntN(20))}}, step{"message": "two"}, step{"complete": "done"},
	)
	h := w.maybeHook(req, it.caller)
	if err := w.send(it, req, completed); err != nil {
		return err
	}
	w.hooked(h, it.task)
	return it.in(completed)
}

// chunked is a script of so many chunks, each with its own commit.
func chunked(n int) []step {
	texts := numbers(n)
	steps := []step{{"chunks": step{"id": "c", "texts": texts[:1]}}}
	for i, text := range texts[1:] {
		steps = append(steps, step{"append": step{"id": "c", "text": text}})
		if i%3 == 0 {
			steps = append(steps, step{"message": "after " + text})
		}
	}
	return steps
}

// stream reads the stream of a task frame by frame.
func (w *worker) stream() error {
	it := w.item("streamed")
	req := w.request(chunked(5 + w.rng.IntN(80))...)
	h := w.maybeHook(req, it.caller)
	return w.read(it, req, w.plain.SendStreamingMessage(as(w.ctx, it.caller, 0), req), h)
}

func (w *worker) read(it *item, req *a2a.SendMessageRequest, entries func(func(a2a.Entry, error) bool), h *hook) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		joined := len(it.entries) == 0 && it.kind == "followed" // a message sent again joins where its task began to run
		if want := it.generation + 1; e.Generation != want && !(joined && e.Generation == 2) {
			w.report.wrong(&w.report.duplicates, 1, "%v: after frame %d came frame %d", it, it.generation, e.Generation)
		}
		it.entries = append(it.entries, e)
		it.generation = e.Generation
		w.report.add("frames", 1)
		switch ev := e.Event.(type) {
		case *a2a.Task:
			if it.task == "" {
				it.task, it.may = ev.ID, []a2a.TaskState{completed, failed}
				it.messages = []string{req.Message.MessageID}
				w.enter(it)
				w.hooked(h, it.task)
			}
		case *a2a.TaskStatusUpdateEvent:
			if s := ev.Status.State; s.Terminal() {
				it.may = []a2a.TaskState{s}
			}
		case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
		}
	}
	if len(it.may) != 1 {
		return fmt.Errorf("%v: the stream ended at frame %d", it, it.generation)
	}
	return nil
}

// leave does not wait for the task.
func (w *worker) leave() error {
	it := w.item("left")
	req := w.request()
	req.Configuration.ReturnImmediately = true
	h := w.maybeHook(req, it.caller)
	if err := w.send(it, req, completed, failed); err != nil {
		return err
	}
	w.hooked(h, it.task)
	for !it.acked.Status.State.Terminal() {
		task, err := w.plain.GetTask(as(w.ctx, it.caller, 0), &a2a.GetTaskRequest{ID: it.task})
		if err != nil {
			return err
		}
		if it.answered(task); task.Status.State.Terminal() {
			it.may = []a2a.TaskState{completed}
		}
		if w.chance(50) {
			break
		}
	}
	return nil
}

// answer sends an answer to a task that waits for one.
func (w *worker) answer(it *item) error {
	it.may = append(it.may, completed, failed)
	req := w.request()
	req.Message.TaskID = it.task
	if err := w.send(it, req, completed); err != nil {
		return err
	}
	w.report.add("answers", 1)
	return it.in(completed)
}

// park has a task given out of hand, and answers some.
func (w *worker) park() error {
	it, what, state := w.item("parked"), "park", input
	if w.chance(30) {
		what, state = "parkAuth", auth
	}
	req := w.request(step{"message": "one"}, step{what: "which?"})
	h := w.maybeHook(req, it.caller)
	if err := w.send(it, req, state); err != nil {
		return err
	}
	w.hooked(h, it.task)
	if err := it.in(state); err != nil || w.chance(50) {
		return err
	}
	return w.answer(it)
}

// ask has a run wait for an answer, and answers some. The others end with the process.
func (w *worker) ask() error {
	it := w.item("asking")
	if err := w.send(it, w.request(step{"ask": "which?"}, step{"echo": true}), failed); err != nil {
		return err
	}
	if err := it.in(input); err != nil || w.chance(50) {
		return err
	}
	return w.answer(it)
}

// cancel cancels a task that runs, or one that is parked.
func (w *worker) cancel() error {
	it, req := w.item("canceled"), w.request(step{"cleanup": "bye"})
	req.Configuration.ReturnImmediately = true
	may := failed
	if w.chance(30) {
		req, may = w.request(step{"park": "which?"}), input
	}
	if err := w.send(it, req, may); err != nil {
		return err
	}
	it.may = append(it.may, canceled)
	task, err := w.plain.CancelTask(as(w.ctx, it.caller, 0), &a2a.CancelTaskRequest{ID: it.task})
	if err != nil {
		return err
	}
	if task.Status.State != canceled {
		return fmt.Errorf("%v: CancelTask says %v", it, task.Status.State)
	}
	it.may, it.acked = []a2a.TaskState{canceled}, task
	w.report.add("cancels", 1)
	return nil
}

func contextOf(caller string) string { return "context of " + caller }

// remember has the context keep a value.
func (w *worker) remember() error {
	w.mu.Lock()
	n := w.notes[w.caller]
	if n == nil {
		n = &note{binding: w.binding}
		w.notes[w.caller] = n
	}
	w.mu.Unlock()
	it := w.item("remembering")
	n.sent++
	req := w.request(step{"remember": strconv.Itoa(n.sent)})
	req.Message.ContextID = contextOf(w.caller)
	if err := w.send(it, req, completed); err != nil {
		return err
	}
	n.acked = n.sent
	w.report.add("values", 1)
	return it.in(completed)
}

// register adds a webhook to a task that hangs, or is parked.
func (w *worker) register() error {
	it := w.item("hooked")
	it.caller = w.other()
	req, may := w.request(step{"message": "one"}, step{"chunks": step{"id": "c", "texts": numbers(5)}}, step{"wait": "for ever"}), failed
	if w.chance(50) {
		req, may = w.request(step{"park": "which?"}), input
	}
	req.Configuration.ReturnImmediately = may == failed
	if err := w.send(it, req, may); err != nil {
		return err
	}
	h := w.hooks.add(w.id("hook"), w.binding, it.caller)
	c := *h.config
	c.TaskID = it.task
	if _, err := w.plain.CreateTaskPushNotificationConfig(as(w.ctx, it.caller, 0), &c); err != nil {
		return err
	}
	w.hooked(h, it.task)
	return nil
}

// once enters a message that must be taken once.
func (w *worker) once(req *a2a.SendMessageRequest) *resend {
	req.Message.ContextID = w.id("once")
	r := &resend{binding: w.binding, caller: w.caller, req: req}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resends = append(w.resends, r)
	return r
}

// retry sends a message that the client sends again when its answer is lost.
func (w *worker) retry() error {
	it, req := w.item("safe"), w.request(chunked(1+w.rng.IntN(10))...)
	r := w.once(req)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	task, err := result(w.secure.SendMessage(as(ctx, w.caller, 0), req))
	if err != nil {
		return err
	}
	r.task = task.ID
	it.answered(task)
	it.messages = []string{req.Message.MessageID}
	it.may = []a2a.TaskState{task.Status.State}
	w.enter(it)
	w.report.add("safe messages", 1)
	return nil
}

// follow reads a stream that the client takes up again where it was lost.
func (w *worker) follow() error {
	it, req := w.item("followed"), w.request(chunked(100+w.rng.IntN(100))...)
	r := w.once(req)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	err := w.read(it, req, w.secure.Send(as(ctx, w.caller, 0), req), nil)
	r.task = it.task
	return err
}

// wait fills the caller's places with tasks that hang, so that more wait for their turn.
func (w *worker) wait() error {
	caller := w.other()
	for n := range running + 2 {
		it, req, may := w.item("hanging"), w.request(step{"wait": "for ever"}), failed
		if n >= running {
			it, req, may = w.item("waiting"), w.request(step{"artifact": step{"id": "a", "text": "late"}}), completed
		}
		it.caller = caller
		req.Configuration.ReturnImmediately = true
		if err := w.send(it, req, may); err != nil {
			return err
		}
		if w.shared { // each host has places of its own
			continue
		}
		if want := map[bool]a2a.TaskState{true: submitted, false: working}[may == completed]; it.acked.Status.State != want {
			return it.in(want)
		}
	}
	return nil
}
