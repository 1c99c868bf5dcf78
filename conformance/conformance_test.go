package conformance

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/rules"
)

// cardKey signs the cards of these tests.
var cardKey = func() *agentcard.Key {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	key, err := agentcard.NewKey(k)
	if err != nil {
		panic(err)
	}
	return key
}()

// TestGood holds good agents to the specification: nothing may be found, and nothing may be left behind.
func TestGood(t *testing.T) {
	for name, s := range map[string]setup{
		"with everything": {}, "with nothing": {plain: true}, "with a signed card": {key: cardKey},
		"with a required extension": {require: "https://example.com/ext/v1"}, "of few words": {fast: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := startHost(t, s)
			o := quick()
			if s.plain {
				o.Header, o.Other = nil, nil
			}
			if s.key != nil {
				set, err := agentcard.JWKS(s.key)
				if err != nil {
					t.Fatal(err)
				}
				o.Keys.KeySet = set
			}
			report, err := Run(t.Context(), url, o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Count(Fail) > 0 {
				var b strings.Builder
				_ = report.Text(&b, true)
				t.Error(b.String())
			}
			if m := report.Made; m.Left > 0 || m.Deleted != m.Webhooks || m.Tasks > 3*40 {
				t.Errorf("made %s", m)
			}
			if live := liveTasks(t, url); live > 0 {
				t.Errorf("%d tasks are left", live)
			}
			for _, r := range report.Results {
				if r.Outcome == NotMeasured && r.Why == "" {
					t.Errorf("%s on %s is not measured, and nobody says why", r.Rule, r.Interface)
				}
			}
		})
	}
}

// liveTasks returns how many tasks of the run have not ended.
func liveTasks(t *testing.T, url string) (n int) {
	t.Helper()
	card, err := client.New(t.Context(), url, client.Options{Extensions: []string{"https://example.com/ext/v1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Header: quick().Header})
	for task, err := range card.Tasks(ctx, &a2a.ListTasksRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !task.Status.State.Terminal() {
			n++
		}
	}
	return n
}

// TestBounded makes no more tasks than it may.
func TestBounded(t *testing.T) {
	url, _ := startHost(t, setup{plain: true})
	report, err := Run(t.Context(), url, Options{MaxTasks: 2, Settle: 100 * time.Millisecond, Bindings: []string{a2a.BindingREST}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Made.Tasks > 2 || report.Count(Fail) > 0 {
		t.Errorf("%s; %s", report.Made, report.Summary())
	}
}

// TestInterrupted ends a run in the middle: its tasks are canceled all the same.
func TestInterrupted(t *testing.T) {
	url, _ := startHost(t, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := quick()
	o.Progress = func(what string) {
		if what == "HTTP+JSON: live tasks" {
			cancel()
		}
	}
	report, err := Run(ctx, url, o)
	if !errors.Is(err, context.Canceled) || report.Made.Tasks == 0 || report.Made.Canceled == 0 {
		t.Errorf("%v, %+v", err, report)
	}
	if live := liveTasks(t, url); live > 0 {
		t.Errorf("%d tasks are left", live)
	}
}

// TestDocument holds the page about the run to the rules that there are.
func TestDocument(t *testing.T) {
	page, err := os.ReadFile("../docs/conformance-run.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("`rules`: %d of them", len(rules.All)); !strings.Contains(string(page), want) {
		t.Errorf("the page does not say %q", want)
	}
	_, tables, _ := strings.Cut(string(page), "## Requirements")
	for _, m := range regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`").FindAllStringSubmatch(tables, -1) {
		if rules.ByID(m[1]) == nil {
			t.Errorf("there is no rule %s", m[1])
		}
	}
}

// TestNoAgent has nothing to judge.
func TestNoAgent(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer page.Close()
	for _, ref := range []string{page.URL, "http://127.0.0.1:1"} {
		_, err := Run(t.Context(), ref, Options{})
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: want an error of one line, got %q", ref, err)
		}
	}
	if _, err := Run(t.Context(), page.URL, Options{Only: []string{"no-such"}}); err == nil {
		t.Error("a rule that is none: no error")
	}
}

// TestCutOff: an interface that no connection leads to is one finding. What it could not show is not measured, and no
// other interface is held to it.
func TestCutOff(t *testing.T) {
	for _, f := range []fault{{on: a2a.BindingGRPC}, {on: a2a.BindingREST}} {
		f.card = func(_ http.Header, m object) {
			each(m["supportedInterfaces"], func(i object) {
				if i["protocolBinding"] == f.on {
					i["url"] = map[string]string{a2a.BindingGRPC: "https://127.0.0.1:1", a2a.BindingREST: "http://127.0.0.1:1"}[f.on]
				}
			})
		}
		p := startProxy(t, f)
		o := quick()
		o.Only = []string{"version-*", "send-*", "get-*", "scope-*", "stream-*", "same-*"}
		report, err := Run(t.Context(), p.url, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Results {
			switch {
			case r.Interface != f.on && r.Outcome != Fail:
			case r.Rule == "version-works" && r.Outcome == Fail && r.Found == 1 && strings.Contains(r.Evidence[0].Got, "refused"):
			case r.Interface == f.on && r.Outcome == NotMeasured && strings.HasPrefix(r.Why, "the interface cannot be reached: ") && strings.Contains(r.Why, "refused"):
			default:
				t.Errorf("%s on %s: %s %s %+v", r.Rule, r.Interface, r.Outcome, r.Why, r.Evidence)
			}
		}
		if n := report.Count(Fail); n != 1 {
			t.Errorf("%s: %d findings", f.on, n)
		}
	}
}

// TestSecondRefused: a second caller whom the agent does not know shows nothing of how callers are kept apart.
func TestSecondRefused(t *testing.T) {
	url, _ := startHost(t, setup{})
	o := quick()
	o.Other, o.Only = http.Header{"Authorization": {"Bearer nobody"}}, []string{"scope-*"}
	report, err := Run(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome != NotMeasured || !strings.HasPrefix(r.Why, "the agent does not take the second credential") {
			t.Errorf("%s on %s: %s %s %+v", r.Rule, r.Interface, r.Outcome, r.Why, r.Evidence)
		}
	}
}

// TestReports writes a report in every form. What an agent says is data in all of them.
func TestReports(t *testing.T) {
	const evil = "<script>alert(1)</script>\x1b[2J"
	r := &Report{
		Agent: evil, Card: "https://a.example", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: time.Second,
		Interfaces: []Interface{{Binding: "JSONRPC", URL: evil, Name: "JSONRPC"}},
		Results: []Result{
			{Rule: "rpc-id", Section: "9.3", Level: rules.Must, Says: "x", Interface: "JSONRPC", Outcome: Fail, Found: 2, Evidence: []Evidence{{Path: evil, Got: evil, Want: "1", Request: evil, Response: evil}}},
			{Rule: "tls", Section: "7.1", Level: rules.Must, Says: "x", Interface: "JSONRPC", Why: evil},
			{Rule: "get-task", Section: "3.1.3", Level: rules.Must, Says: "x", Interface: "JSONRPC", Outcome: Pass},
		},
	}
	var text, js, xmls, page bytes.Buffer
	for w, f := range map[*bytes.Buffer]func(io.Writer) error{
		&text: func(w io.Writer) error { return r.Text(w, true) }, &js: r.JSON, &xmls: r.JUnit, &page: r.HTML,
	} {
		if err := f(w); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasSuffix(text.String(), "\n1 pass, 1 fail, 1 not measured\n") || strings.Contains(text.String(), "\x1b") {
		t.Errorf("text:\n%q", text.String())
	}
	var got struct {
		Pass, Fail, NotMeasured int
		Results                 []struct{ Outcome string }
	}
	if err := json.Unmarshal(js.Bytes(), &got); err != nil || got.Pass != 1 || got.Fail != 1 || got.NotMeasured != 1 || got.Results[1].Outcome != "not measured" {
		t.Errorf("JSON: %v %+v", err, got)
	}
	var suite junitSuite
	if err := xml.Unmarshal(xmls.Bytes(), &suite); err != nil || suite.Tests != 3 || suite.Failures != 1 || suite.Skipped != 1 || suite.Cases[0].Failure == nil {
		t.Errorf("JUnit: %v\n%s", err, xmls.String())
	}
	if s := page.String(); strings.Contains(s, "<script") || strings.Contains(s, "http-equiv=\"refresh") || strings.Contains(s, "src=") || !strings.Contains(s, "rpc-id") {
		t.Errorf("HTML:\n%s", s)
	}
}

// TestReasons: the text says why something was not measured, each reason once.
func TestReasons(t *testing.T) {
	result := func(rule, at, why string) Result {
		return Result{Rule: rule, Section: "3.1", Level: rules.Must, Says: "Says " + rule + ".", Interface: at, Why: why}
	}
	r := &Report{Results: []Result{
		result("get-task", "JSONRPC", "no task ended"), result("get-task", "GRPC", "it cannot be reached"),
		result("tls", "JSONRPC", "no task ended"), result("tls", "GRPC", "no task ended"),
	}}
	const want = `
Not measured:
  no task ended:
    MUST get-task (3.1) Says get-task. [JSONRPC]
    MUST tls (3.1) Says tls. [JSONRPC, GRPC]
  it cannot be reached:
    MUST get-task (3.1) Says get-task. [GRPC]

0 pass, 0 fail, 4 not measured
`
	for _, verbose := range []bool{false, true} {
		var b strings.Builder
		if err := r.Text(&b, verbose); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("verbose %v:\n%s", verbose, b.String())
		}
	}
}

func ExampleRun() {
	report, err := Run(context.Background(), "http://127.0.0.1:1", Options{Only: []string{"send-*"}})
	if err != nil {
		fmt.Println("there is no agent")
		return
	}
	fmt.Println(report.Summary())
	// Output: there is no agent
}
