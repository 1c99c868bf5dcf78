package push

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/server"
)

var _ server.PushConfigs = (*Push)(nil)

// Case 25: a configuration that comes with a blocking, an immediate and a streaming send gets the same events,
// the terminal one included.
func TestServerSends(t *testing.T) {
	s, r := memory(), newRecorder(t)
	p := newPush(t, s, Options{})
	yes := true
	srv, err := server.New(server.Config{
		Name: alice.Agent, Store: s, Push: p, Log: slog.New(slog.DiscardHandler),
		Card: func() *a2a.AgentCard {
			return &a2a.AgentCard{
				Capabilities:      a2a.AgentCapabilities{Streaming: &yes, PushNotifications: &yes},
				DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
			}
		},
		Agent: agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
			for i := range 3 {
				if err := u.Artifact(a2a.Artifact{ArtifactID: fmt.Sprint("a", i), Parts: []*a2a.Part{a2a.TextPart("text")}}); err != nil {
					return err
				}
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown(context.WithoutCancel(t.Context()))
	var first string // what came first, which must come with every way of sending
	for mode, send := range map[string]func(*a2a.SendMessageRequest) error{
		"blocking": func(m *a2a.SendMessageRequest) error {
			_, err := srv.SendMessage(t.Context(), m)
			return err
		},
		"immediate": func(m *a2a.SendMessageRequest) error {
			m.Configuration.ReturnImmediately = true
			_, err := srv.SendMessage(t.Context(), m)
			return err
		},
		"streaming": func(m *a2a.SendMessageRequest) error {
			for _, err := range srv.SendStreamingMessage(t.Context(), m) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(mode, func(t *testing.T) {
			err := send(&a2a.SendMessageRequest{
				Message:       &a2a.Message{MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("x")}},
				Configuration: &a2a.SendMessageConfiguration{TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: r.URL}},
			})
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for end := false; !end; {
				q := r.take(t, 1)[0]
				var one map[string]json.RawMessage
				if err := json.Unmarshal([]byte(q.body), &one); err != nil || len(one) != 1 {
					t.Fatal(q.body, err)
				}
				kinds = append(kinds, slices.Collect(maps.Keys(one))...)
				end = strings.Contains(q.body, a2a.TaskStateCompleted.String())
			}
			got := strings.Join(kinds, ", ")
			if first == "" {
				first = got
			}
			if got != first || kinds[0] != "task" || !strings.HasSuffix(got, "artifactUpdate, artifactUpdate, artifactUpdate, statusUpdate") {
				t.Errorf("got %s; another way of sending %s", got, first)
			}
			until(t, func() bool { return p.count() == 0 })
			r.quiet(t)
		})
	}
}
