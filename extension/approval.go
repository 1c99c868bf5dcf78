package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// ApprovalKey is the name in the metadata of a data part that says what the part is under approval: "request" or
// "answer".
const ApprovalKey = Approval + "/part"

const (
	requestPart = "request"
	answerPart  = "answer"
)

// ErrNotApproved is in every error that says why an answer approves nothing.
var ErrNotApproved = errors.New("nothing is approved")

// ApprovalRequest is a question for an authorization: may the agent do this?
type ApprovalRequest struct {
	ID       string    // made by who asks, for one question; at most 128 bytes
	Resource string    // what it is about
	Scopes   []string  // what is to be done with it, at least one
	Audience string    // who is to do it
	Expires  time.Time // after this an answer approves nothing
}

// ApprovalAnswer is the answer to a question.
type ApprovalAnswer struct {
	ID       string   // the question's
	Approved bool     // false: denied
	Scopes   []string // those that are approved; none: all that were asked for
}

// Part returns the question as a data part.
func (q *ApprovalRequest) Part() *a2a.Part {
	return marked(requestPart, map[string]any{
		"id": q.ID, "resource": q.Resource, "scopes": q.Scopes, "audience": q.Audience,
		"expires": q.Expires.UTC().Format(time.RFC3339Nano),
	})
}

// Part returns the answer as a data part.
func (a *ApprovalAnswer) Part() *a2a.Part {
	v := map[string]any{"id": a.ID, "approved": a.Approved}
	if len(a.Scopes) > 0 {
		v["scopes"] = a.Scopes
	}
	return marked(answerPart, v)
}

func marked(kind string, v any) *a2a.Part {
	p := a2a.DataPart(v)
	p.MediaType = "application/json"
	p.Metadata = a2a.Struct{}.With(ApprovalKey, kind)
	return p
}

// ApprovalRequestIn returns the question in a message, nil if there is none. A message with two, or with one that is
// not whole, is an error.
func ApprovalRequestIn(m *a2a.Message) (*ApprovalRequest, error) {
	v, err := find(m, requestPart)
	if v == nil || err != nil {
		return nil, err
	}
	q := new(ApprovalRequest)
	if !v.Get("id", &q.ID) || !v.Get("resource", &q.Resource) || !v.Get("scopes", &q.Scopes) ||
		!v.Get("audience", &q.Audience) || !v.Get("expires", &q.Expires) {
		return nil, errors.New("an approval's request has id, resource, scopes, audience and expires")
	}
	return q, q.Check()
}

// ApprovalAnswerIn returns the answer in a message, nil if there is none. A message with two, or with one that is not
// whole, is an error.
func ApprovalAnswerIn(m *a2a.Message) (*ApprovalAnswer, error) {
	v, err := find(m, answerPart)
	if v == nil || err != nil {
		return nil, err
	}
	a := new(ApprovalAnswer)
	_, some := v["scopes"]
	if !v.Get("id", &a.ID) || !v.Get("approved", &a.Approved) || some && (!v.Get("scopes", &a.Scopes) || len(a.Scopes) == 0) {
		return nil, errors.New("an approval's answer has id, approved (true or false), and perhaps scopes, at least one")
	}
	return a, nil
}

// find returns the members of the one data part of a kind, nil if there is none. Names count as they are written.
func find(m *a2a.Message, kind string) (a2a.Struct, error) {
	var out a2a.Struct
	if m == nil {
		return nil, nil
	}
	for _, p := range m.Parts {
		var is string
		if !p.Metadata.Get(ApprovalKey, &is) || is != kind {
			continue
		}
		if out != nil {
			return nil, fmt.Errorf("a message has one approval's %s, not two", kind)
		}
		data, ok := p.Content.(a2a.Data)
		if !ok || json.Unmarshal(data, &out) != nil || out == nil {
			return nil, fmt.Errorf("an approval's %s is a data part with a JSON object", kind)
		}
	}
	return out, nil
}

// Check returns an error if the question is not whole.
func (q *ApprovalRequest) Check() error {
	switch {
	case q.ID == "" || len(q.ID) > 128:
		return errors.New("an approval's id has 1 to 128 bytes")
	case q.Resource == "" || q.Audience == "":
		return errors.New("an approval names its resource and its audience")
	case len(q.Scopes) == 0 || slices.Contains(q.Scopes, ""):
		return errors.New("an approval names its scopes, at least one, none empty")
	case q.Expires.IsZero():
		return errors.New("an approval has an end (expires)")
	}
	return nil
}

// Within returns an error if the question asks for more than from does: another resource or audience, a scope that from
// does not have, or a longer time.
func (q *ApprovalRequest) Within(from *ApprovalRequest) error {
	switch {
	case q.Resource != from.Resource:
		return errors.New("the question names another resource than the one that is passed on")
	case q.Audience != from.Audience:
		return errors.New("the question names another audience than the one that is passed on")
	case q.Expires.After(from.Expires):
		return errors.New("the question lasts longer than the one that is passed on")
	}
	if more := beyond(q.Scopes, from.Scopes); len(more) > 0 {
		return fmt.Errorf("the question adds the scopes %s to the one that is passed on", strings.Join(more, ", "))
	}
	return nil
}

// Settle returns the scopes that an answer approves, none if it denies. An answer to another question, one that came
// too late, and one that approves more than was asked for are errors (ErrNotApproved).
func (q *ApprovalRequest) Settle(a *ApprovalAnswer, now time.Time) ([]string, error) {
	switch {
	case a.ID != q.ID:
		return nil, fmt.Errorf("%w: the answer is to another request than the one that is pending", ErrNotApproved)
	case !now.Before(q.Expires):
		return nil, fmt.Errorf("%w: the request has expired", ErrNotApproved)
	case len(beyond(a.Scopes, q.Scopes)) > 0:
		return nil, fmt.Errorf("%w: the answer has scopes that were not asked for", ErrNotApproved)
	case !a.Approved:
		return nil, nil
	case len(a.Scopes) == 0:
		return slices.Clone(q.Scopes), nil
	}
	return slices.Clone(a.Scopes), nil
}

// beyond returns the scopes that are not in the others.
func beyond(scopes, others []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return slices.Contains(others, s) })
}
