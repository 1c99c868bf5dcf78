package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/examples/internal/exampletest"
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

// host is the running command.
type host struct {
	*exampletest.Host
	state string
}

// start runs the command until the test ends.
func start(t *testing.T, args ...string) *host {
	t.Helper()
	state := t.TempDir()
	all := append([]string{"-state", state, "-failures", "-1"}, args...)
	return &host{exampletest.Start(t, os.Args[0], []string{"STOCK_TEST_MAIN=1"}, all...), state}
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
	conn, err := golden.Dial(binding, h.URL, h.GRPC)
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
