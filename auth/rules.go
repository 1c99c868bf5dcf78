package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// What stands in [Rules] for all that is not named.
const (
	AnyOperation = "*"
	AnySkill     = "*" // also for messages that are for none
)

// Rules say which scopes a caller needs. The zero value lets everybody do everything.
type Rules struct {
	// Operations are the scopes that an operation, such as SendMessage, needs, all of them.
	Operations map[string][]string
	// Skills are the scopes that a skill needs, all of them, by its id.
	Skills map[string][]string
	// SkillOf returns the id of the skill that a message is for, or "", such as [SkillIn] does. The protocol has no field for
	// it; nil: Skills is only for who calls [Rules.Skill], such as the agent. What a message says of itself binds nobody: an
	// agent that can do something else than the named skill asks for itself.
	SkillOf func(*a2a.Message) string

	tokens known // whether the host takes bearer tokens, which [Any] knows
}

// known is what is known about a question.
type known int

const (
	unknown known = iota
	yes
	no
)

// SkillIn is a [Rules.SkillOf] for messages that name their skill in a member of their metadata, as text.
func SkillIn(member string) func(*a2a.Message) string {
	return func(m *a2a.Message) string {
		var id string
		m.Metadata.Get(member, &id)
		return id
	}
}

// Check returns an error that says what is wrong with the rules.
func (r *Rules) Check() error {
	for name, scopes := range r.Operations {
		if name != AnyOperation && op.ByName(name) == nil {
			return fmt.Errorf("auth: %q is not an operation: write one such as SendMessage, or %s", name, AnyOperation)
		}
		if err := checkScopes(scopes); err != nil {
			return err
		}
	}
	for id, scopes := range r.Skills {
		if err := checkText("the id of a skill", id); err != nil {
			return err
		}
		if err := checkScopes(scopes); err != nil {
			return err
		}
	}
	return nil
}

// Operation returns nil if the caller may use the operation, and otherwise an ErrPermissionDenied error with the scopes
// that are missing.
func (r *Rules) Operation(caller a2a.Caller, name string) error {
	need, ok := r.Operations[name]
	if !ok {
		need = r.Operations[AnyOperation]
	}
	return r.permit(caller, need, name)
}

// Skill is like Operation, for a skill.
func (r *Rules) Skill(caller a2a.Caller, id string) error {
	need, ok := r.Skills[id]
	if !ok {
		need = r.Skills[AnySkill]
	}
	what := "the skill " + id
	if id == "" {
		what = "a message that names no skill"
	}
	return r.permit(caller, need, what)
}

// message checks the operation and the skill of a message.
func (r *Rules) message(ctx context.Context, name string, m *a2a.Message) error {
	caller := callerOf(ctx)
	if err := r.Operation(caller, name); err != nil {
		return err
	}
	if r.SkillOf == nil || m == nil {
		return nil
	}
	return r.Skill(caller, r.SkillOf(m))
}

func callerOf(ctx context.Context) a2a.Caller {
	if info := a2a.CallInfoFrom(ctx); info != nil {
		return info.Caller
	}
	return a2a.Caller{}
}

// permit returns an error if the caller lacks any of the scopes. Its challenge is that of RFC 6750, section 3.1, for callers
// to whom a bearer token is of use: not where none is taken, nor for one that came with something else.
func (r *Rules) permit(caller a2a.Caller, need []string, what string) error {
	var missing []string
	for _, s := range need {
		if !slices.Contains(caller.Scopes, s) {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	scopes := strings.Join(missing, " ")
	e := &a2a.Error{
		Code: a2a.ErrPermissionDenied, Message: fmt.Sprintf("%s needs the scope %s", what, scopes),
		Metadata: map[string]string{"missingScopes": scopes},
	}
	byToken := !caller.Anonymous() && caller.Issuer != APIKeyIssuer && caller.Issuer != CertificateIssuer
	if byToken && r.tokens != no || caller.Anonymous() && r.tokens == yes {
		e.Challenge = []string{bearer + " " + strings.Join([]string{
			param("error", "insufficient_scope"), param("scope", strings.Join(need, " ")),
		}, ", ")}
	}
	return e
}
