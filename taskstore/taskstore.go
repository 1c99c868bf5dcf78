// Package taskstore is where tasks are kept: the contract of a store, one store in memory, and the one way
// to follow a task's log on any store.
//
// A task is an append-only log of records numbered from 1, and the state that the log folds to. Everything
// that must be true together is one [Change], and a store commits it whole or not at all. Whatever a reader
// sees was committed before.
package taskstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Scope is whose tasks: an agent's, for one caller. Nothing of one scope is ever seen from another.
type Scope struct {
	Agent  string // name of the agent on this host
	Tenant string // the caller's tenant, from its credential
	Owner  string // the caller, as a2a.Caller.Owner says it
}

// Caller returns whose tasks they are, as far as a store knows it.
func (s Scope) Caller() a2a.Caller {
	issuer, subject, _ := strings.Cut(s.Owner, "\x00")
	return a2a.Caller{Tenant: s.Tenant, Issuer: issuer, Subject: subject}
}

// Key names a task within its scope.
type Key struct {
	Scope
	Task string
}

// Errors of a Commit and of the reads. The store decides the order of things: two callers who want
// different ends for a task get one of them, and one of these.
var (
	ErrNotFound  = errors.New("taskstore: no such task")                      // also a task of another scope
	ErrExists    = errors.New("taskstore: the task exists")                   // Create of an id in use
	ErrConflict  = errors.New("taskstore: the task is not as expected")       // IfHead or IfStatus
	ErrTerminal  = errors.New("taskstore: the task has ended")                // nothing changes it
	ErrFenced    = errors.New("taskstore: the lease is lost")                 // Epoch is not the current one
	ErrHeld      = errors.New("taskstore: a run holds the task")              // Claim, or a write without the lease
	ErrNotHeld   = errors.New("taskstore: no run holds the task")             // Latch
	ErrLatched   = errors.New("taskstore: a cancel was recorded first")       // Committed, or an end other than CANCELED
	ErrCommitted = errors.New("taskstore: the run is past the way back")      // Latch
	ErrTrimmed   = errors.New("taskstore: the log no longer goes back there") // Entries
	ErrBadToken  = errors.New("taskstore: not a page token of this query")    // List
	ErrSent      = errors.New("taskstore: the message was taken before")      // Sent
)

// Record is an entry of a task's log, with what the wire does not carry.
type Record struct {
	// Entry is the event. The store numbers it when it commits.
	a2a.Entry
	// Turn is the user's message that rides with the entry that resumes the task.
	Turn *a2a.Message
	// Keep says that the message of this status moves to the history when the next status replaces it.
	Keep bool
	// Request is what a run that starts from this record needs besides the message, in the engine's own
	// form; nil where no run will start from it again.
	Request []byte
}

// Sent is a message that was taken, so that the same message, sent again, can be told from a new one.
type Sent struct {
	MessageID string
	Hash      [32]byte  // of what was sent
	Reply     []byte    // the Message that was the whole answer, in the engine's own form; nil: a task
	Expires   time.Time // then the message is new again
	// Task and Generation say where the message was taken: the task and the last record of the change. The
	// store fills them in.
	Task       string
	Generation int64
}

// Webhook is a registration for a task's events, and how far the delivery has come.
type Webhook struct {
	Key    Key
	Config *a2a.TaskPushNotificationConfig // with its secrets; its id is unique within the task
	// Registration is different for every registration, also for one that replaces another of its id.
	Registration string
	// Node is who delivers, in a store with [Nodes]; elsewhere it is empty and not kept. The news of a delivery are taken
	// from no other.
	Node string
	// Delivered is the generation up to which the receiver has the task's log. Before Begun it is that as of
	// which the receiver first gets the Task; zero in a Change means that of the change's last record.
	Delivered int64
	Begun     bool
	Attempts  int       // that failed since the last success
	Due       time.Time // of the next attempt, after one that failed
	Done      bool      // nothing follows: the task's end was delivered, or the receiver was given up
	Failure   string    // why the last attempt failed
}

// Change is one atomic step of one task. The zero value of each field says nothing.
type Change struct {
	Key Key

	// Create makes the task: the first record is its *a2a.Task. An id in use is ErrExists.
	Create bool

	// IfHead wants the last record to have this generation.
	IfHead int64
	// IfStatus wants the status to be the one that the record of this generation set.
	IfStatus int64
	// Epoch is the writer's fence: the epoch of the lease under which it writes. Zero: the writer holds no
	// lease, and then records for a held task need IfStatus (an answer, or the withdrawal of one).
	Epoch int64

	// Claim takes the lease for the named node; the epoch becomes one higher. ErrHeld if a run has it.
	Claim string
	// Seize lets Claim take the lease from the named node, whose process is gone. A latched task is seized
	// only to end it as CANCELED.
	Seize string
	// Release gives the lease back. A latched task is released only by its CANCELED record.
	Release bool
	// Latch records that a cancel was asked for. It needs a held lease: ErrNotHeld. From then on the task
	// can only end as CANCELED. ErrCommitted if the run is past its point of no return.
	Latch bool
	// Committed records that the run passed its point of no return. ErrLatched if a cancel came first.
	Committed bool

	// Records are appended to the log. A terminal status must be the last and releases the lease. The slice is the store's
	// once the change is committed.
	Records []Record

	// Values replaces the record that the task's context keeps, if it is not nil.
	Values map[string]string

	// Sent records that a message was taken. ErrSent, before any other error, if one with this id was that
	// has not expired. A change with nothing but Sent needs no task: its Key.Task is empty.
	Sent *Sent

	// Delivered records how far the delivery of a webhook has come, and nothing else of it. ErrConflict if that
	// registration is gone, or its Node is another.
	Delivered *Webhook
	// Unhook removes the webhook with this id, if there is one.
	Unhook string
	// Webhook registers a webhook of the task, or replaces the one with its id. Its Key is the change's. It is the last
	// of the three to be carried out.
	Webhook *Webhook
}

// Receipt says what a Commit did.
type Receipt struct {
	Generation int64 // of the last record
	Epoch      int64
	// Records are those of the Change with their numbers, shared with every reader.
	Records []Record
}

// Snapshot is a task at a point of its log.
type Snapshot struct {
	// Task is the log folded up to Generation. It is the reader's own in the sense of a2a.Task.Apply.
	Task       *a2a.Task
	Generation int64
	// StatusGeneration is that of the record that set the status.
	StatusGeneration int64
	// Epoch and Node are the lease's; Node is empty when no run holds the task. Latched and Committed are
	// the run's. These four are always those of now.
	Epoch     int64
	Node      string
	Latched   bool
	Committed bool
}

// Query selects tasks of a scope.
type Query struct {
	Scope
	ContextID string        // empty: any
	Status    a2a.TaskState // TaskStateUnspecified: any
	After     time.Time     // status set at or after; zero: any
	PageSize  int           // at least 1
	PageToken string        // empty: the first page

	HistoryLength int // messages per task; negative: all
	Artifacts     bool
	// MaxBytes ends a page early, after the task with which its content reaches this size; 0: no limit. So
	// that a page of big tasks stays an answer that a host can hold.
	MaxBytes int
}

// Page is what List found, newest status first; equal times by id, highest first.
type Page struct {
	Tasks []*a2a.Task
	Next  string // empty on the last page
	Total int    // exact, on whatever page
}

// Retention says what a store may forget.
type Retention struct {
	Tasks time.Time // tasks that ended before this, with all that belongs to them
	Logs  time.Time // the logs of tasks that ended before this: the task stays and can still be read
	Limit int       // how many tasks one call touches at most
}

// Expired is what a store has forgotten.
type Expired struct {
	Tasks, Logs, Contexts, Sent int
	More                        bool // there is more to forget
}

// Store keeps tasks. Its methods are safe for concurrent use; what they return must not be changed.
type Store interface {
	// Commit carries out a change. nil means that it is as durable as the store promises; any error means
	// that nothing of it happened, save for an error of the store itself, after which it may have.
	Commit(context.Context, Change) (Receipt, error)
	// Task returns the task folded up to the record of generation at, or of all records when at is 0.
	// ErrTrimmed if the log no longer allows that.
	Task(ctx context.Context, key Key, at int64) (Snapshot, error)
	// Entries returns records with generations after+1, after+2, … without a gap, at most limit of them,
	// and none if there are none yet.
	Entries(ctx context.Context, key Key, after int64, limit int) ([]Record, error)
	// Heads returns the generation of the last record of each task, 0 for one that is not there.
	Heads(ctx context.Context, keys []Key) ([]int64, error)
	// List returns a page of a scope's tasks.
	List(ctx context.Context, q Query) (Page, error)
	// Count returns how many tasks of the scope are in one of the states.
	Count(ctx context.Context, scope Scope, states ...a2a.TaskState) (int, error)
	// Values returns the record that a context keeps, nil if there is none.
	Values(ctx context.Context, scope Scope, contextID string) (map[string]string, error)
	// Interrupted returns tasks of the agent, of any caller, whose interrupted status was set before t.
	Interrupted(ctx context.Context, agent string, t time.Time, limit int) ([]Key, error)
	// Unsettled returns tasks of the agent, of any caller, with ids higher than after, in the order of their
	// ids, that nobody is at work on though somebody should be: those that never started, and those that a
	// node holds whose process is gone. node is the caller's own, which is alive.
	Unsettled(ctx context.Context, agent, node, after string, limit int) ([]Key, error)
	// Scopes returns the scopes of the agent that have tasks, ordered by tenant and owner as bytes, at most limit of them, after
	// the one that after says, which need not be there; nil: from the first. What it costs does not grow with the tasks.
	Scopes(ctx context.Context, agent string, after *Scope, limit int) ([]Scope, error)
	// Sent returns the message of this id that was taken, nil if none was or it has expired.
	Sent(ctx context.Context, scope Scope, messageID string) (*Sent, error)
	// Webhooks returns the webhooks of a task in the order of their ids.
	Webhooks(ctx context.Context, key Key) ([]Webhook, error)
	// Outbox returns webhooks of the agent's tasks, of any caller, that are not done, ordered by task and id,
	// after the one of task and id.
	Outbox(ctx context.Context, agent, task, id string, limit int) ([]Webhook, error)
	// Expire forgets tasks that have ended and their logs, but none with a webhook that is not done; and messages and
	// contexts that have expired. It takes one small step, so that no commit waits long for it. A message whose task is
	// forgotten is new again.
	Expire(ctx context.Context, r Retention) (Expired, error)
	// Notify has f called soon after a commit with the id of the task that got records. Calls may be lost,
	// late or for nothing; f is quick and never blocks. stop ends it.
	Notify(f func(task string)) (stop func())
	// Close ends the store; what was committed stays.
	Close() error
}
