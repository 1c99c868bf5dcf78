package auth_test

import (
	"context"
	"fmt"
	stdlog "log"
	"net/http"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
)

// A host that takes API keys and the tokens of an issuer. In a program its parts go into parley.Config: Authenticate,
// Wrap (by Service), Rates.Check (by Valid), SecuritySchemes and SecurityRequirements.
func ExampleAny() {
	alice, err := auth.ParseAPIKey("alice=Jq7-vMbn2wX1TtP0sLkd scope=tasks.read,tasks.write tenant=acme")
	if err != nil {
		stdlog.Fatal(err)
	}
	keys, err := auth.NewAPIKeys(auth.APIKeyOptions{Keys: []auth.APIKey{alice}})
	if err != nil {
		stdlog.Fatal(err)
	}
	tokens, err := auth.NewJWT(auth.JWTOptions{
		Issuer: "https://issuer.example", Audience: []string{"https://agent.example"}, TenantClaim: "org",
	})
	if err != nil {
		stdlog.Fatal(err)
	}
	a, err := auth.Any(auth.Options{}, keys, tokens)
	if err != nil {
		stdlog.Fatal(err)
	}

	call := &a2a.CallInfo{Header: http.Header{"X-Api-Key": {"Jq7-vMbn2wX1TtP0sLkd"}}}
	ctx := context.Background()
	fmt.Println(a.Authenticate(ctx, call), call.Caller.Tenant, call.Caller.Issuer, call.Caller.Subject)
	err = a.Authenticate(ctx, &a2a.CallInfo{})
	fmt.Println(err)
	for _, challenge := range a2a.AsError(err).Challenge {
		fmt.Println("WWW-Authenticate:", challenge)
	}
	// Output:
	// <nil> acme api-key alice
	// a credential is required: X-Api-Key, or Authorization: Bearer
	// WWW-Authenticate: ApiKey realm="a2a", header="X-Api-Key"
	// WWW-Authenticate: Bearer realm="a2a"
}

func ExampleRules() {
	rules := auth.Rules{
		Operations: map[string][]string{
			"SendMessage": {"tasks.write"}, "SendStreamingMessage": {"tasks.write"}, auth.AnyOperation: {"tasks.read"},
		},
		Skills: map[string][]string{"stock-level": {"stock.read"}},
	}
	caller := a2a.Caller{Issuer: "https://issuer.example", Subject: "partner-7", Scopes: []string{"tasks.read"}}
	fmt.Println(rules.Operation(caller, "GetTask"))
	fmt.Println(rules.Operation(caller, "SendMessage"))
	fmt.Println(rules.Skill(caller, "stock-level"))
	// Output:
	// <nil>
	// SendMessage needs the scope tasks.write
	// the skill stock-level needs the scope stock.read
}

// A client that shows its token to one agent, whatever that agent's card says.
func ExampleCredentials() {
	server := auth.OAuth{
		TokenURL: "https://issuer.example/token", ClientID: "planner", ClientSecret: auth.NewSecret("from a file"),
		Resource: "https://agent.example",
	}
	source, err := server.ClientCredentials()
	if err != nil {
		stdlog.Fatal(err)
	}
	creds, err := auth.NewCredentials(auth.Credential{
		Origins: []string{"https://agent.example", "https://agent.example:8443"}, Source: source,
	})
	if err != nil {
		stdlog.Fatal(err)
	}
	opts := client.Options{HTTP: creds.HTTP(nil), GRPC: creds.GRPC()}
	fmt.Println(opts.HTTP != nil, len(opts.GRPC), server.ClientSecret)
	// Output: true 1 [redacted]
}
