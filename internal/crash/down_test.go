package crash

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// TestWebhookReceiverDown has a receiver refuse connections for a while in which the host is killed and started again.
// Then it gets everything in order: what happened before, during and after.
func TestWebhookReceiverDown(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	t.Parallel()
	outage := fromEnv(t, outageEnv, 3*time.Second, time.ParseDuration)
	b := newBook(newReceiver(t, ""), &report{acknowledged: map[string]int{}})
	h := newHost(t)
	h.start()
	cs := h.dial()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// on returns who calls over a binding.
	on := func(binding string) *worker {
		return &worker{
			load: &load{book: b}, ctx: t.Context(), clients: cs[binding], binding: binding, caller: "caller " + binding,
			rng: rand.New(rand.NewPCG(0, 0)),
		}
	}
	// send sends a script with a webhook.
	send := func(w *worker, state a2a.TaskState, steps ...step) (*item, *hook) {
		t.Helper()
		it, req := w.item("hooked"), w.request(steps...)
		req.Configuration.ReturnImmediately = state == working
		hook := w.hook(req, it.caller)
		must(w.send(it, req, state))
		must(it.in(state))
		w.hooked(hook, it.task)
		return it, hook
	}
	parks := []step{{"message": "one"}, {"park": "which?"}}
	hangs := []step{{"chunks": step{"id": "c", "texts": numbers(5)}}, {"wait": "for ever"}}

	var parked, parkedLater []*item
	var before []*hook
	for _, binding := range bindings {
		w := on(binding)
		_, done := send(w, completed, chunked(10)...)
		it, waits := send(w, input, parks...)
		_, cut := send(w, working, hangs...)
		parked, before = append(parked, it), append(before, done, waits, cut)
	}
	for _, hook := range before { // what is there before the outage has come
		arrived(t, cs[hook.binding], hook, delivery)
	}

	b.hooks.close()
	up := time.After(outage)
	for i, binding := range bindings {
		w := on(binding)
		send(w, completed, chunked(30)...) // more than a turn delivers
		send(w, working, hangs...)
		it, _ := send(w, input, parks...)
		parkedLater = append(parkedLater, it)
		must(w.answer(parked[i]))
	}
	<-time.After(outage / 2)
	h.kill()
	hangUp(cs)
	h.start()
	cs = h.dial()
	for i, binding := range bindings {
		w := on(binding)
		must(w.answer(parkedLater[i]))
		send(w, completed, chunked(10)...)
	}
	<-up
	b.hooks.open(t)
	began := time.Now()
	hooks := b.hooks.takeRound()
	for _, hook := range hooks { // the pauses between attempts grow with the outage
		arrived(t, cs[hook.binding], hook, 3*outage+delivery)
	}
	total := 0
	for _, hook := range hooks {
		_, _, events := hook.so()
		total += len(events)
	}
	t.Logf("%d webhooks have their %d entries %v after an outage of %v", len(hooks), total, time.Since(began).Round(time.Millisecond), outage)
	hangUp(cs)
}

// arrived waits until a receiver has all entries of its task in order.
func arrived(t *testing.T, c clients, h *hook, most time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	if err := delivered(ctx, c, h); err != nil {
		t.Fatalf("a webhook of %s, for %v: %v", h.caller, most, err)
	}
}
