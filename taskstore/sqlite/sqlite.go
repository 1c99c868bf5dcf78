// Package sqlite keeps tasks in one SQLite file: the store of a host on one machine, which loses nothing that
// it acknowledged.
//
// Every task is its log. What a commit adds goes to the end of the table log, a row of the table tasks says
// where the task stands in lists and who holds it, and a snapshot is written when the task ends and whenever
// the log since the last one has outgrown it. One goroutine writes: it takes what queued during its last
// transaction and puts that into the next, so that many commits share one fsync. Readers have connections of
// their own and never wait for it. What was written or read lately is also in memory, so that a task at work
// is read from there.
//
// What [Store.Expire] deletes leaves its pages to what comes after: the file does not become smaller, and does not
// grow while as much goes as comes. [Backup] writes a copy without them.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/parley-a2a/parley/taskstore"
)

// Durability says what a commit survives.
type Durability int

const (
	// Full survives the end of the process and of the machine's power, as far as the disk keeps its word.
	Full Durability = iota
	// Normal survives the end of the process. A power failure may undo the last commits, and never a part of
	// one.
	Normal
)

// Options sets up a store. The zero value means the defaults.
type Options struct {
	Durability Durability
	// Node names this process to another one that finds the file in use.
	Node string
	// Log gets what goes wrong with the file; slog.Default if nil.
	Log *slog.Logger
	// ContextTTL is how long an unused context keeps its values, 90 days by default.
	ContextTTL time.Duration
	// CacheBytes bounds the tasks kept in memory, counted as JSON: 64 MiB by default.
	CacheBytes int64
}

// Store is a [taskstore.Store] in a file.
type Store struct {
	path string
	opts Options
	lock *os.File

	queue   queue
	ended   chan struct{} // closed when the writer has ended
	readers chan *conn    // those that nobody uses
	all     []*conn       // of the readers
	closing chan struct{} // closed when no read may begin

	// What only the writer uses.
	w                   *conn
	place               place
	looked              time.Time // at place
	misplaced           error
	lastTask, lastScope int64 // ids in use
	failing             bool
	transactions        atomic.Int64

	mu     sync.RWMutex // held by the writer while it publishes what it committed
	tasks  *cache
	fronts fronts // has its own lock
	scopes map[taskstore.Scope]*scope
	steps  int64 // of Expire that deleted something

	notifyMu sync.RWMutex
	notify   map[int]func(string)
	nextID   int
}

// scope is a scope that was written to. Its totals are those of the table.
type scope struct {
	id     int64
	totals [9]int64 // by state
}

// maxScopes is how many scopes are kept in memory.
const maxScopes = 1 << 16

// Open opens the store in the file at path and makes it, and its folder, if there is none. The file is this
// process's alone until Close: ErrInUse if another has it. The other errors are ErrNotDatabase, ErrCorrupt,
// ErrReadOnly, ErrNewer and ErrLibrary; they leave the database as it was.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	if err := checkLibrary(lib.SQLITE_VERSION_NUMBER); err != nil {
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.ContextTTL <= 0 {
		opts.ContextTTL = 90 * 24 * time.Hour
	}
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = 64 << 20
	}
	path, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("taskstore/sqlite: %w", err)
	}
	s := &Store{
		path: path, opts: opts, tasks: newCache(opts.CacheBytes), fronts: fronts{limit: opts.CacheBytes / 4}, scopes: map[taskstore.Scope]*scope{},
		notify: map[int]func(string){}, ended: make(chan struct{}), closing: make(chan struct{}),
		readers: make(chan *conn, max(4, runtime.GOMAXPROCS(0))),
	}
	s.queue.wake = make(chan struct{}, 1)
	if s.lock, err = lock(path, opts.Node); err != nil {
		return nil, fault(path, err)
	}
	if err := s.open(ctx); err != nil {
		_ = s.release()
		return nil, fault(path, err)
	}
	go s.write()
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := checkFile(s.path); err != nil {
		return err
	}
	if err := migrate(ctx, s.path, s.opts.Log); err != nil {
		return err
	}
	sync := "synchronous(full)"
	if s.opts.Durability == Normal {
		sync = "synchronous(normal)"
	}
	var err error
	if s.place, err = placeOf(s.path, s.lock); err != nil {
		return err
	}
	if s.w, err = connect(ctx, s.path, sync, "cache_size(-16000)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)"); err != nil {
		return err
	}
	if err := s.w.prepare(append(s.w.reads.sources(), s.w.writes.sources()...)); err != nil {
		return &trouble{s.path, ErrSchema, err}
	}
	for q, n := range map[*stmt]*int64{s.w.lastTask: &s.lastTask, s.w.lastScope: &s.lastScope} {
		if err := q.query(readInt(n)); err != nil {
			return err
		}
	}
	for range cap(s.readers) {
		r, err := connect(ctx, s.path, "query_only(1)", "cache_size(-4000)")
		if err != nil {
			return err
		}
		s.all = append(s.all, r)
		s.readers <- r
		if err := r.prepare(r.reads.sources()); err != nil {
			return err
		}
	}
	return nil
}

// release closes what open opened, the connections of reads that have begun when they are done.
func (s *Store) release() error {
	var errs []error
	for range s.all {
		errs = append(errs, (<-s.readers).Close())
	}
	if s.w != nil {
		errs = append(errs, s.w.Close()) // the last one: SQLite moves the WAL into the database
	}
	return errors.Join(append(errs, unlockFile(s.lock))...)
}

// Close commits what was queued and ends the store. What comes after is refused with ErrClosed.
func (s *Store) Close() error {
	if !s.queue.close() {
		return nil
	}
	<-s.ended
	close(s.closing)
	return fault(s.path, s.release())
}

// Notify implements [taskstore.Store].
func (s *Store) Notify(f func(task string)) (stop func()) {
	s.notifyMu.Lock()
	defer s.notifyMu.Unlock()
	id := s.nextID
	s.nextID++
	s.notify[id] = f
	return func() {
		s.notifyMu.Lock()
		defer s.notifyMu.Unlock()
		delete(s.notify, id)
	}
}

const (
	minuteMS = 60_000
	hourMS   = 60 * minuteMS
)

// floor is the hour or minute that the counters count a status time under.
func floor(ms, unit int64) int64 {
	n := ms / unit
	if ms%unit < 0 {
		n--
	}
	return n
}

var _ taskstore.Store = (*Store)(nil)
