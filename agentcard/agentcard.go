// Package agentcard checks, signs and verifies agent cards.
//
// [Validate] says where a card breaks the specification. [Sign] signs a card as section 8.4 has it, and [Verify]
// decides what a signature is worth: only a key that was enrolled for the card's origin counts, never one that the card
// itself points to.
//
// What is signed is the card's canonical form ([Canonical], [CanonicalJSON]). Its SHA-256 ([Digest]) is also what a
// caller pins, so that a card that changed is seen whether it is signed or not.
package agentcard

import (
	"errors"
	"fmt"

	"github.com/parley-a2a/parley/a2a"
)

// cardJSON returns a card's JSON. A nil among the card's elements is an error.
func cardJSON(card *a2a.AgentCard) ([]byte, error) {
	if card == nil {
		return nil, errors.New("agentcard: no card")
	}
	if path := findNil(card); path != "" {
		return nil, fmt.Errorf("agentcard: %s is nil: take it out or fill it in", path)
	}
	return card.AppendJSON(nil), nil
}

// findNil returns the path of an element that cannot be written, or "".
func findNil(card *a2a.AgentCard) string {
	for _, path := range []string{
		nilIn("supportedInterfaces", card.SupportedInterfaces),
		nilIn("capabilities.extensions", card.Capabilities.Extensions),
		nilIn("securityRequirements", card.SecurityRequirements),
		nilIn("skills", card.Skills),
		nilIn("signatures", card.Signatures),
	} {
		if path != "" {
			return path
		}
	}
	for i, s := range card.Skills {
		if path := nilIn(fmt.Sprintf("skills[%d].securityRequirements", i), s.SecurityRequirements); path != "" {
			return path
		}
	}
	return ""
}

func nilIn[T any](path string, list []*T) string {
	for i, e := range list {
		if e == nil {
			return fmt.Sprintf("%s[%d]", path, i)
		}
	}
	return ""
}

// clip returns at most n bytes of s, for texts that quote what a card says.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
