package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/xml"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

// conform runs parley conformance.
func conform(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &stdout, err: &stderr, json: asksForJSON(args)}
	root := a.root()
	if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "conformance" }) {
		root.AddCommand(a.conformance())
	}
	root.SetArgs(append([]string{"conformance"}, args...))
	err := root.ExecuteContext(t.Context())
	if err == nil {
		return result{0, stdout.String(), stderr.String()}
	}
	f := failureOf(err)
	a.report(f)
	return result{f.exit, stdout.String(), stderr.String()}
}

func TestConformance(t *testing.T) {
	const token = "s3cret-token"
	bearer := map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
	p := newPeer(t, says("hi"), func(info *a2a.CallInfo) bool { return info.Header.Get("Authorization") == "Bearer "+token }, bearer)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	rpc := []string{p.URL, "--bearer", token, "--only", "rpc-*,send-*,error-*,auth-*", "--settle", "200ms"}

	got := conform(t, append(rpc, "--report", "junit="+file("r.xml"), "--report", "html="+file("r.html"), "--report", "json="+file("r.json"))...)
	got.wants(t, 0, " pass, 0 fail, ", "")
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, " not measured") {
		t.Errorf("the last line is %q", last)
	}
	for _, name := range []string{"r.xml", "r.html", "r.json"} {
		b, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(token)) {
			t.Errorf("%s has the token", name)
		}
		var any struct{}
		switch filepath.Ext(name) {
		case ".json":
			err = json.Unmarshal(b, &any)
		case ".xml":
			err = xml.Unmarshal(b, &any)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	p.change(func(card *a2a.AgentCard) { card.Description = "" })
	got = conform(t, p.URL, "--bearer", token, "--only", "card-*", "-o", "json")
	got.wants(t, 1, `"rule": "card-required"`, "")
	if !json.Valid([]byte(got.stdout)) {
		t.Errorf("stdout is not one JSON value:\n%s", got.stdout)
	}
	conform(t, p.URL, "--bearer", token, "--only", "card-*").wants(t, 1, "3 fail", "Hint: --verbose")
}

func TestConformanceUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"is no rule": {"--only", "no-such-rule"}, "the levels": {"--level", "may"}, "KIND=TEXT": {"--say", "x=y"},
		"FORMAT=FILE": {"--report", "pdf=x"}, "no folder": {"--report", "json=" + filepath.Join("no", "such", "x")},
		"two": {"a.example", "b.example"}, "webhook-listen": {"--webhook-url", "https://x.example"},
	} {
		if got := conform(t, args...); got.code != 2 {
			t.Errorf("%s: exit code %d\n%s", name, got.code, got.stderr)
		}
	}
	conform(t, "--list", "--level", "must").wants(t, 0, "send-blocking", "")
	list := conform(t, "--list", "--only", "send-*", "-o", "json")
	list.wants(t, 0, `{"rule":"send-blocking","section":"3.2.2","level":"MUST","says":"`, "")
	var got struct{ Rules []struct{ Rule string } }
	if err := json.Unmarshal([]byte(list.stdout), &got); err != nil || len(got.Rules) < 10 {
		t.Errorf("%v, %d rules in\n%s", err, len(got.Rules), list.stdout)
	}
	conform(t, "http://127.0.0.1:1").wants(t, 3, "", "Error:")
}

// TestConformanceTLS: the run speaks gRPC as every other command does, also with settings for TLS of its own.
func TestConformanceTLS(t *testing.T) {
	home(t)
	ca := newAuthority(t)
	cert, key := ca.issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	config, err := auth.ServerTLS(auth.ServerTLSOptions{CertFile: cert, KeyFile: key})
	if err != nil {
		t.Fatal(err)
	}
	url := serveUntilEnd(t, parley.Config{Name: "Sealed", TLS: config}, says("hi"))
	for _, trust := range [][]string{{"--ca-cert", ca.file}, {"--insecure"}} {
		args := append([]string{url, "--transport", a2a.BindingGRPC, "--only", "version-*"}, trust...)
		conform(t, args...).wants(t, 0, "3 pass, 0 fail, ", "")
	}
}

// TestConformanceOtherCaller: the second caller's credential goes where the card wants it.
func TestConformanceOtherCaller(t *testing.T) {
	home(t)
	const ann, bob = "S1-0123456789abcdef", "S2-0123456789abcdef"
	var keys []auth.APIKey
	for _, text := range []string{"ann=" + ann, "bob=" + bob} {
		k, err := auth.ParseAPIKey(text)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	method, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	any, err := auth.Any(auth.Options{}, method)
	if err != nil {
		t.Fatal(err)
	}
	url := serveUntilEnd(t, parley.Config{Name: "Keyed", Auth: any}, says("hi"))
	t.Setenv("A2ACLI_API_KEY", ann)
	run := func(args ...string) result { return conform(t, append([]string{url, "--only", "scope-*"}, args...)...) }
	run("--other-bearer", bob).wants(t, 0, "  the agent does not take the second credential:\n", "")
	t.Setenv("A2ACLI_OTHER_API_KEY", bob)
	got := run("--verbose", "-o", "json")
	got.wants(t, 0, `"pass": 12,`, "")
	if strings.Contains(got.stdout+got.stderr, bob) {
		t.Errorf("the second key is shown:\n%s%s", got.stdout, got.stderr)
	}

	p := newPeer(t, says("hi"), nil, nil)
	t.Setenv("A2ACLI_API_KEY", "")
	conform(t, p.URL, "--only", "scope-*").wants(t, 2, "", "--other-api-key: the agent takes no API key")
	p.change(func(card *a2a.AgentCard) {
		card.SecuritySchemes = map[string]a2a.SecurityScheme{"key": &a2a.APIKeySecurityScheme{Name: "key", Location: "query"}}
	})
	conform(t, p.URL, "--only", "scope-*").wants(t, 2, "", "--other-api-key: the card wants the key in the query")

	t.Setenv("A2ACLI_OTHER_API_KEY", "")
	t.Setenv("A2ACLI_OTHER_BEARER", bob)
	t.Chdir(t.TempDir())
	write(t, ".env", "A2ACLI_AGENT_CARD="+p.URL+"\n", 0o600)
	before, _ := p.received()
	conform(t, "--only", "scope-*").wants(t, 4, "", "the credential of A2ACLI_OTHER_BEARER is not sent to "+p.URL)
	if after, _ := p.received(); len(after) > len(before) {
		t.Error("a request was made")
	}
	open := write(t, "open.env", "A2ACLI_OTHER_API_KEY="+bob+"\n", 0o644)
	conform(t, p.URL, "--config", open).wants(t, 2, "", "A2ACLI_OTHER_API_KEY is a secret, and others can read the file")
}
