package cli

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

// TestHints walks every code that a failure can have, as the sources and the protocol's table name them: each has advice,
// but for the one of what has no better code.
func TestHints(t *testing.T) {
	source, err := os.ReadFile("cli.go")
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`"(A2ACLI_ERR_[A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(own) != 8 {
		t.Errorf("%d codes of the tool, the specification has 8 (appendix D)", len(own))
	}
	for _, m := range own {
		if hint := fail(m[1], "", "x").advice(); (hint == "") != (m[1] == errInternal) {
			t.Errorf("%s: %q", m[1], hint)
		}
	}
	known := 0
	for code := a2a.ErrorCode(-33000); code < 0; code++ {
		if !code.Known() {
			continue
		}
		known++
		if f := failureOf(a2a.Errorf(code, "x")); f.advice() == "" {
			t.Errorf("%s has no hint", code.Name())
		}
	}
	if known < 20 {
		t.Errorf("%d errors of the protocol", known)
	}
}

// TestHintsKeepTheCommonOne: what is known besides comes after what the code says.
func TestHintsKeepTheCommonOne(t *testing.T) {
	f := failureOf(a2a.Errorf(a2a.ErrResourceExhausted, "x")).also("try again in 5s")
	if want := "try again a little later; try again in 5s"; f.advice() != want {
		t.Errorf("%q, want %q", f.advice(), want)
	}
	if f := failureOf(errors.Join(errors.New("one"), errors.New("two"))); f.message != "one; two" {
		t.Errorf("%q", f.message)
	}
}

// TestUntrustedCertificate: whoever has an authority of their own learns how to name it, on every binding.
func TestUntrustedCertificate(t *testing.T) {
	home(t)
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.EnableHTTP2 = true // gRPC wants it
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	card := filepath.Join(t.TempDir(), "card.json")
	for _, binding := range []string{"JSONRPC", "GRPC"} {
		text := `{"name":"x","description":"x","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],` +
			`"supportedInterfaces":[{"url":"` + web.URL + `","protocolBinding":"` + binding + `","protocolVersion":"1.0"}]}`
		if err := os.WriteFile(card, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := parleyRun("send", "-a", card, "-o", "json", "x")
		r.wants(t, 3, `"code":"A2ACLI_ERR_UNREACHABLE"`, "")
		if !strings.Contains(r.stdout, "--ca-cert FILE") {
			t.Errorf("%s: %s", binding, r.stdout)
		}
	}
	parleyRun("card", "get", "-a", web.URL).wants(t, 3, "", "Hint: name the authority that signed the agent's certificate with --ca-cert FILE; --insecure")
}

// TestRefusedWithoutScheme: an agent wants a credential and its card does not say which.
func TestRefusedWithoutScheme(t *testing.T) {
	home(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != a2a.CardPath {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"x","description":"x","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],` +
			`"supportedInterfaces":[{"url":"http://` + r.Host + `","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`))
	}))
	defer front.Close()
	r := parleyRun("send", "-a", front.URL, "-o", "json", "x")
	r.wants(t, 4, `"code":"A2ACLI_ERR_CREDENTIALS_MISSING"`, "")
	if !strings.Contains(r.stdout, `"hint":"its card declares no security scheme: where the card has only left it out`) {
		t.Error(r.stdout)
	}
}
