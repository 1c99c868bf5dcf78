package cli

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

// pages is an agent that only lists tasks: page returns what the n-th call is answered.
type pages struct {
	a2a.Service
	page func(n int) *a2a.ListTasksResponse
	n    int
}

func (p *pages) ListTasks(context.Context, *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	p.n++
	if p.page == nil {
		return nil, a2a.Errorf(a2a.ErrInvalidParams, "\u009b31m\u202e")
	}
	return p.page(p.n), nil
}

// TestUntrustedError: what an agent says in an error cannot move the cursor either.
func TestUntrustedError(t *testing.T) {
	url := serveService(t, new(pages))
	parleyRun("task", "list", "-a", url, "-o", "json").wants(t, 1, `\u009b31m\u202e`, "")
	parleyRun("task", "list", "-a", url).wants(t, 1, "", `\u009b31m\u202e`)
}

// serveService serves a service on JSON-RPC, and returns the address of its card.
func serveService(t *testing.T, svc a2a.Service) string {
	t.Helper()
	rpc := httptest.NewServer(jsonrpc.NewHandler(svc, jsonrpc.Options{}))
	t.Cleanup(rpc.Close)
	p := newPeer(t, says("hi"), nil, nil)
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = rpc.URL + "/" })
	return p.URL
}

// TestListAll: whatever an agent answers, the listing of all tasks ends.
func TestListAll(t *testing.T) {
	task := func(id string) []*a2a.Task {
		return []*a2a.Task{{ID: id, ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}}
	}
	for name, tt := range map[string]struct {
		page   func(n int) *a2a.ListTasksResponse
		code   int
		stdout string
		calls  int
	}{
		"two pages, and a task that moved": {func(n int) *a2a.ListTasksResponse {
			if n == 1 {
				return &a2a.ListTasksResponse{Tasks: append(task("t1"), task("t2")...), NextPageToken: "2"}
			}
			return &a2a.ListTasksResponse{Tasks: append(task("t2"), task("t3")...)}
		}, 0, `"totalSize":3}`, 2},
		"a page without tasks between": {func(n int) *a2a.ListTasksResponse {
			if n < 3 {
				return &a2a.ListTasksResponse{NextPageToken: fmt.Sprint(n)}
			}
			return &a2a.ListTasksResponse{Tasks: task("t1")}
		}, 0, `"totalSize":1}`, 3},
		"a token that comes again": {func(n int) *a2a.ListTasksResponse {
			return &a2a.ListTasksResponse{Tasks: task(fmt.Sprint(n)), NextPageToken: fmt.Sprint(n % 3)}
		}, 1, "a token came twice", 4},
		"no tasks, and always a new token": {func(n int) *a2a.ListTasksResponse {
			return &a2a.ListTasksResponse{NextPageToken: fmt.Sprint(n)}
		}, 1, "20 pages of tasks in a row", maxIdlePages},
		"the same tasks, and always a new token": {func(n int) *a2a.ListTasksResponse {
			return &a2a.ListTasksResponse{Tasks: task("t1"), NextPageToken: fmt.Sprint(n)}
		}, 1, "20 pages of tasks in a row", maxIdlePages + 1},
	} {
		t.Run(name, func(t *testing.T) {
			agent := &pages{page: tt.page}
			parleyRun("task", "list", "--all", "-a", serveService(t, agent), "-o", "json").wants(t, tt.code, tt.stdout, "")
			if agent.n != tt.calls {
				t.Errorf("%d calls, want %d", agent.n, tt.calls)
			}
		})
	}
}
