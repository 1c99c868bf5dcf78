// Package postgres keeps tasks in a PostgreSQL database (15 or newer): the store of hosts that share their tasks.
//
// Every task is its log, as in package sqlite, and any node may read and write any task. What a commit changes is
// decided inside its transaction, under the lock of the task's row: there a lease is claimed once, and there a writer
// whose epoch is over is refused. Each process has one writer, which takes what queued during its last transaction and
// puts that into the next: two round trips and one fsync for many commits. Nodes tell each other of new records by
// NOTIFY, after the commit and in a transaction of its own, or by other means (see [Hints]); such hints may be lost, the log may not.
//
// A node is a name under which a process holds leases. [Store.Join] keeps it alive, by the database's clock, and
// tells when it is not any longer; [Store.Unsettled] finds what nodes that are gone have left.
//
// The URL says where the database is, who one is there and whether the connection is encrypted (sslmode, sslrootcert,
// …); what it leaves out comes from the environment (PGPASSWORD, PGPASSFILE, PGSSLMODE, …). Neither is ever logged.
// A pooler in between must keep sessions: LISTEN needs one. What synchronous_commit says on the server is what a
// commit survives.
package postgres

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-a2a/parley/taskstore"
)

// Options sets up a store. The zero value means the defaults.
type Options struct {
	// Log gets what goes wrong with the database; slog.Default if nil.
	Log *slog.Logger
	// ContextTTL is how long an unused context keeps its values, 90 days by default.
	ContextTTL time.Duration
	// Hints carries hints between the processes that share the database; nil: the database does, by NOTIFY.
	Hints Hints
	// CacheBytes bounds the tasks kept in memory, counted as JSON: 64 MiB by default.
	CacheBytes int64
}

// Store is a [taskstore.Store] in a database.
type Store struct {
	opts  Options
	id    string        // of this process, a UUID
	where string        // the database, without secrets
	pool  *pgxpool.Pool // for all but commits
	slot  int16         // of the counters

	queue   queue
	ended   chan struct{}  // closed when the writer has ended
	closing chan struct{}  // closed when nothing may begin
	others  sync.WaitGroup // the goroutines beside the writer

	// What only the writer uses.
	writer             *pgxpool.Pool
	nextTask, lastTask int64 // numbers for new tasks
	batches            int64
	failing            bool
	transactions       atomic.Int64

	mu      sync.RWMutex
	scopes  map[taskstore.Scope]int64 // those that are known to have a row
	tasks   *cache
	members map[string]*member

	hints    hints
	notifyMu sync.RWMutex
	notify   map[int]func(string)
	nextID   int
}

// maxScopes is how many scopes are kept in memory.
const maxScopes = 1 << 16

// Open opens the store in the database that a URL (postgres://…) or a list of key=value names, and brings the schema
// to that of this version: one process at a time, whatever the number of those that start. The schema is made in the
// first one of search_path. The errors are ErrUnreachable, ErrDenied, ErrReadOnly, ErrOldServer and ErrNewer.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.ContextTTL <= 0 {
		opts.ContextTTL = 90 * 24 * time.Hour
	}
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = 64 << 20
	}
	cfg, err := configure(url)
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts: opts, id: uuid.NewString(), where: place(cfg.ConnConfig), slot: int16(rand.IntN(slots)), //nolint:gosec // any will do
		scopes: map[taskstore.Scope]int64{}, tasks: newCache(opts.CacheBytes), members: map[string]*member{},
		notify: map[int]func(string){}, ended: make(chan struct{}), closing: make(chan struct{}),
	}
	s.queue.wake = make(chan struct{}, 1)
	s.hints = hints{due: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	if err := migrate(ctx, cfg.ConnConfig, opts.Log); err != nil {
		return nil, s.fault(err)
	}
	if err := s.connect(ctx, cfg); err != nil {
		return nil, s.fault(err)
	}
	go s.write()
	s.others.Go(s.sendHints)
	return s, nil
}

// settings are those of every session, and planned those of the writer's besides, unless the URL has others.
var (
	settings = map[string]string{
		"application_name":                    "parley",
		"idle_in_transaction_session_timeout": "10s", // a node that is cut off holds no locks
	}
	// The statements of a commit find each row by a unique key. They are planned once: to do so each time costs the
	// server a third more. The rest keeps a plan that was made when a table was small from reading all of it.
	planned = map[string]string{
		"plan_cache_mode":  "force_generic_plan",
		"enable_seqscan":   "off",
		"enable_hashjoin":  "off",
		"enable_mergejoin": "off",
		"jit":              "off",
	}
)

// set sets what the URL does not.
func set(cfg *pgxpool.Config, settings map[string]string) {
	for name, value := range settings {
		if _, said := cfg.ConnConfig.RuntimeParams[name]; !said {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
}

// configure reads a URL.
func configure(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &trouble{"the URL", errURL, nil} // what pgx says of it could show a part of a password
	}
	set(cfg, settings)
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = int32(max(8, 2*runtime.GOMAXPROCS(0)))
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = attempt
	}
	return cfg, nil
}

// connect makes the pools. Their connections are made when they are needed.
func (s *Store) connect(ctx context.Context, cfg *pgxpool.Config) (err error) {
	ctx = context.WithoutCancel(ctx)
	commits := cfg.Copy()
	commits.MaxConns = 2 // the second one asks what became of the first
	set(commits, planned)
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	s.writer, err = pgxpool.NewWithConfig(ctx, commits)
	return err
}

// Close commits what was queued and ends the store; its nodes are gone at once. What comes after is refused with
// ErrClosed.
func (s *Store) Close() error {
	if !s.queue.close() {
		return nil
	}
	<-s.ended
	close(s.closing)
	s.others.Wait()
	s.mu.RLock()
	nodes := slices.Collect(maps.Keys(s.members))
	s.mu.RUnlock()
	err := s.leave(context.Background(), nodes...)
	s.writer.Close()
	s.pool.Close()
	return err
}

// Notify implements [taskstore.Store]. The first call begins to listen to the other nodes.
func (s *Store) Notify(f func(task string)) (stop func()) {
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	if s.nextID == 0 && !s.closed() {
		s.others.Go(s.listen)
	}
	id := s.nextID
	s.nextID++
	s.notify[id] = f
	return func() {
		s.notifyMu.Lock()
		defer s.notifyMu.Unlock()
		delete(s.notify, id)
	}
}

// tell calls those who wait for records of a task.
func (s *Store) tell(task string) {
	s.notifyMu.RLock()
	defer s.notifyMu.RUnlock()
	for _, f := range s.notify {
		f(task)
	}
}

var (
	_ taskstore.Store = (*Store)(nil)
	_ taskstore.Nodes = (*Store)(nil)
)
