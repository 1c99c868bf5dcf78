// Package server is the host's engine: a2a.Service over an agent and a store. It validates, records, runs,
// cancels, reads and expires; a task's log in the store is the only thing it tells anybody from.
package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/taskstore"
)

// Config says what to serve. Agent, Name, Store and Card are required.
type Config struct {
	// Agent does the work.
	Agent agent.Agent
	// Name is the agent's routing word on this host. Tasks are kept under it: it must stay the same.
	Name string
	// Store keeps the tasks.
	Store taskstore.Store
	// Card returns the agent's card. Its capabilities, input modes and extensions decide what is served.
	Card func() *a2a.AgentCard
	// ExtendedCard returns the card for an authenticated caller; nil where none is configured.
	ExtendedCard func(context.Context, a2a.Caller) (*a2a.AgentCard, error)
	// Push keeps webhook registrations; nil where push notifications are not configured.
	Push PushConfigs
	// NoAnonymousLists refuses ListTasks to anonymous callers, who are strangers to each other.
	NoAnonymousLists bool
	// Log gets what callers do not. Nil: slog.Default.
	Log    *slog.Logger
	Limits Limits
	Times  Times
	// Retain is how long finished tasks are kept, 30 days by default, and Replay how long their logs are, 24 hours by
	// default: so long a stream can be resumed. Negative: for ever.
	Retain, Replay time.Duration
	// Queue is how many messages may wait for a task that is working until it can take one. Zero: such a
	// message is refused.
	Queue int
}

// Limits bound what one caller can use. Zero means the default.
type Limits struct {
	Parts     int   // of a message: 64
	ID        int   // bytes of an id that a client makes: 128
	PageSize  int   // of lists: 100
	PageBytes int   // content of a list's page, about, which then has fewer tasks: 4 MiB
	Running   int   // tasks of one caller that run; more wait as SUBMITTED: 20
	Waiting   int   // tasks of one caller that wait for a turn; more are refused: 1,000
	Parked    int   // tasks of one caller that wait for an answer; at this number new ones are refused: 1,000
	Artifacts int64 // bytes of all artifacts of a task: 64 MiB
}

// Times are how long the engine waits. Zero means the default.
type Times struct {
	CancelGrace time.Duration // for a run to clean up that was canceled, or cut short by a stop: 5 s
	Silence     time.Duration // for a sign of life of a run, before it is failed: 10 min
	Answer      time.Duration // for an answer to an interrupted task, before it is failed: 7 days
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (l *Limits) defaults() {
	orDefault(&l.Parts, 64)
	orDefault(&l.ID, 128)
	orDefault(&l.PageSize, 100)
	orDefault(&l.PageBytes, 4<<20)
	orDefault(&l.Running, 20)
	orDefault(&l.Waiting, 1000)
	orDefault(&l.Parked, 1000)
	orDefault(&l.Artifacts, 64<<20)
}

func (t *Times) defaults() {
	orDefault(&t.CancelGrace, 5*time.Second)
	orDefault(&t.Silence, 10*time.Minute)
	orDefault(&t.Answer, 7*24*time.Hour)
}

// ErrShutdown is the cause of a run's context when the host shuts down.
var ErrShutdown = errors.New("server: the host is shutting down")

// Server implements a2a.Service.
type Server struct {
	cfg     Config
	log     *slog.Logger
	store   taskstore.Store
	follow  *taskstore.Follower
	turns   turns
	sends   sends
	workers workers

	ctx  context.Context // of every run
	stop context.CancelCauseFunc

	nodes    taskstore.Nodes // nil: no other process has the store
	attended chan struct{}   // closed when nobody attends to the node any more
	swept    chan struct{}   // closed when the sweeper has ended
	queued   atomic.Int64    // messages that wait for a working task
	dropped  atomic.Int64    // writes of runs that had lost their task
	told     atomic.Int64    // when it was last logged that the store can record nothing
	handling atomic.Int64    // calls of the agent's Handle that have not returned
	handled  chan struct{}   // has a place for the news that there is none any more

	mu      sync.Mutex
	node    string            // the name that holds the leases; empty: it is lost
	runs    map[string][]*run // of this process, by task id: the one at work, and those about to take the task
	closing bool
}

var _ a2a.Service = (*Server)(nil)

// New returns a server that is ready: what an earlier process left behind is settled, see [Server.recover].
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Agent == nil:
		return nil, errors.New("server: no Agent")
	case cfg.Name == "":
		return nil, errors.New("server: no Name")
	case cfg.Store == nil:
		return nil, errors.New("server: no Store")
	case cfg.Card == nil:
		return nil, errors.New("server: no Card")
	}
	cfg.Limits.defaults()
	cfg.Times.defaults()
	orDefault(&cfg.Retain, 30*24*time.Hour)
	orDefault(&cfg.Replay, 24*time.Hour)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	ctx, stop := context.WithCancelCause(context.Background())
	s := &Server{
		cfg: cfg, log: cfg.Log.With("agent", cfg.Name), store: cfg.Store,
		follow: taskstore.NewFollower(cfg.Store, time.Second),
		ctx:    ctx, stop: stop,
		node: uuid.NewString(), attended: make(chan struct{}),
		runs: map[string][]*run{}, swept: make(chan struct{}), handled: make(chan struct{}, 1),
	}
	s.nodes, _ = taskstore.As[taskstore.Nodes](cfg.Store)
	s.turns.limits = cfg.Limits
	s.workers = workers{next: make(chan func()), stop: ctx.Done()}
	var lost <-chan struct{}
	var err error
	if s.nodes != nil {
		lost, err = s.join(ctx)
	}
	if err == nil {
		err = s.recover(ctx)
	}
	if err != nil {
		s.halt(err)
		s.follow.Close(err)
		return nil, err
	}
	go s.sweep()
	if s.nodes != nil {
		go s.attend(lost)
	} else {
		close(s.attended)
	}
	return s, nil
}

// Shutdown ends the server: no new message is taken, what runs may finish until ctx ends, and what then still runs
// is recorded as FAILED, interrupted by a restart, or left to be run again where the agent is restartable. So is at
// once what waits for an answer in Ask. Tasks that wait for a turn keep waiting; where several processes share the store,
// another takes them. Then all calls of Handle that are left have Times.CancelGrace to return, so that the agent can clean up:
// programs that it runs must not outlive the process. The store stays open.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closing = true
	left := slices.Concat(slices.Collect(maps.Values(s.runs))...)
	s.mu.Unlock()
	for _, r := range left {
		if r.asking.Load() { // no answer can come any more
			r.interrupt()
		}
	}
	for _, r := range left {
		select {
		case <-r.done:
		case <-ctx.Done():
			r.interrupt()
		}
	}
	s.halt(ErrShutdown)
	s.follow.Close(shuttingDown())
	<-s.swept
	<-s.attended
	s.returned() // before others begin the turns again that this node leaves
	if node := s.nodeName(); s.nodes != nil && node != "" {
		if err := s.nodes.Leave(context.WithoutCancel(ctx), node); err != nil {
			s.log.Warn("this node could not leave in order: others wait until its time is over", "err", err)
		}
	}
}

// returned waits until no Handle is at work any more, but no longer than the grace: their contexts have ended.
func (s *Server) returned() {
	grace := time.NewTimer(s.cfg.Times.CancelGrace)
	defer grace.Stop()
	for s.handling.Load() > 0 {
		select {
		case <-s.handled:
		case <-grace.C:
			s.log.Warn("the host stops, and calls of the agent's Handle have not returned, though their contexts have ended: what they began may go on",
				"calls", s.handling.Load(), "waited", s.cfg.Times.CancelGrace)
			return
		}
	}
}

// halt ends the context of the server and those of the runs, also of the ones whose end is recorded already.
func (s *Server) halt(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, runs := range s.runs {
		for _, r := range runs {
			r.cancel(cause)
		}
	}
	s.stop(cause)
}

// Lost reports whether this process has lost a store that several share, and has not joined it anew: what is asked for then
// fails as unavailable.
func (s *Server) Lost() bool { return s.nodes != nil && s.nodeName() == "" }

func shuttingDown() error {
	return &a2a.Error{Code: a2a.ErrUnavailable, Message: "the host is shutting down: try again", RetryAfter: 5 * time.Second}
}

// call is what the operations know of the one who calls.
type call struct {
	info   *a2a.CallInfo
	caller a2a.Caller
	scope  taskstore.Scope
	card   *a2a.AgentCard
	sent   *taskstore.Sent // what to record of the message that is being taken, under safe-retry
}

// begin is the one point that every operation passes before it looks at anything: who calls, whose tasks
// those are, and whether the extensions fit.
func (s *Server) begin(ctx context.Context, tenant string) (call, error) {
	c := call{info: a2a.CallInfoFrom(ctx), card: s.cfg.Card()}
	if c.info == nil {
		c.info = &a2a.CallInfo{Version: a2a.Version}
	}
	c.caller = c.info.Caller
	c.scope = taskstore.Scope{Agent: s.cfg.Name, Tenant: c.caller.Tenant, Owner: c.caller.Owner()}
	if tenant != "" && tenant != s.cfg.Name {
		return c, a2a.InvalidField("tenant", "no agent has this name: use the tenant that the agent card gives for the interface, or none")
	}
	c.info.Activated = nil
	var missing []string
	for _, x := range c.card.Capabilities.Extensions {
		has := slices.Contains(c.info.Extensions, x.URI)
		if x.URI == extension.SafeRetry && c.caller.Anonymous() && s.cfg.NoAnonymousLists {
			has = false // strangers may use the same ids
		}
		if has {
			c.info.Activated = append(c.info.Activated, x.URI)
		} else if x.Required {
			missing = append(missing, x.URI)
		}
	}
	if len(missing) > 0 {
		e := a2a.Errorf(a2a.ErrExtensionSupportRequired, "this agent requires the extension %s: declare it in the header %s", missing[0], a2a.ExtensionsHeader)
		e.Metadata = map[string]string{"extension": missing[0]}
		return c, e
	}
	return c, nil
}

func (c *call) key(task string) taskstore.Key { return taskstore.Key{Scope: c.scope, Task: task} }

// internal turns an error of the store into what a caller may read. The cause stays with it, for the log.
func internal(err error) error {
	if err == nil || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, taskstore.ErrUnavailable) { // that deadline is the store's own
		return err
	}
	var known *a2a.Error
	if errors.As(err, &known) {
		return err
	}
	var code a2a.ErrorCode
	if errors.As(err, &code) {
		return a2a.AsError(err)
	}
	switch {
	case errors.Is(err, taskstore.ErrUnavailable):
		return (&a2a.Error{
			Code: a2a.ErrUnavailable, Message: "the host cannot record anything now: try again later", RetryAfter: 5 * time.Second,
		}).WithCause(err)
	case errors.Is(err, taskstore.ErrFenced): // the node was lost at this moment
		return nodeLost()
	}
	return (&a2a.Error{Code: a2a.ErrInternal}).WithCause(err)
}

// tells reports whether an error of the store is to be logged: one that may pass, such as a full disk, once a minute,
// however many tasks meet it.
func (s *Server) tells(err error) bool {
	if !errors.Is(err, taskstore.ErrUnavailable) {
		return true
	}
	now := time.Now().UnixNano()
	last := s.told.Load()
	return (last == 0 || now-last >= int64(time.Minute)) && s.told.CompareAndSwap(last, now)
}

func notFound(id string) error {
	return &a2a.Error{Code: a2a.ErrTaskNotFound, Message: "no such task", Metadata: map[string]string{"taskId": clip(id)}}
}

// clip bounds what of a caller's words goes back to it.
func clip(s string) string {
	if len(s) > 128 {
		return s[:128]
	}
	return s
}

// now is the time as it goes into a status: what the wire can carry.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // no random numbers: nothing is safe any more
		panic(err)
	}
	return id.String()
}

// errorID is what a caller reads in place of a cause, and the log has beside it.
func errorID() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
