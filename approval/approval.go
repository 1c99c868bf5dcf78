// Package approval is the extension approval for both ends: an agent asks for an authorization by a question that names
// what it is for, and the answer names the question. Whatever else is said, in whatever words, approves nothing.
//
// An agent asks with [Ask], which waits, or with [Park] and [Answered], which do not. One that gets such a question from
// another agent passes it on with [Relay], which only narrows it. A client finds the question of a task with [Pending]
// and answers it with [Approve] or [Deny].
package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/extension"
)

// Request is the question.
type Request = extension.ApprovalRequest

// defaultTime is how long a question stands that does not say so.
const defaultTime = 10 * time.Minute

// Decision is what an answer says.
type Decision int

// Decisions.
const (
	Undecided Decision = iota // a message that is no answer to the question
	Denied
	Approved
	Expired // nobody answered in time
)

// Answer is what came of a question.
type Answer struct {
	Request  Request
	Decision Decision
	Scopes   []string     // those that are approved; none unless Approved
	Message  *a2a.Message // what the caller sent; nil if nothing came in time
}

// Ask asks the task's caller (AUTH_REQUIRED) and waits for the next message or for the question's end. parts are for
// people; without any the question is put into words. An empty ID is filled in, and an empty Expires is in 10 minutes.
//
// A message that is no answer to this question is handed over as it is, Undecided: to ask on, call Ask again, with
// Answer.Request. A caller that did not activate the extension could not answer; that is an
// a2a.ErrExtensionSupportRequired error, by which the task fails if Handle returns it. r is the request of this run.
func Ask(ctx context.Context, r *agent.Request, u *agent.Updater, q Request, parts ...*a2a.Part) (*Answer, error) {
	parts, err := question(r, &q, parts)
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(q.Expires) { // nobody is asked what nobody can answer
		return &Answer{Request: q, Decision: Expired}, nil
	}
	both, cancel := context.WithDeadline(ctx, q.Expires)
	defer cancel()
	m, err := u.AskAuth(both, parts...)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &Answer{Request: q, Decision: Expired}, nil
	}
	if err != nil {
		return nil, err
	}
	return settle(&q, m), nil
}

// Park is Ask for an agent that returns from Handle and lets the task wait. Its next run finds the answer with
// [Answered].
func Park(r *agent.Request, u *agent.Updater, q Request, parts ...*a2a.Part) error {
	parts, err := question(r, &q, parts)
	if err != nil {
		return err
	}
	return u.ParkAuth(parts...)
}

// Answered returns what this run's message says to the question on which the run before it parked, nil if it did not
// park on one. A question is answered by the message that follows it, once.
func Answered(r *agent.Request) *Answer {
	if r.Task == nil || len(r.Task.History) < 2 {
		return nil
	}
	asked := r.Task.History[len(r.Task.History)-2]
	if asked.Role != a2a.RoleAgent {
		return nil
	}
	q, err := extension.ApprovalRequestIn(asked)
	if q == nil || err != nil {
		return nil
	}
	return settle(q, r.Message)
}

func settle(q *Request, m *a2a.Message) *Answer {
	out := &Answer{Request: *q, Message: m}
	a, err := extension.ApprovalAnswerIn(m)
	if a == nil || err != nil {
		return out
	}
	scopes, err := q.Settle(a, time.Now())
	switch {
	case err != nil:
	case len(scopes) == 0:
		out.Decision = Denied
	default:
		out.Decision, out.Scopes = Approved, scopes
	}
	return out
}

// question completes q and returns the parts with which it is asked.
func question(r *agent.Request, q *Request, parts []*a2a.Part) ([]*a2a.Part, error) {
	if !slices.Contains(r.Extensions, extension.Approval) {
		e := a2a.Errorf(a2a.ErrExtensionSupportRequired,
			"this needs an approval, which the caller can only give under the extension %s", extension.Approval)
		e.Metadata = map[string]string{"extension": extension.Approval}
		return nil, e
	}
	if q.ID == "" {
		q.ID = uuid.NewString()
	}
	if q.Expires.IsZero() {
		q.Expires = time.Now().Add(defaultTime)
	}
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	if len(parts) == 0 {
		parts = []*a2a.Part{a2a.TextPart(fmt.Sprintf("Approval needed: %s on %s by %s, until %s.",
			strings.Join(q.Scopes, ", "), q.Resource, q.Audience, q.Expires.UTC().Format(time.RFC3339)))}
	}
	return append(slices.Clip(parts), q.Part()), nil
}

// Relay passes on to the task's caller the question that another agent asked, and waits as [Ask] does. q is what is
// asked in its place: what it leaves empty is as in from, under an id of its own. It may ask for less. If it asks for
// more that is an error, by which the task fails if Handle returns it, and nobody is asked. [Reply] gives the answer to
// who asked.
func Relay(ctx context.Context, r *agent.Request, u *agent.Updater, from *Request, q Request, parts ...*a2a.Part,
) (*Answer, error) {
	if q.Resource == "" {
		q.Resource = from.Resource
	}
	if q.Audience == "" {
		q.Audience = from.Audience
	}
	if q.Scopes == nil {
		q.Scopes = from.Scopes
	}
	if q.Expires.IsZero() {
		q.Expires = from.Expires
	}
	if err := q.Within(from); err != nil {
		return nil, agent.Errorf("an approval can only be narrowed on its way: %s", err)
	}
	return Ask(ctx, r, u, q, parts...)
}

// Pending returns the question that a task waits on, nil if it waits on none.
func Pending(task *a2a.Task) *Request {
	if !task.Status.State.Interrupted() {
		return nil
	}
	q, err := extension.ApprovalRequestIn(task.Status.Message)
	if err != nil {
		return nil
	}
	return q
}

// Approve returns the message that approves the question that a task waits on: all that it asks for, or only scopes. It
// is to be sent under the extension.
func Approve(task *a2a.Task, scopes ...string) (*a2a.SendMessageRequest, error) {
	return answer(task, true, scopes)
}

// Deny returns the message that denies the question that a task waits on.
func Deny(task *a2a.Task) (*a2a.SendMessageRequest, error) { return answer(task, false, nil) }

// Reply returns the message that gives a relayed question's answer to the task that asked: what was approved, and a
// denial for everything else.
func Reply(task *a2a.Task, a *Answer) (*a2a.SendMessageRequest, error) {
	return answer(task, a.Decision == Approved, a.Scopes)
}

func answer(task *a2a.Task, approved bool, scopes []string) (*a2a.SendMessageRequest, error) {
	q := Pending(task)
	if q == nil {
		return nil, errors.New("approval: the task does not wait on a question for an approval")
	}
	a := &extension.ApprovalAnswer{ID: q.ID, Approved: approved, Scopes: scopes}
	if _, err := q.Settle(a, time.Now()); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: uuid.NewString(), TaskID: task.ID, ContextID: task.ContextID, Role: a2a.RoleUser,
		Parts: []*a2a.Part{a.Part()}, Extensions: []string{extension.Approval},
	}}, nil
}
