package tap

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// ended returns so many exchanges, in their order, when all of them have ended: that is after the client has its answer.
func (r *running) ended(t *testing.T, n int64) []*Exchange {
	t.Helper()
	r.until(t, func(*Exchange) bool { return r.rec.Status().Exchanges == n })
	all := r.rec.Exchanges(0, 0)
	slices.SortFunc(all, func(a, b *Exchange) int { return int(a.ID - b.ID) })
	return all
}

func replay(t *testing.T, recorded []*Exchange, card string, opts ReplayOptions) []*Replay {
	t.Helper()
	got, err := client.FetchCard(t.Context(), card, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Play(t.Context(), recorded, got.Raw, got.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// TestReplayWebhooks plays calls again that registered webhooks: the agent is told of none, unless that is asked for.
func TestReplayWebhooks(t *testing.T) {
	host := startHost(t, scripted(), nil)
	hook := serveHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, binding := range bindings {
		tap := startTap(t, host, nil)
		c := dial(t, tap.url, binding)
		req := steps(`[{"park":"which one?"}]`)
		req.Message.MessageID = "m-" + binding
		req.Configuration = &a2a.SendMessageConfiguration{
			AcceptedOutputModes: []string{"text/plain"}, TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: hook + "/first"},
		}
		res, err := c.SendMessage(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		task := res.(*a2a.Task).ID
		if _, err := c.CreateTaskPushNotificationConfig(t.Context(), &a2a.TaskPushNotificationConfig{TaskID: task, URL: hook + "/second"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task}); err != nil {
			t.Fatal(err)
		}
		recorded := tap.ended(t, 4) // with the card
		for _, again := range []bool{false, true} {
			for i, c := range replay(t, recorded, startHost(t, scripted(), nil), ReplayOptions{Webhooks: again}) {
				asked := ""
				if c.Again != nil {
					asked = c.Again.RequestText()
				}
				about := i < 2 // SendMessage, CreateTaskPushNotificationConfig, GetTask
				if len(c.Differences) > 0 || c.LeftOut != (about && !again) || strings.Contains(asked, hook) != (about && again) ||
					(c.Again == nil) != (i == 1 && !again) || i == 0 && !strings.Contains(asked, "text/plain") {
					t.Errorf("%s %s, with webhooks: %v: left out %v, sent %s, %q", binding, c.Recorded.Operation, again, c.LeftOut, asked, c.Differences)
				}
			}
		}
	}
}

// TestReplayTellsWhy has an agent refuse what it took before: what differs says why, however long the details are.
func TestReplayTellsWhy(t *testing.T) {
	refuse, details := false, `[{"@type":"type.googleapis.com/google.rpc.BadRequest","x":"`+strings.Repeat("x", 300)+`"}]`
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]string{"/rpc": `{"jsonrpc":"2.0","id":1,"result":` + taskJSON + `}`, "/rest/tasks/t": taskJSON}[r.URL.Path]
		if refuse {
			answer = map[string]string{
				"/rpc":          `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"data":` + details + `,"message":"the <reason>"}}`,
				"/rest/tasks/t": `{"error":{"code":400,"details":` + details + `,"message":"the <reason>","status":"INVALID_ARGUMENT"}}`,
			}[r.URL.Path]
		}
		_, _ = io.WriteString(w, answer)
	})
	tap := startTapOn(t, cfg, nil)
	post(t, tap.url+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`)
	post(t, tap.url+"/rest/tasks/t", "")
	recorded := tap.ended(t, 2)
	refuse = true
	calls, err := Play(t.Context(), recorded, cfg.Card, "file:///card.json", ReplayOptions{})
	if err != nil || len(calls) != 2 {
		t.Fatal(calls, err)
	}
	for i, want := range []string{`error is -32602 "the <reason>" {"data":[{"@type"`, `error is 400 "the <reason>" {"details":[{"@type"`} {
		if said := fmt.Sprint(calls[i].Differences); !strings.Contains(said, want) {
			t.Errorf("%s, want %s", said, want)
		}
	}
	no := &Exchange{Trailer: http.Header{"Grpc-Status": {"5"}, "Grpc-Message": {"no%20such task"}}}
	yes := &Exchange{Trailer: http.Header{"Grpc-Status": {"0"}}}
	if said := new(player).compare(&Replay{Recorded: yes, Again: no}); len(said) != 1 || said[0] != `grpc-status 5 "no such task", was 0` {
		t.Errorf("%q", said)
	}
}
