package parley_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/taskstore"
)

// says is an agent that ends each task with a word.
func says(word string) agent.Agent {
	return agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		return u.Complete(a2a.TextPart(word))
	})
}

// TestGroup: several agents on one pair of listeners, each with a card of its own that is found by the catalog, and none
// with a sight of another's tasks (threat B10).
func TestGroup(t *testing.T) {
	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	var hosts []*parley.Host
	for _, name := range []string{"One", "Two"} {
		h, err := parley.New(parley.Config{Name: name, Store: store, Log: slog.New(slog.DiscardHandler)}, says(name))
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	g, err := parley.NewGroup(parley.Config{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	httpL, grpcL, err := g.Listeners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, httpL, grpcL) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	base := "http://" + httpL.Addr().String()
	tasks := map[string]string{}
	for _, item := range catalogItems(t, base) {
		for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
			c, err := client.New(ctx, strings.TrimSuffix(item.Href, "/")+a2a.CardPath, client.Options{Transports: []string{binding}})
			if err != nil {
				t.Fatalf("%s: %v", item.Href, err)
			}
			res, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("x")}}})
			if err != nil {
				t.Fatalf("%s %s: %v", item.Title, binding, err)
			}
			task := res.(*a2a.Task) //nolint:forcetypeassert // the agents make tasks
			if got := task.Status.Message.Text(); got != item.Title {
				t.Errorf("%s over %s: %q answered", item.Title, binding, got)
			}
			for other, id := range tasks {
				if other == item.Title {
					continue
				}
				if _, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); !errors.Is(err, a2a.ErrTaskNotFound) {
					t.Errorf("%s reads a task of %s: %v", item.Title, other, err)
				}
			}
			tasks[item.Title] = task.ID
			_ = c.Close()
		}
	}
	if len(tasks) != 2 {
		t.Errorf("the catalog has %d agents", len(tasks))
	}
	res, err := http.Get(base + "/agents/one" + a2a.CardPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	card, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if findings := agentcard.Validate(card); len(findings) > 0 {
		t.Errorf("the card: %v", findings)
	}
}

type catalogItem struct{ Href, Title string }

func catalogItems(t *testing.T, base string) []catalogItem {
	t.Helper()
	res, err := http.Get(base + parley.CatalogPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var set struct {
		Linkset []struct{ Item []catalogItem }
	}
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return set.Linkset[0].Item
}

func TestGroupRefuses(t *testing.T) {
	host := func(name string, a a2a.Authenticate) *parley.Host {
		h, err := parley.New(parley.Config{Name: name, Authenticate: a, Log: slog.New(slog.DiscardHandler)}, says(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Shutdown(context.Background()) })
		return h
	}
	known := func(context.Context, *a2a.CallInfo) error { return nil }
	for why, hosts := range map[string][]*parley.Host{
		"none": nil, "one name twice": {host("a", nil), host("a", nil)}, "one asks who calls": {host("a", nil), host("b", known)},
	} {
		if _, err := parley.NewGroup(parley.Config{}, hosts...); err == nil {
			t.Errorf("%s: taken", why)
		}
	}
}
