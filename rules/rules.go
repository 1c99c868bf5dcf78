// Package rules is what the A2A specification asks of an agent, as data and as checks: [All] are the clauses, in our
// words, and [Check] holds one exchange, as it was on the wire, to those that a single exchange shows. A run that plays
// exchanges (package conformance) and a proxy that records them judge by the same set.
//
// A check that finds nothing has either looked and found nothing wrong, or had nothing to look at. [Verdict] tells the
// two apart, so that what was never seen is never taken for right.
package rules

import "slices"

// Level is how binding a clause is.
type Level string

// The levels of RFC 2119 that a [Clause] has.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
)

// Clause is one thing that the specification asks of an agent.
type Clause struct {
	ID      string // stable, such as send-blocking
	Section string // of the specification
	Level   Level
	Says    string   // what is asked, in our words
	Seen    string   // how it shows from outside
	Only    []string // the bindings that it is about; nil: all
}

// About reports whether the clause is about a binding.
func (c *Clause) About(binding string) bool { return c.Only == nil || slices.Contains(c.Only, binding) }

var byID = func() map[string]*Clause {
	m := make(map[string]*Clause, len(All)+len(ForClients))
	for _, list := range [][]Clause{All, ForClients} {
		for i := range list {
			m[list[i].ID] = &list[i]
		}
	}
	return m
}()

// ByID returns the clause with the given id, or nil.
func ByID(id string) *Clause { return byID[id] }

// Finding is one place where a clause is broken.
type Finding struct {
	Rule string // the clause's id
	Path string // in the result or the frame, such as status.timestamp; "" for the whole
	Got  string // what was there
	Want string // what the clause asks for
}

// Verdict is what a check saw: the clauses that it could judge, and where they are broken.
type Verdict struct {
	Seen     []string // ids, each once
	Findings []Finding
}

func (v *Verdict) see(rule string) {
	if !slices.Contains(v.Seen, rule) {
		v.Seen = append(v.Seen, rule)
	}
}

// maxFindings bounds a verdict: an exchange with more is none.
const maxFindings = 100

func (v *Verdict) fail(rule, path, got, want string) {
	v.see(rule)
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, Finding{rule, path, Clip(got, 400), want})
	}
}

// hold judges a clause by a condition.
func (v *Verdict) hold(ok bool, rule, path, got, want string) {
	if ok {
		v.see(rule)
		return
	}
	v.fail(rule, path, got, want)
}

// Clip returns s, or its first n bytes with an ellipsis.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
