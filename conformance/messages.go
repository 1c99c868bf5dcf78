package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// messages judges SendMessage.
func (p *probe) messages() {
	p.blocking()
	p.immediate()
	p.contexts()
	p.conversation()
	p.wrongMessages()
	p.contentType()
}

func (p *probe) blocking() {
	x, t := p.send(p.message("artifact", ""))
	if t == nil {
		p.skip("send-blocking", "the agent answers without a task")
		p.skip("send-context-given", "the agent answers without a task")
		return
	}
	p.cached["artifact"] = p.find(t.ID)
	state := t.Status.State
	p.hold(rules.Terminal(state) || rules.Interrupted(state), "send-blocking", x, state, "a terminal or interrupted state")
	if t.ContextID != "" {
		p.pass("send-context-given")
	} else if y, now := p.get(idOf(t.ID)); now != nil && now.ContextID != "" {
		p.fail("send-context-given", y, "contextId "+now.ContextID+" in GetTask only", "contextId in the answer to the message")
	}
	for _, n := range []int{0, 1} {
		if x, t = p.send(p.message("complete", fmt.Sprintf(`{"historyLength":%d}`, n))); t != nil {
			p.hold(len(t.History) <= n, "send-history-length", x, fmt.Sprintf("%d messages", len(t.History)), fmt.Sprintf("at most %d", n))
		}
	}
}

func (p *probe) immediate() {
	began := time.Now()
	x, t := p.send(p.message("long", `{"returnImmediately":true}`))
	took := time.Since(began)
	switch {
	case t == nil:
		p.skip("send-immediate", "the agent answers without a task")
	case !rules.Terminal(t.Status.State):
		p.pass("send-immediate")
		p.cached["long"] = p.find(t.ID)
	case took > p.settle:
		p.fail("send-immediate", x, fmt.Sprintf("%s after %v", t.Status.State, took.Round(time.Millisecond)), "the task as soon as it exists")
	default:
		p.skip("send-immediate", "the agent was done at once: tell the run what to say, for long")
	}
}

func (p *probe) contexts() {
	const rule = "send-context-kept"
	mine := "conformance-" + random()
	x, t := p.send(p.message("complete", "", `"contextId":`+quote(mine)))
	switch e := x.Failure(); {
	case e != nil:
		p.pass(rule)
	case t != nil:
		p.hold(t.ContextID == mine, rule, x, "contextId "+t.ContextID, mine+", or an error")
	default:
		var res struct{ Message *struct{ ContextID string } }
		if raw, _ := x.Result(); json.Unmarshal(raw, &res) == nil && res.Message != nil {
			p.hold(res.Message.ContextID == mine, rule, x, "contextId "+res.Message.ContextID, mine+", or an error")
		}
	}
}

// conversation answers a question of the agent.
func (p *probe) conversation() {
	m, why := p.task("input")
	if m == nil || !rules.Interrupted(m.state) {
		p.mute = true
		if why == "" {
			why = "the agent asked nothing: tell the run what to say, for input"
		}
		for _, rule := range []string{"send-context-mismatch", "send-context-inferred"} {
			p.skip(rule, why)
		}
		return
	}
	about := `"taskId":` + quote(m.id)
	x, _ := p.send(p.message("complete", "", about, `"contextId":"conformance-`+random()+`"`))
	if e := x.Failure(); e != nil {
		p.pass("send-context-mismatch")
		p.wrongInput("send-context-mismatch", x, e, "contextId")
	} else if x.Err == "" {
		p.fail("send-context-mismatch", x, "no error", "an error")
	}
	x, t := p.send(p.message("complete", "", about))
	if e := x.Failure(); e != nil {
		p.skip("send-context-inferred", "the agent takes no answer: "+rules.Clip(e.String(), 200))
	} else if t != nil {
		p.hold(t.ID == m.id && t.ContextID == m.contextID, "send-context-inferred", x,
			fmt.Sprintf("task %s, context %s", t.ID, t.ContextID), fmt.Sprintf("task %s, context %s", m.id, m.contextID))
	}
}

// wrongMessages leaves out what is required.
func (p *probe) wrongMessages() {
	id := `"messageId":"conformance-` + random() + `"`
	role, parts := `"role":"ROLE_USER"`, `"parts":[{"text":"This message lacks something."}]`
	for field, members := range map[string][]string{
		"parts": {id, role, `"parts":[]`}, "messageId": {role, parts}, "role": {id, parts}, "message": nil,
	} {
		params := `{}`
		if members != nil {
			params = `{"message":{` + strings.Join(members, ",") + `}}`
		}
		if p.full() {
			return
		}
		x := p.play(call{op: "SendMessage", params: params, wrong: true})
		if e := x.Failure(); e != nil {
			p.pass("validate-required")
			p.wrongInput("validate-required", x, e, field)
		} else if x.Err == "" {
			p.fail("validate-required", x, "a result, without "+field, "an error")
		}
	}
}

// wrongInput holds an error to be one of validation, and to say which field is wrong.
func (p *probe) wrongInput(rule string, x *rules.Exchange, e *rules.Error, field string) {
	ok := slices.Contains([]a2a.ErrorCode{a2a.ErrInvalidParams, a2a.ErrInvalidRequest}, e.Code)
	switch {
	case p.over(a2a.BindingREST):
		ok = ok || e.Number == 400 || e.Number == 422
	case p.over(a2a.BindingGRPC):
		ok = ok || e.Number == int(a2a.StatusInvalidArgument)
	}
	p.hold(ok, "validate-error", x, e.String(), "-32602, HTTP 400, INVALID_ARGUMENT")
	says := strings.Contains(letters(e.Message), letters(field)) || len(e.Fields) > 0
	p.hold(says, "validate-says-which", x, rules.Clip(e.Message, 200), "the name of the field, "+field)
	p.errors[rule] = e.Code
}

// letters returns the letters of s in lower case alone, so that "message ID" and message_id name the field messageId.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

func (p *probe) contentType() {
	const rule, media = "send-content-type", "application/x-conformance-unknown"
	for _, m := range p.card.DefaultInputModes {
		if strings.HasPrefix(m, "*") || strings.HasPrefix(m, "application/*") {
			p.skip(rule, "the card takes every media type")
			return
		}
	}
	params := `{"message":{"messageId":` + quote(kind("complete").Prefix+"-"+random()) +
		`,"role":"ROLE_USER","parts":[{"raw":"AAEC","filename":"x.bin","mediaType":"` + media + `"}]}}`
	x, _ := p.send(params)
	if x.Failure() == nil {
		p.skip(rule, "the agent takes a media type that its card does not list")
		return
	}
	p.mustFail(rule, x, a2a.ErrContentTypeNotSupported)
}

// unknownTasks judges the operations on tasks that do not exist.
func (p *probe) unknownTasks() {
	unknown := "00000000-0000-4000-8000-" + random()[:12]
	p.mustFail("get-unknown", p.play(call{op: "GetTask", params: idOf(unknown)}), a2a.ErrTaskNotFound)
	p.mustFail("cancel-unknown", p.play(call{op: "CancelTask", params: idOf(unknown)}), a2a.ErrTaskNotFound)
	x, _ := p.send(p.message("complete", "", `"taskId":`+quote(unknown)))
	p.mustFail("send-unknown-task", x, a2a.ErrTaskNotFound)
	if p.streaming() {
		p.mustFail("subscribe-unknown", p.play(call{op: "SubscribeToTask", params: idOf(unknown)}), a2a.ErrTaskNotFound)
	} else {
		p.skip("subscribe-unknown", "the card offers no streams")
	}
	if p.pushes() {
		params := fmt.Sprintf(`{"taskId":%s,"url":%s}`, quote(unknown), quote(nowhere))
		p.mustFail("push-unknown-task", p.play(call{op: "CreateTaskPushNotificationConfig", params: params}), a2a.ErrTaskNotFound)
	} else {
		p.skip("push-unknown-task", "the card offers no push notifications")
	}
}

// nowhere is a webhook's URL that leads to nobody (RFC 6761).
const nowhere = "https://conformance.invalid/webhook"

// framing judges how a binding takes what is not a request.
func (p *probe) framing() {
	switch {
	case p.over(a2a.BindingJSONRPC):
		p.rpcFraming()
	case p.over(a2a.BindingREST):
		x := p.play(call{op: "SendMessage", params: "{}", body: `{"message":`})
		p.hold(x.Status == 400, "rest-bad-json", x, fmt.Sprintf("HTTP %d", x.Status), "400")
	}
	if m, why := p.endedTask(); m == nil {
		p.skip("unknown-fields", why)
	} else if !p.over(a2a.BindingGRPC) {
		x := p.play(call{op: "GetTask", params: `{"id":` + quote(m.id) + `,"conformanceUnknown":"1"}`})
		p.hold(x.Failure() == nil && x.Err == "", "unknown-fields", x, "an error", "the task")
	}
}

func (p *probe) rpcFraming() {
	unknown := `{"id":"conformance-` + random() + `"}`
	for _, id := range []string{`"` + random() + `"`, `9007199254740993`, `"ü\u0000\"x"`, `0`, `"7"`} {
		p.play(call{op: "GetTask", params: unknown, id: id})
	}
	var null struct{ ID json.RawMessage }
	x := p.play(call{body: `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":`})
	_ = json.Unmarshal(x.Answer, &null) // what is no JSON is a finding already
	p.rpcCode("rpc-parse-error", x, a2a.ErrParse)
	p.hold(string(null.ID) == "null", "rpc-parse-error", x, "id "+orNone(string(null.ID)), "id null")
	p.rpcCode("rpc-invalid-request", p.play(call{body: `{"jsonrpc":"2.0","id":` + p.nextID() + `,"params":{}}`}), a2a.ErrInvalidRequest)
	p.rpcCode("rpc-unknown-method", p.play(call{body: `{"jsonrpc":"2.0","id":` + p.nextID() + `,"method":"ConformanceUnknown","params":{}}`}), a2a.ErrMethodNotFound)
	p.rpcCode("rpc-invalid-params", p.play(call{body: `{"jsonrpc":"2.0","id":` + p.nextID() + `,"method":"GetTask","params":["x"]}`}), a2a.ErrInvalidParams)
	x = p.play(call{body: `{"jsonrpc":"2.0","method":"GetTask","params":` + unknown + `}`})
	p.hold(len(strings.TrimSpace(string(x.Answer))) == 0 && x.Err == "", "rpc-notification", x, rules.Clip(string(x.Answer), 200), "no response")
}

func (p *probe) rpcCode(rule string, x *rules.Exchange, want a2a.ErrorCode) {
	e := x.Failure()
	if e == nil {
		p.fail(rule, x, "no error", fmt.Sprint(int(want)))
		return
	}
	p.hold(e.Number == int(want), rule, x, fmt.Sprint(e.Number), fmt.Sprint(int(want)))
}

// versions judges A2A-Version and A2A-Extensions. The request asks for a task that does not exist: where the version
// is taken, that is the answer.
func (p *probe) versions() {
	get := func(version string, more call) *rules.Exchange {
		more.op, more.params, more.version = "GetTask", idOf("conformance-"+random()), &version
		return p.play(more)
	}
	p.mustFail("version-unsupported", get("99.0", call{}), a2a.ErrVersionNotSupported)
	if slices.ContainsFunc(p.card.SupportedInterfaces, func(i *a2a.AgentInterface) bool {
		return i.ProtocolBinding == p.iface.ProtocolBinding && strings.HasPrefix(i.ProtocolVersion, "0.3")
	}) {
		p.skip("version-empty", "the card declares 0.3 too")
	} else {
		p.mustFail("version-empty", get("", call{}), a2a.ErrVersionNotSupported)
	}
	taken := func(rule string, x *rules.Exchange, got string) {
		e := x.Failure()
		p.hold(e != nil && e.Code != a2a.ErrVersionNotSupported && (e.Code != 0 || e.Number != int(a2a.StatusFailedPrecondition)),
			rule, x, got, a2a.ErrTaskNotFound.Name()+", as with "+a2a.Version)
	}
	x := get(a2a.Version+".7", call{})
	taken("version-patch", x, fmt.Sprint(x.Failure()))
	if !p.over(a2a.BindingGRPC) {
		x = get(a2a.Version, call{inQuery: true})
		taken("version-query", x, fmt.Sprint(x.Failure()))
	}
	x = p.play(call{op: "GetTask", params: idOf("conformance-" + random()), extensions: strings.Trim(p.required()+",https://conformance.invalid/extension/v1", ",")})
	if e := x.Failure(); e != nil {
		p.hold(e.Code == a2a.ErrTaskNotFound || e.Code == 0, "extension-unknown", x, e.String(), "the answer as without it")
	}
	if p.required() == "" {
		p.skip("extension-required", "the card requires no extension")
		return
	}
	if !p.full() {
		x = p.play(call{op: "SendMessage", params: p.message("complete", ""), extensions: "-"})
		p.mustFail("extension-required", x, a2a.ErrExtensionSupportRequired)
	}
}
