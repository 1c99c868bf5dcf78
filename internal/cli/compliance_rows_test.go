package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
)

// bindings are those of every agent that the rows are run against.
var bindings = []string{"JSONRPC", "HTTP+JSON", "GRPC"}

var complianceRows = map[string]complianceRow{
	"A2ACLI_CARD_GET_001":       {any: cardReferences},
	"A2ACLI_CARD_GET_002":       {any: cardValidate, own: cardInvalid},
	"A2ACLI_CARD_GET_003":       {own: extendedCard},
	"A2ACLI_CARD_GET_004":       {own: cardSignature},
	"A2ACLI_CARD_GET_005":       {own: cardByCatalog, note: "a catalog is an API catalog (RFC 9727) at an address, in a file or, with #NAME, that of a host"},
	"A2ACLI_SEND_001":           {any: sendStarts},
	"A2ACLI_SEND_002":           {any: sendBlocks},
	"A2ACLI_SEND_003":           {any: sendStreams, own: sendWithoutStreams},
	"A2ACLI_SEND_004":           {any: sendRenders},
	"A2ACLI_SEND_005":           {any: sendMediaTypes},
	"A2ACLI_SEND_006":           {any: sendParts},
	"A2ACLI_TASK_GET_001":       {any: taskGets},
	"A2ACLI_TASK_CANCEL_001":    {any: taskCancels},
	"A2ACLI_TASK_LIST_001":      {any: taskLists},
	"A2ACLI_TASK_SUBSCRIBE_001": {any: taskSubscribes},
	"A2ACLI_TASK_SUBSCRIBE_002": {own: taskResumes},
	"A2ACLI_INTERACT_001":       {any: interactContext},
	"A2ACLI_INTERACT_002":       {any: interactTask, own: interactNoNewTask},
	"A2ACLI_INTERACT_003":       {own: interactInventsNothing},
	"A2ACLI_INTERACT_004":       {any: interactReports},
	"A2ACLI_INTERACT_005":       {any: interactStateless},
	"A2ACLI_TASK_POLL_001":      {any: pollGets},
	"A2ACLI_TASK_POLL_002":      {own: pollIntervals},
	"A2ACLI_TASK_POLL_003":      {any: pollStops, own: pollUnspecified},
	"A2ACLI_TASK_POLL_004":      {own: pollFallsBack},
	"A2ACLI_OUT_001":            {any: outStandard},
	"A2ACLI_OUT_002":            {any: outDocument},
	"A2ACLI_OUT_003":            {any: outLines, own: outLinesError},
	"A2ACLI_OUT_004":            {any: outErrors},
	"A2ACLI_OUT_005":            {any: outText, own: outTextSafe},
	"A2ACLI_OUT_006":            {any: outAsync},
	"A2ACLI_OUT_007":            {any: outDebug},
	"A2ACLI_EXIT_001":           {own: exitCodes},
	"A2ACLI_EXIT_002":           {any: exitOutcomes},
	"A2ACLI_AUTH_001":           {own: authAttached},
	"A2ACLI_AUTH_002":           {own: authEnvironment},
	"A2ACLI_AUTH_003":           {own: authInsecure},
	"A2ACLI_AUTH_004":           {own: authRedacted},
	"A2ACLI_AUTH_005":           {own: loginByDevice},
	"A2ACLI_AUTH_006":           {own: loginByClient},
	"A2ACLI_AUTH_007":           {own: loginIsKept},
	"A2ACLI_AUTH_008":           {own: authUndeclared},
	"A2ACLI_AUTH_009":           {own: mutualTLS},
	"A2ACLI_AUTH_010":           {own: loginByOpenID},
	"A2ACLI_AUTH_011":           {any: authInTask},
	"A2ACLI_TX_001":             {own: transportOrder},
	"A2ACLI_TX_002":             {any: transportPreference},
	"A2ACLI_TX_003":             {own: transportTenant},
	"A2ACLI_TX_004":             {any: transports},
	"A2ACLI_TX_005":             {any: transportGRPC},
	"A2ACLI_VER_001":            {own: versionSignaled},
	"A2ACLI_VER_002":            {own: versionExtensions},
	"A2ACLI_VER_003":            {own: versionCapabilities},
	"A2ACLI_DEFAULT_001":        {any: defaults, own: defaultSecurity},
	"A2ACLI_CONFIG_001":         {own: configKept},
	"A2ACLI_CONFIG_002":         {own: configOrder},
	"A2ACLI_CLI_001":            {own: cliHelp},
	"A2ACLI_CLI_002":            {own: cliCompletion},
	"A2ACLI_SKILL_001":          {na: "parley ships no Agent Skill"},
	"A2ACLI_SKILL_002":          {na: "parley ships no Agent Skill"},
	"A2ACLI_DOWNLOAD_001":       {any: downloads, own: downloadsSafely},
	"A2ACLI_CONFORM_001":        {own: conformanceRuns, note: "the run judges by the clauses of the A2A specification, those that the kit (TCK) registers among them; the kit itself is not part of the tool"},
	"A2ACLI_PUSH_001":           {any: pushConfigs},
	"A2ACLI_PUSH_002":           {own: pushReceives},
	"A2ACLI_CHAT_001":           {any: chats},
	"A2ACLI_DEMO_SERVER_001":    {own: demoServes},
}

// idOf returns the id of a new task that a message makes.
func (r *rig) idOf(agent string, words ...string) string {
	r.Helper()
	return r.run(append([]string{"send", "-a", agent}, words...)...).is(0).field("Task")
}

// Cards.

func cardReferences(r *rig, agent string) {
	served := r.run("card", "get", "-a", agent, "-o", "json").is(0)
	name, _ := at(served.document(), "name").(string)
	file := r.write("card.json", served.stdout)
	host := strings.TrimPrefix(agent, "http://")
	for _, ref := range []string{agent, host, agent + a2a.CardPath, file, "card.json", "./card.json", "file://" + file} {
		r.run("card", "get", "-a", ref).is(0, "Agent: "+name+"\n", "\nStreaming: yes\n", "\nPush-Notifications: yes\n", "\nExtended-Card: ",
			"\nInterface: JSONRPC 1.0 http", "\nInterface: GRPC 1.0 127.0.0.1:", "\nSkill: demo: ")
		r.run("send", "-a", ref, "text").is(0, "State: COMPLETED")
	}
	r.run("send", "-a", "file://"+file, "--debug", "text").is(0).warns("binding=JSONRPC")
	r.run("card", "get", "-a", agent+"/nothing-here", "-o", "json").wantError(3, errCardNotFound)
	r.run("card", "get", "-a", "no-such-file.json", "-o", "json").is(3)
}

func cardValidate(r *rig, agent string) {
	r.run("card", "get", "-a", agent, "--validate").is(0, "Agent: ")
	doc := r.run("card", "get", "-a", agent, "--validate", "-o", "json").is(0).document()
	if at(doc, "supportedInterfaces") == nil {
		r.Errorf("no card: %v", doc)
	}
}

func cardInvalid(r *rig) {
	for name, card := range map[string]string{
		"schema.json": `{"name":"A","version":"1","supportedInterfaces":[{"url":"https://a.example/","protocolBinding":"JSONRPC"}]}`,
		"syntax.json": `{"name":`, "page.html": "<!doctype html><p>Hello", "type.json": `{"name":7}`,
	} {
		hint := r.run("card", "get", "-a", r.write(name, card), "--validate", "-o", "json").wantError(1, errCardInvalid)
		if hint == "" {
			r.Errorf("%s: no hint", name)
		}
	}
}

func extendedCard(r *rig) {
	host, err := parley.New(parley.Config{
		Name: "Two cards", Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0",
		SecuritySchemes:      map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}},
		SecurityRequirements: []*a2a.SecurityRequirement{{Schemes: map[string][]string{"web": {}}}},
		Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			if info.Header.Get("Authorization") != "Bearer t0ken" {
				return a2a.ErrUnauthenticated
			}
			info.Caller = a2a.Caller{Subject: "me"}
			return nil
		},
		ExtendedCard: func(context.Context, a2a.Caller) (*a2a.AgentCard, error) {
			return &a2a.AgentCard{Description: "For those who are known"}, nil
		},
	}, says("hi"))
	if err != nil {
		r.Fatal(err)
	}
	agent := serveHost(r, host)
	for _, binding := range bindings {
		run := func(args ...string) outcome {
			return r.run(append([]string{"card", "get", "-a", agent, "--transport", binding}, args...)...)
		}
		run().is(0, "Extended-Card: yes").lacks("known")
		run("--extended", "--bearer", "t0ken").is(0, "Description: For those who are known")
		if doc := run("--extended", "--bearer", "t0ken", "-o", "json").is(0).document(); at(doc, "description") != "For those who are known" {
			r.Errorf("%v", doc)
		}
		if hint := run("--extended", "-o", "json").wantError(4, errCredentialsMissing); !strings.Contains(hint, "--bearer") {
			r.Errorf("hint %q", hint)
		}
		run("--extended", "--bearer", "wrong", "-o", "json").wantError(4, errAuthFailed)
		run("--extended", "--api-key", "t0ken", "-o", "json").wantError(2, errUsage)
	}
}

func cardSignature(r *rig) {
	r.run("card", "init", "made").is(0)
	agent := r.start("serve", "--agent", "demo", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "none",
		"--card-key", "made/card-key.pem")
	key := filepath.Join(r.dir, "made", "jwks.json")
	r.run("card", "get", "-a", agent, "--jwks", key).is(0, "\nSignature: verified, by key ")
	r.run("card", "verify", "-a", agent, "--jwks", key).is(0, "Signature: verified")
	if got := r.run("card", "get", "-a", agent).is(0).field("Signature"); !strings.HasPrefix(got, "unverifiable") {
		r.Errorf("without a key the signature is %q", got)
	}
	r.run("card", "init", "other").is(0)
	if got := r.run("card", "get", "-a", agent, "--jwks", "other/jwks.json").is(0).field("Signature"); !strings.HasPrefix(got, "unverifiable") {
		r.Errorf("with another's key the signature is %q", got)
	}
	signed := r.run("card", "get", "-a", agent, "-o", "json").is(0).stdout
	forged := r.write("forged.json", strings.Replace(signed, `"name":"Demo"`, `"name":"Demx"`, 1))
	if got := r.run("card", "get", "-a", forged, "--jwks", key).is(0).field("Signature"); strings.HasPrefix(got, "verified") {
		r.Errorf("of a changed card: %q", got)
	}
	plain := r.start("demo-server", "--listen", "127.0.0.1:0", "--grpc-listen", "none")
	r.run("card", "get", "-a", plain, "--jwks", key).is(0, "\nSignature: absent\n")
}

func cardByCatalog(r *rig) {
	agent := r.start("demo-server", "--listen", "127.0.0.1:0", "--grpc-listen", "none")
	for _, ref := range []string{agent + parley.CatalogPath, agent + "#Demo", strings.TrimPrefix(agent, "http://") + "#demo"} {
		r.run("card", "get", "-a", ref).is(0, "Agent: Demo\n")
		id := r.idOf(ref, "text")
		r.run("task", "get", "-a", ref, id).is(0, "State: COMPLETED")
	}
	two := fmt.Sprintf(`{"linkset":[{"anchor":"https://x.example/","item":[{"href":"https://a.example/"}]},
{"anchor":%q,"service-desc":[{"href":%q,"title":"Demo"}]},
{"anchor":"https://b.example/b/","service-desc":[{"href":"https://b.example/card.json","title":"Other"}]}]}`, agent+"/", agent+a2a.CardPath)
	file := r.write("catalog.json", two)
	r.run("send", "-a", file+"#Demo", "text").is(0, "State: COMPLETED")
	hint := r.run("send", "-a", file, "text", "-o", "json").wantError(3, errCardNotFound)
	if !strings.Contains(hint, "#Demo") {
		r.Errorf("the hint does not say how to choose: %q", hint)
	}
	r.run("send", "-a", file+"#Nobody", "text", "-o", "json").wantError(3, errCardNotFound)
	config := r.write("alike.yaml", "agents:\n  - {name: aa, exec: [cat], store: 'memory:'}\n  - {name: bb, exec: [cat], store: 'memory:'}\n")
	host := r.start("serve", "--config", config, "--listen", "127.0.0.1:0", "--grpc-listen", "none")
	for _, ref := range []string{host, strings.TrimPrefix(host, "http://"), host + parley.CatalogPath} { // a host of several has no card at its root
		if hint := r.run("send", "-a", ref, "text", "-o", "json").wantError(3, errCardNotFound); !strings.Contains(hint, "#aa") {
			r.Errorf("%s: the hint does not say how to choose: %q", ref, hint)
		}
	}
	r.run("send", "-a", host+"#bb", "text").is(0, "State: COMPLETED")
}

// Messages.

func sendStarts(r *rig, agent string) {
	for _, binding := range bindings {
		o := r.run("send", "-a", agent, "--transport", binding, "Good morning").is(0, "State: COMPLETED\n", "  Good morning\n")
		o.field("Task")
		o.field("Context")
	}
}

func sendBlocks(r *rig, agent string) {
	r.run("send", "-a", agent, "long 500ms").is(0, "State: COMPLETED\n", "It took 500ms.")
	start := time.Now()
	o := r.run("send", "-a", agent, "--async", "long 40s").is(0)
	if state := o.field("State"); state != "WORKING" && state != "SUBMITTED" || time.Since(start) > 20*time.Second {
		r.Errorf("state %s after %v", state, time.Since(start))
	}
	o.field("Context")
	id := o.field("Task")
	r.run("task", "cancel", "-a", agent, id)
	r.with("A2ACLI_ASYNC=true").run("send", "-a", agent, "--wait", "long 300ms").is(0, "State: COMPLETED\n")
}

func sendStreams(r *rig, agent string) {
	o := r.run("send", "-a", agent, "--stream", "chunks 3").is(0, "Task: ", "chunk 1, chunk 2, chunk 3")
	if !strings.Contains(o.stdout[strings.LastIndex(o.stdout, "Task: "):], "State: COMPLETED") {
		o.t.Errorf("the end does not say which task has ended:\n%s", o.stdout)
	}
	r.run("send", "-a", agent, "--stream", "message").is(0, "Message:\n  A message, and no task.\n")
	lines := r.run("send", "-a", agent, "--stream", "-o", "json", "message").is(0).lines()
	if len(lines) != 1 || at(lines[0], "message") == nil {
		r.Errorf("%v", lines)
	}
}

func sendWithoutStreams(r *rig) {
	agent := r.start("demo-server", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--no-streaming")
	for _, binding := range bindings {
		r.run("send", "-a", agent, "--transport", binding, "--stream", "--poll-interval", "100ms", "long 300ms").is(0, "State: COMPLETED\n")
		lines := r.run("send", "-a", agent, "--transport", binding, "--stream", "-o", "json", "text").is(0).lines()
		if last := lines[len(lines)-1]; at(last, "task", "status", "state") != "TASK_STATE_COMPLETED" && at(last, "statusUpdate", "status", "state") != "TASK_STATE_COMPLETED" {
			r.Errorf("the last line is %v", last)
		}
		if lines := r.run("send", "-a", agent, "--transport", binding, "--stream", "-o", "json", "message").is(0).lines(); at(lines[0], "message") == nil {
			r.Errorf("%v", lines)
		}
	}
}

func sendRenders(r *rig, agent string) {
	for _, args := range [][]string{nil, {"--stream"}, {"--verbose"}, {"--transport", "GRPC"}} {
		o := r.run(append([]string{"send", "-a", agent, "parts"}, args...)...)
		o.is(0, "Text:\n  A line of text.\n", "Data:\n  {\n    \"fruit\": \"plum\"", "File: fruit.csv (text/csv, 22 bytes)", "https://example.com/fruit.csv")
	}
	for _, path := range r.files() {
		if filepath.Base(path) == "fruit.csv" {
			r.Error("a file was written that nobody asked for")
		}
	}
}

func sendMediaTypes(r *rig, agent string) {
	r.write("notes", "# Title\n")
	r.write("data.json", `{"a":1}`)
	doc := r.run("send", "-a", agent, "-o", "json", "--file", "notes", "--media-type", "text/markdown", "--file", "data.json").is(0).document()
	parts := artifactParts(r, doc)
	if len(parts) != 2 || at(parts[0], "mediaType") != "text/markdown" || at(parts[1], "mediaType") != "application/json" {
		r.Errorf("parts %v", parts)
	}
	r.run("send", "-a", agent, "-o", "json", "--media-type", "text/markdown", "--text", "x").wantError(2, errUsage)
}

// artifactParts returns the parts of a task's only artifact.
func artifactParts(r *rig, doc map[string]any) []any {
	r.Helper()
	artifacts, _ := at(doc, "task", "artifacts").([]any)
	if len(artifacts) != 1 {
		r.Fatalf("not one artifact: %v", doc)
	}
	parts, _ := at(artifacts[0], "parts").([]any)
	return parts
}

func sendParts(r *rig, agent string) {
	r.write("a.bin", "\x00\x01")
	in := r.says(`{"n": 1.5, "l": [null]}`)
	doc := in.run("send", "-a", agent, "-o", "json", "--text", "one", "--data", "-", "--file", "a.bin", "--text", "two", "--file", "https://example.com/x.pdf").is(0).document()
	parts := artifactParts(r, doc)
	if len(parts) != 5 {
		r.Fatalf("parts %v", parts)
	}
	if at(parts[0], "text") != "one" || at(parts[1], "data", "n") != 1.5 || at(parts[2], "raw") != "AAE=" || at(parts[2], "filename") != "a.bin" ||
		at(parts[3], "text") != "two" || at(parts[4], "url") != "https://example.com/x.pdf" {
		r.Errorf("parts %v", parts)
	}
}

// Tasks.

func taskGets(r *rig, agent string) {
	id := r.idOf(agent, "parts")
	for _, binding := range bindings {
		o := r.run("task", "get", "-a", agent, "--transport", binding, id).is(0, "Task: "+id+"\n", "\nState: COMPLETED\n", "  A line of text.\n", `"plum"`, "File: fruit.csv (text/csv, 22 bytes)")
		o.field("Context")
		o.lacks("User:\n")
		r.run("task", "get", "-a", agent, "--transport", binding, "--history", "5", id).is(0, "User:\n  parts\n")
	}
	doc := r.run("task", "get", "-a", agent, "-o", "json", id).is(0).document()
	if at(doc, "id") != id || at(doc, "status", "state") != "TASK_STATE_COMPLETED" || at(doc, "artifacts") == nil {
		r.Errorf("%v", doc)
	}
	doc = r.run("task", "get", "-a", agent, "-o", "json", "--history", "0", id).is(0).document()
	if h, _ := at(doc, "history").([]any); len(h) > 0 {
		r.Errorf("a history: %v", h)
	}
	r.run("task", "get", "-a", agent, "-o", "json", "no-such-task").wantError(1, "TaskNotFoundError")
}

func taskCancels(r *rig, agent string) {
	for _, binding := range bindings {
		id := r.idOf(agent, "--async", "long 40s")
		o := r.run("task", "cancel", "-a", agent, "--transport", binding, id).is(0, "Task: "+id+"\n", "State: CANCELED\n")
		o.field("Context")
		again := r.run("task", "cancel", "-a", agent, "--transport", binding, "-o", "json", id)
		if again.code == 0 {
			if at(again.document(), "status", "state") != "TASK_STATE_CANCELED" {
				r.Errorf("canceled again: %s", again.stdout)
			}
		} else {
			again.wantError(1, "TaskNotCancelableError")
		}
	}
	r.run("task", "cancel", "-a", agent, "-o", "json", r.idOf(agent, "text")).wantError(1, "TaskNotCancelableError")
}

func taskLists(r *rig, agent string) {
	first := r.run("send", "-a", agent, "ask").is(0)
	ctx := first.field("Context")
	for range 4 {
		r.run("send", "-a", agent, "--context-id", ctx, "text").is(0)
	}
	seen := map[string]bool{}
	args := []string{"task", "list", "-a", agent, "--context-id", ctx, "--page-size", "2", "-o", "json"}
	token := ""
	for range 4 {
		doc := r.run(append(args, "--page-token", token)...).is(0).document()
		tasks, _ := at(doc, "tasks").([]any)
		for _, task := range tasks {
			seen[at(task, "id").(string)] = true
		}
		if token, _ = at(doc, "nextPageToken").(string); token == "" {
			break
		}
	}
	if len(seen) != 5 {
		r.Errorf("%d tasks on all pages, want 5", len(seen))
	}
	waiting := r.run("task", "list", "-a", agent, "--context-id", ctx, "--status", "INPUT_REQUIRED").is(0, "Context: "+ctx, "State: INPUT_REQUIRED", "Total: 1\n")
	if id := waiting.field("Task"); id != first.field("Task") {
		r.Errorf("task %s", id)
	}
	if lines := r.run("task", "list", "-a", agent, "--context-id", ctx, "--all", "-o", "json", "--stream").is(0).lines(); len(lines) != 5 || at(lines[0], "id") == nil {
		r.Errorf("%v", lines)
	}
}

func taskSubscribes(r *rig, agent string) {
	for _, binding := range bindings {
		id := r.idOf(agent, "--async", "long 1s")
		lines := r.run("task", "subscribe", "-a", agent, "--transport", binding, "-o", "json", "--stream", id).is(0).lines()
		last := lines[len(lines)-1]
		if at(lines[0], "task", "id") != id || len(lines) < 2 || at(last, "statusUpdate", "status", "state") != "TASK_STATE_COMPLETED" && at(last, "task", "status", "state") != "TASK_STATE_COMPLETED" {
			r.Errorf("%s: %v", binding, lines)
		}
	}
	id := r.idOf(agent, "--async", "long 1s")
	r.run("task", "subscribe", "-a", agent, id).is(0, "Task: "+id+"\n", "State: COMPLETED\n", "It took 1s.")
}

// taskResumes breaks the stream of a subscription twice: what follows is the task, and the rest of it.
func taskResumes(r *rig) {
	f := r.front(r.demo(), nil)
	var cuts atomic.Int32
	f.before(func(method string, w http.ResponseWriter, q *http.Request) bool {
		if method != "SubscribeToTask" || cuts.Add(1) > 2 {
			return false
		}
		cut(f, w, q, 2)
		return true
	})
	id := r.idOf(f.URL, "--async", "long 3s")
	lines := r.run("task", "subscribe", "-a", f.URL, "-o", "json", "--stream", id).is(0).lines()
	if at(lines[0], "task", "id") != id {
		r.Errorf("the first line is %v", lines[0])
	}
	if n := len(f.calls("SubscribeToTask")); n != 3 {
		r.Errorf("%d subscriptions, want 3", n)
	}
	if n := len(f.calls("GetTask")); n != 0 {
		r.Errorf("%d times GetTask, which the first event makes needless", n)
	}
	if last := lines[len(lines)-1]; at(last, "statusUpdate", "status", "state") != "TASK_STATE_COMPLETED" {
		r.Errorf("the last line is %v", last)
	}
}

func (r *rig) demo(flags ...string) string {
	r.Helper()
	return r.start(append([]string{"demo-server", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"}, flags...)...)
}

// cut passes the first events of a stream on and then breaks the connection.
func cut(f *front, w http.ResponseWriter, q *http.Request, events int) {
	target := f.behind
	out, err := http.NewRequestWithContext(q.Context(), q.Method, target, q.Body)
	if err != nil {
		panic(err)
	}
	out.Header = q.Header.Clone()
	res, err := http.DefaultClient.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = res.Body.Close() }()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	in := bufio.NewScanner(res.Body)
	for in.Scan() && events > 0 {
		if _, err := w.Write(append(in.Bytes(), '\n')); err != nil {
			return
		}
		if len(in.Bytes()) == 0 {
			events--
		}
	}
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Interaction.

func interactContext(r *rig, agent string) {
	first := r.run("send", "-a", agent, "text").is(0)
	second := r.run("send", "-a", agent, "--context-id", first.field("Context"), "text").is(0)
	if second.field("Context") != first.field("Context") || second.field("Task") == first.field("Task") {
		r.Errorf("%s\n%s", first.stdout, second.stdout)
	}
}

func interactTask(r *rig, agent string) {
	for _, withContext := range []bool{false, true} {
		asked := r.run("send", "-a", agent, "ask").is(0, "State: INPUT_REQUIRED")
		args := []string{"send", "-a", agent, "--task-id", asked.field("Task"), "Forty-two"}
		if withContext {
			args = append(args, "--context-id", asked.field("Context"))
		}
		done := r.run(args...).is(0, "State: COMPLETED", "  Forty-two\n")
		if done.field("Task") != asked.field("Task") || done.field("Context") != asked.field("Context") {
			r.Errorf("%s\n%s", asked.stdout, done.stdout)
		}
	}
	asked, other := r.run("send", "-a", agent, "ask").is(0), r.run("send", "-a", agent, "text").is(0)
	for name, args := range map[string][]string{
		"an unknown task":   {"--task-id", "no-such-task"},
		"a finished task":   {"--task-id", other.field("Task")},
		"two that disagree": {"--task-id", asked.field("Task"), "--context-id", other.field("Context")},
	} {
		o := r.run(append([]string{"send", "-a", agent, "-o", "json", "x"}, args...)...).is(1)
		code, _ := at(o.document(), "error", "code").(string)
		hint, _ := at(o.document(), "error", "hint").(string)
		if !strings.HasSuffix(code, "Error") || !strings.Contains(hint, "--debug") {
			r.Errorf("%s: %s", name, o.stdout)
		}
	}
}

func interactNoNewTask(r *rig) {
	agent := r.demo()
	for _, args := range [][]string{{"--task-id", "no-such-task"}, {"--task-id", "no-such-task", "--stream"}, {"--task-id", "no-such-task", "--async"}} {
		r.run(append([]string{"send", "-a", agent, "x"}, args...)...).is(1)
	}
	r.run("task", "list", "-a", agent).is(0, "Total: 0\n")
}

func interactInventsNothing(r *rig) {
	f := r.front(r.demo(), nil)
	r.run("send", "-a", f.URL, "text").is(0)
	r.run("send", "-a", f.URL, "--context-id", "mine", "text").is(0)
	ids := map[any]bool{}
	for i, c := range f.calls("SendStreamingMessage") {
		m := at(c.params, "message")
		ids[at(m, "messageId")] = true
		if at(m, "taskId") != nil || i == 0 && at(m, "contextId") != nil || i == 1 && at(m, "contextId") != "mine" {
			r.Errorf("message %v", m)
		}
	}
	if len(ids) != 2 {
		r.Errorf("messages %v", ids)
	}
	r.run("send", "-a", f.URL, "message").is(0).lacks("chat", "session", "conversation")
}

func interactReports(r *rig, agent string) {
	for _, word := range []string{"ask", "auth"} {
		o := r.run("send", "-a", agent, word).is(0)
		o.field("Task")
		o.field("Context")
		o.field("State")
		resume := o.field("Resume")
		if !strings.Contains(resume, o.field("Task")) {
			r.Errorf("resume by %q", resume)
		}
		r.shell(resume).is(0, "Task: "+o.field("Task")+"\n", "State: COMPLETED")
		r.run("send", "-a", agent, "-o", "json", word).is(0).warns("Resume: parley send -a " + agent + " --task-id ")
	}
	done := r.run("send", "-a", agent, "text").is(0, "State: COMPLETED")
	done.field("Task")
	done.field("Context")
}

func interactStateless(r *rig, agent string) {
	o := r.run("send", "-a", agent, "ask").is(0)
	r.run("send", "-a", agent, "--continue", "x").is(2)
	if second := r.run("send", "-a", agent, "ask").is(0); second.field("Task") == o.field("Task") {
		r.Error("the second message went to the first one's task")
	}
	for _, path := range r.files() {
		b, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		if bytes.Contains(b, []byte(o.field("Task"))) || bytes.Contains(b, []byte(o.field("Context"))) {
			r.Errorf("%s remembers the task", path)
		}
	}
}

// Polling.

func pollGets(r *rig, agent string) {
	id := r.idOf(agent, "--async", "long 1s")
	o := r.run("task", "get", "-a", agent, id).is(0)
	if s := o.field("State"); s != "WORKING" && s != "SUBMITTED" {
		r.Errorf("state %s", s)
	}
	r.run("task", "get", "-a", agent, "--wait", id).is(0, "State: COMPLETED")
}

func pollIntervals(r *rig) {
	r.unixOnly()
	f := r.front(r.demo("--no-streaming"), nil)
	id := r.idOf(f.URL, "--async", "long 2s")
	before := len(f.calls("GetTask"))
	r.run("task", "get", "-a", f.URL, "--wait", "--poll-interval", "400ms", id).is(0, "State: COMPLETED")
	polls := f.calls("GetTask")[before:]
	if len(polls) < 3 || len(polls) > 9 {
		r.Errorf("%d polls of 400 ms in 2 s", len(polls))
	}
	id = r.idOf(f.URL, "--async", "long 40s")
	start := time.Now()
	hint := r.run("task", "get", "-a", f.URL, "--wait", "--poll-interval", "100ms", "--timeout", "700ms", "-o", "json", id).wantError(5, errTimeout)
	if time.Since(start) > 20*time.Second || !strings.Contains(hint, id) {
		r.Errorf("after %v: %q", time.Since(start), hint)
	}
	hint = r.run("send", "-a", f.URL, "--poll-interval", "100ms", "--timeout", "700ms", "-o", "json", "long 40s").wantError(5, errTimeout)
	if !strings.Contains(hint, "task get") {
		r.Errorf("hint %q", hint)
	}
	r.run("send", "-a", f.URL, "--poll-interval", "0s", "x").is(2)

	cmd := exec.CommandContext(r.Context(), parleyBinary(r.T), "send", "-a", f.URL, "-o", "json", "long 40s")
	cmd.Env = r.env
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	told, ok := strings.CutPrefix(strings.TrimSpace(line), "Waiting for task ")
	if err != nil || !ok {
		r.Fatalf("stderr %q, %v", line, err)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // the exit code says it
	interrupted := outcome{result{cmd.ProcessState.ExitCode(), stdout.String(), ""}, r.T}
	if hint := interrupted.wantError(1, errInternal); !strings.Contains(hint, told) {
		r.Errorf("hint %q of task %s", hint, told)
	}
}

func pollStops(r *rig, agent string) {
	for word, state := range map[string]string{"ask": "INPUT_REQUIRED", "auth": "AUTH_REQUIRED"} {
		id := r.run("send", "-a", agent, "--timeout", "20s", word).is(0, "State: "+state).field("Task")
		r.run("task", "get", "-a", agent, "--wait", "--timeout", "20s", id).is(0, "State: "+state)
	}
}

// pollUnspecified has an agent say that it does not know the state.
func pollUnspecified(r *rig) {
	f := r.front(r.demo("--no-streaming"), nil)
	var polls atomic.Int32
	f.after(func(method string, body []byte) []byte {
		if method == "GetTask" {
			polls.Add(1)
		}
		if polls.Load() > 3 {
			return body
		}
		return bytes.Replace(body, []byte(`"state":"TASK_STATE_WORKING"`), []byte(`"state":"TASK_STATE_UNSPECIFIED"`), 1)
	})
	id := r.idOf(f.URL, "--async", "long 2s")
	r.run("task", "get", "-a", f.URL, id).is(0, "State: UNSPECIFIED\n")
	r.run("task", "get", "-a", f.URL, "--wait", "--poll-interval", "100ms", id).is(0, "State: COMPLETED\n")
	if polls.Load() <= 3 {
		r.Errorf("it stopped at the unknown state, after %d polls", polls.Load())
	}
	polls.Store(-1000)
	id = r.idOf(f.URL, "--async", "long 40s")
	r.run("task", "get", "-a", f.URL, "--wait", "--poll-interval", "100ms", "--timeout", "600ms", "-o", "json", id).wantError(5, errTimeout)
}

// pollFallsBack has every stream break.
func pollFallsBack(r *rig) {
	f := r.front(r.demo(), nil)
	f.before(func(method string, w http.ResponseWriter, q *http.Request) bool {
		switch method {
		case "SendStreamingMessage":
			cut(f, w, q, 1)
		case "SubscribeToTask":
			panic(http.ErrAbortHandler)
		}
		return false
	})
	r.run("send", "-a", f.URL, "--poll-interval", "200ms", "long 1s").is(0, "State: COMPLETED\n", "It took 1s.")
	if len(f.calls("GetTask")) == 0 {
		r.Error("it was not polled")
	}
	r.run("send", "-a", f.URL, "--poll-interval", "200ms", "ask").is(0, "State: INPUT_REQUIRED\n")
	id := r.idOf(f.URL, "--async", "long 1s")
	r.run("task", "get", "-a", f.URL, "--poll-interval", "200ms", "--wait", id).is(0, "State: COMPLETED\n")
}

// Output.

func outStandard(r *rig, agent string) {
	o := r.run("send", "-a", agent, "fail").is(0).warns("Warning: the task failed")
	if strings.Contains(o.stdout, "Warning") || strings.Contains(o.stdout, "Waiting") {
		r.Errorf("stdout has diagnostics:\n%s", o.stdout)
	}
	id, ctx := o.field("Task"), o.field("Context")
	o.field("State")
	for _, args := range [][]string{{"task", "get"}, {"task", "download"}} {
		r.run(append(args, "-a", agent, id)...).is(0, "Task: "+id+"\n", "Context: "+ctx+"\n", "State: FAILED\n")
		doc := r.run(append(args, "-a", agent, id, "-o", "json")...).is(0).document()
		if at(doc, "id") != id || at(doc, "contextId") != ctx || at(doc, "status", "state") != "TASK_STATE_FAILED" {
			r.Errorf("%v", doc)
		}
	}
	lines := r.run("send", "-a", agent, "-o", "json", "--stream", "--debug", "--verbose", "text").is(0).lines()
	if at(lines[0], "task", "id") == nil || at(lines[0], "task", "contextId") == nil {
		r.Errorf("%v", lines[0])
	}
	r.run("send", "-a", agent, "-o", "json", "--debug", "--verbose", "text").is(0).document()
}

func outDocument(r *rig, agent string) {
	for _, word := range []string{"chunks 3", "long 200ms"} {
		doc := r.run("send", "-a", agent, "-o", "json", word).is(0).document()
		if at(doc, "task", "status", "state") != "TASK_STATE_COMPLETED" || at(doc, "task", "artifacts") == nil || len(doc) != 1 {
			r.Errorf("%v", doc)
		}
	}
	doc := r.run("send", "-a", agent, "-o", "json", "message").is(0).document()
	if at(doc, "message", "messageId") == nil || len(doc) != 1 {
		r.Errorf("%v", doc)
	}
	r.with("A2ACLI_STREAM=true").run("send", "-a", agent, "-o", "json", "chunks 3").is(0).document()
	r.with("A2ACLI_OUTPUT=json").run("send", "-a", agent, "chunks 3").is(0).document()
}

func outLines(r *rig, agent string) {
	for _, binding := range bindings {
		lines := r.run("send", "-a", agent, "--transport", binding, "-o", "json", "--stream", "chunks 3").is(0).lines()
		for _, line := range lines {
			if len(line) != 1 || at(line, "task") == nil && at(line, "statusUpdate") == nil && at(line, "artifactUpdate") == nil {
				r.Errorf("not an event of the protocol: %v", line)
			}
		}
		last := at(lines[len(lines)-1], "statusUpdate")
		if at(last, "status", "state") != "TASK_STATE_COMPLETED" || at(last, "taskId") == nil || at(last, "contextId") == nil {
			r.Errorf("%s: the last line is %v", binding, lines[len(lines)-1])
		}
	}
	cmd := exec.CommandContext(r.Context(), parleyBinary(r.T), "send", "-a", agent, "-o", "json", "--stream", "long 40s")
	cmd.Env = r.env
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !json.Valid([]byte(line)) { // it comes long before the end
		r.Errorf("the first line is %q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func outLinesError(r *rig) {
	agent := r.demo()
	f := r.front(agent, nil)
	f.before(func(method string, w http.ResponseWriter, q *http.Request) bool {
		switch method {
		case "SendStreamingMessage":
			cut(f, w, q, 1)
		case "SubscribeToTask", "GetTask":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}`))
			return true
		}
		return false
	})
	o := r.run("send", "-a", f.URL, "-o", "json", "--stream", "--poll-interval", "100ms", "--timeout", "20s", "long 40s").is(1)
	lines := o.lines()
	if at(lines[0], "task") == nil || at(lines[len(lines)-1], "error", "code") == nil {
		r.Errorf("%v", lines)
	}
	lines = r.run("send", "-a", agent, "-o", "json", "--stream", "--task-id", "nobody", "x").is(1).lines()
	if len(lines) != 1 || at(lines[0], "error", "code") == nil {
		r.Errorf("%v", lines)
	}
}

func outErrors(r *rig, agent string) {
	finished := r.idOf(agent, "text")
	for name, args := range map[string][]string{
		"TaskNotFoundError": {"task", "get", "no-such-task"}, "TaskNotCancelableError": {"task", "cancel", finished},
	} {
		var first string
		for _, binding := range bindings {
			o := r.run(append(args, "-a", agent, "--transport", binding, "-o", "json")...)
			if hint := o.wantError(1, name); hint == "" {
				r.Errorf("%s: no hint", name)
			}
			code := fmt.Sprint(at(o.document(), "error", "a2aCode"))
			if first == "" {
				first = code
			} else if code != first {
				r.Errorf("%s: the code is %s, before %s", binding, code, first)
			}
			r.run(append(args, "-a", agent, "--transport", binding)...).is(1).warns("(" + name + ")")
		}
	}
	for _, o := range []outcome{
		r.run("send", "-o", "json", "--no-such-flag"), r.run("send", "-o", "json"), r.run("-o", "json"), r.run("nonsense", "-o", "json"),
	} {
		if hint := o.wantError(2, errUsage); !strings.Contains(hint, "--help") {
			r.Errorf("hint %q", hint)
		}
	}
}

var (
	fieldLine  = regexp.MustCompile(`^[A-Z][A-Za-z-]*:( .*)?$`)
	blockStart = regexp.MustCompile(`^[A-Z][A-Za-z-]*:$`)
)

// wantText holds a text to its floor: fields, and blocks that a blank line ends.
func wantText(r *rig, s string) {
	r.Helper()
	block := false
	for i, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		switch {
		case block && line == "":
			block = false
		case block && !strings.HasPrefix(line, "  "):
			r.Errorf("line %d interrupts a block:\n%s", i+1, s)
		case block, line == "": // the content; between tasks
		case !fieldLine.MatchString(line):
			r.Errorf("line %d is no field: %q", i+1, line)
		default:
			block = blockStart.MatchString(line)
		}
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && hidden(c) }) {
		r.Errorf("there are control characters in %q", s)
	}
}

func outText(r *rig, agent string) {
	id := r.idOf(agent, "parts")
	for _, args := range [][]string{
		{"send", "parts"},
		{"send", "--stream", "chunks 3"},
		{"send", "ask"},
		{"send", "fail"},
		{"send", "message"},
		{"send", "--async", "text"},
		{"task", "get", id},
		{"task", "get", "--history", "3", id},
		{"task", "list", "--page-size", "5"},
		{"card", "get"},
		{"send", "--verbose", "parts"},
		{"task", "download", "--overwrite", id},
		{"send", "--stream", "long 200ms"},
	} {
		o := r.run(append(args, "-a", agent)...).is(0)
		wantText(r, o.stdout)
		if args[0] == "send" && args[len(args)-1] != "message" {
			o.field("Task")
			o.field("Context")
			o.field("State")
		}
	}
}

func outTextSafe(r *rig) {
	agent := r.demo()
	o := r.run("send", "-a", agent, "\x1b[31mred\x1b[0m\a\u202eturned\u202c\r\nTask: forged").is(0)
	wantText(r, o.stdout)
	if n := strings.Count("\n"+o.stdout, "\nTask: "); n != 1 {
		r.Errorf("%d tasks:\n%s", n, o.stdout)
	}
}

func outAsync(r *rig, agent string) {
	doc := r.run("send", "-a", agent, "--async", "-o", "json", "long 1s").is(0).document()
	id, _ := at(doc, "task", "id").(string)
	if id == "" || at(doc, "task", "contextId") == nil {
		r.Fatalf("%v", doc)
	}
	o := r.run("send", "-a", agent, "--async", "long 1s").is(0)
	o.field("Task")
	o.field("Context")
	r.run("task", "get", "-a", agent, "--wait", id).is(0, "State: COMPLETED")
}

func outDebug(r *rig, agent string) {
	for _, binding := range bindings {
		o := r.run("send", "-a", agent, "--transport", binding, "--debug", "-o", "json", "Words on the wire").is(0).warns("Words on the wire", "binding="+binding, "\n> ", "\n< ")
		o.document()
		if strings.Count(o.stderr, "Words on the wire") < 2 {
			r.Errorf("%s: the answer is not shown:\n%s", binding, o.stderr)
		}
	}
	r.run("send", "-a", agent, "Words on the wire").is(0).warns("Waiting")
	if o := r.run("send", "-a", agent, "Words on the wire"); strings.Contains(o.stderr, "Words on the wire") {
		r.Errorf("without --debug: %s", o.stderr)
	}
}

// Exit codes.

func exitCodes(r *rig) {
	agent := r.demo()
	r.run("send", "-a", agent, "text").is(0)
	r.run("task", "get", "-a", agent, "nobody", "-o", "json").wantError(1, "TaskNotFoundError")
	r.run("send", "-a", agent, "-o", "json").wantError(2, errUsage)
	r.run("send", "-a", "http://127.0.0.1:1", "-o", "json", "x").wantError(3, errUnreachable)
	r.run("send", "-a", agent+"/nothing.json", "-o", "json", "x").wantError(3, errCardNotFound)
	r.run("send", "-a", r.write("page.html", "<html>"), "-o", "json", "x").wantError(1, errCardInvalid)
	r.run("send", "-a", agent, "--timeout", "500ms", "-o", "json", "long 40s").wantError(5, errTimeout)
	locked := r.start("serve", "--agent", "demo", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--api-key", "me=right-key-of-mine")
	for _, binding := range bindings {
		if hint := r.run("send", "-a", locked, "--transport", binding, "-o", "json", "x").wantError(4, errCredentialsMissing); !strings.Contains(hint, "--api-key") {
			r.Errorf("hint %q", hint)
		}
		r.run("send", "-a", locked, "--transport", binding, "--api-key", "wrong", "-o", "json", "x").wantError(4, errAuthFailed)
	}
}

func exitOutcomes(r *rig, agent string) {
	for word, state := range map[string]string{"text": "COMPLETED", "fail": "FAILED", "reject": "REJECTED", "ask": "INPUT_REQUIRED", "auth": "AUTH_REQUIRED"} {
		for _, args := range [][]string{nil, {"--stream"}} {
			o := r.run(append([]string{"send", "-a", agent, word}, args...)...).is(0, "State: "+state+"\n")
			if word != "text" {
				o.warns("Warning: ")
			}
		}
		doc := r.run("send", "-a", agent, "-o", "json", word).is(0).document()
		if at(doc, "task", "status", "state") != "TASK_STATE_"+state {
			r.Errorf("%v", doc)
		}
	}
}

// Credentials.

func bearerPeer(r *rig, token string) *peer {
	return newPeer(r.T, says("hi"), func(info *a2a.CallInfo) bool { return info.Header.Get("Authorization") == "Bearer "+token },
		map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}})
}

func authAttached(r *rig) {
	p := bearerPeer(r, "t0ken")
	r.run("send", "-a", p.URL, "--bearer", "t0ken", "x").is(0, "State: COMPLETED")
	r.with("A2ACLI_BEARER=t0ken").run("send", "-a", p.URL, "x").is(0, "State: COMPLETED")
	r.run("send", "-a", p.URL, "--api-key", "t0ken", "-o", "json", "x").wantError(2, errUsage) // no scheme takes it
	for _, place := range []string{"header", "query", "cookie"} {
		k := newPeer(r.T, says("hi"), nil, map[string]a2a.SecurityScheme{"key": &a2a.APIKeySecurityScheme{Location: place, Name: "X-My-Key"}})
		r.with("A2ACLI_API_KEY=k3y").run("send", "-a", k.URL, "--svc-param", "x-trace:abc", "x").is(0, "State: COMPLETED")
		q := k.last(r.T)
		cookie, _ := q.Cookie("X-My-Key")
		got := q.Header.Get("X-My-Key") + q.URL.Query().Get("X-My-Key")
		if cookie != nil {
			got += cookie.Value
		}
		if got != "k3y" || q.Header.Get("X-Trace") != "abc" {
			r.Errorf("%s: the key is %q, the parameter %q", place, got, q.Header.Get("X-Trace"))
		}
	}
	locked := r.start("serve", "--agent", "demo", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--api-key", "me=right-key-of-mine")
	for _, binding := range bindings {
		r.run("send", "-a", locked, "--transport", binding, "--api-key", "right-key-of-mine", "text").is(0, "State: COMPLETED")
	}
	help := r.run("help", "options").is(0).stdout
	about := help[strings.Index(help, "--svc-param"):]
	about = about[:strings.Index(about, "--a2a-version")]
	if regexp.MustCompile(`(?i)auth|credential|token|secret`).MatchString(about) {
		r.Errorf("--svc-param is said to be for authentication: %s", about)
	}
}

func authEnvironment(r *rig) {
	p := bearerPeer(r, "flag-token")
	r.with("A2ACLI_BEARER=environment-token").run("send", "-a", p.URL, "--bearer", "flag-token", "x").is(0, "State: COMPLETED")
	r.with("A2ACLI_BEARER=environment-token").run("send", "-a", p.URL, "-o", "json", "x").wantError(4, errAuthFailed)
	help := strings.Join(strings.Fields(r.run("help", "options").is(0).stdout), " ")
	for _, want := range []string{"list of processes", "shell's history", "$A2ACLI_BEARER", "$A2ACLI_API_KEY"} {
		if !strings.Contains(help, want) {
			r.Errorf("the help lacks %q", want)
		}
	}
}

func authInsecure(r *rig) {
	p := bearerPeer(r, "t0ken")
	s := httptest.NewUnstartedServer(p.Config.Handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	r.Cleanup(s.Close)
	p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = s.URL + "/" })
	r.run("send", "-a", s.URL, "--bearer", "t0ken", "-o", "json", "x").wantError(3, errUnreachable)
	r.run("send", "-a", s.URL, "--insecure", "--bearer", "t0ken", "x").is(0, "State: COMPLETED").warns("Warning: TLS certificates are not verified", "the credential included").lacks("t0ken")
}

func authRedacted(r *rig) {
	const secret = "s3cret-of-mine"
	p := newPeer(r.T, says("hi "+secret), nil, map[string]a2a.SecurityScheme{
		"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}, "key": &a2a.APIKeySecurityScheme{Location: "query", Name: "k"},
	})
	for _, args := range [][]string{{"--bearer", secret}, {"--api-key", secret}, {"--svc-param", "Authorization: Basic " + secret}, {"--svc-param", "x-token: " + secret}} {
		o := r.run(append([]string{"send", "-a", p.URL, "--debug", "--verbose", "x"}, args...)...).is(0).warns("> POST ")
		if strings.Contains(o.stderr, secret) {
			r.Errorf("%s: stderr has the secret:\n%s", args[0], o.stderr)
		}
	}
	agent := r.demo()
	for _, binding := range bindings {
		o := r.run("task", "push-config", "create", "-a", agent, "--transport", binding, "--debug", "--url", "http://127.0.0.1:9/", "--token", secret,
			"--authorization", "Bearer "+secret+"2", r.idOf(agent, "ask"))
		o.is(0)
		if strings.Contains(o.stderr, secret) {
			r.Errorf("%s: stderr has the secret:\n%s", binding, o.stderr)
		}
	}
}

func authUndeclared(r *rig) {
	p := newPeer(r.T, says("hi"), nil, nil)
	p.change(func(card *a2a.AgentCard) { yes := true; card.Capabilities.ExtendedAgentCard = &yes })
	for _, args := range [][]string{{"--bearer", "t0ken"}, {"--api-key", "t0ken"}, {"--svc-param", "Authorization: Bearer t0ken"}} {
		r.run(append([]string{"card", "get", "-a", p.URL}, args...)...).is(0)
		r.run(append([]string{"card", "get", "-a", p.URL, "--extended", "-o", "json"}, args...)...).wantError(2, errUsage)
	}
	calls, cards := p.received()
	for _, q := range slices.Concat(calls, cards) {
		if strings.Contains(fmt.Sprint(q.Header, q.URL), "t0ken") {
			r.Errorf("the credential was sent: %v", q.URL)
		}
	}
}

// Logins.

// loggingIn returns a rig that trusts the issuer, whose client has a secret.
func (r *rig) loggingIn(is *issuer) *rig {
	return r.with("A2ACLI_CA_CERT="+is.caFile, "A2ACLI_CLIENT_SECRET="+clientSecret)
}

func loginByDevice(r *rig) {
	is := newIssuer(r.T)
	is.set(func() { is.device = []string{"authorization_pending", "authorization_pending"} })
	p := guarded(r.T, is, one(is.deviceScheme()))
	r = r.with("A2ACLI_CA_CERT=" + is.caFile)
	r.run("send", "-a", p.URL, "-o", "json", "x").wantError(4, errCredentialsMissing)
	r.run("auth", "login", "-a", p.URL, "--client-id", clientName).is(0).warns("/activate", "WDJB-MJHT")
	r.run("send", "-a", p.URL, "x").is(0, "State: COMPLETED")
	if asked := is.asked(); !strings.HasPrefix(asked, "device_code") {
		r.Errorf("grants: %s", asked)
	}
}

func loginByClient(r *rig) {
	is := newIssuer(r.T)
	agent := guardedHost(r.T, is)
	r = r.loggingIn(is)
	r.run("auth", "login", "-a", agent, "--client-id", clientName).is(0).lacks(clientSecret)
	for _, binding := range bindings {
		r.run("send", "-a", agent, "--transport", binding, "x").is(0, "State: COMPLETED")
	}
	if asked := is.asked(); asked != "client_credentials" {
		r.Errorf("grants: %s", asked)
	}
	r.with("A2ACLI_CLIENT_SECRET=wrong").run("auth", "login", "-a", agent, "--client-id", clientName, "-o", "json").is(4)
}

func loginIsKept(r *rig) {
	is := newIssuer(r.T)
	agent := guardedHost(r.T, is)
	r = r.loggingIn(is)
	r.run("auth", "login", "-a", agent, "--client-id", clientName).is(0)
	files, err := filepath.Glob(filepath.Join(r.dir, "config", "parley", "logins", "*.json"))
	if err != nil || len(files) != 1 {
		r.Fatalf("%q, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		r.Errorf("%v, %v", info.Mode(), err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil || bytes.Contains(b, []byte(clientSecret)) {
		r.Errorf("the client's secret is in the file, or %v", err)
	}
	o := r.run("send", "-a", agent, "--debug", "x").is(0, "State: COMPLETED")
	o.lacks("eyJ") // as every JWT begins
	other := newPeer(r.T, says("hi"), nil, one(is.clientScheme()))
	r.run("send", "-a", other.URL, "x").is(0)
	if h := other.last(r.T).Header.Get("Authorization"); h != "" {
		r.Errorf("the token went to another origin: %q", h)
	}
	r.run("auth", "logout", "-a", agent).is(0)
	r.run("send", "-a", agent, "-o", "json", "x").wantError(4, errCredentialsMissing)
}

func loginByOpenID(r *rig) {
	is := newIssuer(r.T)
	p := guarded(r.T, is, one(is.openID()))
	r = r.with("A2ACLI_CA_CERT=" + is.caFile)
	r.run("auth", "login", "-a", p.URL, "--client-id", clientName).is(0).warns("WDJB-MJHT")
	r.run("send", "-a", p.URL, "x").is(0, "State: COMPLETED")
	r.loggingIn(is).run("auth", "login", "-a", p.URL, "--client-id", clientName, "--flow", "client-credentials").is(0)
	r.run("send", "-a", p.URL, "x").is(0, "State: COMPLETED")
	if asked := is.asked(); asked != "device_code client_credentials" {
		r.Errorf("grants: %s", asked)
	}
}

func mutualTLS(r *rig) {
	ca := newAuthority(r.T)
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	cert, key := ca.issue(r.T, &x509.Certificate{IPAddresses: loopback, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	mine, myKey := ca.issue(r.T, &x509.Certificate{Subject: pkix.Name{CommonName: "me"}, DNSNames: []string{"me"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	r.write("parley.yaml", "security:\n  certificates: true\n")
	agent := r.start("serve", "--agent", "demo", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--client-ca", ca.file, "--config", "parley.yaml")
	for _, binding := range bindings {
		send := []string{"send", "-a", agent, "--transport", binding, "-o", "json", "text"}
		r.run(append(send, "--ca-cert", ca.file, "--client-cert", mine, "--client-key", myKey)...).is(0).document()
		r.run(append(send, "--ca-cert", ca.file)...).wantError(4, errCredentialsMissing)
		r.run(send...).wantError(3, errUnreachable)
	}
	r.with("A2ACLI_CA_CERT="+ca.file, "A2ACLI_CLIENT_CERT="+mine, "A2ACLI_CLIENT_KEY="+myKey).run("send", "-a", agent, "text").is(0, "State: COMPLETED")
}

func authInTask(r *rig, agent string) {
	o := r.run("send", "-a", agent, "auth").is(0, "State: AUTH_REQUIRED").warns("authorization")
	r.shell(strings.Replace(o.field("Resume"), "'your answer'", "granted", 1)).is(0, "Task: "+o.field("Task"), "State: COMPLETED")
	chat := r.says("auth\ngranted\n").run("chat", "-a", agent).is(0, "State: AUTH_REQUIRED", "State: COMPLETED")
	if n := strings.Count(chat.stdout, "Task: "); n < 2 {
		r.Errorf("chat:\n%s", chat.stdout)
	}
}

// Settings.

func configKept(r *rig) {
	agent := r.demo()
	o := r.run("send", "-a", agent, "ask").is(0)
	r.run("config", "show").is(0).lacks(o.field("Task"), o.field("Context"))
	settings := filepath.Join(r.dir, ".config", "a2a-cli")
	if err := os.MkdirAll(settings, 0o700); err != nil {
		r.Fatal(err)
	}
	r = r.with("XDG_CONFIG_HOME=" + filepath.Join(r.dir, ".config"))
	file := filepath.Join(settings, ".env")
	if err := os.WriteFile(file, []byte("A2ACLI_AGENT_CARD="+agent+"\nA2ACLI_BEARER=s3cret-of-mine\n"), 0o600); err != nil {
		r.Fatal(err)
	}
	before, _ := os.ReadFile(file)
	r.run("config", "show").is(0, agent, file).lacks("s3cret-of-mine")
	r.run("card", "get").is(0, "Agent: Demo")
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		r.Errorf("config show changed the file: %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		r.Fatal(err)
	}
	if o := r.run("card", "get"); o.code == 0 && !strings.Contains(o.stderr, file) {
		r.Errorf("a secret that everybody can read is taken without a word")
	}
	if err := os.Remove(file); err != nil {
		r.Fatal(err)
	}
	r.run("config", "show").is(0).lacks(agent)
}

func configOrder(r *rig) {
	r = r.with("XDG_CONFIG_HOME=" + filepath.Join(r.dir, ".config"))
	dir := filepath.Join(r.dir, ".config", "a2a-cli")
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o700); err != nil {
		r.Fatal(err)
	}
	timeout := func(r *rig, args ...string) string {
		return r.run(append([]string{"config", "show"}, args...)...).is(0).field("Timeout")
	}
	wants := func(got, value, source string) {
		r.Helper()
		if !strings.HasPrefix(got, value) || !strings.Contains(got, source) {
			r.Errorf("--timeout is %q, want %s by %s", got, value, source)
		}
	}
	wants(timeout(r), "0s", "built")
	r.write(".config/a2a-cli/.env", "A2ACLI_TIMEOUT=1s\n")
	wants(timeout(r), "1s", ".config/a2a-cli/.env")
	r.write(".config/a2a-cli/agents/scoped.example.env", "A2ACLI_TIMEOUT=2s\n")
	wants(timeout(r, "-a", "scoped.example"), "2s", "scoped.example.env")
	wants(timeout(r, "-a", "other.example"), "1s", ".config/a2a-cli/.env")
	r.write(".env", "A2ACLI_TIMEOUT=3s\n")
	wants(timeout(r), "3s", filepath.Join(r.dir, ".env"))
	r.write("mine.env", "A2ACLI_TIMEOUT=4s\n")
	wants(timeout(r, "--config", "mine.env"), "4s", "mine.env")
	wants(timeout(r.with("A2ACLI_TIMEOUT=5s"), "--config", "mine.env"), "5s", "A2ACLI_TIMEOUT")
	wants(timeout(r.with("A2ACLI_TIMEOUT=5s"), "--timeout", "6s"), "6s", "flag")
}

// chats has a session of several turns, which no terminal is at.
func chats(r *rig, agent string) {
	o := r.says("text\nask\nForty-two\nmessage\n").run("chat", "-a", agent).is(0, "State: COMPLETED", "State: INPUT_REQUIRED", "Forty-two", "A message, and no task.")
	contexts := map[string]bool{}
	var tasks []string
	for line := range strings.Lines(o.stdout) {
		if id, ok := strings.CutPrefix(line, "Context: "); ok {
			contexts[id] = true
		}
		if id, ok := strings.CutPrefix(line, "Task: "); ok && !slices.Contains(tasks, id) {
			tasks = append(tasks, id)
		}
	}
	if len(contexts) != 1 || len(tasks) != 2 {
		r.Errorf("contexts %v, tasks %v:\n%s", contexts, tasks, o.stdout)
	}
	wantText(r, o.stdout)
}

// Transports and versions.

func transportOrder(r *rig) {
	agent := r.demo()
	doc := r.run("card", "get", "-a", agent, "-o", "json").is(0).document()
	faces, _ := at(doc, "supportedInterfaces").([]any)
	for i := range faces {
		faces[0], faces[i] = faces[i], faces[0]
		b, err := json.Marshal(doc)
		if err != nil {
			r.Fatal(err)
		}
		want := fmt.Sprint(at(faces[0], "protocolBinding"))
		r.run("send", "-a", r.write(strconv.Itoa(i)+".json", string(b)), "--debug", "text").is(0, "State: COMPLETED").warns("binding=" + want)
	}
	unknown := map[string]any{"url": "http://127.0.0.1:1/", "protocolBinding": "https://x.example/smoke-signals", "protocolVersion": "1.0"}
	doc["supportedInterfaces"] = slices.Concat([]any{unknown}, faces)
	b, _ := json.Marshal(doc)
	r.run("send", "-a", r.write("unknown.json", string(b)), "--debug", "text").is(0, "State: COMPLETED").warns("binding=" + fmt.Sprint(at(faces[0], "protocolBinding")))
	doc["supportedInterfaces"] = []any{unknown}
	b, _ = json.Marshal(doc)
	if o := r.run("send", "-a", r.write("only.json", string(b)), "text"); o.code == 0 {
		r.Errorf("sent by smoke signals:\n%s", o.stdout)
	}
}

func transportPreference(r *rig, agent string) {
	r.run("send", "-a", agent, "--debug", "text").is(0).warns("binding=JSONRPC")
	r.run("send", "-a", agent, "--transport", "GRPC", "--transport", "JSONRPC", "--debug", "text").is(0).warns("binding=GRPC")
	r.run("send", "-a", agent, "--transport", "HTTP+JSON", "--transport", "GRPC", "--debug", "text").is(0).warns("binding=HTTP+JSON")
	doc := r.run("card", "get", "-a", agent, "-o", "json").is(0).document()
	faces, _ := at(doc, "supportedInterfaces").([]any)
	doc["supportedInterfaces"] = slices.DeleteFunc(faces, func(f any) bool { return at(f, "protocolBinding") == "GRPC" })
	b, _ := json.Marshal(doc)
	card := r.write("card.json", string(b))
	r.run("send", "-a", card, "--transport", "GRPC", "--transport", "HTTP+JSON", "--debug", "text").is(0).warns("binding=HTTP+JSON")
	r.run("send", "-a", card, "--transport", "GRPC", "--debug", "text").is(0).warns("binding=JSONRPC")
	r.run("send", "-a", agent, "--transport", "pigeon", "-o", "json", "text").wantError(2, errUsage)
}

func transportTenant(r *rig) {
	agent := r.demo()
	for _, tenant := range []string{"acme", ""} {
		f := r.front(agent, func(card *a2a.AgentCard) { card.SupportedInterfaces[0].Tenant = tenant })
		id := r.idOf(f.URL, "text")
		r.run("send", "-a", f.URL, "--async", "text").is(0)
		r.run("task", "get", "-a", f.URL, id).is(0)
		r.run("task", "list", "-a", f.URL).is(0)
		r.run("task", "cancel", "-a", f.URL, id).is(1)
		r.run("task", "subscribe", "-a", f.URL, r.idOf(f.URL, "--async", "long 200ms")).is(0)
		r.run("task", "push-config", "list", "-a", f.URL, id).is(0)
		methods := map[string]bool{}
		for _, c := range f.calls("") {
			methods[c.method] = true
			got, there := c.params["tenant"]
			if there != (tenant != "") || there && got != tenant {
				r.Errorf("%s with tenant %v, want %q", c.method, got, tenant)
			}
		}
		if len(methods) < 6 {
			r.Errorf("only %v", methods)
		}
	}
}

func transports(r *rig, agent string) {
	for _, binding := range bindings {
		id := r.run("send", "-a", agent, "--transport", binding, "--debug", "ask").is(0, "State: INPUT_REQUIRED").warns("binding=" + binding).field("Task")
		r.run("task", "get", "-a", agent, "--transport", binding, id).is(0, "State: INPUT_REQUIRED")
		r.run("send", "-a", agent, "--transport", binding, "--task-id", id, "Yes").is(0, "State: COMPLETED")
	}
}

func transportGRPC(r *rig, agent string) {
	grpc := []string{"-a", agent, "--transport", "GRPC"}
	r.run(append([]string{"send", "--debug", "text"}, grpc...)...).is(0, "State: COMPLETED").warns("protocol=gRPC")
	r.run(append([]string{"send", "--stream", "-o", "json", "chunks 3"}, grpc...)...).is(0).lines()
	id := r.run(append([]string{"send", "--async", "long 40s"}, grpc...)...).is(0).field("Task")
	r.run(append([]string{"task", "list"}, grpc...)...).is(0, id)
	r.run(append([]string{"task", "cancel", id}, grpc...)...).is(0, "State: CANCELED")
	r.run(append([]string{"task", "get", "nobody", "-o", "json"}, grpc...)...).wantError(1, "TaskNotFoundError")
}

func versionSignaled(r *rig) {
	agent := r.demo()
	f := r.front(agent, nil)
	id := r.idOf(f.URL, "text")
	r.run("task", "get", "-a", f.URL, id).is(0)
	r.run("task", "list", "-a", f.URL, "--a2a-version", "1.0.1").is(0)
	for _, c := range append(f.calls(""), f.calls("card")...) {
		if v := c.header.Get("A2A-Version"); v != "1.0" && (v != "1.0.1" || c.method != "ListTasks") {
			r.Errorf("%s with A2A-Version %q", c.method, v)
		}
	}
	r.run("send", "-a", agent, "--transport", "GRPC", "text").is(0, "State: COMPLETED") // it refuses calls without a version
	higher := r.front(agent, func(card *a2a.AgentCard) {
		face := *card.SupportedInterfaces[0]
		face.ProtocolVersion = "1.9"
		card.SupportedInterfaces = append([]*a2a.AgentInterface{&face}, card.SupportedInterfaces...)
	})
	r.run("send", "-a", higher.URL, "text").is(0, "State: COMPLETED")
	for _, c := range higher.calls("") {
		if v := c.header.Get("A2A-Version"); v != "1.0" {
			r.Errorf("%s with A2A-Version %q to an agent that speaks 1.9 too", c.method, v)
		}
	}
	old := r.front(agent, func(card *a2a.AgentCard) { card.SupportedInterfaces[0].ProtocolVersion = "0.3" })
	r.run("send", "-a", old.URL, "-o", "json", "text").wantError(1, "VersionNotSupportedError")
	r.run("send", "-a", agent, "--a2a-version", "0.3", "-o", "json", "text").wantError(1, "VersionNotSupportedError")
	if n := len(old.calls("")); n > 0 {
		r.Errorf("%d calls to an agent of 0.3", n)
	}
}

func versionExtensions(r *rig) {
	const uri = "https://x.example/ext/v1"
	host, err := parley.New(parley.Config{Name: "Strict", Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", Extensions: []*a2a.AgentExtension{{URI: uri, Required: true}}}, says("hi"))
	if err != nil {
		r.Fatal(err)
	}
	agent := serveHost(r, host)
	for _, binding := range bindings {
		r.run("send", "-a", agent, "--transport", binding, "--svc-param", "A2A-Extensions: "+uri, "x").is(0, "State: COMPLETED")
		o := r.run("send", "-a", agent, "--transport", binding, "-o", "json", "x")
		if hint := o.wantError(1, "ExtensionSupportRequiredError"); !strings.Contains(hint, uri) {
			r.Errorf("hint %q", hint)
		}
	}
}

// serveHost serves a host until the test ends and returns its URL.
func serveHost(r *rig, host *parley.Host) string {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	httpL, grpcL, err := host.Listeners(ctx)
	if err != nil {
		cancel()
		r.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Serve(ctx, httpL, grpcL) }()
	r.Cleanup(func() {
		cancel()
		<-ended
	})
	return "http://" + httpL.Addr().String()
}

func versionCapabilities(r *rig) {
	no := false
	f := r.front(r.demo(), func(card *a2a.AgentCard) {
		card.Capabilities.Streaming, card.Capabilities.PushNotifications, card.Capabilities.ExtendedAgentCard = &no, &no, &no
	})
	id := r.idOf(f.URL, "--poll-interval", "100ms", "text")
	r.run("send", "-a", f.URL, "--stream", "--poll-interval", "100ms", "text").is(0, "State: COMPLETED")
	r.run("task", "subscribe", "-a", f.URL, "--poll-interval", "100ms", r.idOf(f.URL, "--async", "long 300ms")).is(0, "State: COMPLETED")
	r.run("task", "push-config", "create", "-a", f.URL, "--url", "https://example.com/", "-o", "json", id).wantError(1, "PushNotificationNotSupportedError")
	r.run("task", "push-config", "list", "-a", f.URL, "-o", "json", id).wantError(1, "PushNotificationNotSupportedError")
	r.run("card", "get", "-a", f.URL, "--extended", "-o", "json").wantError(1, "UnsupportedOperationError")
	for _, c := range f.calls("") {
		if slices.Contains([]string{"SendStreamingMessage", "SubscribeToTask", "CreateTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "GetExtendedAgentCard"}, c.method) {
			r.Errorf("%s was called, which the card does not offer", c.method)
		}
	}
}

// Defaults, each of which is a subtest.

func defaults(r *rig, agent string) {
	r.check("transport_server_preference_order", func(r *rig) {
		r.run("send", "-a", agent, "--debug", "text").is(0).warns("binding=JSONRPC")
		r.run("send", "-a", agent, "--debug", "--transport", "GRPC", "text").is(0).warns("binding=GRPC")
	})
	r.check("task_completion_wait_by_default", func(r *rig) {
		r.run("send", "-a", agent, "long 300ms").is(0, "State: COMPLETED")
		r.run("send", "-a", agent, "--async", "long 2s").is(0).lacks("State: COMPLETED")
	})
	r.check("output_human_readable_text", func(r *rig) {
		wantText(r, r.run("send", "-a", agent, "text").is(0, "State: COMPLETED").stdout)
		r.run("send", "-a", agent, "-o", "json", "text").is(0).document()
	})
	r.check("detail_level_concise", func(r *rig) {
		r.run("send", "-a", agent, "text").is(0).lacks("Artifact-ID: ")
		r.run("send", "-a", agent, "--verbose", "text").is(0, "Artifact-ID: ", "Part: text")
	})
	r.check("protocol_version_highest_mutual", func(r *rig) {
		f := r.front(agent, nil)
		r.run("send", "-a", f.URL, "text").is(0)
		r.run("task", "list", "-a", f.URL, "--a2a-version", "1.0.0")
		if v := f.calls("SendStreamingMessage")[0].header.Get("A2A-Version"); v != "1.0" {
			r.Errorf("version %q", v)
		}
		if v := f.calls("ListTasks")[0].header.Get("A2A-Version"); v != "1.0.0" {
			r.Errorf("version %q", v)
		}
	})
	help := strings.Join(strings.Fields(r.run("help", "options").is(0).stdout), " ")
	for _, want := range []string{"the card's order", "(default text)", "default: concise", "default: verify", "(default 1.0)", "(default 2s)"} {
		if !strings.Contains(help, want) {
			r.Errorf("the help does not show the default %q", want)
		}
	}
	if about := strings.Join(strings.Fields(r.run("send", "--help").is(0).stdout), " "); !strings.Contains(about, "(the default)") {
		r.Errorf("the help of send does not say that it waits:\n%s", about)
	}
}

func defaultSecurity(r *rig) {
	r.check("transport_security_tls_on", func(r *rig) {
		p := newPeer(r.T, says("hi"), nil, nil)
		s := httptest.NewUnstartedServer(p.Config.Handler)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		r.Cleanup(s.Close)
		p.change(func(card *a2a.AgentCard) { card.SupportedInterfaces[0].URL = s.URL + "/" })
		r.run("send", "-a", s.URL, "-o", "json", "x").wantError(3, errUnreachable)
		r.run("send", "-a", s.URL, "--insecure", "x").is(0, "State: COMPLETED").warns("Warning: TLS certificates are not verified")
	})
}

// The tool itself.

func cliHelp(r *rig) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}, {"help", "send"}, {"send", "--help"}, {"send", "-h"}, {"task", "get", "--help"}, {"help", "task", "get"}} {
		o := r.run(args...).is(0, "Usage: parley")
		if o.stderr != "" {
			r.Errorf("%v: stderr %q", args, o.stderr)
		}
	}
	version := r.run("--version").is(0, "parley ").stdout
	if r.run("-v").is(0).stdout != version {
		r.Error("-v is not --version")
	}
	r.run("help", "options").is(0, "default text", "default 2s", "default 1.0", defaultCard)
}

func cliCompletion(r *rig) {
	for shell, word := range map[string]string{"bash": "complete ", "zsh": "#compdef parley", "fish": "complete -c parley", "powershell": "Register-ArgumentCompleter"} {
		script := r.run("completion", shell).is(0, word).stdout
		if path, err := exec.LookPath(shell); err == nil && shell == "bash" {
			out, err := exec.CommandContext(r.Context(), path, "-n", r.write("completion."+shell, script)).CombinedOutput()
			if err != nil {
				r.Errorf("%s: %v\n%s", shell, err, out)
			}
		}
	}
	r.run("completion", "tcsh").is(2)
	r.run("__complete", "task", "").is(0, "download", "push-config")
}

// Files.

func downloads(r *rig, agent string) {
	id := r.idOf(agent, "parts")
	o := r.run("task", "download", "-a", agent, "--dir", "out", id).is(0, "Task: "+id+"\n", "State: COMPLETED\n", "Saved: ").warns("not fetched: fruit.csv (text/csv) at https://example.com/fruit.csv")
	wantText(r, o.stdout)
	for name, want := range map[string]string{"demo.txt": "A line of text.", "demo.json": "", "fruit.csv": "fruit,weight\nplum,2.5\n"} {
		got, err := os.ReadFile(filepath.Join(r.dir, "out", name))
		if err != nil || want != "" && string(got) != want || want == "" && !json.Valid(got) {
			r.Errorf("%s is %q, %v", name, got, err)
		}
	}
	hint := r.run("task", "download", "-a", agent, "--dir", "out", "-o", "json", id).wantError(2, errUsage)
	if !strings.Contains(hint, "--overwrite") {
		r.Errorf("hint %q", hint)
	}
	doc := r.run("task", "download", "-a", agent, "--dir", "out", "--overwrite", "-o", "json", id).is(0).warns("Saved: ").document()
	if at(doc, "id") != id {
		r.Errorf("%v", doc)
	}
	r.run("task", "download", "-a", agent, "--dir", "out2", r.idOf(agent, "chunks 3")).is(0)
	if got, err := os.ReadFile(filepath.Join(r.dir, "out2", "chunks.txt")); err != nil || string(got) != "chunk 1, chunk 2, chunk 3" {
		r.Errorf("%q, %v", got, err)
	}
}

func downloadsSafely(r *rig) {
	agent := r.demo()
	evil := r.front(agent, nil)
	names := []string{`../../escaped`, `/etc/escaped`, `..\..\escaped`, `.bashrc`, `..`, `con.txt`, "a\x00b\u202e", ``, `-rf`}
	evil.after(func(method string, body []byte) []byte {
		var answer map[string]any
		if method != "GetTask" || json.Unmarshal(body, &answer) != nil {
			return body
		}
		var parts []any
		for _, name := range names {
			parts = append(parts, map[string]any{"raw": "eA==", "filename": name})
		}
		at(answer, "result", "artifacts").([]any)[0].(map[string]any)["parts"] = parts
		out, _ := json.Marshal(answer)
		return out
	})
	id := r.idOf(agent, "file")
	r.run("task", "download", "-a", evil.URL, "--dir", "a/b/c", id).is(0, "Saved: ")
	inside := 0
	for _, path := range r.files() {
		rel, err := filepath.Rel(filepath.Join(r.dir, "a/b/c"), path)
		if err != nil || strings.HasPrefix(rel, "..") || strings.HasPrefix(filepath.Base(path), ".") || strings.HasPrefix(filepath.Base(path), "-") {
			if !strings.Contains(path, "state") {
				r.Errorf("written: %s", path)
			}
			continue
		}
		inside++
	}
	if inside != len(names) {
		r.Errorf("%d files, want %d", inside, len(names))
	}
	if err := os.MkdirAll(filepath.Join(r.dir, "linked"), 0o700); err != nil {
		r.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(r.dir, "outside"), filepath.Join(r.dir, "linked", "fruit.csv")); err != nil {
		r.Fatal(err)
	}
	r.run("task", "download", "-a", agent, "--dir", "linked", id).is(2)
	r.run("task", "download", "-a", agent, "--dir", "linked", "--overwrite", id).is(0)
	if _, err := os.Stat(filepath.Join(r.dir, "outside")); err == nil {
		r.Error("a link in the folder was followed")
	}
}

// Webhooks.

func pushConfigs(r *rig, agent string) {
	for _, binding := range bindings {
		flags := []string{"-a", agent, "--transport", binding}
		run := func(args ...string) outcome { return r.run(append(args, flags...)...) }
		id := r.idOf(agent, "ask")
		doc := run("task", "push-config", "create", id, "--url", "http://127.0.0.1:9/hook", "--id", "mine", "-o", "json").is(0).document()
		if at(doc, "id") != "mine" || at(doc, "taskId") != id || at(doc, "url") != "http://127.0.0.1:9/hook" {
			r.Errorf("%v", doc)
		}
		run("task", "push-config", "get", id, "mine").is(0, "Task: "+id, "Webhook: mine", "URL: http://127.0.0.1:9/hook")
		list := run("task", "push-config", "list", id, "-o", "json").is(0).document()
		if configs, _ := at(list, "configs").([]any); len(configs) != 1 {
			r.Errorf("%v", list)
		}
		run("task", "push-config", "delete", id, "mine").is(0, "Deleted: mine")
		run("task", "push-config", "list", id).is(0).lacks("mine")
	}
}

func pushReceives(r *rig) {
	agent := r.demo()
	id := r.idOf(agent, "--async", "long 2s")
	lines := r.run("task", "webhook", "-a", agent, "-o", "json", "--stream", id).is(0).lines()
	if at(lines[0], "task", "id") != id || at(lines[len(lines)-1], "statusUpdate", "status", "state") != "TASK_STATE_COMPLETED" {
		r.Errorf("%v", lines)
	}
	r.run("task", "push-config", "list", "-a", agent, id).is(0, "Webhooks: none")
}

// The rest.

func conformanceRuns(r *rig) {
	agent := r.start("serve", "--agent", "conformance", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--allow-private-webhooks")
	o := r.run("conformance", agent).is(0)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^\d+ pass, 0 fail, \d+ not measured$`).MatchString(last) {
		r.Errorf("the last line is %q", last)
	}
	broken := r.front(agent, func(card *a2a.AgentCard) { card.Description = "" })
	r.run("conformance", broken.URL, "--only", "card-*").is(1, " fail, ")
	locked := r.start("serve", "--api-key", "me=0123456789abcdefghij", "--store", "memory:", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	r.run("conformance", locked, "-o", "json").wantError(4, errCredentialsMissing)
	r.run("conformance", locked, "--only", "auth-required").is(0, "3 pass, 0 fail")
	for range 2 { // a host's limits are no fault of it
		r.with("A2ACLI_API_KEY=0123456789abcdefghij").run("conformance", locked).is(0, " 0 fail")
	}
}

func demoServes(r *rig) {
	agent := r.demo()
	help := r.run("send", "-a", agent, "help").is(0, "Message:\n").stdout
	for word, want := range map[string]string{
		"text": "State: COMPLETED", "data": `"plum"`, "file": "File: fruit.csv", "link": "https://example.com", "parts": "A line of text.",
		"chunks": "chunk 3", "long 100ms": "It took 100ms.", "ask": "State: INPUT_REQUIRED", "auth": "State: AUTH_REQUIRED", "fail": "State: FAILED",
		"reject": "State: REJECTED", "message": "A message, and no task.",
	} {
		r.run("send", "-a", agent, word).is(0, want)
		if !strings.Contains(help, "  "+strings.Fields(word)[0]) {
			r.Errorf("its help lacks %s:\n%s", word, help)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(r.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r.run("demo-server", "--listen", l.Addr().String()).is(1).warns("is in use")
}

func (r *rig) check(name string, f func(r *rig)) {
	r.Helper()
	ok := r.T.Run(name, func(t *testing.T) {
		c := newRig(t)
		f(c)
	})
	if ok {
		measured.note(measured.defaults, name)
	}
}
