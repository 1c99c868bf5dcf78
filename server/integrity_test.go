package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/server"
)

// digested puts chunk-integrity on the card, besides the others.
func digested(c *server.Config) {
	card := *c.Card()
	card.Capabilities.Extensions = append(extension.Declare(), extension.Declaration(extension.ChunkIntegrity))
	c.Card = func() *a2a.AgentCard { return &card }
}

// asked returns the context of a call under the extensions, from generation after on if it is not 0.
func asked(ctx context.Context, after int64, uris ...string) context.Context {
	ctx = under(ctx, uris[0])
	info := a2a.CallInfoFrom(ctx)
	info.Extensions = uris
	if after > 0 {
		info.Header.Set(extension.LastEventID, fmt.Sprint(after))
	}
	return ctx
}

// TestDigestsOnStreams: readers of every kind get digests that fit, from wherever they begin, and nobody else gets any.
func TestDigestsOnStreams(t *testing.T) {
	h := newHost(t, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if r.Text() == "again" {
			return u.Open(r.Task.Artifacts[0].ArtifactID).Last(a2a.TextPart("3"))
		}
		w := u.Begin("out")
		for i := range 3 {
			if err := w.WriteText(fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return u.Park(a2a.TextPart("more?"))
	}), digested)
	both := []string{extension.TaskLog, extension.ChunkIntegrity}
	read := func(name string, entries func(yield func(a2a.Entry, error) bool), want bool) (task *a2a.Task) {
		t.Helper()
		var d extension.Digests
		task = new(a2a.Task)
		for e, err := range entries {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			task.Apply(e.Event)
			has := strings.Contains(string(e.JSON()), extension.ChunkIntegrity)
			status, quiet := e.Event.(*a2a.TaskStatusUpdateEvent)
			quiet = quiet && status.Status.State == a2a.TaskStateWorking
			if has != (want && !quiet) {
				t.Errorf("%s: %s", name, e.JSON())
			}
			if want {
				if err := d.Check(e.Event); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		return task
	}
	task := read("send", h.SendStreamingMessage(asked(t.Context(), 0, both...), text("x")), true)
	read("resume", h.SendStreamingMessage(asked(t.Context(), 0, extension.ChunkIntegrity), to(task.ID, "again")), true)
	sub := &a2a.SubscribeToTaskRequest{ID: task.ID}
	for after := int64(1); after < 9; after++ { // the last first, so that none makes the entries for the others
		read("plain", h.SubscribeToTask(asked(t.Context(), 9-after, extension.TaskLog), sub), false)
		if got := read("both", h.SubscribeToTask(asked(t.Context(), 9-after, both...), sub), true); got.Artifacts[0].Text() != "0123" {
			t.Errorf("got %q", got.Artifacts[0].Text())
		}
	}
	for _, uris := range [][]string{both, {extension.ChunkIntegrity}} {
		got, err := h.GetTask(asked(t.Context(), 0, uris...), &a2a.GetTaskRequest{ID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		if err := new(extension.Digests).Check(got); err != nil {
			t.Error(err)
		}
	}
	got, err := h.GetTask(asked(t.Context(), 0, extension.TaskLog), &a2a.GetTaskRequest{ID: task.ID})
	if err != nil || strings.Contains(string(got.AppendJSON(nil)), extension.ChunkIntegrity) {
		t.Errorf("%v: %s", err, got.AppendJSON(nil))
	}
}
