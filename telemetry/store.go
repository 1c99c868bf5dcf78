package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Store returns next with metrics:
//
//   - a2a.store.operation.duration: how long Commit, Task, Entries and List take, by method and outcome: "ok",
//     "ERROR" for a fault of the store, UNAVAILABLE for one that may pass, CANCELED for a context that ended, and the
//     store's verdicts, such as CONFLICT, which are its ordinary work.
//   - a2a.task.created and a2a.task.ended, the latter by state: what the commits were about.
//
// The other methods are next's own.
func Store(next taskstore.Store, opts Options) taskstore.Store {
	m := opts.meter()
	return &store{
		Store: next,
		duration: made(m.Float64Histogram("a2a.store.operation.duration", shortBuckets,
			metric.WithUnit("s"), metric.WithDescription("Duration of the store's commits and reads."))),
		created: made(m.Int64Counter("a2a.task.created",
			metric.WithUnit("{task}"), metric.WithDescription("Tasks that were recorded."))),
		ended: made(m.Int64Counter("a2a.task.ended",
			metric.WithUnit("{task}"), metric.WithDescription("Tasks that reached a terminal state."))),
	}
}

type store struct {
	taskstore.Store
	duration       metric.Float64Histogram
	sets           sets
	created, ended metric.Int64Counter
}

// Unwrap lets taskstore.As find what the store underneath is besides.
func (s *store) Unwrap() taskstore.Store { return s.Store }

// Commit implements taskstore.Store.
func (s *store) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	start := s.start(ctx)
	rec, err := s.Store.Commit(ctx, c)
	s.record(ctx, "Commit", start, err)
	if err == nil {
		s.count(ctx, &c)
	}
	return rec, err
}

// Task implements taskstore.Store.
func (s *store) Task(ctx context.Context, key taskstore.Key, at int64) (taskstore.Snapshot, error) {
	start := s.start(ctx)
	snap, err := s.Store.Task(ctx, key, at)
	s.record(ctx, "Task", start, err)
	return snap, err
}

// Entries implements taskstore.Store.
func (s *store) Entries(ctx context.Context, key taskstore.Key, after int64, limit int) ([]taskstore.Record, error) {
	start := s.start(ctx)
	records, err := s.Store.Entries(ctx, key, after, limit)
	s.record(ctx, "Entries", start, err)
	return records, err
}

// List implements taskstore.Store.
func (s *store) List(ctx context.Context, q taskstore.Query) (taskstore.Page, error) {
	start := s.start(ctx)
	page, err := s.Store.List(ctx, q)
	s.record(ctx, "List", start, err)
	return page, err
}

// start returns when an operation starts, zero if nobody wants to know.
func (s *store) start(ctx context.Context) time.Time {
	if !s.duration.Enabled(ctx) {
		return time.Time{}
	}
	return time.Now()
}

func (s *store) record(ctx context.Context, method string, start time.Time, err error) {
	if start.IsZero() {
		return
	}
	took, outcome := time.Since(start), outcomeOfStore(ctx, err)
	s.duration.Record(ctx, took.Seconds(), s.sets.of([3]string{method, outcome}, func() []attribute.KeyValue {
		return []attribute.KeyValue{methodKey.String(method), outcomeKey.String(outcome)}
	}))
}

// count counts the tasks that a commit made and ended. A terminal record is the last of its change.
func (s *store) count(ctx context.Context, c *taskstore.Change) {
	if c.Create {
		s.created.Add(ctx, 1)
	}
	if len(c.Records) == 0 || !s.ended.Enabled(ctx) {
		return
	}
	var st a2a.TaskState
	switch ev := c.Records[len(c.Records)-1].Event.(type) {
	case *a2a.Task:
		st = ev.Status.State
	case *a2a.TaskStatusUpdateEvent:
		st = ev.Status.State
	case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
	}
	if st.Terminal() {
		s.ended.Add(ctx, 1, metric.WithAttributes(stateKey.String(st.String())))
	}
}

// verdicts are the errors with which a store says how things stand, rather than that something is wrong with it.
var verdicts = []struct {
	err  error
	name string
}{
	{taskstore.ErrNotFound, "NOT_FOUND"},
	{taskstore.ErrExists, "EXISTS"},
	{taskstore.ErrConflict, "CONFLICT"},
	{taskstore.ErrTerminal, "TERMINAL"},
	{taskstore.ErrFenced, "FENCED"},
	{taskstore.ErrHeld, "HELD"},
	{taskstore.ErrNotHeld, "NOT_HELD"},
	{taskstore.ErrLatched, "LATCHED"},
	{taskstore.ErrCommitted, "COMMITTED"},
	{taskstore.ErrTrimmed, "TRIMMED"},
	{taskstore.ErrBadToken, "BAD_TOKEN"},
	{taskstore.ErrSent, "SENT"},
	{taskstore.ErrUnavailable, "UNAVAILABLE"}, // not a verdict, but the one fault with a word of its own
}

func outcomeOfStore(ctx context.Context, err error) string {
	if err == nil {
		return outcomeOK
	}
	for _, v := range verdicts {
		if errors.Is(err, v.err) {
			return v.name
		}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return a2a.ErrCanceled.Reason()
	}
	return "ERROR"
}
