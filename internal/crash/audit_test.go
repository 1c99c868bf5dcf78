package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

const (
	// settling is how long a restarted host may take until no task waits for nobody.
	settling = 2 * time.Second
	// delivery is how long it may take until receivers have everything.
	delivery = 15 * time.Second
	// sample is how many of the older tasks are looked at in each round, and how many of those of a list.
	sample = 100
)

// audit looks for what a host had acknowledged before it was killed.
type audit struct {
	*book
	ctx     context.Context
	clients map[string]clients
	rng     *rand.Rand
	late    time.Duration // how long it may take until receivers have everything
}

func newAudit(ctx context.Context, b *book, cs map[string]clients, seed uint64) *audit {
	return &audit{book: b, ctx: ctx, clients: cs, rng: rand.New(rand.NewPCG(seed, 0)), late: delivery}
}

// run looks for everything of the round and for samples of what is older, for more at the end.
func (a *audit) run(end bool) {
	old := a.some(a.old, end)
	each(slices.Concat(a.round, old), a.item)
	each(a.resends, a.resend)
	a.values()
	a.webhooks()
	callers := a.callers
	if end {
		for caller, n := range a.notes {
			callers[caller] = n.binding
		}
	}
	names := slices.Sorted(maps.Keys(callers))
	if !end {
		a.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:min(8, len(names))]
	}
	each(names, func(caller string) { a.list(caller, callers[caller]) })
	a.old = append(a.old, a.round...)
	a.round, a.resends, a.callers = nil, nil, map[string]string{}
}

// some returns a sample, a larger one at the end.
func (a *audit) some(items []*item, end bool) (out []*item) {
	n := sample
	if end {
		n *= 20
	}
	for _, i := range a.rng.Perm(len(items))[:min(n, len(items))] {
		out = append(out, items[i])
	}
	return out
}

// each calls f for all, some at a time.
func each[T any](all []T, f func(T)) {
	work := make(chan T)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for x := range work {
				f(x)
			}
		})
	}
	for _, x := range all {
		work <- x
	}
	close(work)
	wg.Wait()
}

// zombies waits until no task is as if somebody worked on it. What was started since the host was back, by clients
// that send again what they lost, does not take so long.
func (a *audit) zombies(back time.Time, settling time.Duration) {
	a.mu.Lock()
	callers := maps.Clone(a.callers)
	a.mu.Unlock()
	var left []string
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		late := time.Since(back) > settling
		var mu sync.Mutex
		left = nil
		each(slices.Collect(maps.Keys(callers)), func(caller string) {
			for _, state := range []a2a.TaskState{working, submitted} {
				for task, err := range a.clients[callers[caller]].plain.Tasks(as(a.ctx, caller, 0), &a2a.ListTasksRequest{Status: state}) {
					mu.Lock()
					if err != nil {
						left = append(left, err.Error())
					} else {
						left = append(left, fmt.Sprintf("the task %s of %s is %v", task.ID, caller, task.Status.State))
					}
					mu.Unlock()
				}
			}
		})
		if len(left) == 0 {
			return
		}
		if late {
			break
		}
	}
	for _, words := range left {
		a.report.wrong(&a.report.zombies, 1, "%s after the restart: %s", time.Since(back), words)
	}
}

// errTwice is in the errors of what is there more than once.
var errTwice = errors.New("twice")

// judge counts what is wrong with something.
func (a *audit) judge(what any, err error) {
	switch {
	case errors.Is(err, errTwice):
		a.report.wrong(&a.report.duplicates, 1, "%v: %v", what, err)
	case err != nil:
		a.report.wrong(&a.report.lost, 1, "%v: %v", what, err)
	}
}

// item looks for a task, and answers it if it waits.
func (a *audit) item(it *item) {
	err := a.task(it)
	if err == nil && it.acked.Status.State.Interrupted() {
		err = a.answer(it)
	}
	a.judge(it, err)
}

func (a *audit) get(it *item) (*a2a.Task, error) {
	return a.clients[it.binding].plain.GetTask(as(a.ctx, it.caller, 0), &a2a.GetTaskRequest{ID: it.task})
}

// task compares a task with what is known of it, and keeps it as it is now.
func (a *audit) task(it *item) error {
	task, err := a.get(it)
	if err != nil {
		return err
	}
	now := extension.Generation(task)
	switch {
	case now < it.generation:
		return fmt.Errorf("it is at generation %d, and was seen at %d", now, it.generation)
	case !slices.Contains(it.may, task.Status.State):
		return fmt.Errorf("it is %v, and can be %v", task.Status.State, it.may)
	case it.acked != nil && (it.acked.Status.State.Terminal() || extension.Generation(it.acked) == now) && !same(task, it.acked):
		return fmt.Errorf("it is\n%s\nand was\n%s", task.AppendJSON(nil), it.acked.AppendJSON(nil))
	}
	if err := messages(it, task); err != nil {
		return err
	}
	if err := chunks(it, task); err != nil {
		return err
	}
	if err := a.log(it, task); err != nil {
		return err
	}
	it.answered(task)
	it.entries, it.may = nil, []a2a.TaskState{task.Status.State}
	return nil
}

// messages looks for the messages that the task has taken and for those that its frames said: each is there once, and
// no other is there twice.
func messages(it *item, task *a2a.Task) error {
	times := map[string]int{}
	for _, m := range task.History {
		if times[m.MessageID]++; times[m.MessageID] > 1 {
			return fmt.Errorf("the message %s is in its history: %w", m.MessageID, errTwice)
		}
	}
	if m := task.Status.Message; m != nil {
		times[m.MessageID]++
	}
	want := slices.Clone(it.messages)
	for _, e := range it.entries {
		if ev, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok && ev.Status.Message != nil {
			want = append(want, ev.Status.Message.MessageID)
		}
	}
	for _, id := range want {
		if times[id] == 0 {
			return fmt.Errorf("the message %s is not in its history", id)
		}
	}
	return nil
}

// chunks compares the chunked artifact with the chunks that were seen.
func chunks(it *item, task *a2a.Task) error {
	seen := 0
	for _, e := range it.entries {
		if ev, ok := e.Event.(*a2a.TaskArtifactUpdateEvent); ok && ev.Artifact.ArtifactID == "c" {
			seen++
		}
	}
	there := 0
	for _, artifact := range task.Artifacts {
		if artifact.ArtifactID != "c" {
			continue
		}
		var words []string
		for _, p := range artifact.Parts {
			words = append(words, string(p.Content.(a2a.Text)))
		}
		there = len(words)
		switch {
		case len(slices.Compact(slices.Sorted(slices.Values(words)))) < there:
			return fmt.Errorf("of its chunks %q some are there %w", words, errTwice)
		case !slices.Equal(words, numbers(there)):
			return fmt.Errorf("its chunks are %q", words)
		}
	}
	if there < seen {
		return fmt.Errorf("it has %d chunks, and %d were seen", there, seen)
	}
	return nil
}

// log takes up the stream where it was lost, and reads all of it again.
func (a *audit) log(it *item, task *a2a.Task) error {
	if len(it.entries) == 0 {
		return nil
	}
	c, now := a.clients[it.binding], extension.Generation(task)
	rest, err := replay(a.ctx, c, it.caller, it.task, it.generation, now)
	if err != nil {
		return fmt.Errorf("the stream taken up at %d: %w", it.generation, err)
	}
	all, err := replay(a.ctx, c, it.caller, it.task, 1, now)
	if err != nil {
		return fmt.Errorf("the stream from its beginning: %w", err)
	}
	for _, e := range append(it.entries[:len(it.entries):len(it.entries)], rest[1:]...) {
		is := all[e.Generation-1]
		if _, whole := e.Event.(*a2a.Task); !(whole && e.Generation > 1) && !same(e.Event, is.Event) {
			return fmt.Errorf("the entry %d is\n%s\nand was\n%s", e.Generation, is.JSON(), e.JSON())
		}
	}
	var folded a2a.Task
	for _, e := range all {
		folded.Apply(e.Event)
	}
	folded.History, folded.Metadata = task.History, task.Metadata // turns are not on the wire
	if !bytes.Equal(folded.AppendJSON(nil), task.AppendJSON(nil)) {
		return fmt.Errorf("its log folds to\n%s\nand it is\n%s", folded.AppendJSON(nil), task.AppendJSON(nil))
	}
	return nil
}

// replay returns the log of a task between two generations, as a stream has it that is taken up at the first: the Task
// as of then, and every later entry once.
func replay(ctx context.Context, c clients, caller, task string, from, to int64) (out []a2a.Entry, err error) {
	for e, err := range c.plain.SubscribeToTask(as(ctx, caller, from), &a2a.SubscribeToTaskRequest{ID: task}) {
		if err != nil {
			return nil, err
		}
		want := from + int64(len(out))
		_, whole := e.Event.(*a2a.Task)
		switch {
		case e.Generation < want:
			return nil, fmt.Errorf("the entry %d: %w", e.Generation, errTwice)
		case e.Generation > want || whole != (len(out) == 0):
			return nil, fmt.Errorf("instead of the entry %d came %s", want, e.JSON())
		}
		if out = append(out, e); e.Generation == to {
			return out, nil
		}
	}
	return nil, fmt.Errorf("it ends after %d of %d entries", len(out), to-from+1)
}

// answer answers a task that waits.
func (a *audit) answer(it *item) error {
	req := a.request()
	req.Message.TaskID = it.task
	task, err := result(a.clients[it.binding].plain.SendMessage(as(a.ctx, it.caller, 0), req))
	if err != nil {
		return fmt.Errorf("it takes no answer: %w", err)
	}
	a.report.add("answers after a restart", 1)
	it.answered(task)
	it.messages, it.may = append(it.messages, req.Message.MessageID), []a2a.TaskState{completed}
	return a.task(it)
}

// resend sends a message again, and looks whether it ever made more than one task.
func (a *audit) resend(r *resend) {
	c := a.clients[r.binding].secure
	task, err := result(c.SendMessage(as(a.ctx, r.caller, 0), r.req))
	if err != nil {
		a.judge("a message sent again", err)
		return
	}
	if r.task != "" && task.ID != r.task {
		a.judge(fmt.Sprintf("the message %s made the tasks %s and %s", r.req.Message.MessageID, r.task, task.ID), errTwice)
	}
	list, err := c.ListTasks(as(a.ctx, r.caller, 0), &a2a.ListTasksRequest{ContextID: r.req.Message.ContextID})
	if err == nil && (list.TotalSize != 1 || len(list.Tasks) != 1) {
		err = fmt.Errorf("%d tasks: %w", list.TotalSize, errTwice)
	}
	a.judge("the message "+r.req.Message.MessageID, err)
	a.report.add("messages sent again", 1)
}

// values looks for what contexts keep.
func (a *audit) values() {
	each(slices.Collect(maps.Keys(a.notes)), func(caller string) {
		n := a.notes[caller]
		v, err := a.recall(caller, n)
		switch {
		case err == nil && v < n.acked:
			err = fmt.Errorf("it is %d, and was %d", v, n.acked)
		case err == nil && v > n.sent:
			err = fmt.Errorf("it is %d, and nobody said more than %d", v, n.sent)
		}
		a.judge("the value of the "+contextOf(caller), err)
		n.acked, n.sent = v, v
	})
}

func (a *audit) recall(caller string, n *note) (int, error) {
	req := a.request(step{"recall": true})
	req.Message.ContextID = contextOf(caller)
	task, err := result(a.clients[n.binding].plain.SendMessage(as(a.ctx, caller, 0), req))
	if err != nil {
		return n.acked, err
	}
	if len(task.Artifacts) != 1 {
		return n.acked, fmt.Errorf("the task %s ended without the value", task.ID)
	}
	words := task.Artifacts[0].Text()
	if words == "none" {
		return 0, nil
	}
	return strconv.Atoi(words)
}

// webhooks waits until the receivers have everything.
func (a *audit) webhooks() {
	ctx, cancel := context.WithTimeout(a.ctx, a.late)
	defer cancel()
	each(a.hooks.takeRound(), func(h *hook) { a.judge("the webhook of "+h.caller, a.webhook(ctx, h)) })
}

// webhook waits until the receiver has the entries of the task's log, in order, and looks for the registration.
func (a *audit) webhook(ctx context.Context, h *hook) error {
	task, acked, _ := h.so()
	if task == "" { // no answer, and nothing came: perhaps it never was
		return nil
	}
	c := a.clients[h.binding]
	list, err := c.plain.ListTaskPushNotificationConfigs(as(ctx, h.caller, 0), &a2a.ListTaskPushNotificationConfigsRequest{TaskID: task})
	if err != nil {
		return err
	}
	if len(list.Configs) != 1 || list.Configs[0].ID != h.config.ID || list.Configs[0].URL != h.config.URL {
		return fmt.Errorf("the task %s has %d registrations (acknowledged: %v)", task, len(list.Configs), acked)
	}
	if err := delivered(ctx, c, h); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a.report.add("deliveries", len(h.events))
	a.report.add("repeated deliveries", h.repeats)
	h.events = nil // it has them all
	return nil
}

// delivered waits until the receiver has the task as it was when the webhook was registered, and every later entry
// up to the last, in order.
func delivered(ctx context.Context, c clients, h *hook) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("nobody had the time to look")
	for {
		err := compare(ctx, c, h)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last
		}
	}
}

func compare(ctx context.Context, c clients, h *hook) error {
	id, _, events := h.so()
	task, err := c.plain.GetTask(as(ctx, h.caller, 0), &a2a.GetTaskRequest{ID: id})
	if err != nil {
		return err
	}
	to := extension.Generation(task)
	from := to - int64(len(events)) + 1
	if len(events) == 0 || from < 1 {
		return fmt.Errorf("the task %s has %d entries, %d came", id, to, len(events))
	}
	log, err := replay(ctx, c, h.caller, id, from, to)
	if err != nil {
		return err
	}
	for i, e := range log {
		if !same(e.Event, events[i]) {
			return fmt.Errorf("of the task %s came %d of %d entries, among them\n%s\nin the place of\n%s",
				id, len(events), to, a2a.AppendStreamResponse(nil, events[i]), e.JSON())
		}
	}
	return nil
}

// list compares a caller's list with the tasks that it was told of, and with what GetTask finds.
func (a *audit) list(caller, binding string) {
	c := a.clients[binding].plain
	ctx := as(a.ctx, caller, 0)
	size := int32(100)
	first, err := c.ListTasks(ctx, &a2a.ListTasksRequest{PageSize: &size})
	if err != nil {
		a.judge("the list of "+caller, err)
		return
	}
	listed := map[string]bool{}
	for task, err := range c.Tasks(ctx, &a2a.ListTasksRequest{PageSize: &size}) {
		if err == nil && listed[task.ID] {
			err = fmt.Errorf("the task %s is there %w", task.ID, errTwice)
		}
		if err != nil {
			a.judge("the list of "+caller, err)
			return
		}
		listed[task.ID] = true
	}
	if int(first.TotalSize) != len(listed) {
		err = fmt.Errorf("%d tasks, and the total is %d", len(listed), first.TotalSize)
	}
	for _, id := range a.tasks[caller] {
		if !listed[id] {
			err = fmt.Errorf("without the task %s", id)
		}
	}
	looked := 0
	for id := range listed { // in any order
		if _, gerr := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); gerr != nil {
			err = fmt.Errorf("with the task %s: %w", id, gerr)
		}
		if looked++; looked == sample/4 {
			break
		}
	}
	a.judge("the list of "+caller, err)
	a.report.add("lists", 1)
}
