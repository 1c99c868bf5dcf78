package crash

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/golden"
)

// item is a task that was acknowledged. While the load runs it is its worker's own, later the audit's.
type item struct {
	kind, binding, caller string

	task       string
	generation int64           // as far as the task is known to have come
	acked      *a2a.Task       // as an answer had it last, at that generation; nil: only frames say so much
	entries    []a2a.Entry     // the frames that were seen
	messages   []string        // ids of the messages that it is known to have taken
	may        []a2a.TaskState // where it can be after a restart
}

func (it *item) String() string {
	return fmt.Sprintf("the %s task %s of %s over %s", it.kind, it.task, it.caller, it.binding)
}

// answered notes what an answer says of the task.
func (it *item) answered(task *a2a.Task) {
	it.task, it.acked, it.generation = task.ID, task, extension.Generation(task)
}

// resend is a message under safe-retry. It has a context of its own.
type resend struct {
	binding, caller string
	req             *a2a.SendMessageRequest
	task            string // empty: no answer came
}

// note is the value that a caller's context keeps: the one that was acknowledged last, or one that was sent since.
type note struct {
	binding     string
	acked, sent int
}

// book holds what the host acknowledged.
type book struct {
	report *report
	hooks  *receiver

	mu      sync.Mutex
	last    int // of the numbers that id returned
	old     []*item
	round   []*item // since the last audit
	resends []*resend
	notes   map[string]*note    // by caller
	callers map[string]string   // of the round, with their bindings
	tasks   map[string][]string // what each caller was told of, ever
}

func newBook(hooks *receiver, r *report) *book {
	return &book{report: r, hooks: hooks, notes: map[string]*note{}, callers: map[string]string{}, tasks: map[string][]string{}}
}

// id returns a new name.
func (b *book) id(prefix string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	return prefix + strconv.Itoa(b.last)
}

// enter enters a task when it is first acknowledged.
func (b *book) enter(it *item) {
	b.report.add("tasks", 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round = append(b.round, it)
	b.tasks[it.caller] = append(b.tasks[it.caller], it.task)
}

// calls notes that a caller is active in this round.
func (b *book) calls(caller, binding string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers[caller] = binding
}

// as returns the context of a call of the caller, to go on after a generation if it is not 0.
func as(ctx context.Context, caller string, after int64) context.Context {
	h := http.Header{golden.CallerHeader: {caller}}
	if after > 0 {
		h.Set(extension.LastEventID, strconv.FormatInt(after, 10))
	}
	return a2a.WithCallInfo(ctx, &a2a.CallInfo{Header: h})
}
