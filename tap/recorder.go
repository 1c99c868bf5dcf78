// Package tap sees what passes between an agent and its clients. [Tap] is a proxy for the agent on all three bindings that
// forwards bytes as they come; [Recorder] is the middleware that copies them on their way, judges them by package rules,
// and keeps them: the last in memory, all of them in a file.
//
// One goroutine makes exchanges of the copied bytes, beside the traffic: what is forwarded never waits for it, and no
// fault of it, such as a full disk, reaches the traffic.
package tap

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// Options is how a [Recorder] works. The zero value keeps the last exchanges in memory and writes no file.
type Options struct {
	Card   *a2a.AgentCard // of the agent: its interfaces say which binding a path is, its schemes what is secret
	Redact []string       // names of headers, members, and query parameters that are secret too

	File   string // to record into, see [Read]; it must not exist. Empty: none.
	Rotate int64  // bytes after which the next file begins; zero: [DefaultRotate]

	MaxExchanges int   // in memory; zero: [DefaultMaxExchanges]
	MaxBytes     int64 // of bodies and frames in memory; zero: [DefaultMaxBytes]

	Log *slog.Logger // gets a line for every exchange, and one for every broken clause; nil: none
}

// The defaults of [Options].
const (
	DefaultRotate       = 256 << 20
	DefaultMaxExchanges = 10_000
	DefaultMaxBytes     = 64 << 20
)

// maxQueue is how many copied bytes may wait to be recorded. Beyond it bytes are forwarded and not recorded, and their
// exchange says so: it takes a disk or a processor that stands still.
const maxQueue = 256 << 20

// perExchange is what an exchange takes in memory besides its bodies, about.
const perExchange = 2 << 10

// Recorder makes exchanges of what passes through its [Recorder.Handler].
type Recorder struct {
	opts     Options
	log      *slog.Logger
	redact   *redactor
	routes   []route
	cardPath string
	now      func() time.Time

	lastID atomic.Int64
	ended  chan struct{} // closed when run has returned

	qmu    sync.Mutex
	queue  []note
	queued int64
	wake   chan struct{} // has room for one
	closed bool

	// Of the goroutine of run.
	file *file

	mu      sync.Mutex
	window  []*Exchange // in the order of their ids; immutable
	byID    map[int64]*Exchange
	bytes   int64
	version int64
	changed chan struct{}
	status  Status
}

// Status is how the recording goes.
type Status struct {
	File      string `json:"file,omitempty"` // that is written to now; empty: none
	FileError string `json:"fileError,omitempty"`
	Exchanges int64  `json:"exchanges"` // that ended
	Must      int    `json:"must"`      // findings of this level
	Should    int    `json:"should"`
	Lost      int64  `json:"lost,omitempty"` // bytes that passed unrecorded, because the recorder could not keep up
}

// NewRecorder starts a recorder. It runs until Close.
func NewRecorder(opts Options) (*Recorder, error) {
	r := &Recorder{
		opts: opts, log: opts.Log, redact: newRedactor(opts.Card, opts.Redact), routes: routesOf(opts.Card), cardPath: a2a.CardPath, now: time.Now,
		ended: make(chan struct{}), wake: make(chan struct{}, 1), byID: map[int64]*Exchange{}, changed: make(chan struct{}),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.opts.MaxExchanges <= 0 {
		r.opts.MaxExchanges = DefaultMaxExchanges
	}
	if r.opts.MaxBytes <= 0 {
		r.opts.MaxBytes = DefaultMaxBytes
	}
	if opts.File != "" {
		var err error
		if r.file, err = create(opts.File, opts.Rotate); err != nil {
			return nil, err
		}
		r.status.File = opts.File
	}
	go r.run()
	return r, nil
}

// Close records what has passed so far and closes the file. What still passes is forwarded, not recorded.
func (r *Recorder) Close() error {
	r.qmu.Lock()
	r.closed = true
	r.qmu.Unlock()
	r.poke()
	<-r.ended
	if s := r.Status(); s.FileError != "" {
		return fmt.Errorf("tap: the recording stopped: %s", s.FileError)
	}
	return nil
}

// Status returns how the recording goes.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Exchanges returns the exchanges in memory that changed after the version, in the order of their changes, and at most
// limit of them (zero: all). A reader passes the version of the last one that it got, at first 0. What it gets must not
// be changed.
func (r *Recorder) Exchanges(after int64, limit int) []*Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*Exchange
	for _, x := range r.window {
		if x.Version > after {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *Exchange) int { return int(a.Version - b.Version) })
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out
}

// Exchange returns the exchange with the id, or nil where it is not in memory (any more).
func (r *Recorder) Exchange(id int64) *Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// Changed returns a channel that is closed at the next change of any exchange, or of the status. Take it before
// [Recorder.Exchanges], so that no change falls in between.
func (r *Recorder) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// push hands a note to the recorder. It never waits.
func (r *Recorder) push(n note) {
	r.qmu.Lock()
	defer r.qmu.Unlock()
	switch {
	case r.closed:
		return
	case len(n.data) == 0:
	case n.p.torn || r.queued+int64(len(n.data)) > maxQueue:
		n.p.torn = true // what comes after a gap could not be cut into frames
		n.p.lost += int64(len(n.data))
		return
	}
	r.queued += int64(len(n.data))
	r.queue = append(r.queue, n)
	if len(r.queue) == 1 {
		r.poke()
	}
}

func (r *Recorder) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns what waits.
func (r *Recorder) take() (batch []note, closed bool) {
	r.qmu.Lock()
	defer r.qmu.Unlock()
	batch, r.queue, r.queued = r.queue, nil, 0
	return batch, r.closed
}

func (r *Recorder) run() {
	defer close(r.ended)
	for range r.wake {
		batch, closed := r.take()
		var touched []*passing
		for i := range batch {
			p := batch[i].p
			p.take(&batch[i])
			batch[i] = note{} // a body may be large
			if !p.touched {
				p.touched = true
				touched = append(touched, p)
			}
		}
		r.flush()
		r.publish(touched)
		if closed {
			r.closeFile()
			return
		}
	}
}

// write appends a line to the file. The first error is the end of the file, and of nothing else.
func (r *Recorder) write(l *line) {
	if r.file != nil {
		r.stopAt(r.file.write(l))
	}
}

func (r *Recorder) flush() {
	if r.file != nil {
		r.stopAt(r.file.flush())
	}
}

func (r *Recorder) closeFile() {
	if r.file != nil {
		r.stopAt(r.file.close())
	}
}

func (r *Recorder) stopAt(err error) {
	if err == nil {
		return
	}
	_ = r.file.close() // it has an error already
	r.file = nil
	r.log.Error("the recording stopped, the traffic goes on", "file", r.opts.File, "error", err)
	r.mu.Lock()
	r.status.FileError = err.Error()
	r.mu.Unlock()
}

// publish shows the exchanges as they are now.
func (r *Recorder) publish(touched []*passing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range touched {
		p.touched = false
		r.version++
		p.x.Version = r.version
		r.count(p)
		if p.shown && r.byID[p.x.ID] == nil {
			continue // it fell out of the window while it went on
		}
		snapshot := p.x // its frames are only ever appended to
		r.show(&snapshot, p.grown)
		p.shown, p.grown = true, 0
	}
	if r.file != nil {
		r.status.File = r.file.name()
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// show puts a snapshot into the window, which has grown by the given bytes, and drops the oldest from it.
func (r *Recorder) show(x *Exchange, grown int64) {
	i, found := slices.BinarySearchFunc(r.window, x.ID, func(w *Exchange, id int64) int { return int(w.ID - id) })
	if found {
		r.window[i] = x
	} else {
		r.window = slices.Insert(r.window, i, x)
		grown += perExchange
	}
	r.byID[x.ID] = x
	r.bytes += grown
	for len(r.window) > 1 && (len(r.window) > r.opts.MaxExchanges || r.bytes > r.opts.MaxBytes) {
		i := max(0, slices.IndexFunc(r.window, func(w *Exchange) bool { return w.Done }))
		old := r.window[i]
		r.bytes -= old.size() + perExchange
		r.window = slices.Delete(r.window, i, i+1)
		delete(r.byID, old.ID)
	}
}

// frameSize is what a frame takes in memory besides its data, about.
const frameSize = 128

// size returns the bytes of an exchange's bodies and frames in memory.
func (x *Exchange) size() int64 {
	n := int64(len(x.Request) + len(x.Response))
	for i := range x.Frames {
		n += int64(len(x.Frames[i].Data)) + frameSize
	}
	return n
}

// count adds what is new of an exchange to the status.
func (r *Recorder) count(p *passing) {
	for _, f := range p.fresh {
		if f.Level == rules.Must {
			r.status.Must++
		} else {
			r.status.Should++
		}
	}
	p.fresh = nil
	if p.x.Done && !p.counted {
		p.counted = true
		r.status.Exchanges++
		r.status.Lost += p.lost
	}
}

// report logs an exchange that has ended.
func (r *Recorder) report(p *passing) {
	x := &p.x
	attrs := []any{"id", x.ID, "kind", x.Kind, "status", x.Status, "took", x.Duration.Round(time.Microsecond)}
	if x.Operation != "" {
		attrs = append(attrs, "operation", x.Operation, "binding", x.Binding)
	} else {
		attrs = append(attrs, "method", x.Method, "url", x.URL)
	}
	if x.Task != "" {
		attrs = append(attrs, "task", x.Task)
	}
	if p.frames > 0 {
		attrs = append(attrs, "frames", p.frames)
	}
	if x.Err != "" {
		attrs = append(attrs, "error", x.Err)
	}
	r.log.Info("exchange", attrs...)
}

// complain logs a broken clause, once for each exchange.
func (r *Recorder) complain(p *passing, f Finding) {
	if slices.Contains(p.said, f.Rule) {
		return
	}
	p.said = append(p.said, f.Rule)
	r.log.Warn("clause broken", "id", p.x.ID, "operation", p.x.Operation, "level", string(f.Level), "rule", f.Rule, "section", f.Section,
		"says", f.Says, "path", f.Path, "got", rules.Clip(f.Got, 200), "want", f.Want)
}

type passingKey struct{}

// passingOf returns what a handler behind the recorder can add to its exchange; nil: there is none.
func passingOf(r *http.Request) *passing {
	p, _ := r.Context().Value(passingKey{}).(*passing)
	return p
}
