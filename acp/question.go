package acp

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// question is a request of the agent that the caller decides on.
type question struct {
	id        json.RawMessage // of the request
	method    string
	requestID string // for the caller
	text      string
	data      map[string]any
	auth      bool
	options   []option        // of a permission
	schema    json.RawMessage // of a form
}

// refusal is the answer to a request that nobody decides on any more.
func refusal(method string) any {
	if method == methodElicitation {
		return elicitationResult{Action: "cancel"}
	}
	return permissionResult{outcome{Outcome: "cancelled"}}
}

// request answers a request of the agent by the policy, or parks the task with a question.
func (t *turn) request(ctx context.Context, m *message) error {
	if m.ID == nil {
		return nil
	}
	var q *question
	var err error
	if m.Method == methodPermission {
		var p permissionParams
		if err = json.Unmarshal(m.Params, &p); err == nil {
			if id := t.a.cfg.Policy.choose(p.Options); id != "" {
				return t.s.c.reply(ctx, m.ID, selected(id))
			}
			q = t.permission(&p)
		}
	} else {
		var p elicitationParams
		if err = json.Unmarshal(m.Params, &p); err == nil {
			q = elicitation(&p)
		}
	}
	if err != nil || q == nil {
		return t.s.c.refuse(ctx, m.ID, codeInvalidParams, "the request cannot be read")
	}
	q.id, q.method, q.requestID = m.ID, m.Method, uuid.NewString()
	q.data["requestId"] = q.requestID
	if err := t.flush(); err != nil {
		return err
	}
	t.question = q
	if q.auth {
		return t.u.ParkAuth(q.parts("")...)
	}
	return t.u.Park(q.parts("")...)
}

func selected(id string) permissionResult {
	return permissionResult{outcome{Outcome: "selected", OptionID: id}}
}

// choose returns the id of the option that the policy takes, "" where the caller decides.
func (p Policy) choose(options []option) string {
	switch p {
	case Allow:
		return only(options, allowOnce)
	case Reject:
		return only(options, rejectOnce)
	case Ask:
	}
	return ""
}

// only returns the id of the first option of a kind, "" if there is none.
func only(options []option, kind string) string {
	for _, o := range options {
		if o.Kind == kind {
			return o.OptionID
		}
	}
	return ""
}

// permission is the question that a request for permission asks.
func (t *turn) permission(p *permissionParams) *question {
	if len(p.Options) == 0 {
		return nil
	}
	snapshot, _ := t.merge(p.ToolCall)
	var b strings.Builder
	b.WriteString("The agent asks for permission: " + snapshot.title() + "\nAnswer with one of:")
	for _, o := range p.Options {
		b.WriteString("\n- " + clip(o.OptionID, 200) + ": " + clip(o.Name, 200))
	}
	return &question{
		text: b.String(), options: p.Options,
		data: map[string]any{"tool": snapshot.shown(), "options": p.Options},
	}
}

// elicitation is the question that a form or an address asks.
func elicitation(p *elicitationParams) *question {
	text := clip(p.Message, 4000)
	switch {
	case p.Mode == "url" && p.URL != "":
		return &question{
			auth: true, text: text + "\n" + clip(p.URL, 4000) + "\nGo there, then send a message to go on, or deny.",
			data: map[string]any{"url": p.URL},
		}
	case p.Mode == "form" && jsonx.Valid(p.Schema) == nil:
		return &question{
			text: text + "\nAnswer with a data part that fits the schema, or deny.", schema: p.Schema,
			data: map[string]any{"schema": p.Schema},
		}
	}
	return nil
}

// parts are the question as a message, after a word about the last answer.
func (q *question) parts(before string) []*a2a.Part {
	text := q.text
	if before != "" {
		text = before + "\n" + text
	}
	return []*a2a.Part{a2a.TextPart(text), a2a.DataPart(q.data)}
}

// isQuestion reports whether a part is the data of a question.
func isQuestion(p *a2a.Part) bool {
	d, ok := p.Content.(a2a.Data)
	var q struct {
		RequestID string `json:"requestId"`
	}
	return ok && json.Unmarshal(d, &q) == nil && q.RequestID != ""
}

// answer returns the result that a message stands for, nil if it is no answer to the question.
func (q *question) answer(m *a2a.Message) any {
	text := strings.TrimSpace(m.Text())
	data := answerData(m)
	if id := data["requestId"]; id != nil && string(id) != `"`+q.requestID+`"` {
		return nil // to another question
	}
	denied := strings.EqualFold(text, "deny")
	switch {
	case q.options != nil:
		var id string
		if json.Unmarshal(data["optionId"], &id) == nil && text == "" {
			text = id
		}
		if id := q.option(text); id != "" {
			return selected(id)
		}
		return nil
	case q.auth && denied, q.schema != nil && denied:
		return elicitationResult{Action: "decline"}
	case q.auth:
		return elicitationResult{Action: "accept"}
	}
	return q.form(text, data)
}

// option returns the id of the option that a text names: by its id, or by the word allow or deny for the one that holds
// this once.
func (q *question) option(text string) string {
	for _, o := range q.options {
		if text != "" && o.OptionID == text {
			return text
		}
	}
	switch strings.ToLower(text) {
	case "allow":
		return only(q.options, allowOnce)
	case "deny":
		return only(q.options, rejectOnce)
	}
	return ""
}

// form returns what fills a form: the data, or the text where the form has one field of text.
func (q *question) form(text string, data map[string]json.RawMessage) any {
	delete(data, "requestId")
	var schema struct {
		Properties map[string]struct{ Type string }
		Required   []string
	}
	if err := json.Unmarshal(q.schema, &schema); err != nil {
		return nil
	}
	if len(data) == 0 && text != "" && len(schema.Properties) == 1 {
		for name, p := range schema.Properties {
			if p.Type == "string" {
				data = a2a.Struct{}.With(name, text)
			}
		}
	}
	for _, name := range schema.Required {
		if data[name] == nil {
			return nil
		}
	}
	if len(data) == 0 {
		return nil
	}
	content, err := json.Marshal(data)
	if err != nil {
		return nil
	}
	return elicitationResult{Action: "accept", Content: content}
}

// answerData returns the first object among the parts of a message.
func answerData(m *a2a.Message) map[string]json.RawMessage {
	for _, p := range m.Parts {
		if d, ok := p.Content.(a2a.Data); ok {
			var object map[string]json.RawMessage
			if json.Unmarshal(d, &object) == nil && object != nil {
				return object
			}
		}
	}
	return map[string]json.RawMessage{}
}
