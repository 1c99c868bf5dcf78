package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/taskstore"
)

// run is one call of an agent's Handle. It is the agent.Sink behind the Updater: whatever the agent says
// goes through it into the log, under the epoch that the run claimed.
type run struct {
	s         *Server
	key       taskstore.Key
	contextID string
	req       *agent.Request
	known     bool   // the context may have values
	node      string // under whose name it claims the task, empty before; changed under Server.mu

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the end is recorded, or given up
	beat   atomic.Int64  // time of the last sign of life; 0 before the start
	asking atomic.Bool

	writing  chan struct{} // has a place for who commits: one commit after the other
	recorded bool          // the end is in the log; for who commits

	mu      sync.Mutex
	epoch   int64 // 0 before the start
	ended   bool  // nothing more is written but the end
	parked  *taskstore.Record
	failure error // the store refused a write: the run only ends now
	bytes   int64 // of artifacts
	said    said
}

// said is what the agent said and the log does not have yet: chunks and progress, for which the agent does not
// wait. They go into the next commit, in their order.
type said struct {
	records  []taskstore.Record
	bytes    int64
	flushing bool          // somebody commits them
	room     chan struct{} // closed when some were taken; nil: nobody waits for that
}

// How much an agent can say ahead of the log. Beyond it, the next chunk waits.
const (
	maxSaid      = 256
	maxSaidBytes = 1 << 20
)

func (s *Server) newRun(key taskstore.Key, contextID string, known bool, req *agent.Request) *run {
	r := &run{s: s, key: key, contextID: contextID, known: known, req: req, done: make(chan struct{}), writing: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancelCause(context.Background()) // halt ends it: a child of s.ctx would cost a lock and a map
	return r
}

// register makes the run known before it is recorded, so that no cancel falls between. One that begins at once claims
// its task under r.node.
func (s *Server) register(r *run, begins bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return shuttingDown()
	case begins && s.node == "":
		return nodeLost()
	case begins:
		r.node = s.node
	}
	s.runs[r.key.Task] = append(slices.Clip(s.runs[r.key.Task]), r)
	return nil
}

func (s *Server) unregister(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	task := r.key.Task
	if left := s.runs[task]; len(left) > 1 {
		s.runs[task] = slices.DeleteFunc(slices.Clone(left), func(other *run) bool { return other == r })
	} else if len(left) == 1 && left[0] == r {
		delete(s.runs, task)
	}
	r.cancel(nil)
}

// running returns the run of a task on this node, and those that are about to take the task.
func (s *Server) running(task string) []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[task]
}

// begun is the turn of a new task, from what was recorded.
func (r *run) begun(rec taskstore.Receipt) *turn {
	var t struct {
		turn
		state taskstore.State
	}
	for _, x := range rec.Records {
		t.state.Apply(x)
	}
	r.req.Task = &t.state.Task
	t.turn = turn{key: r.key, first: rec.Records[0].Entry, last: rec.Generation, task: r.req.Task}
	return &t.turn
}

// start runs a claimed task. A Handle that does not return keeps its place.
func (s *Server) start(r *run, rec taskstore.Receipt) {
	r.claimed(rec.Epoch)
	s.workers.run(func() { s.exec(r) })
}

func (s *Server) exec(r *run) {
	if s.holds(r) {
		r.exec()
	} else {
		r.lost(errNodeLost)
	}
	s.over(r)
}

// startWaiting claims a task that waited for its turn, and runs it. The run has its place already.
func (s *Server) startWaiting(r *run) {
	s.workers.run(func() {
		if s.claim(r) {
			s.exec(r)
			return
		}
		r.giveUp()
		s.over(r)
	})
}

func (s *Server) over(r *run) {
	<-r.done
	s.unregister(r)
	s.leave(true, r.key.Scope)
}

func (r *run) claimed(epoch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch = epoch
	r.alive()
	for _, a := range r.req.Task.Artifacts {
		r.bytes += size(a)
	}
}

// claim records that a waiting task starts. It is false if the task was canceled meanwhile, or another node has it.
func (s *Server) claim(r *run) bool {
	doubt := false
	for pause := first; ; pause = pause.wait(r.ctx) {
		if r.ctx.Err() != nil {
			return false
		}
		if !s.claims(r) {
			continue
		}
		rec, err := s.store.Commit(context.Background(), taskstore.Change{
			Key: r.key, Claim: r.node, IfStatus: 1,
			Records: []taskstore.Record{r.status(a2a.TaskStateWorking, nil, false)},
		})
		switch {
		case err == nil:
			st := taskstore.State{Task: *r.req.Task.Snapshot()}
			st.Apply(rec.Records[0])
			r.req.Task = &st.Task
			r.claimed(rec.Epoch)
			return true
		case isVerdict(err):
			return doubt && s.took(r)
		}
		doubt = true
		if r.s.tells(err) {
			r.req.Log.Error("cannot start a waiting task, trying again", "err", err)
		}
	}
}

// isVerdict reports whether err is the store's word on the task, rather than a fault of the store.
func isVerdict(err error) bool {
	for _, v := range []error{
		taskstore.ErrNotFound, taskstore.ErrConflict, taskstore.ErrTerminal, taskstore.ErrFenced, taskstore.ErrHeld,
		taskstore.ErrNotHeld, taskstore.ErrLatched, taskstore.ErrCommitted,
	} {
		if errors.Is(err, v) {
			return true
		}
	}
	return false
}

// pause is a growing wait between tries of something that the store failed.
type pause time.Duration

const first = pause(50 * time.Millisecond)

func (p pause) wait(ctx context.Context) pause {
	t := time.NewTimer(time.Duration(p))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return min(2*p, pause(5*time.Second))
}

// exec calls the agent and records how it ended.
func (r *run) exec() {
	if r.refusal() != nil { // it was lost before it began
		return
	}
	if r.known {
		m, err := r.s.store.Values(r.ctx, r.key.Scope, r.contextID)
		if err != nil {
			r.finish(internal(err))
			return
		}
		r.req.Values = agent.NewValues(m, r)
	} else {
		r.req.Values = agent.NewValues(nil, r)
	}
	r.finish(r.handle())
}

func (r *run) handle() (err error) {
	r.s.handling.Add(1)
	defer r.s.returns()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the agent panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return r.s.cfg.Agent.Handle(r.ctx, r.req, agent.NewUpdater(r))
}

// returns says that a Handle has returned.
func (s *Server) returns() {
	if s.handling.Add(-1) == 0 {
		select {
		case s.handled <- struct{}{}:
		default: // whoever waits finds the news that is there
		}
	}
}

// finish records the end that follows from what Handle returned, unless another end was recorded or the run
// has not started. What Handle says after that is dropped.
func (r *run) finish(err error) {
	r.mu.Lock()
	if r.ended || r.epoch == 0 {
		r.mu.Unlock()
		return
	}
	end, left := r.end(err)
	r.ended = true
	r.mu.Unlock()
	r.settle(end, left)
	close(r.done)
}

// end is the last record of the run: what ended its context decides, then what Handle returned. It is left to the next
// process where this one ends before a restartable agent.
func (r *run) end(err error) (rec taskstore.Record, left bool) {
	if err == nil {
		err = r.failure
	}
	cause := context.Cause(r.ctx)
	var over *overruled
	switch {
	case errors.Is(cause, agent.ErrCanceled), errors.Is(err, agent.ErrCanceled): // or canceled at the agent's own end
		return r.status(a2a.TaskStateCanceled, nil, false), false
	case err != nil && errors.As(cause, &over):
		return r.failed(over.says), over.why == ErrShutdown && r.s.restartable() //nolint:errorlint // no other is so
	case err != nil:
		return r.failed(r.public(err)), false
	case r.parked != nil:
		return *r.parked, false
	}
	return r.status(a2a.TaskStateCompleted, nil, false), false
}

// overruled is the cause of the context of a run that the host ends, and what the task then says.
type overruled struct {
	why  error
	says string
}

func (o *overruled) Error() string { return o.why.Error() }
func (o *overruled) Unwrap() error { return o.why }

// overrule ends a run and records it at once, though Handle has not returned.
func (r *run) overrule(o *overruled) {
	r.cancel(o)
	r.finish(o)
}

// public returns what a caller may read of an error of the agent.
func (r *run) public(err error) string {
	var e *a2a.Error
	if errors.As(err, &e) && (e.Message != "" || e.Cause() == nil) {
		if e.Cause() != nil {
			r.req.Log.Warn("the task failed", "message", e.Error(), "err", e.Cause())
		}
		return e.Error()
	}
	id := errorID()
	r.req.Log.Error("the agent failed", "errorId", id, "err", err)
	return "The agent failed. Its operator finds the reason under the error id " + id + "."
}

func (r *run) failed(text string) taskstore.Record {
	return r.status(a2a.TaskStateFailed, []*a2a.Part{a2a.TextPart(text)}, true)
}

// settle records the last word of the run, with the release of the task and what was said before; of a run that is left
// to the next process, only that. Where a cancel came first the last word is CANCELED, whatever the run wanted to say. A
// store that fails is tried again for as long as the server lives; those who follow the task here are told at once.
func (r *run) settle(end taskstore.Record, left bool) {
	defer r.s.follow.Break(r.key.Task, nil)
	records := r.lastWords(end, left)
	for p := first; len(records) > 0; p = p.wait(r.s.ctx) {
		_, err := r.s.store.Commit(context.Background(), taskstore.Change{
			Key: r.key, Epoch: r.epoch, Release: !left, Records: records,
		})
		switch {
		case err == nil:
			return
		case errors.Is(err, taskstore.ErrLatched) && left: // the next process finds the cancel
			return
		case errors.Is(err, taskstore.ErrLatched):
			records[len(records)-1] = r.status(a2a.TaskStateCanceled, nil, false)
			continue
		case isVerdict(err):
			r.s.dropped.Add(1)
			r.req.Log.Warn("the run had lost its task; its end is dropped", "err", err)
			return
		}
		r.broke(err)
		if r.s.ctx.Err() != nil {
			return
		}
	}
}

// lastWords returns what is left to be recorded of a run that has ended, none if the agent recorded an end at the
// same moment. Where the store has refused something that the agent said, the task must not end as if it had not.
func (r *run) lastWords(end taskstore.Record, left bool) []taskstore.Record {
	r.writing <- struct{}{} // what is being committed is then in the log, or has failed
	defer func() { <-r.writing }()
	if r.recorded {
		return nil
	}
	said := r.takeSaid()
	if left {
		return said
	}
	r.mu.Lock()
	failure := r.failure
	r.mu.Unlock()
	if failure != nil && !errors.Is(context.Cause(r.ctx), agent.ErrCanceled) {
		end = r.failed(r.public(failure))
	}
	return append(said, end)
}

// broke tells those who follow the task on this node that its log cannot be written.
func (r *run) broke(err error) {
	if r.s.tells(err) {
		r.req.Log.Error("the store refused a write", "err", err)
	}
	r.s.follow.Break(r.key.Task, internal(err))
}

// write commits a change of the running agent, after what it said before.
func (r *run) write(ch taskstore.Change) (taskstore.Receipt, error) {
	r.writing <- struct{}{}
	defer func() { <-r.writing }()
	if ch.IfStatus != 0 || ch.Committed || ch.Values != nil { // it may be refused, and what was said may not
		if err := r.flush(); err != nil {
			return taskstore.Receipt{}, err
		}
	}
	if err := r.refusal(); err != nil {
		return taskstore.Receipt{}, err
	}
	before := r.takeSaid()
	ch.Records = append(before, ch.Records...)
	rec, err := r.commit(ch)
	if errors.Is(err, agent.ErrCanceled) && len(before) > 0 {
		if _, ferr := r.commit(taskstore.Change{Records: before}); ferr != nil {
			return rec, ferr
		}
	}
	return rec, err
}

// say queues a record for which the agent does not wait: a chunk of n bytes, or progress. Its error comes with
// whatever the agent says next.
func (r *run) say(rec taskstore.Record, n int64) error {
	r.mu.Lock()
	for r.refused() == nil && len(r.said.records) > 0 && (len(r.said.records) >= maxSaid || r.said.bytes+n > maxSaidBytes) {
		if r.said.room == nil {
			r.said.room = make(chan struct{})
		}
		room := r.said.room
		r.mu.Unlock()
		<-room
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if err := r.refused(); err != nil {
		return err
	}
	r.alive()
	if r.said.records == nil {
		r.said.records = make([]taskstore.Record, 0, 2) // often a whole artifact, and the end
	}
	r.said.records = append(r.said.records, rec)
	r.said.bytes += n
	if !r.said.flushing {
		r.said.flushing = true
		r.s.workers.run(r.flushAll)
	}
	return nil
}

// flushAll commits what the agent says for as long as there is more.
func (r *run) flushAll() {
	for {
		r.writing <- struct{}{}
		err := r.flush()
		r.mu.Lock()
		done := err != nil || len(r.said.records) == 0
		if done {
			r.said.flushing = false
		}
		r.mu.Unlock()
		<-r.writing
		if done {
			return
		}
	}
}

// flush commits what was said; the caller is who commits.
func (r *run) flush() error {
	records := r.takeSaid()
	if len(records) == 0 {
		return nil
	}
	_, err := r.commit(taskstore.Change{Records: records})
	return err
}

// takeSaid takes what was said and lets those go on who wait to say more.
func (r *run) takeSaid() []taskstore.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	records := r.said.records
	r.said.records, r.said.bytes = nil, 0
	if r.said.room != nil {
		close(r.said.room)
		r.said.room = nil
	}
	return records
}

// refusal says why the run may write nothing, if so.
func (r *run) refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused()
}

// refused is refusal for a caller that holds r.mu.
func (r *run) refused() error {
	switch {
	case r.failure != nil:
		return r.failure
	case r.ended, r.parked != nil:
		return agent.ErrEnded
	}
	return nil
}

// commit commits a change under the run's fence; the caller is who commits.
func (r *run) commit(ch taskstore.Change) (taskstore.Receipt, error) {
	r.alive()
	ch.Key, ch.Epoch = r.key, r.epoch
	rec, err := r.s.store.Commit(context.Background(), ch)
	switch {
	case err == nil:
		r.recorded = ch.Release
		return rec, nil
	case errors.Is(err, taskstore.ErrLatched):
		return rec, agent.ErrCanceled
	case errors.Is(err, taskstore.ErrConflict):
		return rec, err
	case isVerdict(err):
		r.lost(err)
		return rec, agent.ErrEnded
	}
	err = internal(err)
	r.broke(err)
	r.mu.Lock()
	r.failure = err
	r.mu.Unlock()
	r.takeSaid() // nobody waits for what cannot be recorded
	r.cancel(err)
	return rec, err
}

// lost ends a run whose task another took, or may take.
func (r *run) lost(err error) {
	if !r.giveUp() {
		return
	}
	r.s.follow.Break(r.key.Task, nil)
	r.s.dropped.Add(1)
	r.req.Log.Warn("the run has lost its task", "err", err)
	r.cancel(agent.ErrEnded)
}

// giveUp ends a run without a record, and reports whether it had not ended before.
func (r *run) giveUp() bool {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return false
	}
	r.ended = true
	r.mu.Unlock()
	r.takeSaid()
	close(r.done)
	return true
}

// status is the record of a status of this run's task.
func (r *run) status(state a2a.TaskState, parts []*a2a.Part, keep bool) taskstore.Record {
	ev := &a2a.TaskStatusUpdateEvent{
		TaskID: r.key.Task, ContextID: r.contextID,
		Status: a2a.TaskStatus{State: state, Timestamp: now()},
	}
	if len(parts) > 0 {
		ev.Status.Message = &a2a.Message{
			MessageID: newID(), ContextID: r.contextID, TaskID: r.key.Task, Role: a2a.RoleAgent, Parts: parts,
		}
	}
	return taskstore.Record{Entry: a2a.Entry{Event: ev}, Keep: keep}
}

// Status implements agent.Sink.
func (r *run) Status(state a2a.TaskState, parts []*a2a.Part, keep bool) error {
	rec := r.status(state, parts, keep)
	switch {
	case state.Terminal():
		return r.last(rec)
	case keep:
		_, err := r.write(taskstore.Change{Records: []taskstore.Record{rec}})
		return err
	}
	return r.say(rec, 0)
}

// last records the end of the task, in the agent's words.
func (r *run) last(rec taskstore.Record) error {
	if _, err := r.write(taskstore.Change{Release: true, Records: []taskstore.Record{rec}}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended { // or finish does it
		r.ended = true
		close(r.done)
	}
	return nil
}

// Artifact implements agent.Sink.
func (r *run) Artifact(ev *a2a.TaskArtifactUpdateEvent) error {
	ev.TaskID, ev.ContextID = r.key.Task, r.contextID
	n := size(ev.Artifact)
	r.mu.Lock()
	if limit := r.s.cfg.Limits.Artifacts; r.bytes+n > limit {
		r.mu.Unlock()
		return agent.Errorf("the artifacts of a task hold at most %d bytes (limit artifacts)", limit)
	}
	r.bytes += n
	r.mu.Unlock()
	return r.say(taskstore.Record{Entry: a2a.Entry{Event: ev}}, n)
}

func size(a *a2a.Artifact) (n int64) {
	for _, p := range a.Parts {
		switch c := p.Content.(type) {
		case a2a.Text:
			n += int64(len(c))
		case a2a.Raw:
			n += int64(len(c))
		case a2a.URL:
			n += int64(len(c))
		case a2a.Data:
			n += int64(len(c))
		}
	}
	return n
}

// Park implements agent.Sink.
func (r *run) Park(state a2a.TaskState, parts []*a2a.Part) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refused(); err != nil {
		return err
	}
	rec := r.status(state, parts, true)
	r.parked = &rec
	return nil
}

// Ask implements agent.Sink. The answer is read from the log, where whoever takes the message writes it, on
// whatever node.
func (r *run) Ask(ctx context.Context, state a2a.TaskState, parts []*a2a.Part) (*a2a.Message, error) {
	r.asking.Store(true)
	defer func() { r.asking.Store(false); r.alive() }()
	rec, err := r.write(taskstore.Change{Records: []taskstore.Record{r.status(state, parts, true)}})
	if err != nil {
		return nil, err
	}
	r.s.leave(true, r.key.Scope) // who waits for an answer does not run: it is bounded as a parked task
	defer r.s.turns.back(r.key.Scope)
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	answer, err := r.answer(both, rec.Generation)
	if answer != nil || r.ctx.Err() != nil || ctx.Err() == nil {
		return answer, err
	}
	_, werr := r.write(taskstore.Change{
		IfStatus: rec.Generation, Records: []taskstore.Record{r.status(a2a.TaskStateWorking, nil, false)},
	})
	if errors.Is(werr, taskstore.ErrConflict) { // the answer was recorded first
		return r.answer(r.ctx, rec.Generation)
	}
	if werr != nil {
		return nil, werr
	}
	return nil, ctx.Err()
}

// answer returns the user's message of the first record after the question that has one.
func (r *run) answer(ctx context.Context, question int64) (*a2a.Message, error) {
	for rec, err := range r.s.follow.Follow(ctx, r.key, question) {
		if err != nil {
			return nil, err
		}
		if rec.Turn != nil {
			return rec.Turn, nil
		}
	}
	return nil, ctx.Err()
}

// Committed implements agent.Sink.
func (r *run) Committed() error {
	_, err := r.write(taskstore.Change{Committed: true})
	return err
}

// Alive implements agent.Sink.
func (r *run) Alive() { r.alive() }

func (r *run) alive() { r.beat.Store(time.Now().UnixNano()) }

// SetValues implements agent.Sink.
func (r *run) SetValues(m map[string]string) error {
	_, err := r.write(taskstore.Change{Values: m})
	return err
}

// HasArtifact implements agent.Sink.
func (r *run) HasArtifact(id string) bool {
	for _, a := range r.req.Task.Artifacts {
		if a.ArtifactID == id {
			return true
		}
	}
	return false
}

var _ agent.Sink = (*run)(nil)
