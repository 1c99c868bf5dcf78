// Package push delivers the events of tasks to webhooks (specification 4.3), and helps a client to receive
// them.
//
// A webhook reads the task's log with a cursor of its own, which the store keeps: first the Task as it was
// when the webhook was registered, then every later entry, in order, each at least once. Nothing is queued
// anywhere else, so that a restart loses nothing.
package push

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/netguard"
	"github.com/parley-a2a/parley/taskstore"
)

// Options say what to deliver and how. Store and Agent are required; zero means the default.
type Options struct {
	// Store keeps the tasks and their webhooks.
	Store taskstore.Store
	// Agent is the name under which the tasks are kept. Each agent of a host has a Push of its own. Where several processes
	// share the store, each webhook is delivered by one of them at a time: by another only when that is gone.
	Agent string
	// Key signs every delivery (Standard Webhooks, v1a); nil: no such signature. See KeyFile.
	Key ed25519.PrivateKey
	// Secret signs every delivery with a secret that all receivers share, whsec_ and 24 to 64 bytes in base64
	// (Standard Webhooks, v1). Whoever has it can forge deliveries: Key is the better choice.
	Secret string
	// AllowPrivate takes webhooks over plain http and at loopback and private addresses. It is for
	// development: it opens the network of this host to whoever may register a webhook.
	AllowPrivate bool
	// Allow reports whether a caller may register webhooks at an origin, such as https://hooks.example or
	// https://hooks.example:8443. It is asked at registration. Nil: every public https origin on port 443 is allowed to every caller.
	Allow func(caller a2a.Caller, origin string) bool
	// Challenge wants every receiver to echo a random word, see ChallengeHeader, before it gets the first event of a
	// registration. One that does not gets nothing.
	Challenge bool
	// PerTask is how many webhooks a task may have: 10.
	PerTask int
	// MaxFailures is how many attempts in a row may fail before a webhook is given up: 20.
	MaxFailures int
	// Timeout is how long one attempt may take, the answer included: 10 s.
	Timeout time.Duration
	// Meter makes the instruments a2a.push.*; nil: that of OpenTelemetry's global provider.
	Meter metric.Meter
	// Log gets what goes wrong, without credentials, tokens, bodies or paths of URLs; nil: slog.Default.
	Log *slog.Logger
}

// Bounds of the deliveries, all of them together and to one origin.
const (
	maxTurns       = 64
	maxPerOrigin   = 4
	maxIdleOrigins = 4096
)

// Times of a Push.
const (
	pollEvery   = 10 * time.Second // for hints that were lost
	scanEvery   = time.Minute      // for webhooks that nobody told of
	recordTime  = 10 * time.Second // for the store to record a delivery
	storeRetry  = 5 * time.Second  // after an error of the store
	expectation = time.Minute      // for a prepared webhook to be committed
)

// Push keeps the webhooks of one agent's tasks and delivers to them. Its methods are safe for concurrent use.
type Push struct {
	opts      Options
	store     taskstore.Store
	log       *slog.Logger
	guard     *netguard.Guard
	transport http.RoundTripper
	signer    signer
	meters    meters

	ctx    context.Context // of every attempt
	cancel context.CancelFunc
	turns  sync.WaitGroup
	loops  sync.WaitGroup
	look   chan struct{} // holds one hint that fresh is not empty
	unhint func()
	nodes  taskstore.Nodes // nil: no other process has the store

	// regs is held for reading while a registration changes in the store and in tasks, and for writing while
	// tasks are filled from the store, which would otherwise bring back what was just removed.
	regs sync.RWMutex

	mu       sync.Mutex
	node     string // under which the webhooks are delivered; empty: without nodes, or it is lost
	stopping bool
	started  bool
	tasks    map[string][]*delivery // those that are not done, by task id
	waiting  int64                  // how many those are
	expected map[string]*expected   // tasks that will get a webhook with the engine's own commit
	fresh    map[string]struct{}    // tasks to look at in the store
	origins  map[string]*origin
	limits   map[string]*rate.Limiter // by host
	limitMax int                      // at which those that limit nothing are dropped
	ready    [classes][]*origin       // that something can be sent to
	next     class                    // of ready, to be served next
	running  int
	ofClass  [classes]int // of running
}

// expected are the registrations that Prepare made for a task.
type expected struct {
	registrations map[string]struct{}
	since         time.Time
}

// New returns a Push that takes registrations. It delivers from Start on.
func New(opts Options) (*Push, error) {
	switch {
	case opts.Store == nil:
		return nil, errors.New("push: no Store")
	case opts.Agent == "":
		return nil, errors.New("push: no Agent")
	case opts.Key != nil && len(opts.Key) != ed25519.PrivateKeySize:
		return nil, fmt.Errorf("push: Key has %d bytes, an Ed25519 private key has %d", len(opts.Key), ed25519.PrivateKeySize)
	}
	orDefault(&opts.PerTask, 10)
	orDefault(&opts.MaxFailures, 20)
	orDefault(&opts.Timeout, 10*time.Second)
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	p := &Push{
		opts: opts, store: opts.Store, log: opts.Log.With("agent", opts.Agent),
		guard: netguard.New(netguard.Options{AllowPrivate: opts.AllowPrivate, AnyPort: opts.Allow != nil}),
		look:  make(chan struct{}, 1), unhint: func() {},
		tasks: map[string][]*delivery{}, expected: map[string]*expected{}, fresh: map[string]struct{}{},
		origins: map[string]*origin{}, limits: map[string]*rate.Limiter{}, limitMax: maxIdleOrigins,
	}
	p.nodes, _ = taskstore.As[taskstore.Nodes](opts.Store)
	p.transport = p.guard.Transport()
	p.signer.key = opts.Key
	var err error
	if opts.Secret != "" {
		if p.signer.secret, err = parseSecret(opts.Secret); err != nil {
			return nil, fmt.Errorf("push: Secret: %w", err)
		}
	}
	if err := p.meters.init(opts.Meter, p.count); err != nil {
		return nil, fmt.Errorf("push: instruments: %w", err)
	}
	if opts.AllowPrivate {
		p.log.Warn("WEBHOOKS MAY REACH PRIVATE ADDRESSES AND USE PLAIN HTTP: for development only, never where callers are not trusted")
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Start reads from the store what is not delivered and begins to deliver it, and whatever comes after. To call it again
// does nothing: a host calls it for its Config.Push.
func (p *Push) Start(ctx context.Context) error {
	p.mu.Lock()
	if p.started || p.stopping {
		p.mu.Unlock()
		return nil
	}
	p.started = true
	p.unhint = p.store.Notify(p.hint) // before the first scan, so that nothing falls between
	p.mu.Unlock()
	lost, err := p.begin(ctx)
	if err != nil {
		return fmt.Errorf("push: webhooks of agent %s: %w", p.opts.Agent, err)
	}
	p.loops.Go(func() { p.loop(lost) })
	return nil
}

// begin takes up what is not delivered.
func (p *Push) begin(ctx context.Context) (lost <-chan struct{}, err error) {
	if p.nodes == nil {
		return nil, p.scan(ctx)
	}
	if lost, err = p.join(ctx); err == nil {
		err = p.take(ctx)
	}
	return lost, err
}

// Shutdown ends the deliveries. Attempts that run may finish until ctx ends, and are then broken off and made again
// after the next Start. What was accepted is recorded before Shutdown returns. The store stays open.
func (p *Push) Shutdown(ctx context.Context) {
	p.mu.Lock()
	p.stopping = true
	unhint := p.unhint
	for _, ds := range p.tasks {
		for _, d := range ds {
			d.stopTimer()
		}
	}
	for _, o := range p.origins {
		o.stopTimer()
	}
	p.mu.Unlock()
	unhint()
	stop := context.AfterFunc(ctx, p.cancel)
	p.turns.Wait()
	stop()
	p.cancel()
	p.loops.Wait()
	if node := p.nodeName(); node != "" {
		if err := p.nodes.Leave(context.WithoutCancel(ctx), node); err != nil {
			p.log.Warn("this node could not leave in order: its webhooks wait until its time is over", "err", err)
		}
	}
	p.meters.end()
	if t, ok := p.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

func (p *Push) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// hint is told of tasks that got records.
func (p *Push) hint(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.tasks[task] {
		p.wake(d)
	}
	if p.expected[task] != nil {
		p.lookAt(task)
	}
}

// loop looks for webhooks that were committed by the engine, and for what was lost. What it asks the store ends when the
// node is lost: a store that hangs must not keep it from seeing that, and others may take the webhooks soon.
func (p *Push) loop(lost <-chan struct{}) {
	ctx, cancel := p.until(lost)
	defer func() { cancel() }()
	poll, scan, take := time.NewTicker(pollEvery), time.NewTicker(scanEvery), p.untilTake()
	defer poll.Stop()
	defer scan.Stop()
	for {
		var err error
		select {
		case <-p.ctx.Done():
			return
		case <-lost:
			if lost = p.rejoin(); lost == nil {
				return
			}
			cancel()
			ctx, cancel = p.until(lost)
			err = p.take(ctx)
		case <-take:
			err = p.take(ctx)
			take = p.untilTake()
		case <-p.look:
			err = p.lookAtFresh(ctx)
		case <-poll.C:
			p.expectAll()
			err = p.poll(ctx)
		case <-scan.C:
			p.forgetExpected()
			err = p.scan(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.log.Error("cannot look for webhooks", "err", err)
		}
	}
}

// lookAtFresh finds the webhooks of tasks whose commit was expected to bring one. What it misses by an error, the
// scan finds.
func (p *Push) lookAtFresh(ctx context.Context) error {
	p.mu.Lock()
	tasks := p.fresh
	p.fresh = map[string]struct{}{}
	p.mu.Unlock()
	p.regs.Lock()
	defer p.regs.Unlock()
	for task := range tasks {
		hooks, err := p.store.Outbox(ctx, p.opts.Agent, task, "", p.opts.PerTask)
		if err != nil {
			return err
		}
		for i := range hooks {
			if hooks[i].Key.Task == task {
				p.add(hooks[i])
			}
		}
	}
	return nil
}

// scan adds every webhook of the store that is not done.
func (p *Push) scan(ctx context.Context) error {
	const page = 256
	for task, id := "", ""; ; {
		p.regs.Lock()
		hooks, err := p.store.Outbox(ctx, p.opts.Agent, task, id, page)
		for i := range hooks {
			p.add(hooks[i])
		}
		p.regs.Unlock()
		if err != nil || len(hooks) < page {
			return err
		}
		last := hooks[len(hooks)-1]
		task, id = last.Key.Task, last.Config.ID
	}
}

// poll wakes the deliveries whose task's log has gone on without a hint.
func (p *Push) poll(ctx context.Context) error {
	var idle []*delivery
	var keys []taskstore.Key
	p.mu.Lock()
	for _, ds := range p.tasks {
		for _, d := range ds {
			if d.state == idleState {
				idle, keys = append(idle, d), append(keys, d.key)
			}
		}
	}
	p.mu.Unlock()
	const page = 256
	for len(keys) > 0 {
		n := min(page, len(keys))
		heads, err := p.store.Heads(ctx, keys[:n])
		if err != nil {
			return err
		}
		p.mu.Lock()
		for i, d := range idle[:n] {
			if d.state == idleState && d.hook.Delivered != heads[i] {
				p.wake(d)
			}
		}
		p.mu.Unlock()
		idle, keys = idle[n:], keys[n:]
	}
	return nil
}

// expect has the commit that brings the webhook looked at.
func (p *Push) expect(task, registration string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.expected[task]
	if e == nil {
		e = &expected{registrations: map[string]struct{}{}}
		p.expected[task] = e
	}
	e.registrations[registration] = struct{}{}
	e.since = time.Now()
}

// expectAll has all tasks looked at that are to get a webhook: a hint may have been lost.
func (p *Push) expectAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for task := range p.expected {
		p.lookAt(task)
	}
}

// lookAt has a task looked at in the store.
func (p *Push) lookAt(task string) {
	p.fresh[task] = struct{}{}
	select {
	case p.look <- struct{}{}:
	default:
	}
}

// met takes a registration off those that are expected.
func (p *Push) met(task, registration string) {
	if e := p.expected[task]; e != nil {
		delete(e.registrations, registration)
		if len(e.registrations) == 0 {
			delete(p.expected, task)
		}
	}
}

// forgetExpected forgets what was prepared and never committed.
func (p *Push) forgetExpected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for task, e := range p.expected {
		if time.Since(e.since) > expectation {
			delete(p.expected, task)
		}
	}
}
