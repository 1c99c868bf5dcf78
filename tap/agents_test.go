package tap

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
)

// TestErrors has an agent refuse through the tap what it refuses without it, in the same words.
func TestErrors(t *testing.T) {
	host := startHost(t, scripted(), nil)
	tap := startTap(t, host, nil)
	for _, binding := range bindings {
		ask := func(card string) string {
			_, err := dial(t, card, binding).GetTask(t.Context(), &a2a.GetTaskRequest{ID: "none"})
			return fmt.Sprintf("%+v", err)
		}
		if with, without := ask(tap.url), ask(host); with != without || !strings.Contains(with, "no such task") {
			t.Errorf("%s: with the tap %s, without %s", binding, with, without)
		}
		x := tap.until(t, func(x *Exchange) bool { return x.Binding == binding && x.Done })
		if binding == a2a.BindingGRPC && (grpcCode(x) != "5" || x.wire() == 0) {
			t.Errorf("recorded %+v", x)
		}
	}
}

// wire returns what passed.
func (x *Exchange) wire() int64 { return x.Sent + x.Received }

func newKey(t *testing.T) *agentcard.Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := agentcard.NewKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestCard has a signed card pass: every byte but the addresses and the signature stays, and a key renews the signature.
func TestCard(t *testing.T) {
	extended := func(c *parley.Config) {
		c.CardKeys = []*agentcard.Key{newKey(t)}
		c.Authenticate = func(_ context.Context, info *a2a.CallInfo) error {
			info.Caller = a2a.Caller{Issuer: "test", Subject: "ann"}
			return nil
		}
		c.SecuritySchemes = map[string]a2a.SecurityScheme{"bearer": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		c.ExtendedCard = func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
			return &a2a.AgentCard{Description: "more"}, nil
		}
	}
	host := startHost(t, scripted(), extended)
	_, direct := post(t, host+a2a.CardPath, "")
	tap := startTap(t, host, nil)
	res, card := post(t, tap.url+a2a.CardPath, "", "If-None-Match", `"x"`)
	var was, now a2a.AgentCard
	if was.UnmarshalJSON([]byte(direct)) != nil || now.UnmarshalJSON([]byte(card)) != nil {
		t.Fatal(card)
	}
	if len(was.Signatures) == 0 || len(now.Signatures) != 0 || res.StatusCode != 200 {
		t.Errorf("%d signatures became %d, with %v", len(was.Signatures), len(now.Signatures), res.Header)
	}
	for i, x := range now.SupportedInterfaces {
		want := strings.Replace(was.SupportedInterfaces[i].URL, strings.TrimPrefix(host, "http://"), strings.TrimPrefix(tap.url, "http://"), 1)
		if x.ProtocolBinding == a2a.BindingGRPC {
			want = strings.TrimPrefix(tap.url, "http://")
		}
		if x.URL != want {
			t.Errorf("interface %d is at %s, want %s", i, x.URL, want)
		}
		direct = strings.Replace(direct, `"`+was.SupportedInterfaces[i].URL+`"`, `"`+x.URL+`"`, 1)
	}
	at := strings.Index(direct, `"signatures":`)
	end := at + strings.Index(direct[at:], "]") + 1
	if want := direct[:at] + `"signatures":[]` + direct[end:]; card != want {
		t.Errorf("the card is\n%s\nwant\n%s", card, want)
	}
	x := tap.until(t, func(x *Exchange) bool { return x.Kind == KindCard && x.Done })
	if !strings.Contains(x.Note, "signature, which no longer held, was dropped") || string(x.Response) != card {
		t.Errorf("recorded %+v", x)
	}
	for _, binding := range bindings {
		got, err := dial(t, tap.url, binding).GetExtendedAgentCard(t.Context(), new(a2a.GetExtendedAgentCardRequest))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range got.SupportedInterfaces {
			if !strings.Contains(i.URL, strings.TrimPrefix(tap.url, "http://")) {
				t.Errorf("over %s the extended card leads to %s", binding, i.URL)
			}
		}
		if got.Description != "more" || len(got.Signatures) != 0 {
			t.Errorf("over %s the extended card is %+v", binding, got)
		}
	}

	key := newKey(t)
	renewed := startTap(t, host, func(c *Config) { c.Keys = []*agentcard.Key{key} })
	_, card = post(t, renewed.url+a2a.CardPath, "")
	set, err := agentcard.JWKS(key)
	if err != nil {
		t.Fatal(err)
	}
	r := agentcard.Verify(t.Context(), []byte(card), agentcard.Policy{
		Origin: renewed.url, Enrolled: map[string]agentcard.Enrollment{renewed.url: {KeySet: set}},
	})
	if !r.Trusted() {
		t.Errorf("the renewed signature: %+v", r)
	}
}

// TestCardFromFile has the card in a file, and agents at several origins.
func TestCardFromFile(t *testing.T) {
	serve := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s %s", name, r.URL.EscapedPath())
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	card := fmt.Sprintf(`{"name":"Two","supportedInterfaces":[{"url":"%s/rpc","protocolBinding":"JSONRPC"},{"url":"%s/rest","protocolBinding":"HTTP+JSON"}]}`, serve("one"), serve("two"))
	tap := startTapOn(t, Config{Card: []byte(card), CardURL: "file:///tmp/card.json"}, nil)
	_, got := post(t, tap.url+a2a.CardPath, "")
	if !strings.Contains(got, tap.url+`/rpc"`) || !strings.Contains(got, tap.url+`/~2/rest"`) {
		t.Fatal(got)
	}
	if _, body := post(t, tap.url+"/rpc", `{}`); body != "one /rpc" {
		t.Error(body)
	}
	if _, body := post(t, tap.url+"/~2/rest/tasks/a%2Fb", ""); body != "two /rest/tasks/a%2Fb" {
		t.Error(body)
	}
	if x := tap.until(t, done("GetTask")); x.Task != "a/b" || x.Binding != a2a.BindingREST {
		t.Errorf("recorded %+v", x)
	}
}

// TestHostName refuses a browser's page whose name was made to resolve to this machine.
func TestHostName(t *testing.T) {
	tap := startTap(t, startHost(t, scripted(), nil), nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tap.url+a2a.CardPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestWebhooks has a notification come through the tap, on each binding, to a receiver whose URL the client still sees.
func TestWebhooks(t *testing.T) {
	host := startHost(t, scripted(), nil)
	tap := startTap(t, host, func(c *Config) { c.Webhooks = true })
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			got := make(chan string, 100)
			hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got <- r.URL.String() + " " + r.Header.Get("X-A2A-Notification-Token") + " " + string(b)
			}))
			defer hook.Close()
			c := dial(t, tap.url, binding)
			req := steps(`[{"park":"which one?"}]`)
			req.Message.MessageID = "m-" + binding
			req.Configuration = &a2a.SendMessageConfiguration{TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: hook.URL + "/first?x=y", Token: "secret-token"}}
			res, err := c.SendMessage(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			task := res.(*a2a.Task)
			config, err := c.CreateTaskPushNotificationConfig(t.Context(), &a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook.URL + "/second"})
			if err != nil {
				t.Fatal(err)
			}
			list, err := c.ListTaskPushNotificationConfigs(t.Context(), &a2a.ListTaskPushNotificationConfigsRequest{TaskID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			urls := []string{config.URL}
			for _, l := range list.Configs {
				urls = append(urls, l.URL)
			}
			sort.Strings(urls)
			if want := []string{hook.URL + "/first?x=y", hook.URL + "/second", hook.URL + "/second"}; !slices.Equal(urls, want) {
				t.Errorf("the client sees %q, want %q", urls, want)
			}
			seen := map[string]bool{}
			for late := time.After(30 * time.Second); len(seen) < 2; {
				select {
				case g := <-got:
					seen[strings.Fields(g)[0]] = true
					if strings.HasPrefix(g, "/first") && (!strings.HasPrefix(g, "/first?x=y secret-token ") || !strings.Contains(g, task.ID)) {
						t.Errorf("the receiver got %s", g)
					}
				case <-late:
					t.Fatalf("notifications came at %v only", seen)
				}
			}
			x := tap.until(t, func(x *Exchange) bool { return x.Kind == KindWebhook && x.Done && x.Task == task.ID })
			if !strings.HasPrefix(x.Upstream, hook.URL) || x.Status != 200 || len(x.All()) > 0 || strings.Contains(fmt.Sprint(x), "secret-token") {
				t.Errorf("recorded %+v", x)
			}
			x = tap.until(t, func(x *Exchange) bool {
				return x.Operation == "CreateTaskPushNotificationConfig" && x.Done && x.Task == task.ID
			})
			if !strings.Contains(x.Note, hook.URL+"/second was routed through the tap") {
				t.Errorf("recorded %+v", x)
			}
		})
	}
	if res, _ := post(t, tap.url+hookPath+"made-up", `{}`); res.StatusCode != 404 {
		t.Errorf("a webhook that nobody registered: %d", res.StatusCode)
	}
}

// TestTLS has an agent behind TLS with HTTP/2, and a tap that serves TLS.
func TestTLS(t *testing.T) {
	certificate, roots := selfSigned(t)
	host := startHost(t, scripted(), func(c *parley.Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	})
	trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true}}
	card, err := client.FetchCard(t.Context(), strings.Replace(host, "http://", "https://", 1), client.Options{HTTP: hc})
	if err != nil {
		t.Fatal(err)
	}
	tap := startTapOn(t, Config{Card: card.Raw, CardURL: card.URL, Upstream: trusting, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}}, nil)
	for _, binding := range bindings {
		c, err := client.New(t.Context(), tap.url, client.Options{HTTP: hc, Transports: []string{binding}, GRPC: overTLS(trusting)})
		if err != nil {
			t.Fatal(err)
		}
		req := steps(`[{"complete":"done"}]`)
		req.Message.MessageID = binding
		res, err := c.SendMessage(t.Context(), req)
		if err != nil || res.(*a2a.Task).Status.State != a2a.TaskStateCompleted {
			t.Errorf("%s: %+v, %v", binding, res, err)
		}
		_ = c.Close()
		x := tap.until(t, func(x *Exchange) bool { return x.Binding == binding && x.Done })
		if x.Proto != "HTTP/2.0" || !strings.HasPrefix(x.Upstream, "https://") || !strings.HasPrefix(x.URL, "https://") {
			t.Errorf("recorded %+v", x)
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestReplay plays a conversation with questions, a cancel beside a stream, and errors again: to the same agent, and to one
// that answers otherwise.
func TestReplay(t *testing.T) {
	host := startHost(t, scripted(), nil)
	path := filepath.Join(t.TempDir(), "tap.jsonl")
	tap := startTap(t, host, func(c *Config) { c.Recording.File = path })
	for _, binding := range bindings {
		c := dial(t, tap.url, binding)
		send := func(id, task, s string) *a2a.Task {
			req := steps(s)
			req.Message.MessageID, req.Message.TaskID = id+binding, task
			res, err := c.SendMessage(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return res.(*a2a.Task)
		}
		parked := send("a", "", `[{"park":"which one?"}]`)
		send("b", parked.ID, `[{"artifact":{"id":"x","name":"n","text":"this one"}},{"complete":"done"}]`)
		if _, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: parked.ID}); err == nil {
			t.Fatal("a task that had ended was canceled")
		}
		req := steps(`[{"wait":"never"}]`)
		req.Message.MessageID = "c" + binding
		for e, err := range c.SendStreamingMessage(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok && s.Status.State == a2a.TaskStateWorking {
				if _, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: s.TaskID}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	n := len(bindings) * 5
	tap.until(t, func(*Exchange) bool { return tap.rec.Status().Exchanges == int64(n+len(bindings)) })
	if err := tap.rec.Close(); err != nil {
		t.Fatal(err)
	}
	recorded, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	memory := tap.rec.Exchanges(0, 0)
	slices.SortFunc(memory, func(a, b *Exchange) int { return int(a.ID - b.ID) })
	for i, x := range recorded {
		kept := *memory[i]
		kept.Version, x.Version = 0, 0
		if !reflect.DeepEqual(asJSON(t, x), asJSON(t, &kept)) {
			t.Errorf("the file has\n%s\nmemory has\n%s", asJSON(t, x), asJSON(t, &kept))
		}
	}
	again := func(card string) (calls []*Replay, differ int) {
		got, err := client.FetchCard(t.Context(), card, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if calls, err = Play(t.Context(), recorded, got.Raw, got.URL, ReplayOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if len(c.Differences) > 0 {
				differ++
			}
		}
		return calls, differ
	}
	for _, card := range []string{host, startHost(t, scripted(), nil)} {
		calls, differ := again(card)
		if len(calls) != n || differ > 0 {
			for _, c := range calls {
				t.Errorf("%s %s: %q", c.Recorded.Operation, c.Recorded.Binding, c.Differences)
			}
		}
		for _, c := range calls {
			if c.Recorded.Task == c.Again.Task {
				t.Errorf("%s %s is about task %s again", c.Recorded.Operation, c.Recorded.Binding, c.Again.Task)
			}
		}
	}
	if calls, differ := again(startHost(t, revisor(t), nil)); differ < n/2 {
		t.Errorf("another agent answers %d of %d otherwise", differ, len(calls))
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHAR holds an archive to what the format asks of every entry.
func TestHAR(t *testing.T) {
	tap := startTap(t, startHost(t, revisor(t), nil), nil)
	for _, binding := range bindings {
		c := dial(t, tap.url, binding)
		for _, err := range c.SendStreamingMessage(t.Context(), text("How long? "+binding)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tap.until(t, func(*Exchange) bool { return tap.rec.Status().Exchanges == 6 })
	var b bytes.Buffer
	if err := WriteHAR(&b, tap.rec.Exchanges(0, 0)); err != nil {
		t.Fatal(err)
	}
	var har struct {
		Log struct {
			Version string
			Creator struct{ Name, Version string }
			Entries []map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &har); err != nil {
		t.Fatal(err)
	}
	if har.Log.Version != "1.2" || har.Log.Creator.Name == "" || har.Log.Creator.Version == "" || len(har.Log.Entries) != 6 {
		t.Fatalf("%+v", har.Log)
	}
	must := func(e map[string]any, of, names string) {
		for name := range strings.FieldsSeq(names) {
			if _, ok := e[name]; !ok {
				t.Errorf("%s has no %s", of, name)
			}
		}
		for name := range e {
			if !strings.Contains(" "+names+" ", " "+name+" ") && name[0] != '_' {
				t.Errorf("%s has %s", of, name)
			}
		}
	}
	streams := 0
	for _, e := range har.Log.Entries {
		must(e, "an entry", "startedDateTime time request response cache timings")
		request, response, timings := e["request"].(map[string]any), e["response"].(map[string]any), e["timings"].(map[string]any)
		post, content := request["postData"], response["content"].(map[string]any)
		delete(request, "postData")
		must(request, "a request", "method url httpVersion cookies headers queryString headersSize bodySize")
		must(response, "a response", "status statusText httpVersion cookies headers content redirectURL headersSize bodySize")
		must(content, "a content", "size mimeType text")
		must(timings, "timings", "send wait receive")
		if p, ok := post.(map[string]any); ok {
			must(p, "a body", "mimeType params text")
			streams++
			if text := content["text"].(string); !strings.Contains(text, "statusUpdate") || strings.Contains(text, "\ufffd") {
				t.Errorf("the body is %q", text)
			}
		}
		if _, err := time.Parse(time.RFC3339, e["startedDateTime"].(string)); err != nil {
			t.Error(err)
		}
		if sum := timings["send"].(float64) + timings["wait"].(float64) + timings["receive"].(float64); sum < e["time"].(float64)-0.01 || sum > e["time"].(float64)+0.01 {
			t.Errorf("timings of %v, and %v in all", timings, e["time"])
		}
	}
	if streams != 3 {
		t.Errorf("%d bodies", streams)
	}
}
