// Package card holds card signatures against the official SDKs for JavaScript and Python: each verifies what the other
// signed, or the table says why not.
package card

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

const origin = "https://agent.example"

// cards are signed on each side, and verified on the other.
//
// The SDKs agree with each other, and not with specification 8.4.1: they take every empty string, list and object, and
// null, out of a card before they sign it, at whatever depth. The specification takes out the defaults of plain fields:
// not of required fields, not of optional ones, not of members of a union or a map, and nothing of what is in an
// extension's params.
//
// In the JavaScript SDK, a card that its client has read loses its security schemes in the canonical form, for signing
// and for verifying: the form is made of the card's JSON, and is given the model. The JSON has to be handed to the SDK.
var cards = []struct {
	name    string
	members string // in place of the same members of the base card, or added to them
	lost    string // what the SDKs take out of the canonical form; empty: they agree with the specification
	schemes bool   // the card has security schemes
}{
	{name: "plain"},
	{name: "explicit false", members: `"capabilities":{"streaming":false,"pushNotifications":false,"extendedAgentCard":false,
		"extensions":[{"uri":"urn:x:v1","required":false}]}`},
	{
		name: "empty lists", members: `"securityRequirements":[],"securitySchemes":{},"capabilities":{"extensions":[]},
		"skills":[{"id":"a","name":"a","description":"a","tags":["a"],"examples":[],"inputModes":[],"outputModes":[]}]`,
		lost: `"capabilities":{}`,
	},
	{name: "accents", members: `"name":"Évaluateur à côté","description":"Zażółć gęślą jaźń, e\u0301 and é, \u2028 and \"quotes\" \\ \u007f"`},
	{name: "astral characters", members: `"name":"𝄞 😀","capabilities":{"streaming":true,"extensions":[{"uri":"urn:x:v1",
		"params":{"\ufb33":1,"😀":2,"€":3,"é":4,"\r":5,"1":6}}]}`},
	{name: "numbers", members: `"capabilities":{"extensions":[{"uri":"urn:x:v1",
		"params":{"a":1e-7,"b":0.1,"c":-0,"d":100,"e":1.0,"f":5e-324,"g":9007199254740991,"h":0.000001,"i":333333333.33333329}}]}`},
	{name: "large numbers", members: `"capabilities":{"extensions":[{"uri":"urn:x:v1","params":{"a":1e21,"b":1e20,"c":1.7976931348623157e308}}]}`},
	{name: "OpenID Connect", members: `"securitySchemes":{"oidc":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://id.example/"}}},
		"securityRequirements":[{"schemes":{"oidc":{"list":["openid","email"]}}}]`, schemes: true},
	{
		name: "case 30", members: `"capabilities":{"streaming":false,"extensions":[{"uri":"urn:x:v1","required":false}]},"skills":[],
		"securitySchemes":{"oidc":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://id.example/"}}}`,
		lost: `"skills":[]`, schemes: true,
	},
	{name: "an empty description", members: `"description":""`, lost: `"description":""`},
	{name: "an empty optional", members: `"iconUrl":""`, lost: `"iconUrl":""`},
	{
		name: "empty params", members: `"capabilities":{"streaming":true,"extensions":[{"uri":"urn:x:v1","params":{"a":"","b":[],"c":{},"d":[""]}}]}`,
		lost: `"params":{"a":"","b":[],"c":{},"d":[""]}`,
	},
	{
		name: "null in params", members: `"capabilities":{"streaming":true,"extensions":[{"uri":"urn:x:v1","params":{"a":null}}]}`,
		lost: `"params":{"a":null}`,
	},
	{name: "every flow", members: `"securitySchemes":{
		"a":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"authorizationUrl":"https://a","tokenUrl":"https://b","scopes":{"x":"y"},"pkceRequired":true}}}},
		"b":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://b","scopes":{"x":"y"}}}}},
		"c":{"oauth2SecurityScheme":{"flows":{"deviceCode":{"deviceAuthorizationUrl":"https://a","tokenUrl":"https://b","scopes":{"x":"y"}}}}},
		"d":{"apiKeySecurityScheme":{"location":"header","name":"X"}},"e":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}}`, schemes: true},
	{
		name: "mutual TLS", members: `"securitySchemes":{"m":{"mtlsSecurityScheme":{}}},"securityRequirements":[{"schemes":{"m":{}}}]`,
		lost: `"m":{"mtlsSecurityScheme":{}}`, schemes: true,
	},
	{
		name: "no scopes", members: `"securitySchemes":{"b":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://b","scopes":{}}}}}}`,
		lost: `"scopes":{}`, schemes: true,
	},
}

// base has no member that is empty.
const base = `{"name":"Reviser","description":"Revises texts.","version":"1.0.0","capabilities":{"streaming":true},
	"supportedInterfaces":[{"url":"https://agent.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
	"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
	"skills":[{"id":"revise","name":"Revise","description":"Revises.","tags":["text"]}]}`

// cardJSON returns a card as an agent may serve it: not in canonical form, and with defaults spelt out.
func cardJSON(t *testing.T, members string) map[string]json.RawMessage {
	t.Helper()
	var card map[string]json.RawMessage
	for _, raw := range []string{base, "{" + members + "}"} {
		if err := json.Unmarshal([]byte(raw), &card); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
	}
	return card
}

// signed returns a card with a signature of ours, each member otherwise as it was.
func signed(t *testing.T, card map[string]json.RawMessage, k *agentcard.Key) json.RawMessage {
	t.Helper()
	var model a2a.AgentCard
	if err := model.UnmarshalJSON(marshal(t, card)); err != nil {
		t.Fatal(err)
	}
	if err := agentcard.Sign(&model, k); err != nil {
		t.Fatal(err)
	}
	card["signatures"] = marshal(t, model.Signatures)
	return marshal(t, card)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// key returns a new key as a private JWK and as ours.
func key(t *testing.T, alg string) (jwk []byte, k *agentcard.Key) {
	t.Helper()
	var private any
	var err error
	switch alg {
	case agentcard.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case agentcard.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	jwk = marshal(t, jose.JSONWebKey{Key: private, KeyID: "key-" + alg, Algorithm: alg})
	if k, err = agentcard.ParseKey(jwk); err != nil {
		t.Fatal(err)
	}
	return jwk, k
}

// result is what an SDK made of a card.
type result struct {
	Form        string          // the canonical form
	Verified    bool            // our signature
	Model       *bool           // JavaScript: the same, of the card as the client has it
	Signed      json.RawMessage // the card with the signature of the SDK
	ModelSigned json.RawMessage // JavaScript: the same, signed from the model
}

func TestJavaScript(t *testing.T) {
	if !have(t, "node", "npm") {
		return
	}
	if older("package-lock.json", filepath.Join("node_modules", ".package-lock.json")) {
		run(t, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	for _, alg := range []string{agentcard.ES256, agentcard.EdDSA, agentcard.RS256, agentcard.PS256} {
		t.Run(alg, func(t *testing.T) {
			exchange(t, alg, "node", "card.mjs")
		})
	}
}

func TestPython(t *testing.T) {
	if !have(t, "python3") {
		return
	}
	python := filepath.Join(".venv", "bin", "python")
	stamp := filepath.Join(".venv", "requirements.txt")
	if older("requirements.txt", stamp) {
		run(t, "python3", "-m", "venv", ".venv")
		run(t, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")
		if err := os.WriteFile(stamp, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, alg := range []string{agentcard.ES256, agentcard.EdDSA, agentcard.RS256, agentcard.PS256} {
		t.Run(alg, func(t *testing.T) {
			exchange(t, alg, python, "card.py")
		})
	}
}

// exchange has an SDK verify our signatures and verifies its own.
func exchange(t *testing.T, alg string, program ...string) {
	jwk, k := key(t, alg)
	set, err := agentcard.JWKS(k)
	if err != nil {
		t.Fatal(err)
	}
	policy := agentcard.Policy{Origin: origin, Enrolled: map[string]agentcard.Enrollment{origin: {KeySet: set}}}
	task := struct {
		Key   json.RawMessage            `json:"key"`
		Cards map[string]json.RawMessage `json:"cards"`
	}{jwk, map[string]json.RawMessage{}}
	for _, c := range cards {
		raw := signed(t, cardJSON(t, c.members), k)
		if r := agentcard.Verify(t.Context(), raw, policy); r.Outcome != agentcard.Verified {
			t.Fatalf("%s: we do not verify our own: %+v", c.name, r)
		}
		task.Cards[c.name] = raw
	}
	var results map[string]result
	if err := json.Unmarshal(output(t, marshal(t, task), program...), &results); err != nil {
		t.Fatal(err)
	}
	for _, c := range cards {
		t.Run(c.name, func(t *testing.T) {
			r, ok := results[c.name]
			if !ok {
				t.Fatal("no result")
			}
			form, err := agentcard.CanonicalJSON(task.Cards[c.name])
			if err != nil {
				t.Fatal(err)
			}
			agree := c.lost == ""
			switch {
			case agree && r.Form != string(form):
				t.Errorf("the canonical forms differ:\n ours %s\ntheirs %s", form, r.Form)
			case !agree && (!strings.Contains(string(form), c.lost) || strings.Contains(r.Form, c.lost)):
				t.Errorf("%s should be in our form, and not in theirs:\n ours %s\ntheirs %s", c.lost, form, r.Form)
			}
			if r.Verified != agree {
				t.Errorf("the SDK verifies our signature: %v, want %v", r.Verified, agree)
			}
			if got := verify(t, r.Signed, policy); got != agree {
				t.Errorf("we verify the SDK's signature: %v, want %v", got, agree)
			}
			if r.Model == nil {
				return
			}
			if *r.Model != (agree && !c.schemes) {
				t.Errorf("the SDK verifies our signature from its model: %v", *r.Model)
			}
			if got := verify(t, r.ModelSigned, policy); got != (agree && !c.schemes) {
				t.Errorf("we verify the SDK's signature of its model: %v", got)
			}
		})
	}
}

func verify(t *testing.T, raw json.RawMessage, p agentcard.Policy) bool {
	t.Helper()
	r := agentcard.Verify(t.Context(), raw, p)
	if r.Outcome == agentcard.Absent {
		t.Errorf("the SDK left no signature: %s", raw)
	}
	return r.Outcome == agentcard.Verified
}

// have reports whether programs are installed. On CI they must be.
func have(t *testing.T, programs ...string) bool {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed: CI must run this suite", name)
			}
			t.Skipf("%s is not installed", name)
			return false
		}
	}
	return true
}

// older reports whether an installation is missing, or older than the list of what to install. It reads the list, so
// that go test sees when it has changed.
func older(list, installed string) bool {
	if _, err := os.ReadFile(list); err != nil {
		return true
	}
	want, err := os.Stat(list)
	if err != nil {
		return true
	}
	have, err := os.Stat(installed)
	return err != nil || have.ModTime().Before(want.ModTime())
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// output runs a program of this folder.
func output(t *testing.T, stdin []byte, program ...string) []byte {
	t.Helper()
	if _, err := os.ReadFile(program[len(program)-1]); err != nil { // so that go test sees when it has changed
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.Bytes())
	}
	return out
}
