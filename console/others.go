package console

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// callerHeader says, in a request of the operator's session, whose tasks it is about: one of the ids that serveCallers lists.
// Without it they are the console's own. No other session may have it.
const callerHeader = "Parley-Caller"

// callersPage is how many callers one answer has at most, but for the console's own.
const callersPage = 500

// callerID returns what callerHeader has for a caller: text that goes anywhere, whatever is in the names.
func callerID(c a2a.Caller) string {
	return url.Values{"issuer": {c.Issuer}, "subject": {c.Subject}, "tenant": {c.Tenant}}.Encode()
}

// parseCaller returns whose id it is.
func parseCaller(id string) (a2a.Caller, error) {
	v, err := url.ParseQuery(id)
	if err != nil || !v.Has("issuer") || !v.Has("subject") || !v.Has("tenant") {
		return a2a.Caller{}, errors.New("that is no caller: want an id of the list of callers")
	}
	return a2a.Caller{Tenant: v.Get("tenant"), Issuer: v.Get("issuer"), Subject: v.Get("subject")}, nil
}

// ownerOf returns the caller whose scope it is, if it is one that a call by somebody has made.
func ownerOf(s taskstore.Scope) (a2a.Caller, bool) {
	c := s.Caller()
	return c, c.Owner() == s.Owner
}

func (a *Agent) scope(c a2a.Caller) taskstore.Scope {
	return taskstore.Scope{Agent: a.Name, Tenant: c.Tenant, Owner: c.Owner()}
}

// from returns the id of the caller whose scope it is; empty: whoever asks needs none to see it.
func (a *Agent) from(ctx context.Context, s taskstore.Scope) string {
	c, ok := ownerOf(s)
	if !ok || s == a.scope(a.self(ctx)) {
		return ""
	}
	return callerID(c)
}

// serveCallers answers with those who have tasks of the agent, after the one that the query names. At the head of the first
// page is the console itself, whether it has tasks or not.
func serveCallers(w http.ResponseWriter, r *http.Request, a *Agent) {
	switch {
	case sessionOf(r.Context()).caller != nil:
		refuse(w, http.StatusForbidden, "only the operator sees who has tasks")
		return
	case a.Store == nil:
		refuse(w, http.StatusNotFound, "the tasks of this agent are elsewhere")
		return
	}
	type caller struct {
		ID        string `json:"id"` // for callerHeader; empty: the console's own
		Issuer    string `json:"issuer"`
		Subject   string `json:"subject"`
		Tenant    string `json:"tenant"`
		Anonymous bool   `json:"anonymous"`
		Own       bool   `json:"own"`
	}
	shown := func(id string, c a2a.Caller) caller {
		return caller{id, c.Issuer, c.Subject, c.Tenant, c.Anonymous(), id == ""}
	}
	callers := []caller{}
	var after *taskstore.Scope
	if id := r.URL.Query().Get("after"); id != "" {
		c, err := parseCaller(id)
		if err != nil {
			refuse(w, http.StatusBadRequest, "after: "+err.Error())
			return
		}
		s := a.scope(c)
		after = &s
	} else {
		callers = append(callers, shown("", a.Caller))
	}
	scopes, err := a.Store.Scopes(r.Context(), a.Name, after, callersPage)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the callers cannot be read: "+err.Error())
		return
	}
	next := ""
	for _, s := range scopes {
		c, ok := ownerOf(s)
		if !ok {
			continue
		}
		if id := a.from(r.Context(), s); id != "" {
			callers = append(callers, shown(id, c))
		}
		if len(scopes) == callersPage {
			next = callerID(c)
		}
	}
	reply(w, map[string]any{"callers": callers, "next": next})
}

// reader has the operations on another caller's tasks that only read. It asks the store and not the host, to which the operator
// would be that caller, with its limits and by its name in the audit log. What is not here is refused.
type reader struct {
	store taskstore.Store
	scope taskstore.Scope
}

func (r *reader) find(ctx context.Context, id string) (taskstore.Snapshot, error) {
	snap, err := r.store.Task(ctx, taskstore.Key{Scope: r.scope, Task: id}, 0)
	return snap, readError(err)
}

// readError says an error of the store to the operator.
func readError(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, taskstore.ErrNotFound):
		return a2a.Errorf(a2a.ErrTaskNotFound, "this caller has no such task")
	case errors.Is(err, taskstore.ErrBadToken):
		return a2a.InvalidField("pageToken", "not a token of this query: pass the nextPageToken of the page before, with the same filters")
	}
	return a2a.Errorf(a2a.ErrUnavailable, "the task cannot be read: %v", err)
}

// historyLength returns what a request says of history; negative: all.
func historyLength(n *int32) (int, error) {
	switch {
	case n == nil:
		return -1, nil
	case *n < 0:
		return 0, a2a.InvalidField("historyLength", "must not be negative, got %d", *n)
	}
	return int(*n), nil
}

// GetTask implements a2a.Service.
func (r *reader) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	n, err := historyLength(req.HistoryLength)
	if err != nil {
		return nil, err
	}
	snap, err := r.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	return taskstore.View(snap.Task, n, true), nil
}

const (
	listPage  = 100     // tasks of a page at most
	listBytes = 4 << 20 // content of a page, about, which then has fewer tasks
)

// ListTasks implements a2a.Service.
func (r *reader) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	n, err := historyLength(req.HistoryLength)
	if err != nil {
		return nil, err
	}
	q := taskstore.Query{
		Scope: r.scope, ContextID: req.ContextID, Status: req.Status, After: req.StatusTimestampAfter, PageSize: listPage,
		PageToken: req.PageToken, HistoryLength: n, Artifacts: req.IncludeArtifacts != nil && *req.IncludeArtifacts, MaxBytes: listBytes,
	}
	if size := req.PageSize; size != nil {
		if *size < 1 || *size > listPage {
			return nil, a2a.InvalidField("pageSize", "must be between 1 and %d, got %d", listPage, *size)
		}
		q.PageSize = int(*size)
	}
	page, err := r.store.List(ctx, q)
	if err != nil {
		return nil, readError(err)
	}
	return &a2a.ListTasksResponse{
		Tasks: page.Tasks, NextPageToken: page.Next, PageSize: int32(q.PageSize), TotalSize: int32(min(page.Total, math.MaxInt32)),
		WithArtifacts: q.Artifacts,
	}, nil
}

// errLeft ends a follower whose reader has gone.
var errLeft = errors.New("console: nobody follows")

// SubscribeToTask implements a2a.Service.
func (r *reader) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		snap, err := r.find(ctx, req.ID)
		if err == nil && snap.Task.Status.State.Terminal() {
			err = a2a.Errorf(a2a.ErrUnsupportedOperation, "the task has ended (%s): read it with GetTask", snap.Task.Status.State)
		}
		if err != nil {
			yield(a2a.Entry{}, err)
			return
		}
		if !yield(a2a.NewEntry(snap.Generation, snap.Task), nil) {
			return
		}
		f := taskstore.NewFollower(r.store, time.Second)
		defer f.Close(errLeft)
		for rec, err := range f.Follow(ctx, taskstore.Key{Scope: r.scope, Task: req.ID}, snap.Generation) {
			if !yield(rec.Entry, readError(err)) || err != nil {
				return
			}
			if s, ok := rec.Event.(*a2a.TaskStatusUpdateEvent); ok && s.Status.State.Terminal() {
				return
			}
		}
	}
}

// errReads is the answer to whatever does not only read.
var errReads = a2a.Errorf(a2a.ErrPermissionDenied,
	"the operator reads other callers' tasks and changes nothing in their name: choose the console's own tasks to send, to cancel or to register a webhook")

// SendMessage implements a2a.Service.
func (*reader) SendMessage(context.Context, *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return nil, errReads
}

// SendStreamingMessage implements a2a.Service.
func (*reader) SendStreamingMessage(context.Context, *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) { yield(a2a.Entry{}, errReads) }
}

// CancelTask implements a2a.Service.
func (*reader) CancelTask(context.Context, *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return nil, errReads
}

// CreateTaskPushNotificationConfig implements a2a.Service.
func (*reader) CreateTaskPushNotificationConfig(context.Context, *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	return nil, errReads
}

// DeleteTaskPushNotificationConfig implements a2a.Service.
func (*reader) DeleteTaskPushNotificationConfig(context.Context, *a2a.DeleteTaskPushNotificationConfigRequest) (*a2a.Empty, error) {
	return nil, errReads
}

// errElsewhere is the answer to reads that have another way here, which withholds secrets, or that are not of tasks.
var errElsewhere = a2a.Errorf(a2a.ErrPermissionDenied, "the operator reads other callers' tasks only, and their webhooks without secrets: GET …/webhooks")

// GetTaskPushNotificationConfig implements a2a.Service.
func (*reader) GetTaskPushNotificationConfig(
	context.Context, *a2a.GetTaskPushNotificationConfigRequest,
) (*a2a.TaskPushNotificationConfig, error) {
	return nil, errElsewhere
}

// ListTaskPushNotificationConfigs implements a2a.Service.
func (*reader) ListTaskPushNotificationConfigs(
	context.Context, *a2a.ListTaskPushNotificationConfigsRequest,
) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	return nil, errElsewhere
}

// GetExtendedAgentCard implements a2a.Service.
func (*reader) GetExtendedAgentCard(context.Context, *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return nil, errElsewhere
}
