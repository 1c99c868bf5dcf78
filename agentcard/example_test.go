package agentcard_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

// An agent signs its card and publishes the key set; a caller that enrolled the key set verifies the card it fetched.
func Example() {
	_, private, err := ed25519.GenerateKey(rand.Reader) // or agentcard.ParseKey of a file
	if err != nil {
		panic(err)
	}
	key, err := agentcard.NewKey(private)
	if err != nil {
		panic(err)
	}
	key.ID, key.SetURL = "2026-11", "https://agent.example/.well-known/jwks.json"

	card := &a2a.AgentCard{
		Name: "Greeter", Description: "Greets whoever writes.", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			{URL: "https://agent.example/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: a2a.Version},
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2a.AgentSkill{{ID: "greet", Name: "Greet", Description: "Says hello.", Tags: []string{"hello"}}},
	}
	if err := agentcard.Sign(card, key); err != nil {
		panic(err)
	}
	served := card.AppendJSON(nil)
	published, err := agentcard.JWKS(key)
	if err != nil {
		panic(err)
	}

	approved, err := agentcard.Digest(served)
	if err != nil {
		panic(err)
	}
	policy := agentcard.Policy{
		Origin: "https://agent.example",
		Enrolled: map[string]agentcard.Enrollment{
			"https://agent.example": {KeySet: published, URL: key.SetURL, Digest: approved},
		},
	}
	r := agentcard.Verify(context.Background(), served, policy)
	fmt.Println(r.Outcome, "by", r.KeyID, r.Algorithm, "of", r.Origin, r.Trusted())

	card.Description = "Greets, and reads your mail."
	r = agentcard.Verify(context.Background(), card.AppendJSON(nil), policy)
	fmt.Println(r.Outcome, r.Why, "drift:", r.Drift)
	// Output:
	// verified by 2026-11 EdDSA of https://agent.example true
	// unverifiable signatures[0]: the signature is not by key "2026-11" over this card drift: true
}

func ExampleValidate() {
	for _, finding := range agentcard.Validate([]byte(`{
		"name": "Greeter", "description": "Greets whoever writes.", "version": "1.0.0", "capabilities": {},
		"supportedInterfaces": [{"url": "http://agent.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.1"}],
		"defaultInputModes": ["text"], "defaultOutputModes": ["text/plain"],
		"skills": [{"id": "greet", "name": "Greet", "description": "Says hello.", "tags": ["hello"]}]
	}`)) {
		fmt.Println(finding)
	}
	// Output:
	// should supportedInterfaces[0].protocolVersion (3.6): the patch version does not belong in a card
	// must supportedInterfaces[0].url (7.1): "http://agent.example/" is not encrypted, which production must be
	// must defaultInputModes[0] (4.4.1): "text" is not a media type
}
