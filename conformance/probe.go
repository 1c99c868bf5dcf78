package conformance

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// task is what the run reads of a task.
type task struct {
	ID        string
	ContextID string
	Status    taskStatus
	Artifacts json.RawMessage
	History   []json.RawMessage
}

type taskStatus struct {
	State     string
	Timestamp loose
	Message   json.RawMessage
}

// loose is a string, and empty where something else stands: what is wrong with it is a finding already.
type loose string

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose) UnmarshalJSON(b []byte) error {
	var s string
	_ = json.Unmarshal(b, &s)
	*l = loose(s)
	return nil
}

// made is a task of this run, as it was last seen.
type made struct {
	id, contextID, state string
}

func (m *made) live() bool { return m != nil && !rules.Terminal(m.state) }

// probe is one interface in a run.
type probe struct {
	*run
	*conn

	name   string
	works  bool                     // something succeeded under version 1.0
	tasks  []*made                  // in the order in which they were made
	cached map[string]*made         // by the kind of their message; nil: there was none
	why    map[string]string        // there was none
	errors map[string]a2a.ErrorCode // by the rule that they are for
	ops    map[string]bool          // whether the agent knows them
	config map[string]string        // webhooks that are registered: their tasks, by id
	mute   bool                     // the agent asked nothing back
	sample json.RawMessage          // a task that has ended, as GetTask has it
	cutOff string                   // why the interface cannot be reached; empty: it can
}

func newProbe(r *run, c *conn, name string) *probe {
	return &probe{
		run: r, conn: c, name: name, cached: map[string]*made{}, why: map[string]string{},
		errors: map[string]a2a.ErrorCode{}, ops: map[string]bool{}, config: map[string]string{},
	}
}

// step is a part of a run, with the rules that it judges beside those that every exchange shows.
type step struct {
	name  string
	rules []string
	do    func(*probe)
}

var steps = []step{
	{"messages", []string{"send-*", "validate-*"}, (*probe).messages},
	{"unknown tasks", []string{"get-unknown", "cancel-unknown", "subscribe-unknown", "push-unknown-task"}, (*probe).unknownTasks},
	{"framing", []string{"rpc-*", "rest-*", "unknown-fields"}, (*probe).framing},
	{"versions and extensions", []string{"version-*", "extension-*"}, (*probe).versions},
	{"streams", []string{"stream-*"}, (*probe).streams},
	{"ended tasks", []string{"get-task", "history-*", "rest-query", "cancel-terminal", "subscribe-terminal", "send-terminal", "same-*"}, (*probe).ended},
	{"lists", []string{"list-*"}, (*probe).lists},
	{"live tasks", []string{"cancel-*", "subscribe-*", "stream-broadcast", "stream-independent"}, (*probe).liveTasks},
	{"webhooks", []string{"push-*"}, (*probe).webhooks},
	{"callers", []string{"extended-*", "auth-*", "scope-*", "same-auth"}, (*probe).callers},
}

func matches(names []string, id string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		begin, cut := strings.CutSuffix(n, "*")
		return n == id || cut && strings.HasPrefix(id, begin)
	})
}

// wanted reports whether a step is for one of the rules that are judged. A rule that no step has is judged by every
// exchange: then all steps are wanted.
func (r *run) wanted(s *step) bool {
	return slices.ContainsFunc(r.selected, func(c *rules.Clause) bool {
		if strings.HasPrefix(c.ID, "card-") {
			return false
		}
		return matches(s.rules, c.ID) || !slices.ContainsFunc(steps, func(o step) bool { return matches(o.rules, c.ID) })
	})
}

func (p *probe) probe() {
	for i := range steps {
		if p.ctx.Err() != nil || p.cutOff != "" {
			return
		}
		if s := &steps[i]; p.wanted(s) {
			p.progress("%s: %s", p.name, s.name)
			s.do(p)
		}
	}
	if p.works {
		p.pass("version-works")
	}
	p.transport()
}

// transport judges how the interface is reached.
func (p *probe) transport() {
	if isLoopback(p.iface.URL) {
		p.skip("tls", "the interface is on the own machine")
		p.skip("tls-modern", "the interface is on the own machine")
		return
	}
	if p.over(a2a.BindingGRPC) {
		if p.works { // it is called over TLS only
			p.pass("tls")
		}
		return
	}
	p.hold(strings.HasPrefix(p.iface.URL, "https://"), "tls", nil, p.iface.URL, "an https URL")
	if used := p.conn.tls; used != 0 {
		p.hold(used >= tls.VersionTLS13, "tls-modern", nil, tls.VersionName(used), "TLS 1.3")
	}
}

func (p *probe) pass(rule string)          { p.run.pass(rule, p.name) }
func (p *probe) offers(capable *bool) bool { return capable != nil && *capable }
func (p *probe) streaming() bool           { return p.offers(p.card.Capabilities.Streaming) }
func (p *probe) pushes() bool              { return p.offers(p.card.Capabilities.PushNotifications) }

func (p *probe) over(bindings ...string) bool {
	return slices.Contains(bindings, p.iface.ProtocolBinding)
}

// skip says why a rule could not be judged. Where the interface cannot be reached, that is why.
func (p *probe) skip(rule, why string) {
	if p.cutOff != "" {
		why = p.cutOff
	}
	p.notMeasured(rule, p.name, why)
}

// fail takes a broken rule. A call that was not made shows nothing of the agent.
func (p *probe) fail(rule string, x *rules.Exchange, got, want string) {
	if x != nil && unsent(x) {
		p.skip(rule, x.Err)
		return
	}
	p.run.fail(rule, p.name, x, "", got, want)
}

func (p *probe) hold(ok bool, rule string, x *rules.Exchange, got, want string) {
	if ok && (x == nil || !unsent(x)) {
		p.pass(rule)
	} else {
		p.fail(rule, x, got, want)
	}
}

// start makes a call in the background; finish judges it.
func (p *probe) start(k call) *stream {
	switch k.extensions {
	case "":
		k.extensions = p.required()
	case "-":
		k.extensions = ""
	}
	return p.open(p.ctx, k)
}

// required returns the extensions that the card requires. The run declares them: it sends nothing that they are about.
func (p *probe) required() string {
	var uris []string
	for _, x := range p.card.Capabilities.Extensions {
		if x.Required {
			uris = append(uris, x.URI)
		}
	}
	return strings.Join(uris, ",")
}

func (p *probe) finish(s *stream, k call) *rules.Exchange {
	x := s.end(p.patient)
	v := rules.Check(x)
	if k.wrong {
		v.Findings = slices.DeleteFunc(v.Findings, func(f rules.Finding) bool { return strings.HasPrefix(f.Rule, "data-") })
	}
	p.judge(p.name, x, v)
	p.note(x, k)
	return x
}

// play makes a call and judges what every exchange shows. A call that is one too many is made again a little later.
func (p *probe) play(k call) *rules.Exchange {
	for tries := 0; ; tries++ {
		s := p.start(k)
		x := s.end(p.patient)
		wait := tooMany(x)
		if wait == 0 || wait > 5*time.Second || tries == 5 {
			return p.finish(s, k)
		}
		select {
		case <-time.After(wait):
		case <-p.ctx.Done():
		}
	}
}

// tooMany returns how long the agent wants its caller to wait; zero: the call was not refused as one too many.
func tooMany(x *rules.Exchange) time.Duration {
	e := x.Failure()
	if x.Status != http.StatusTooManyRequests && (e == nil || e.Code != a2a.ErrResourceExhausted) {
		return 0
	}
	seconds, _ := strconv.Atoi(x.Header.Get("Retry-After"))
	return time.Duration(max(1, seconds)) * time.Second
}

// note keeps what the run has to know of the agent: its tasks, above all, so that none is left behind.
func (p *probe) note(x *rules.Exchange, k call) {
	raw, e := x.Result()
	events, end := x.Events()
	if k.op != "" && k.body == "" && k.version == nil && k.header == nil {
		p.noteOp(k.op, x, e)
		p.works = p.works || raw != nil || len(events) > 0
	}
	switch {
	case unsent(x):
		p.unreachable(x)
	case e == nil && end == nil && x.Err != "" && k.body == "" && x.Frames == nil && x.Answer == nil:
		p.fail("version-works", x, x.Err, "an answer")
	}
	switch k.op {
	case "SendMessage":
		var res struct{ Task *task }
		if json.Unmarshal(raw, &res) == nil && res.Task != nil {
			p.noteTask(res.Task, k)
		}
	case "CancelTask", "GetTask":
		var t task
		if raw != nil && json.Unmarshal(raw, &t) == nil {
			p.noteTask(&t, k)
		}
	case "SendStreamingMessage", "SubscribeToTask":
		var id string
		for _, raw := range events {
			var ev struct{ Task *task }
			if json.Unmarshal(raw, &ev) == nil && ev.Task != nil {
				id = ev.Task.ID
				p.noteTask(ev.Task, k)
			} else if state := stateOf(raw); state != "" {
				p.noteState(id, state)
			}
		}
	}
}

// unreachable gives an interface up that no connection leads to: that is one finding, and all else is not measured.
func (p *probe) unreachable(x *rules.Exchange) {
	if p.cutOff != "" || p.ctx.Err() != nil {
		return
	}
	p.cutOff = "the interface cannot be reached: " + x.Err
	p.run.fail("version-works", p.name, nil, "", x.Err, "a connection to "+p.iface.URL)
}

// noteOp keeps whether the agent knows an operation.
func (p *probe) noteOp(op string, x *rules.Exchange, e *rules.Error) {
	unknown := e != nil && (e.Code == a2a.ErrMethodNotFound ||
		p.over(a2a.BindingGRPC) && e.Number == int(a2a.StatusUnimplemented) ||
		p.over(a2a.BindingREST) && (e.Number == http.StatusMethodNotAllowed || e.Number == http.StatusNotFound && e.Message == ""))
	p.ops[op] = p.ops[op] || !unknown && x.Err == ""
}

func (p *probe) noteState(id, state string) {
	if m := p.find(id); m != nil {
		m.state = state
	}
}

func (p *probe) noteTask(t *task, k call) {
	if t.ID == "" {
		return
	}
	known := p.find(t.ID)
	if known != nil {
		known.state = t.Status.State
	}
	if !strings.HasPrefix(k.op, "Send") || strings.Contains(k.params, `"taskId"`) {
		return // not a new task
	}
	p.hold(!p.taskIDs[t.ID], "send-task-ids", nil, "once more "+t.ID, "an id that no other task has")
	p.taskIDs[t.ID] = true
	if known != nil {
		return
	}
	p.tasks = append(p.tasks, &made{t.ID, t.ContextID, t.Status.State})
	p.report.Made.Tasks++
}

// mustFail holds an answer to be an error of one of the given kinds. On REST and gRPC an error that does not say its
// kind is taken for the one whose status it has, and what it lacks is a finding of its own.
func (p *probe) mustFail(rule string, x *rules.Exchange, codes ...a2a.ErrorCode) bool {
	var names []string
	for _, c := range codes {
		names = append(names, c.Name())
	}
	want := strings.Join(names, " or ")
	e := x.Failure()
	if e == nil {
		got := "no error"
		if x.Err != "" {
			got = x.Err
		}
		p.fail(rule, x, got, want)
		return false
	}
	for _, c := range codes {
		known := e.Code == c
		unsaid := e.Code == 0 && (p.over(a2a.BindingREST) && e.Number == c.HTTP() || p.over(a2a.BindingGRPC) && e.Number == int(c.Status()))
		if known || unsaid {
			p.pass(rule)
			p.errors[rule] = c
			if c <= a2a.ErrTaskNotFound && c >= a2a.ErrVersionNotSupported {
				p.judge(p.name, x, rules.Demand(x, c))
			}
			return true
		}
	}
	p.errors[rule] = e.Code
	p.fail(rule, x, e.String(), want)
	return false
}

// message returns a SendMessageRequest. Members are more members of its message, config is its configuration.
func (p *probe) message(of, config string, members ...string) string {
	k := kind(of)
	words := k.Text
	if s, ok := p.Say[of]; ok {
		words = s
	}
	m := append([]string{
		`"messageId":` + quote(k.Prefix+"-"+random()), `"role":"ROLE_USER"`, `"parts":[{"text":` + quote(words) + `}]`,
	}, members...)
	out := `{"message":{` + strings.Join(m, ",") + `}`
	if config != "" {
		out += `,"configuration":` + config
	}
	return out + `}`
}

// full reports whether the run may make no more tasks here.
func (p *probe) full() bool { return len(p.tasks) >= p.MaxTasks }

// unsent reports whether an exchange was not made, for its Err.
func unsent(x *rules.Exchange) bool { return x.Method == "" && x.Err != "" }

// send sends a message and returns the exchange, and the task in it if there is one.
func (p *probe) send(params string) (*rules.Exchange, *task) {
	if p.full() {
		return &rules.Exchange{Binding: p.iface.ProtocolBinding, Op: "SendMessage", Err: "the run may make no more tasks"}, nil
	}
	x := p.play(call{op: "SendMessage", params: params})
	raw, _ := x.Result()
	var res struct{ Task *task }
	if json.Unmarshal(raw, &res) != nil {
		return x, nil
	}
	return x, res.Task
}

// task returns a task that a message of a kind makes, the same one each time, and why there is none.
func (p *probe) task(of string) (*made, string) {
	if m, ok := p.cached[of]; ok {
		return m, p.why[of]
	}
	config := ""
	if of == "long" {
		config = `{"returnImmediately":true}`
	}
	x, t := p.send(p.message(of, config))
	if t == nil || t.ID == "" {
		why := "the agent answers without a task"
		if e := x.Failure(); e != nil {
			why = "the agent refuses the message: " + rules.Clip(e.String(), 200)
		} else if x.Err != "" {
			why = x.Err
		}
		p.cached[of], p.why[of] = nil, why
		return nil, why
	}
	p.cached[of] = p.find(t.ID)
	return p.cached[of], ""
}

func (p *probe) find(id string) *made {
	i := slices.IndexFunc(p.tasks, func(m *made) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return p.tasks[i]
}

// endedTask returns a task that has ended, and why there is none.
func (p *probe) endedTask() (*made, string) {
	for _, of := range []string{"complete", "artifact"} {
		m, why := p.task(of)
		if m != nil && rules.Terminal(m.state) {
			return m, ""
		}
		if m == nil {
			return nil, why
		}
	}
	return nil, "no task of this agent ended at once"
}

// liveTask returns a new task that has not ended: one that asks back, or one that takes its time.
func (p *probe) liveTask() (*made, string) {
	for _, of := range []string{"input", "long"} {
		config := ""
		if of == "long" {
			config = `{"returnImmediately":true}`
		}
		if of == "input" && p.mute {
			continue
		}
		_, t := p.send(p.message(of, config))
		if t != nil && !rules.Terminal(t.Status.State) {
			return p.find(t.ID), ""
		}
	}
	return nil, "no task of this agent stayed open: tell the run what to say, for input or long"
}

// get reads a task.
func (p *probe) get(params string) (*rules.Exchange, *task) {
	x := p.play(call{op: "GetTask", params: params})
	raw, _ := x.Result()
	var t task
	if raw == nil || json.Unmarshal(raw, &t) != nil {
		return x, nil
	}
	return x, &t
}

func idOf(id string) string { return `{"id":` + quote(id) + `}` }

// cleanUp cancels the tasks that have not ended and deletes the webhooks that are left.
func (p *probe) cleanUp() {
	for id, taskID := range p.config {
		x := p.play(call{op: "DeleteTaskPushNotificationConfig", params: fmt.Sprintf(`{"taskId":%s,"id":%s}`, quote(taskID), quote(id))})
		if x.Failure() == nil && x.Err == "" {
			p.report.Made.Deleted++
		}
	}
	for _, m := range p.tasks {
		if !m.live() {
			continue
		}
		if p.play(call{op: "CancelTask", params: idOf(m.id)}); !m.live() {
			p.report.Made.Canceled++
			continue
		}
		if p.get(idOf(m.id)); m.live() {
			p.report.Made.Left++
		}
	}
}
