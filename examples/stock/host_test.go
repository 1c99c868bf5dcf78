package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/examples/internal/issuer"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/golden"
)

// TestMain lets this binary be the command, so that the tests run it as a process of its own, with the race detector
// where they have it.
func TestMain(m *testing.M) {
	if os.Getenv("STOCK_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// host is a running command.
type host struct {
	state     string
	url, grpc string
	args      []string

	cmd    *exec.Cmd
	mu     sync.Mutex
	log    strings.Builder
	ended  chan struct{} // closed when the log has
	waited sync.Once
}

var served = regexp.MustCompile(`binding=(\S+) url=(\S+)`)

// start runs the command at free ports until the test ends.
func start(t *testing.T, args ...string) *host {
	t.Helper()
	h := &host{state: t.TempDir(), args: args}
	h.run(t)
	t.Cleanup(func() { h.stop(t) })
	return h
}

func (h *host) run(t *testing.T) {
	t.Helper()
	args := append([]string{"-state", h.state, "-listen", "127.0.0.1:0", "-grpc-listen", "127.0.0.1:0", "-failures", "-1"}, h.args...)
	h.cmd = exec.Command(os.Args[0], args...) // stop ends it, in good order
	h.cmd.Env = append(os.Environ(), "STOCK_TEST_MAIN=1")
	h.waited = sync.Once{}
	out, err := h.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	in := bufio.NewScanner(out)
	for len(urls) < 3 && in.Scan() {
		h.note(in.Text())
		if m := served.FindStringSubmatch(in.Text()); m != nil {
			urls[m[1]] = m[2]
		}
	}
	if len(urls) < 3 {
		_ = h.cmd.Wait()
		t.Fatalf("the command did not start: %s", h.logged())
	}
	h.url, h.grpc = strings.TrimSuffix(urls[a2a.BindingJSONRPC], "/"), strings.TrimPrefix(urls[a2a.BindingGRPC], "https://")
	h.ended = make(chan struct{})
	go func() {
		defer close(h.ended)
		for in.Scan() {
			h.note(in.Text())
		}
	}()
}

func (h *host) note(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.WriteString(line + "\n")
}

func (h *host) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

// stop ends the command as an operator does.
func (h *host) stop(t *testing.T) {
	t.Helper()
	h.waited.Do(func() {
		_ = h.cmd.Process.Signal(os.Interrupt)
		<-h.ended
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("after SIGINT: %v\n%s", err, h.logged())
		}
	})
}

// kill ends the command as a lost machine does.
func (h *host) kill() {
	h.waited.Do(func() {
		_ = h.cmd.Process.Kill()
		<-h.ended
		_ = h.cmd.Wait()
	})
}

// each runs f on every binding, with one host for all.
func each(t *testing.T, f func(t *testing.T, h *host, conn golden.Conn)) {
	t.Helper()
	h := start(t)
	for _, b := range golden.Bindings {
		t.Run(b, func(t *testing.T) { f(t, h, h.dial(t, b)) })
	}
}

func (h *host) dial(t *testing.T, binding string) golden.Conn {
	t.Helper()
	conn, err := golden.Dial(binding, h.url, h.grpc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// token returns the token of a partner.
func (h *host) token(t *testing.T, partner string) string {
	t.Helper()
	token, err := testToken(h.state, "stock-agent", partner)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// changed returns a token of the test issuer with changed claims; nil takes one away.
func (h *host) changed(t *testing.T, changes map[string]any) string {
	t.Helper()
	key, err := issuer.LoadKey(filepath.Join(h.state, "issuer.key"))
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, jose.ES256, key, "at+jwt", issuer.KeyID, claims(changes))
}

func claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": testIssuer, "sub": "purchasing@acme", "aud": "stock-agent", "exp": time.Now().Add(time.Hour).Unix(),
		"partner": "acme", "scope": "stock.read stock.reserve", "warehouses": []string{"SBY-01", "JKT-02"},
	}
	for name, v := range changes {
		if c[name] = v; v == nil {
			delete(c, name)
		}
	}
	return c
}

func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, typ, kid string, claims map[string]any) string {
	t.Helper()
	opts := (&jose.SignerOptions{}).WithHeader("kid", kid)
	if typ != "" {
		opts = opts.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// approving is bearer for a caller that can give approvals.
func approving(token string) http.Header {
	h := bearer(token)
	h.Set("A2a-Extensions", extension.Approval)
	return h
}

// text is the request for a message of text, with members of the message's.
func text(s string, members ...string) string { return message(`{"text":`+quote(s)+`}`, members...) }

func message(part string, members ...string) string {
	m := append([]string{`"messageId":"m1"`, `"role":"ROLE_USER"`, `"parts":[` + part + `]`}, members...)
	return `{"message":{` + strings.Join(m, ",") + `}}`
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func member(name, value string) string { return quote(name) + ":" + quote(value) }

// send sends a message and returns the task.
func send(t *testing.T, conn golden.Conn, header http.Header, request string) *a2a.Task {
	t.Helper()
	raw, err := golden.Call(t.Context(), conn, golden.Request{Op: "SendMessage", JSON: request, Header: header})
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	var wrapped struct{ Task *a2a.Task }
	if err := json.Unmarshal(raw, &wrapped); err != nil || wrapped.Task == nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return wrapped.Task
}

// answer returns all that comes back of a call, as one text.
func answer(t *testing.T, conn golden.Conn, op, request string, header http.Header) string {
	t.Helper()
	var b strings.Builder
	for raw, err := range conn.Do(t.Context(), golden.Request{Op: op, JSON: request, Header: header}) {
		if err != nil {
			b.WriteString("ERROR " + err.Error() + "\n")
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		same, err := json.Marshal(v) // protojson puts spaces in at random
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(same, '\n'))
	}
	return b.String()
}

func get(t *testing.T, hc *http.Client, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return b
}
