package main

import (
	"fmt"

	"github.com/parley-a2a/parley/examples/internal/issuer"
)

// testIssuer names the test issuer, which stands in for the identity provider that gives partners their tokens.
const testIssuer = "urn:example:stock-test-issuer"

// testPartners are the claims of the partners that the test issuer knows.
var testPartners = map[string]map[string]any{
	"acme":   {"partner": "acme", "scope": "stock.read stock.reserve", "warehouses": []string{"SBY-01", "JKT-02"}},
	"globex": {"partner": "globex", "scope": "stock.read", "warehouses": []string{"JKT-02"}},
}

// testToken returns a token for a partner's purchasing agent, good for an hour.
func testToken(state, audience, partner string) (string, error) {
	claims, ok := testPartners[partner]
	if !ok {
		return "", fmt.Errorf("the test issuer does not know the partner %q: it knows acme and globex", partner)
	}
	return issuer.Issuer{Name: testIssuer, Folder: state}.Token("purchasing@"+partner, audience, claims)
}
