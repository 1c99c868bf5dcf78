package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
)

var update = flag.Bool("update", false, "write docs/a2a-cli-compliance.yaml anew")

// complianceFile is the report in the form of the a2a-cli specification (COMPLIANCE.md, appendix A). The identifiers and
// what they ask for are kept there alone; the test finds the rest.
const complianceFile = "../../docs/a2a-cli-compliance.yaml"

// asked is the SHA-256 of what the specification's template (compliance-report.template.yaml, revision 2026-08-17) asks
// for: of each requirement a line of its identifier, tier, area, sections and text, with tabs between them. A report whose
// words were changed says that something else was tested.
const asked = "7ac7e8835768334cfcd6e6766ab6a20f4e14fda9cca6915dd8f3749ce7c13179"

// complianceRow is how a requirement is exercised. A row that does nothing is not measured.
type complianceRow struct {
	any  func(r *rig, agent string) // at any agent that acts on the words of demo-server, by its URL
	own  func(r *rig)               // at an agent of its own making
	note string                     // about a row that passes, or why it is not measured
	na   string                     // why it does not apply
}

// TestCompliance exercises every requirement of the a2a-cli specification with the parley binary, PARLEY_BIN or that of
// this test: each is a subtest. The agents are those of parley demo-server and parley serve, and one of the official
// JavaScript SDK where node is installed. What is found has to be what the report says; -update writes it.
func TestCompliance(t *testing.T) {
	report := readReport(t)
	ours := newRig(t).start("demo-server", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	theirs := javaScriptAgent(t)
	ran := 0
	for _, id := range report.ids {
		row, known := complianceRows[id]
		if !known {
			t.Errorf("%s: no row of this test is about it", id)
			continue
		}
		entry := report.Requirements[id]
		entry.Status, entry.Note, entry.Evidence = "not_measured", optionalText(row.note), nil
		t.Run(id, func(t *testing.T) {
			ran++
			if row.na != "" {
				entry.Status, entry.Note = "na", &row.na
				return
			}
			if row.own == nil && row.any == nil {
				t.Skip("not measured: " + row.note)
			}
			entry.Status = "pass"
			evidence := []string{"parley"}
			if row.own != nil {
				t.Run("parley", func(t *testing.T) { row.own(newRig(t)) })
			}
			if row.any != nil {
				t.Run("demo-server", func(t *testing.T) { row.any(newRig(t), ours) })
				if theirs != "" {
					t.Run("a2a-js", func(t *testing.T) { row.any(newRig(t), theirs) })
				}
				evidence = append(evidence, "@a2a-js/sdk")
			}
			entry.Evidence = optionalText(fmt.Sprintf("go test ./internal/cli -run TestCompliance/%s, against agents of %s", id, strings.Join(evidence, " and ")))
			if t.Failed() {
				entry.Status, entry.Note = "fail", optionalText("go test ./internal/cli -run TestCompliance/"+id)
			}
		})
	}
	for id := range complianceRows {
		if !slices.Contains(report.ids, id) {
			t.Errorf("%s is in this test and not in the report", id)
		}
	}
	if ran < len(report.ids) {
		return // -run left rows out
	}
	report.finish(t)
	report.compare(t)
}

// measured is what the rows have seen besides: the error codes of the tool, and its defaults.
var measured = seenMeanwhile{codes: map[string]bool{}, defaults: map[string]bool{}}

type seenMeanwhile struct {
	mu              sync.Mutex
	codes, defaults map[string]bool
}

func (s *seenMeanwhile) note(m map[string]bool, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m[name] = true
}

func yesIf(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// complianceReport is the report as its file has it.
type complianceReport struct {
	Report       map[string]any            `yaml:"report"`
	Summary      map[string]map[string]any `yaml:"summary"`
	Requirements map[string]*requirement   `yaml:"requirements"`
	Defaults     map[string]map[string]any `yaml:"default_001_breakdown"`
	ErrorCodes   map[string]map[string]any `yaml:"error_codes"`
	Attestation  map[string]any            `yaml:"attestation"`
	ids          []string                  // in the file's order
	before       []byte                    // the file
}

type requirement struct {
	Tier        int     `yaml:"tier"`
	Area        string  `yaml:"area"`
	Spec        string  `yaml:"spec"`
	Requirement string  `yaml:"requirement"`
	Status      string  `yaml:"status"`
	Note        *string `yaml:"note"`
	Evidence    *string `yaml:"evidence"`
}

func readReport(t *testing.T) *complianceReport {
	t.Helper()
	raw, err := os.ReadFile(complianceFile)
	if err != nil {
		t.Fatal(err)
	}
	r := &complianceReport{before: raw}
	if err := yaml.UnmarshalWithOptions(raw, r, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^  (A2ACLI_[A-Z_]+_\d{3}):$`).FindAllSubmatch(raw, -1) {
		r.ids = append(r.ids, string(m[1]))
	}
	total := map[int]int{}
	for _, e := range r.Requirements {
		total[e.Tier]++
	}
	if want := map[int]int{1: 39, 2: 15, 3: 12}; !maps.Equal(total, want) || len(r.ids) != 66 {
		t.Fatalf("the report has %v requirements in the tiers, want %v", total, want)
	}
	words := sha256.New()
	for _, id := range r.ids {
		e := r.Requirements[id]
		_, _ = fmt.Fprintf(words, "%s\t%d\t%s\t%s\t%s\n", id, e.Tier, e.Area, e.Spec, e.Requirement) // a hash takes everything
	}
	if got := hex.EncodeToString(words.Sum(nil)); got != asked {
		t.Errorf("%s does not say what the template asks for: its requirements have the sum %s", complianceFile, got)
	}
	return r
}

// finish counts, and claims the highest tier whose rows, and those of the tiers below, all pass or do not apply.
func (r *complianceReport) finish(t *testing.T) {
	t.Helper()
	claimed, complete := 0, true
	for tier := 1; tier <= 3; tier++ {
		n := map[string]int{}
		for _, e := range r.Requirements {
			if e.Tier == tier {
				n[e.Status]++
				n["total"]++
			}
		}
		complete = complete && n["pass"]+n["na"] == n["total"]
		if complete {
			claimed = tier
		}
		r.Summary[fmt.Sprintf("tier_%d", tier)] = map[string]any{
			"total": n["total"], "pass": n["pass"], "partial": 0, "fail": n["fail"], "not_measured": n["not_measured"], "na": n["na"], "satisfied": complete,
		}
	}
	r.Report["tier_claimed"] = claimed
	for code, e := range r.ErrorCodes {
		e["emitted"] = yesIf(measured.codes[code])
	}
	for name, e := range r.Defaults {
		e["shipped"], e["overridable"] = yesIf(measured.defaults[name]), yesIf(measured.defaults[name])
	}
	if len(measured.defaults) < len(r.Defaults) && r.Requirements["A2ACLI_DEFAULT_001"].Status == "pass" {
		t.Errorf("of the defaults only %v were exercised", measured.defaults)
	}
}

// compare holds the file to what was found, dates apart, or writes it.
func (r *complianceReport) compare(t *testing.T) {
	t.Helper()
	if *update {
		today := time.Now().UTC().Format(time.DateOnly)
		r.Report["report_date"], r.Attestation["date"] = today, today
	}
	got := r.append(nil)
	if *update {
		if javaScriptMissing() {
			t.Fatal("the report is not written without node: it says what the agent of the JavaScript SDK has shown")
		}
		if err := os.WriteFile(complianceFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, r.before) && !t.Failed() {
		t.Errorf("%s is not what this test finds: go test ./internal/cli -run Compliance -update writes it\n%s", complianceFile, cmp.Diff(string(r.before), string(got)))
	}
}

// append writes the report as its template has it.
func (r *complianceReport) append(b []byte) []byte {
	b = append(b, `# a2a-cli compliance report of parley, in the form of COMPLIANCE.md, appendix A, of the a2a-cli specification.
# "go test ./internal/cli -run Compliance -update" writes what it finds; without -update it compares.

report:
`...)
	order := []string{
		"tool", "tool_version", "language", "repository", "maintainer", "report_date", "spec_version", "spec_revision", "a2a_versions",
		"agent_tested", "agent_tck_conformant", "transports_covered", "tier_claimed",
	}
	for _, k := range order {
		b = fmt.Appendf(b, "  %s: %s\n", k, yamlValue(r.Report[k]))
	}
	b = append(b, "\nsummary:\n"...)
	for tier := 1; tier <= 3; tier++ {
		s := r.Summary[fmt.Sprintf("tier_%d", tier)]
		b = fmt.Appendf(b, "  tier_%d: %s\n", tier, yamlFlow(s, "total", "pass", "partial", "fail", "not_measured", "na", "satisfied"))
	}
	b = append(b, "\nrequirements:\n"...)
	tier := 0
	for _, id := range r.ids {
		e := r.Requirements[id]
		if e.Tier != tier {
			tier = e.Tier
			b = fmt.Appendf(b, "\n  # Tier %d\n", tier)
		}
		b = fmt.Appendf(b, "  %s:\n    tier: %d\n    area: %s\n    spec: %s\n    requirement: %s\n    status: %s\n    note: %s\n    evidence: %s\n",
			id, e.Tier, e.Area, yamlValue(e.Spec), yamlValue(e.Requirement), e.Status, yamlValue(e.Note), yamlValue(e.Evidence))
	}
	b = append(b, "\ndefault_001_breakdown:\n"...)
	for _, k := range slices.Sorted(maps.Keys(r.Defaults)) {
		b = fmt.Appendf(b, "  %s: %s\n", k, yamlFlow(r.Defaults[k], "shipped", "overridable", "note"))
	}
	b = append(b, "\nerror_codes:\n"...)
	for _, k := range slices.Sorted(maps.Keys(r.ErrorCodes)) {
		b = fmt.Appendf(b, "  %s: %s\n", k, yamlFlow(r.ErrorCodes[k], "emitted", "note"))
	}
	b = append(b, "\nattestation:\n"...)
	for _, k := range []string{"reported_by", "date", "statement"} {
		b = fmt.Appendf(b, "  %s: %s\n", k, yamlValue(r.Attestation[k]))
	}
	return b
}

func yamlFlow(m map[string]any, keys ...string) string {
	var out []string
	for _, k := range keys {
		out = append(out, k+": "+yamlValue(m[k]))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// yamlValue returns a scalar, or a list of strings, as YAML; strings in quotes, as JSON has them.
func yamlValue(v any) string {
	if s, ok := v.(*string); ok && s == nil {
		return "null"
	}
	if v == "yes" || v == "no" {
		return v.(string) // as the template has them
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), `","`, `", "`)
}

// rig runs the binary in an empty home of its own.
type rig struct {
	*testing.T
	dir   string
	env   []string
	stdin string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	return &rig{T: t, dir: dir, env: []string{
		"PATH=" + filepath.Dir(parleyBinary(t)) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir,
		"XDG_STATE_HOME=" + filepath.Join(dir, "state"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "GORACE=atexit_sleep_ms=0",
	}}
}

// with returns a rig whose environment has more in it.
func (r *rig) with(env ...string) *rig {
	out := *r
	out.env = append(slices.Clone(r.env), env...)
	return &out
}

// says returns a rig whose stdin is s.
func (r *rig) says(s string) *rig {
	out := *r
	out.stdin = s
	return &out
}

// parleyBinary returns the path of the binary: PARLEY_BIN, or this test's own, which is the same program.
func parleyBinary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("PARLEY_BIN"); bin != "" {
		return bin
	}
	bin, err := exec.LookPath("parley") // testscript puts it there
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// outcome is what a command of the rig came to.
type outcome struct {
	result
	t *testing.T
}

func (r *rig) run(args ...string) outcome {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, parleyBinary(r.T), args...)
	return r.finish(cmd)
}

// shell runs a command line as a shell reads it.
func (r *rig) shell(line string) outcome {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	return r.finish(exec.CommandContext(ctx, "sh", "-c", line))
}

func (r *rig) finish(cmd *exec.Cmd) outcome {
	r.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, r.env, strings.NewReader(r.stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		r.Fatal(err)
	}
	return outcome{result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, r.T}
}

// is wants an exit code, and all of the words in stdout.
func (o outcome) is(code int, stdout ...string) outcome {
	o.t.Helper()
	if o.code != code {
		o.t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", o.code, code, o.stdout, o.stderr)
	}
	for _, s := range stdout {
		if !strings.Contains(o.stdout, s) {
			o.t.Errorf("stdout lacks %q:\n%s", s, o.stdout)
		}
	}
	return o
}

// warns wants words in stderr.
func (o outcome) warns(words ...string) outcome {
	o.t.Helper()
	for _, s := range words {
		if !strings.Contains(o.stderr, s) {
			o.t.Errorf("stderr lacks %q:\n%s", s, o.stderr)
		}
	}
	return o
}

// lacks wants words nowhere.
func (o outcome) lacks(words ...string) outcome {
	o.t.Helper()
	for _, s := range words {
		if strings.Contains(o.stdout+o.stderr, s) {
			o.t.Errorf("%q is in what was said:\n%s\n%s", s, o.stdout, o.stderr)
		}
	}
	return o
}

// field returns the value of a field of text.
func (o outcome) field(label string) string {
	o.t.Helper()
	m := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(label) + ": (.*)$").FindStringSubmatch(o.stdout)
	if m == nil {
		o.t.Fatalf("stdout has no field %s:\n%s\n%s", label, o.stdout, o.stderr)
	}
	return m[1]
}

// document returns stdout, which has to be one JSON object.
func (o outcome) document() map[string]any {
	o.t.Helper()
	var out map[string]any
	dec := json.NewDecoder(strings.NewReader(o.stdout))
	if err := dec.Decode(&out); err != nil {
		o.t.Fatalf("stdout is no JSON object: %v\n%s\n%s", err, o.stdout, o.stderr)
	}
	if _, err := dec.Token(); err != io.EOF {
		o.t.Fatalf("stdout has more than one JSON value:\n%s", o.stdout)
	}
	return out
}

// lines returns stdout, which has to be a JSON object on each line.
func (o outcome) lines() []map[string]any {
	o.t.Helper()
	var out []map[string]any
	for line := range strings.Lines(o.stdout) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || !strings.HasSuffix(line, "\n") {
			o.t.Fatalf("not a JSON object on a line: %v\n%q", err, line)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		o.t.Fatalf("stdout is empty\n%s", o.stderr)
	}
	return out
}

// at returns what a path of names leads to in a JSON object; nil: nothing.
func at(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// wantError wants an error object with a code, and returns its hint.
func (o outcome) wantError(exit int, code string) string {
	o.t.Helper()
	o.is(exit)
	doc := o.document()
	if got := at(doc, "error", "code"); got != code {
		o.t.Errorf("error code %v, want %s:\n%s", got, code, o.stdout)
	}
	measured.note(measured.codes, code)
	for _, name := range []string{"message", "hint", "a2aCode"} {
		if _, ok := doc["error"].(map[string]any)[name]; !ok {
			o.t.Errorf("the error has no %s:\n%s", name, o.stdout)
		}
	}
	hint, _ := at(doc, "error", "hint").(string)
	return hint
}

var readyLine = regexp.MustCompile(`^(?:parley: .+ at|agent:) (https?://[^ ,]+)`)

// start starts parley as a server and returns its URL.
func (r *rig) start(args ...string) string {
	r.Helper()
	return r.serve(exec.Command(parleyBinary(r.T), args...))
}

// serve starts a server, which is ended with the test.
func (r *rig) serve(cmd *exec.Cmd) string {
	r.Helper()
	var log bytes.Buffer
	cmd.Env, cmd.Stderr = r.env, &log
	if cmd.Dir == "" {
		cmd.Dir = r.dir
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // nothing it keeps is wanted
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	m := readyLine.FindStringSubmatch(line)
	if m == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Fatalf("%v said %q, %v\n%s", cmd, line, err, log.String())
	}
	return m[1]
}

func javaScriptMissing() bool {
	_, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat("../../interop/js/node_modules/express")
	}
	return err != nil
}

// javaScriptAgent starts the agent on the official JavaScript SDK and returns its URL; "" without node.
func javaScriptAgent(t *testing.T) string {
	t.Helper()
	if javaScriptMissing() {
		if os.Getenv("CI") == "true" {
			t.Fatal("node, or interop/js/node_modules, is missing: CI must run the rows against the JavaScript SDK too")
		}
		t.Log("without node and interop/js/node_modules (npm ci) the rows are not run against the JavaScript SDK")
		return ""
	}
	dir, err := filepath.Abs("../../interop/js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "agent.mjs")
	cmd.Dir = dir
	return newRig(t).serve(cmd)
}

// front stands before an agent's JSON-RPC interface, sees what is sent, and may do something else with it.
type front struct {
	*httptest.Server

	behind string // the agent's own interface

	mu       sync.Mutex
	card     []byte
	onCall   func(method string, w http.ResponseWriter, r *http.Request) bool // true: it has answered
	onAnswer func(method string, body []byte) []byte                          // changes an answer that is no stream
	seen     []seenCall
}

type seenCall struct {
	method string
	params map[string]any
	header http.Header
}

// front makes one, whose card is the agent's as change leaves it.
func (r *rig) front(agent string, change func(*a2a.AgentCard)) *front {
	r.Helper()
	res, err := http.Get(agent + a2a.CardPath)
	if err != nil {
		r.Fatal(err)
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		r.Fatal(err)
	}
	card := new(a2a.AgentCard)
	if err := card.UnmarshalJSON(raw); err != nil {
		r.Fatal(err)
	}
	i := slices.IndexFunc(card.SupportedInterfaces, func(i *a2a.AgentInterface) bool { return i.ProtocolBinding == a2a.BindingJSONRPC })
	target, err := url.Parse(card.SupportedInterfaces[i].URL)
	if err != nil {
		r.Fatal(err)
	}
	f := &front{behind: target.String()}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = target, target.Host
		},
		FlushInterval: -1,
		ModifyResponse: func(res *http.Response) error {
			method, _ := res.Request.Context().Value(methodKey{}).(string)
			_, after := f.hooks()
			if after == nil || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
				return nil
			}
			body, err := io.ReadAll(res.Body)
			if err != nil {
				return err
			}
			body = after(method, body)
			res.Body = io.NopCloser(bytes.NewReader(body))
			res.ContentLength = int64(len(body))
			res.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // who is called has gone
	}
	mux := http.NewServeMux()
	mux.HandleFunc(a2a.CardPath, func(w http.ResponseWriter, q *http.Request) {
		f.see("card", nil, q)
		f.mu.Lock()
		defer f.mu.Unlock()
		_, _ = w.Write(f.card)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		var call struct {
			Method string         `json:"method"`
			Params map[string]any `json:"params"`
		}
		_ = json.Unmarshal(body, &call)
		f.see(call.Method, call.Params, q)
		delete(call.Params, "tenant") // the agent behind has none
		var whole map[string]any
		if json.Unmarshal(body, &whole) == nil {
			whole["params"] = call.Params
			body, _ = json.Marshal(whole)
		}
		q = q.WithContext(context.WithValue(q.Context(), methodKey{}, call.Method))
		q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if before, _ := f.hooks(); before == nil || !before(call.Method, w, q) {
			proxy.ServeHTTP(w, q)
		}
	})
	f.Server = httptest.NewUnstartedServer(mux)
	f.Config.ErrorLog = nil
	f.Start()
	r.Cleanup(f.Close)
	card.SupportedInterfaces = []*a2a.AgentInterface{{URL: f.URL + "/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}}
	card.Capabilities.Extensions = nil
	if change != nil {
		change(card)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.card = card.AppendJSON(nil)
	return f
}

type methodKey struct{}

// before has calls go to do first, which reports whether it has answered.
func (f *front) before(do func(method string, w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onCall = do
}

// after has answers that are no streams changed.
func (f *front) after(do func(method string, body []byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onAnswer = do
}

func (f *front) hooks() (func(string, http.ResponseWriter, *http.Request) bool, func(string, []byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.onCall, f.onAnswer
}

func (f *front) see(method string, params map[string]any, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, seenCall{method, maps.Clone(params), r.Header.Clone()})
}

// calls returns what was sent so far, of one method or, where it is "", of all but the card.
func (f *front) calls(method string) []seenCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.seen), func(c seenCall) bool {
		return method != "" && c.method != method || method == "" && c.method == "card"
	})
}

// write writes a file into the rig's folder.
func (r *rig) write(name, content string) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
	return path
}

// files returns the files under the rig's folder.
func (r *rig) files() []string {
	r.Helper()
	var out []string
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// unixOnly is for rows that send signals.
func (r *rig) unixOnly() {
	r.Helper()
	if runtime.GOOS == "windows" {
		r.Skip("signals are of unix")
	}
}
