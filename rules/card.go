package rules

import "strings"

// CardRule returns the rule of a finding about a card's JSON, from the path of what is wrong and whether it breaks only a
// SHOULD.
func CardRule(path string, should bool) string {
	switch {
	case should && strings.HasSuffix(path, "protocolVersion"):
		return "card-version"
	case should:
		return "card-advice"
	case strings.HasPrefix(path, "supportedInterfaces"):
		return "card-interfaces"
	case strings.HasPrefix(path, "signatures"):
		return "card-signature-header"
	}
	return "card-required"
}
