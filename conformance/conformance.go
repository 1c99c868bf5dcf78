// Package conformance holds any A2A 1.0 agent to the specification, from outside: it reads the agent's card, plays
// exchanges on every interface of the card, as bytes, and judges them by package rules.
//
// What the agent's behaviour does not show is reported as not measured, never as a pass: an agent that answers every
// message at once cannot show how it cancels.
//
// A run is made for real agents too. It sends short messages, which make at most [Options.MaxTasks] tasks on each
// interface, cancels those of them that have not ended, and deletes the webhooks that it registered.
package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/rules"
)

// Options say how to run. The zero value is ready.
type Options struct {
	// HTTP reaches the agent; nil: a client of the run's own.
	HTTP *http.Client
	// GRPC are options for the connections to gRPC interfaces.
	GRPC []grpc.DialOption
	// Header goes with every call: the credential, and what else the agent wants. It is in no report.
	Header http.Header
	// Other is the credential of a second caller, to see that callers cannot read each other's tasks.
	Other http.Header
	// Bindings are those to look at; nil: all.
	Bindings []string
	// Trusts reports whether an interface may get Header; nil: all may. One that may not is left out.
	Trusts func(*a2a.AgentInterface) bool
	// Only are the ids of rules to judge, or beginnings of ids that end with *; nil: all.
	Only []string
	// Level is the least binding level to judge: Must leaves the Shoulds out.
	Level rules.Level
	// Say are the texts that make this agent do something, by [Kinds].
	Say map[string]string
	// Patience is how long one call may take: 30 s. Settle is how long a stream may stay open after its task has ended,
	// and how long a webhook may take: 2 s.
	Patience, Settle time.Duration
	// MaxTasks bounds the tasks that are made on one interface: 40.
	MaxTasks int
	// Keys are those that sign the card; zero: the key set that a signature names, if it is at the card's origin.
	Keys agentcard.Enrollment
	// Webhook receives notifications; nil: one on loopback, if the agent is there too.
	Webhook *Receiver
	// Progress is told what is done now; nil: nobody.
	Progress func(string)
}

// Kinds are what messages are sent for. The id of each message begins with a word that agents which were made for
// the protocol's compatibility kit know; to other agents it is an id.
var Kinds = []Kind{
	{"complete", "tck-complete-task", "ends its task", "Hello. This is a conformance check: a short answer is enough."},
	{"artifact", "tck-artifact-text", "makes an artifact", "Write one line of text, please. This is a conformance check."},
	{"chunked", "tck-stream-artifact-chunked", "writes an artifact in pieces", "Write a few sentences of text, please. This is a conformance check."},
	{"input", "tck-input-required", "makes the agent ask back", "Please ask me one question before you go on. This is a conformance check."},
	{"long", "test-resubscribe-message-id", "takes a while", "Take your time with this, please. This is a conformance check."},
	{"message", "tck-message-response", "is answered without a task", "Hello."},
	{"auth", "parley-auth-required", "makes the agent ask for an authorization", "Please do something for which you need an authorization. This is a conformance check."},
}

// Kind is a kind of message.
type Kind struct{ Name, Prefix, Does, Text string }

func kind(name string) *Kind {
	return &Kinds[slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })]
}

func (o *Options) defaults() {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: &http.Transport{DisableCompression: true, Proxy: http.ProxyFromEnvironment}}
	}
	hc := *o.HTTP
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it is the answer
	o.HTTP = &hc
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Settle == 0 {
		o.Settle = 2 * time.Second
	}
	if o.MaxTasks == 0 {
		o.MaxTasks = 40
	}
	if o.Level == "" {
		o.Level = rules.Should
	}
}

// Select returns the clauses that Only and Level let through, and an error for a name that is no rule's.
func (o *Options) Select() ([]*rules.Clause, error) {
	var out []*rules.Clause
	used := map[string]bool{}
	for i := range rules.All {
		c := &rules.All[i]
		ok := o.Only == nil
		for _, name := range o.Only {
			if begin, cut := strings.CutSuffix(name, "*"); name == c.ID || cut && strings.HasPrefix(c.ID, begin) {
				ok, used[name] = true, true
			}
		}
		if ok && (c.Level == rules.Must || o.Level != rules.Must) {
			out = append(out, c)
		}
	}
	for _, name := range o.Only {
		if !used[name] {
			return nil, fmt.Errorf("conformance: there is no rule %q", name)
		}
	}
	return out, nil
}

// run is one run.
type run struct {
	Options
	ctx      context.Context
	selected []*rules.Clause
	card     *client.Card
	report   *Report

	mu      sync.Mutex
	results map[string]*Result // by rule and interface
	taskIDs map[string]bool
}

// Run holds the agent whose card ref names ([client.FetchCard]) to the specification. The error says that there was
// nothing to look at: no card, no interface, or a context that ended; what the agent does wrong is in the report.
func Run(ctx context.Context, ref string, o Options) (*Report, error) {
	o.defaults()
	selected, err := o.Select()
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, ctx: ctx, selected: selected, results: map[string]*Result{}, taskIDs: map[string]bool{}}
	r.report = &Report{Started: time.Now().UTC(), Card: ref}
	if err := r.readCard(ref); err != nil {
		return nil, err
	}
	probes, err := r.interfaces()
	if err != nil {
		return nil, err
	}
	for _, p := range probes {
		defer p.close()
		p.probe()
	}
	if ctx.Err() == nil {
		r.together(slices.DeleteFunc(slices.Clone(probes), func(p *probe) bool { return p.cutOff != "" }))
	} else { // what was made is taken back all the same
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		r.ctx = last
	}
	for _, p := range probes {
		p.cleanUp()
	}
	r.finish(probes)
	return r.report, ctx.Err()
}

// interfaces returns what is to be probed.
func (r *run) interfaces() (probes []*probe, err error) {
	for _, i := range r.card.SupportedInterfaces {
		at := Interface{Binding: i.ProtocolBinding, URL: i.URL}
		switch {
		case !slices.Contains([]string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}, i.ProtocolBinding):
			at.Why = "the binding is none of JSONRPC, HTTP+JSON and GRPC"
		case a2a.CheckVersion(i.ProtocolVersion) != nil:
			at.Why = "it is of version " + i.ProtocolVersion
		case r.Bindings != nil && !slices.Contains(r.Bindings, i.ProtocolBinding):
			at.Why = "another binding was asked for"
		case r.Trusts != nil && !r.Trusts(i):
			at.Why = "it is elsewhere than the card, and the credential is not for it"
		default:
			c, err := newConn(i, &r.Options)
			if err != nil {
				at.Why = err.Error()
				break
			}
			at.Name = i.ProtocolBinding
			for n := 2; slices.ContainsFunc(probes, func(p *probe) bool { return p.name == at.Name }); n++ {
				at.Name = fmt.Sprintf("%s %d", i.ProtocolBinding, n)
			}
			probes = append(probes, newProbe(r, c, at.Name))
		}
		r.report.Interfaces = append(r.report.Interfaces, at)
	}
	if len(probes) == 0 {
		return nil, errors.New("conformance: the card has no interface of A2A 1.0 that can be called")
	}
	return probes, nil
}

func (r *run) progress(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// result returns the entry for a rule, or one that is thrown away if the rule is not to be judged.
func (r *run) result(rule, at string) *Result {
	c := rules.ByID(rule)
	key := rule + "\x00" + at
	if out, ok := r.results[key]; ok {
		return out
	}
	out := &Result{Rule: rule, Interface: at}
	if c != nil {
		out.Section, out.Level, out.Says = c.Section, c.Level, c.Says
	}
	r.results[key] = out
	return out
}

// maxEvidence is how many findings a result keeps.
const maxEvidence = 3

func (r *run) pass(rule, at string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out := r.result(rule, at); out.Outcome != Fail {
		out.Outcome = Pass
	}
}

func (r *run) fail(rule, at string, x *rules.Exchange, path, got, want string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.result(rule, at)
	out.Outcome = Fail
	out.Found++
	if len(out.Evidence) >= maxEvidence {
		return
	}
	e := Evidence{Path: path, Got: got, Want: want}
	if x != nil {
		e.Request, e.Response = x.Request(), x.Response()
	}
	out.Evidence = append(out.Evidence, e)
}

// notMeasured says why a rule could not be judged, unless it was.
func (r *run) notMeasured(rule, at, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out := r.result(rule, at); out.Outcome == NotMeasured {
		out.Why = why
	}
}

// judge takes the verdict on an exchange.
func (r *run) judge(at string, x *rules.Exchange, v rules.Verdict) {
	for _, id := range v.Seen {
		r.pass(id, at)
	}
	for _, f := range v.Findings {
		r.fail(f.Rule, at, x, f.Path, f.Got, f.Want)
	}
}

// finish puts the results in order. What nobody judged is not measured.
func (r *run) finish(probes []*probe) {
	add := func(c *rules.Clause, at, cutOff string) {
		res := *r.result(c.ID, at)
		if res.Outcome == NotMeasured && res.Why == "" {
			res.Why = cmp.Or(cutOff, "nothing that the agent did showed it")
		}
		r.report.Results = append(r.report.Results, res)
	}
	for _, c := range r.selected {
		switch {
		case strings.HasPrefix(c.ID, "card-"):
			add(c, CardName, "")
		case strings.HasPrefix(c.ID, "same-"):
			add(c, AllName, "")
		default:
			for _, p := range probes {
				if c.About(p.iface.ProtocolBinding) {
					add(c, p.name, p.cutOff)
				}
			}
		}
	}
	r.report.Took = time.Since(r.report.Started).Round(time.Millisecond)
}

// random returns a word that nobody used before.
func random() string { return strings.ToLower(rand.Text()[:20]) }

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has JSON
	return string(b)
}
