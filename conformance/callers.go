package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/rules"
)

// callers judges what depends on who calls.
func (p *probe) callers() {
	p.authentication()
	p.extended()
	p.scope()
	p.authTask()
}

// refusal reports whether an answer is one for want of a credential.
func (p *probe) refusal(x *rules.Exchange) bool {
	e := x.Failure()
	if e == nil {
		return false
	}
	if p.over(a2a.BindingGRPC) {
		return e.Number == int(a2a.StatusUnauthenticated) || e.Number == int(a2a.StatusPermissionDenied)
	}
	custom := p.over(a2a.BindingJSONRPC) && x.Status == http.StatusOK && e.Code != a2a.ErrTaskNotFound // an error of the agent's own
	return x.Status == http.StatusUnauthorized || x.Status == http.StatusForbidden || custom
}

// unauthenticated reports whether an answer says that the caller is nobody whom the agent knows.
func (p *probe) unauthenticated(x *rules.Exchange) bool {
	status := http.StatusUnauthorized
	if p.over(a2a.BindingGRPC) {
		status = int(a2a.StatusUnauthenticated)
	}
	e := x.Failure()
	return x.Status == status || e != nil && e.Code == a2a.ErrUnauthenticated
}

func (p *probe) authentication() {
	if len(p.card.SecurityRequirements) == 0 {
		for _, rule := range []string{"auth-required", "auth-wrong", "auth-challenge"} {
			p.skip(rule, "the card requires no credential")
		}
		return
	}
	probe := call{op: "GetTask", params: idOf("conformance-" + random()), header: http.Header{}}
	x := p.play(probe)
	p.hold(p.refusal(x), "auth-required", x, fmt.Sprint("not refused: ", x.Failure()), "401, 403, UNAUTHENTICATED or PERMISSION_DENIED")
	if e := x.Failure(); e != nil {
		p.errors["auth-required"] = e.Code
		if p.refusal(x) && x.Status != http.StatusForbidden {
			p.hold(x.Header.Get("Www-Authenticate") != "", "auth-challenge", x, "no WWW-Authenticate", "a challenge")
		}
	}
	probe.header = http.Header{"Authorization": {"Bearer conformance-" + random()}}
	x = p.play(probe)
	p.hold(p.refusal(x), "auth-wrong", x, fmt.Sprint("not refused: ", x.Failure()), "401, 403, UNAUTHENTICATED or PERMISSION_DENIED")
}

func (p *probe) extended() {
	if !p.offers(p.card.Capabilities.ExtendedAgentCard) {
		p.mustFail("extended-refused", p.play(call{op: "GetExtendedAgentCard", params: "{}"}), a2a.ErrUnsupportedOperation)
		p.skip("extended-auth", "the card offers no extended card")
		p.skip("extended-card", "the card offers no extended card")
		return
	}
	p.skip("extended-refused", "the card offers an extended card")
	x := p.play(call{op: "GetExtendedAgentCard", params: "{}", header: http.Header{}})
	p.hold(p.refusal(x), "extended-auth", x, fmt.Sprint("not refused: ", x.Failure()), "a refusal for want of a credential")
	if len(p.Header) == 0 {
		p.skip("extended-card", "the run has no credential")
		return
	}
	x = p.play(call{op: "GetExtendedAgentCard", params: "{}"})
	card, _ := x.Result()
	if card == nil {
		p.mustFail("extended-card", x, a2a.ErrExtendedAgentCardNotConfigured)
		return
	}
	findings := slices.DeleteFunc(agentcard.Validate(card), func(f agentcard.Finding) bool {
		return f.Level != agentcard.Must || p.over(a2a.BindingGRPC) && strings.HasPrefix(f.Path, "signatures")
	})
	if len(findings) == 0 {
		p.pass("extended-card")
		return
	}
	p.fail("extended-card", x, findings[0].String(), "a complete card")
}

// scope looks at one caller's task with the credential of another.
func (p *probe) scope() {
	none := func(why string) {
		for _, rule := range []string{"scope-get", "scope-list", "scope-cancel", "scope-hidden"} {
			p.skip(rule, why)
		}
	}
	if p.Other == nil {
		none("the run has no second credential")
		return
	}
	m, why := p.endedTask()
	if m == nil {
		none(why)
		return
	}
	never := p.play(call{op: "GetTask", params: idOf(m.id[:len(m.id)/2] + random()), header: p.Other})
	if p.unauthenticated(never) {
		none("the agent does not take the second credential")
		return
	}
	foreign := p.play(call{op: "GetTask", params: idOf(m.id), header: p.Other})
	p.mustFail("scope-get", foreign, a2a.ErrTaskNotFound, a2a.ErrPermissionDenied)
	if a, b := foreign.Failure(), never.Failure(); a != nil && b != nil {
		p.hold(a.Code == b.Code && a.Number == b.Number && len(a.Message) > 0 && shorn(a.Message) == shorn(b.Message),
			"scope-hidden", foreign, a.String()+": "+a.Message, b.String()+": "+b.Message+", as for a task that never was")
	}
	p.mustFail("scope-cancel", p.play(call{op: "CancelTask", params: idOf(m.id), header: p.Other}), a2a.ErrTaskNotFound, a2a.ErrPermissionDenied)
	x := p.play(call{op: "ListTasks", params: `{"contextId":` + quote(m.contextID) + `}`, header: p.Other})
	raw, e := x.Result()
	if e == nil && raw == nil {
		p.skip("scope-list", "ListTasks has no answer")
		return
	}
	p.hold(e != nil || !strings.Contains(string(raw), m.id), "scope-list", x, "the other caller's task", "the caller's own tasks")
}

// shorn returns an error's message without what may differ: the words that look like ids.
func shorn(message string) string {
	words := strings.FieldsFunc(message, func(r rune) bool { return r == ' ' || r == '"' || r == '\'' })
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return len(w) >= 16 }), " ")
}

// authTask looks at a task that asks for an authorization (7.6.1).
func (p *probe) authTask() {
	list := []string{"auth-task", "auth-task-message", "auth-task-follow-up", "auth-task-stream"}
	none := func(why string) {
		for _, rule := range list {
			p.skip(rule, why)
		}
	}
	if p.full() {
		none("the run may make no more tasks")
		return
	}
	asks := func(state string) bool { return state == "TASK_STATE_AUTH_REQUIRED" }
	var id string
	if p.streaming() {
		k := call{op: "SendStreamingMessage", params: p.message("auth", "")}
		s := p.start(k)
		asked := s.until(p.patient, func(state string) bool {
			return asks(state) || rules.Terminal(state) || state == "TASK_STATE_INPUT_REQUIRED"
		})
		x := s.end(p.settle)
		p.judge(p.name, x, rules.Check(x))
		p.note(x, k)
		events, _ := x.Events()
		if !asked || len(events) == 0 || len(p.tasks) == 0 || !asks(p.tasks[len(p.tasks)-1].state) {
			none("the agent asked for no authorization: tell the run what to say, for auth")
			return
		}
		id = p.tasks[len(p.tasks)-1].id
		p.hold(x.Open, "auth-task-stream", x, "the end of the stream", "a stream that waits")
	} else {
		m, why := p.task("auth")
		if m == nil || !asks(m.state) {
			if why == "" {
				why = "the agent asked for no authorization: tell the run what to say, for auth"
			}
			none(why)
			return
		}
		id = m.id
	}
	x, t := p.get(idOf(id))
	if t == nil || !asks(t.Status.State) {
		p.fail("auth-task", x, "another state", "TASK_STATE_AUTH_REQUIRED")
		return
	}
	p.pass("auth-task")
	p.hold(len(t.Status.Message) > 4, "auth-task-message", x, "no message in the status", "a message that says what is asked for")
	x, _ = p.send(p.message("complete", `{"returnImmediately":true}`, `"taskId":`+quote(id)))
	p.hold(x.Failure() == nil && x.Err == "", "auth-task-follow-up", x, fmt.Sprint(x.Failure(), x.Err), "the message is taken")
}
