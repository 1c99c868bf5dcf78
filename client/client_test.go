package client_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
)

var echo = agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
	return u.Artifact(a2a.Artifact{Parts: r.Message.Parts})
})

// TestNew goes from a reference to an answer.
func TestNew(t *testing.T) {
	h := newHost(t, echo)
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, h.card.AppendJSON(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{h.url, strings.TrimPrefix(h.url, "http://"), h.url + a2a.CardPath, file} {
		onEach(t, func(t *testing.T, binding string) {
			c, err := client.New(t.Context(), ref, client.Options{Transports: []string{binding}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if c.Card().Name != "Test" || c.Interface().ProtocolBinding != binding {
				t.Errorf("%+v at %+v", c.Card(), c.Interface())
			}
			res, err := c.SendMessage(t.Context(), text("hello"))
			if err != nil || told(res) != "task COMPLETED hello" {
				t.Errorf("%v, %v", res, err)
			}
		})
	}
}

func TestChooseInterface(t *testing.T) {
	at := func(binding, url, version string) *a2a.AgentInterface {
		return &a2a.AgentInterface{URL: url, ProtocolBinding: binding, ProtocolVersion: version}
	}
	rpc, rest, grpc := at("JSONRPC", "https://a.example/rpc", "1.0"), at("HTTP+JSON", "http://a.example", "1.0"), at("GRPC", "a.example:443", "1.0")
	patch := at("JSONRPC", "https://a.example/patch", "1.0.2")
	old := at("GRPC", "old.example", "0.3")
	custom := at("https://x.example/binding", "wss://a.example", "1.0")
	type list = []*a2a.AgentInterface
	for name, c := range map[string]struct {
		card  list
		want  []string
		chose *a2a.AgentInterface
		err   error
		words []string
	}{
		"the first":                      {list{rest, rpc, grpc}, nil, rest, nil, nil},
		"the first that is spoken":       {list{custom, old, rpc, rest}, nil, rpc, nil, nil},
		"a patch version":                {list{patch, rpc}, nil, patch, nil, nil},
		"a preferred one":                {list{rpc, rest, grpc}, []string{"GRPC", "HTTP+JSON"}, grpc, nil, nil},
		"the second preferred":           {list{rpc, rest}, []string{"GRPC", "HTTP+JSON"}, rest, nil, nil},
		"none preferred":                 {list{rest, rpc}, []string{"GRPC", "smoke signals"}, rest, nil, nil},
		"a preferred one of old version": {list{rpc, old}, []string{"GRPC"}, rpc, nil, nil},
		"two of a preferred binding":     {list{patch, grpc, rpc}, []string{"JSONRPC"}, patch, nil, nil},
		"an empty list":                  {nil, nil, nil, client.ErrCardInvalid, []string{"lists no interfaces"}},
		"only old ones": {
			list{old, at("JSONRPC", "https://b.example", "")},
			nil, nil, a2a.ErrVersionNotSupported,
			[]string{`"GRPC" at "old.example"`, `version "0.3"`, `"JSONRPC" at "https://b.example"`, `version ""`},
		},
		"nothing that is spoken": {list{custom}, nil, nil, client.ErrCardInvalid, []string{`"https://x.example/binding"`, "none of JSONRPC"}},
		"bad URLs": {
			list{
				at("JSONRPC", "http://0.0.0.0:8000/", "1.0"), at("GRPC", "[::]:1", "1.0"), at("GRPC", "http://0.0.0.0:1", "1.0"),
				at("JSONRPC", "127.0.0.1:8000", "1.0"), at("HTTP+JSON", "grpc://a.example", "1.0"), at("JSONRPC", "/rpc", "1.0"),
				at("JSONRPC", "https://", "1.0"), at("JSONRPC", "https://u:p@a.example", "1.0"), at("JSONRPC", "http://a:b", "1.0"),
				at("GRPC", "ftp://a.example", "1.0"), at("GRPC", "a.example/path", "1.0"), at("GRPC", "", "1.0"), at("JSONRPC", "https://\x1b[2J", "1.0"),
			},
			nil, nil, client.ErrCardInvalid,
			[]string{
				"0.0.0.0 is an address to listen at", ":: is an address to listen at", "public address", "does not begin with https:// or http://",
				"names no host", "user name", "scheme", "host:port", `\x1b`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cl, err := client.Dial(&client.Card{AgentCard: &a2a.AgentCard{SupportedInterfaces: c.card}}, client.Options{Transports: c.want})
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if err != nil {
				if strings.ContainsAny(err.Error(), "\x1b\n") {
					t.Errorf("%q has control characters of the card in it", err)
				}
				return
			}
			defer func() { _ = cl.Close() }()
			if cl.Interface() != c.chose {
				t.Errorf("chose %+v", cl.Interface())
			}
		})
	}
	_, err := client.Dial(&client.Card{AgentCard: new(a2a.AgentCard), Raw: []byte(`{"name":"x","url":"http://a.example","preferredTransport":"JSONRPC"}`)}, client.Options{})
	if !errors.Is(err, client.ErrCardInvalid) || !strings.Contains(err.Error(), "protocol 0.3") {
		t.Errorf("a card of version 0.3: %v", err)
	}
}

// calls makes every call of a Service and returns the errors by operation.
func calls(ctx context.Context, s a2a.Service) map[string]error {
	errs := map[string]error{}
	first := func(entries iter.Seq2[a2a.Entry, error]) error {
		for _, err := range entries {
			return err
		}
		return nil
	}
	_, errs["SendMessage"] = s.SendMessage(ctx, text("x"))
	errs["SendStreamingMessage"] = first(s.SendStreamingMessage(ctx, text("x")))
	_, errs["GetTask"] = s.GetTask(ctx, &a2a.GetTaskRequest{ID: "t"})
	_, errs["ListTasks"] = s.ListTasks(ctx, &a2a.ListTasksRequest{})
	_, errs["CancelTask"] = s.CancelTask(ctx, &a2a.CancelTaskRequest{ID: "t"})
	errs["SubscribeToTask"] = first(s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: "t"}))
	_, errs["CreateTaskPushNotificationConfig"] = s.CreateTaskPushNotificationConfig(ctx, &a2a.TaskPushNotificationConfig{TaskID: "t", URL: "https://x.example"})
	_, errs["GetTaskPushNotificationConfig"] = s.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"})
	_, errs["ListTaskPushNotificationConfigs"] = s.ListTaskPushNotificationConfigs(ctx, &a2a.ListTaskPushNotificationConfigsRequest{TaskID: "t"})
	_, errs["DeleteTaskPushNotificationConfig"] = s.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"})
	_, errs["GetExtendedAgentCard"] = s.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	return errs
}

// TestCapabilities: what the card rules out is refused here, and nothing else is (specification 3.3.4).
func TestCapabilities(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo, func(c *a2a.AgentCard) { c.Capabilities = a2a.AgentCapabilities{PushNotifications: ptr(false)} })
		c := h.dial(t, client.Options{Transports: []string{binding}})
		for name, err := range calls(t.Context(), c) {
			var want error
			switch {
			case strings.Contains(name, "PushNotification"):
				want = a2a.ErrPushNotificationNotSupported
			case strings.Contains(name, "Stream"), strings.Contains(name, "Subscribe"), strings.Contains(name, "Extended"):
				want = a2a.ErrUnsupportedOperation
			case strings.Contains(name, "Task") && name != "ListTasks":
				want = a2a.ErrTaskNotFound
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		req := text("x")
		req.Configuration = &a2a.SendMessageConfiguration{TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: "https://x.example"}}
		_, err := c.SendMessage(t.Context(), req)
		_, streamed := all(c.SendStreamingMessage(t.Context(), req))
		if !errors.Is(err, a2a.ErrPushNotificationNotSupported) || !errors.Is(streamed, a2a.ErrPushNotificationNotSupported) {
			t.Errorf("with a webhook: %v, %v", err, streamed)
		}
		if n := len(h.received()); n != 4 {
			t.Errorf("%d requests were sent, want those of SendMessage, GetTask, ListTasks and CancelTask", n)
		}
	})
	t.Run("offered", func(t *testing.T) {
		h := newHost(t, echo, func(c *a2a.AgentCard) {
			c.Capabilities = a2a.AgentCapabilities{Streaming: ptr(true), PushNotifications: ptr(true), ExtendedAgentCard: ptr(true)}
		})
		for range calls(t.Context(), h.dial(t, client.Options{})) {
		}
		if n := len(h.received()); n != 11 {
			t.Errorf("%d of 11 requests were sent", n)
		}
	})
}

// TestRequiredExtension: what the caller does not declare is refused before a connection is made.
func TestRequiredExtension(t *testing.T) {
	const uri = "https://x.example/must"
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo, func(c *a2a.AgentCard) {
			c.Capabilities = a2a.AgentCapabilities{
				Streaming: ptr(true), PushNotifications: ptr(true), ExtendedAgentCard: ptr(true),
				Extensions: []*a2a.AgentExtension{{URI: "https://x.example/may"}, {URI: uri, Required: true}},
			}
		})
		c := h.dial(t, client.Options{Transports: []string{binding}, Extensions: []string{"https://x.example/may"}})
		for name, err := range calls(t.Context(), c) {
			if !errors.Is(err, a2a.ErrExtensionSupportRequired) || !strings.Contains(err.Error(), uri) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, entries := range map[string]iter.Seq2[a2a.Entry, error]{"Send": c.Send(t.Context(), text("x")), "Follow": c.Follow(t.Context(), "t")} {
			if _, err := all(entries); !errors.Is(err, a2a.ErrExtensionSupportRequired) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := h.http.count() + h.grpc.count(); n != 0 {
			t.Errorf("%d connections were made", n)
		}
		if _, err := h.dial(t, client.Options{Transports: []string{binding}, Extensions: []string{uri}}).SendMessage(t.Context(), text("x")); err != nil {
			t.Error(err)
		}
		info := &a2a.CallInfo{Extensions: []string{uri}}
		if _, err := c.SendMessage(a2a.WithCallInfo(t.Context(), info), text("x")); err != nil || !slices.Contains(info.Activated, uri) {
			t.Errorf("declared for one call: %v, activated %q", err, info.Activated)
		}
	})
}

// TestTenant: every request carries the interface's tenant, and no other (specification 8.3.2).
func TestTenant(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo)
		for _, i := range h.card.SupportedInterfaces {
			i.Tenant = "test" // the agent's name: the host knows no other
		}
		c := h.dial(t, client.Options{Transports: []string{binding}})
		req := text("x")
		req.Tenant = "other"
		res, err := c.SendMessage(t.Context(), req)
		if err != nil || req.Tenant != "other" {
			t.Fatalf("%v; the caller's tenant is now %q", err, req.Tenant)
		}
		if _, err := all(c.Send(t.Context(), text("x"))); err != nil {
			t.Error(err)
		}
		if _, err := c.Wait(t.Context(), res.(*a2a.Task).ID); err != nil {
			t.Error(err)
		}
		for _, i := range h.card.SupportedInterfaces {
			i.Tenant = "stranger"
		}
		if _, err := c.SendMessage(t.Context(), text("x")); !errors.Is(err, a2a.ErrInvalidParams) {
			t.Errorf("the tenant of the interface was not sent: %v", err)
		}
		for _, i := range h.card.SupportedInterfaces {
			i.Tenant = ""
		}
		if _, err := c.SendMessage(t.Context(), req); err != nil {
			t.Errorf("a tenant that the interface does not have was sent: %v", err)
		}
	})
}

// TestCallInfo has what goes beside a message.
func TestCallInfo(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo)
		opts := client.Options{
			Transports: []string{binding}, Extensions: []string{"https://x.example/a"},
			Header: http.Header{"X-One": {"1"}, "x-two": {"2"}},
		}
		c := h.dial(t, opts)
		opts.Header.Set("X-One", "changed") // the client keeps its own
		send := func(info *a2a.CallInfo) a2a.CallInfo {
			t.Helper()
			ctx := t.Context()
			if info != nil {
				ctx = a2a.WithCallInfo(ctx, info)
			}
			if _, err := c.SendMessage(ctx, text("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := all(c.SendStreamingMessage(ctx, text("x"))); err != nil {
				t.Fatal(err)
			}
			got := h.received()
			for _, name := range []string{"X-One", "X-Two", "X-Three"} {
				if a, b := header(got[len(got)-2], name), header(got[len(got)-1], name); a != b {
					t.Errorf("%s is %q for SendMessage, %q for the stream", name, a, b)
				}
			}
			return got[len(got)-1]
		}
		got := send(nil)
		if header(got, "X-One") != "1" || header(got, "X-Two") != "2" || got.Version != "1.0" || !slices.Equal(got.Extensions, opts.Extensions) {
			t.Errorf("without: %+v", got)
		}
		info := &a2a.CallInfo{
			Version: "1.0.1", Extensions: []string{"https://x.example/b", "https://x.example/a"}, Header: http.Header{"X-Two": {"two"}, "X-Three": {"3"}},
		}
		got = send(info)
		if header(got, "X-One") != "1" || header(got, "X-Two") != "two" || header(got, "X-Three") != "3" || got.Version != "1.0.1" ||
			!slices.Equal(got.Extensions, []string{"https://x.example/a", "https://x.example/b"}) {
			t.Errorf("with the caller's own: %+v", got)
		}
		if len(info.Extensions) != 2 || len(info.Header) != 2 {
			t.Errorf("the caller's CallInfo was changed: %+v", info)
		}
		got = send(&a2a.CallInfo{Peer: "10.0.0.1:1", Header: http.Header{"Authorization": {"Bearer canary"}, "X-Three": {"3"}}})
		if header(got, "Authorization") != "" || header(got, "X-Three") != "" || header(got, "X-One") != "1" {
			t.Errorf("headers of a request to us went on to the next agent: %+v", got)
		}
	})
}

func header(info a2a.CallInfo, name string) string {
	return strings.Join(info.Header.Values(name), ",")
}

// TestUnreachable: the error of a call says where it was to go and where else there is; nothing else is tried.
func TestUnreachable(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		h.proxyOf(binding).close()
		for name, err := range map[string]error{
			"unary":  func() error { _, err := c.SendMessage(t.Context(), text("x")); return err }(),
			"stream": func() error { _, err := all(c.Send(t.Context(), text("x"))); return err }(),
		} {
			if !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, a2a.ErrUnavailable) {
				t.Fatalf("%s: %v", name, err)
			}
			for _, i := range h.card.SupportedInterfaces {
				if !strings.Contains(err.Error(), i.URL) {
					t.Errorf("%s: %q does not name %s", name, err, i.URL)
				}
			}
		}
		if n := len(h.received()); n != 0 {
			t.Errorf("%d calls went elsewhere", n)
		}
	})
	t.Run("gRPC where HTTP is spoken", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		h := newHost(t, echo)
		h.card.SupportedInterfaces[2].URL = strings.TrimPrefix(s.URL, "http://")
		c := h.dial(t, client.Options{Transports: []string{a2a.BindingGRPC}, GRPC: []grpc.DialOption{grpc.WithDisableRetry()}})
		if _, err := c.SendMessage(t.Context(), text("x")); !errors.Is(err, client.ErrUnreachable) {
			t.Error(err)
		}
	})
	t.Run("a certificate that nobody trusts", func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		defer s.Close()
		h := newHost(t, echo)
		h.card.SupportedInterfaces[0].URL = s.URL
		if _, err := h.dial(t, client.Options{}).SendMessage(t.Context(), text("x")); !errors.Is(err, client.ErrUnreachable) {
			t.Error(err)
		}
		if _, err := client.FetchCard(t.Context(), s.URL, client.Options{}); !errors.Is(err, client.ErrUnreachable) {
			t.Error(err)
		}
	})
}

// TestCallRedirect: no call follows a redirect, not even within the origin.
func TestCallRedirect(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	card := newCard()
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST} {
		card.SupportedInterfaces = []*a2a.AgentInterface{{URL: o.URL, ProtocolBinding: binding, ProtocolVersion: "1.0"}}
		c, err := client.Dial(&client.Card{AgentCard: card}, client.Options{Header: http.Header{"X-Canary": {"1"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.SendMessage(t.Context(), text("x"))
		if !errors.Is(err, a2a.ErrInvalidAgentResponse) || !strings.Contains(err.Error(), "/elsewhere") {
			t.Errorf("%s: %v", binding, err)
		}
	}
	for _, r := range o.requests() {
		if r.URL.Path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
	}
}

func TestTasks(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		h := newHost(t, echo)
		c := h.dial(t, client.Options{Transports: []string{binding}})
		want := map[string]bool{}
		for range 7 {
			res, err := c.SendMessage(t.Context(), text("x"))
			if err != nil {
				t.Fatal(err)
			}
			want[res.(*a2a.Task).ID] = true
		}
		req := &a2a.ListTasksRequest{PageSize: ptr(int32(3))}
		before := len(h.received())
		got := map[string]bool{}
		for task, err := range c.Tasks(t.Context(), req) {
			if err != nil || got[task.ID] {
				t.Fatal(task, err)
			}
			got[task.ID] = true
		}
		if len(got) != 7 || len(h.received())-before != 3 || req.PageToken != "" {
			t.Errorf("%d tasks in %d pages", len(got), len(h.received())-before)
		}
		for id := range want {
			if !got[id] {
				t.Errorf("%s is missing", id)
			}
		}
		for _, err := range c.Tasks(t.Context(), req) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if n := len(h.received()) - before; n != 4 {
			t.Errorf("%d pages were fetched for one task", n-3)
		}
		for _, err := range c.Tasks(t.Context(), &a2a.ListTasksRequest{PageToken: "bad"}) {
			if !errors.Is(err, a2a.ErrInvalidParams) {
				t.Error(err)
			}
		}
	})
}

// circular lists pages that never end.
type circular struct{ a2a.Service }

func (circular) ListTasks(context.Context, *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return &a2a.ListTasksResponse{Tasks: []*a2a.Task{task(a2a.TaskStateWorking)}, NextPageToken: "again"}, nil
}

func TestTasksInACircle(t *testing.T) {
	n := 0
	for _, err := range newScripted(t, circular{}).dial(t, client.Options{}).Tasks(t.Context(), &a2a.ListTasksRequest{}) {
		if n++; err != nil && !errors.Is(err, a2a.ErrInvalidAgentResponse) || n > 3 {
			t.Fatal(err)
		}
	}
	if n != 3 {
		t.Errorf("%d yields", n)
	}
}
