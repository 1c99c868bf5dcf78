package agentcard

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flawless has one of everything, and nothing to be said against it.
const flawless = `{
  "name": "Reviser", "description": "Revises texts.", "version": "2.0.1",
  "documentationUrl": "https://agent.example/docs", "iconUrl": "data:image/png;base64,AA==",
  "provider": {"organization": "Example", "url": "https://example.com"},
  "supportedInterfaces": [
    {"url": "https://agent.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    {"url": "agent.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "reviser"},
    {"url": "http://127.0.0.1:8080/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
    {"url": "wss://agent.example/ws", "protocolBinding": "https://example.com/bindings/websocket/v1", "protocolVersion": "1.0"}
  ],
  "capabilities": {
    "streaming": true, "pushNotifications": false, "extendedAgentCard": true,
    "extensions": [{"uri": "https://example.com/ext/review/v1", "description": "x", "required": false, "params": {"a": [1, null]}}]
  },
  "securitySchemes": {
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
    "http": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
    "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example/.well-known/openid-configuration"}},
    "mtls": {"mtlsSecurityScheme": {}},
    "code": {"oauth2SecurityScheme": {"oauth2MetadataUrl": "https://id.example/meta", "flows": {"authorizationCode":
      {"authorizationUrl": "https://id.example/auth", "tokenUrl": "https://id.example/token", "scopes": {"read": ""}, "pkceRequired": true}}}},
    "machine": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": {}}}}},
    "device": {"oauth2SecurityScheme": {"flows": {"deviceCode":
      {"deviceAuthorizationUrl": "http://localhost/device", "tokenUrl": "https://id.example/token", "scopes": {}}}}}
  },
  "securityRequirements": [{"schemes": {"oidc": {"list": ["openid"]}, "mtls": {}}}, {}],
  "defaultInputModes": ["text/plain", "application/json; charset=utf-8"], "defaultOutputModes": ["image/*"],
  "skills": [{"id": "revise", "name": "Revise", "description": "Revises.", "tags": ["text"], "inputModes": ["text/plain"],
    "securityRequirements": [{"schemes": {"key": {}}}]}],
  "futureField": {"any": "thing"}
}`

func TestValidateFlawless(t *testing.T) {
	if got := Validate([]byte(flawless)); len(got) != 0 {
		t.Errorf("%v", got)
	}
	card := sampleCard(t)
	if got := ValidateCard(card); len(got) != 1 || got[0].String() !=
		`should supportedInterfaces[1].url (4.4.6): "https://georoute-agent.example.com/a2a/grpc" does not have the form hostname:port` {
		t.Errorf("the sample of 8.5: %v", got)
	}
}

// set changes a member of a card by its path; nil takes it out.
func set(t *testing.T, card any, path string, v any) {
	t.Helper()
	head, rest, more := strings.Cut(path, "/")
	switch c := card.(type) {
	case map[string]any:
		switch {
		case more:
			set(t, c[head], rest, v)
		case v == nil:
			delete(c, head)
		default:
			c[head] = v
		}
	case []any:
		var i int
		if _, err := fmt.Sscan(head, &i); err != nil {
			t.Fatal(err)
		}
		if more {
			set(t, c[i], rest, v)
		} else {
			c[i] = v
		}
	default:
		t.Fatalf("there is no %s", path)
	}
}

type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func TestValidate(t *testing.T) {
	signature := func(header string) []any {
		return []any{map[string]any{"protected": b64(header), "signature": "AAAA"}}
	}
	list := func(v ...any) []any { return append([]any{}, v...) }
	type object = map[string]any
	for _, c := range []struct {
		path string
		v    any
		want string // level, path, clause; several lines
	}{
		{"name", nil, "must name 4.4.1"},
		{"name", "", "must name 5.7"},
		{"name", null{}, "must name 4.4.1"},
		{"name", 5, "must name 4.4.1"},
		{"description", nil, "must description 4.4.1"},
		{"version", nil, "must version 4.4.1"},
		{"capabilities", nil, "must capabilities 4.4.1"},
		{"capabilities", object{}, ""},
		{"capabilities", list(), "must capabilities 4.4.3"},
		{"capabilities/streaming", "yes", "must capabilities.streaming 4.4.3"},
		{"capabilities/streaming", null{}, ""},
		{"skills", nil, "must skills 4.4.1"},
		{"skills", null{}, "must skills 4.4.1"},
		{"skills", list(), "must skills 5.7"},
		{"skills", object{}, "must skills 4.4.1"},
		{"skills", list(null{}), "must skills[0] 4.4.5"},
		{"skills/0/id", nil, "must skills[0].id 4.4.5"},
		{"skills/0/tags", list(), "must skills[0].tags 5.7"},
		{"skills/0/tags", list("a", 5), "must skills[0].tags[1] 4.4.5"},
		{"skills/0/inputModes", list("text", "a/b", ""), "must skills[0].inputModes[0] 4.4.1\nmust skills[0].inputModes[2] 4.4.1"},
		{"skills/0/securityRequirements", list(object{"schemes": object{"a b": object{}}}), `must skills[0].securityRequirements[0].schemes["a b"] 4.4.1`},
		{
			"skills", list(
				object{"id": "x", "name": "x", "description": "x", "tags": list("x")},
				object{"id": "x", "name": "x", "description": "x", "tags": list("x")}),
			"must skills[1].id 4.4.5",
		},
		{"defaultInputModes", list(), "must defaultInputModes 5.7"},
		{"defaultOutputModes", list("json"), "must defaultOutputModes[0] 4.4.1"},
		{"default_input_modes", list("a/b"), "must default_input_modes 5.5\nmust default_input_modes 5.5"},
		{"supportedInterfaces", nil, "must supportedInterfaces 4.4.1"},
		{"supportedInterfaces", list(), "must supportedInterfaces 5.7"},
		{"supportedInterfaces/0/url", "", "must supportedInterfaces[0].url 5.7"},
		{"supportedInterfaces/0/url", "/a2a", "must supportedInterfaces[0].url 4.4.6"},
		{"supportedInterfaces/0/url", "agent.example", "must supportedInterfaces[0].url 4.4.6"},
		{"supportedInterfaces/0/url", "ftp://agent.example/", "must supportedInterfaces[0].url 4.4.6"},
		{"supportedInterfaces/0/url", "https://", "must supportedInterfaces[0].url 4.4.6"},
		{"supportedInterfaces/0/url", "http://agent.example/", "must supportedInterfaces[0].url 7.1"},
		{"supportedInterfaces/0/url", "http://10.0.0.1/", "must supportedInterfaces[0].url 7.1"},
		{"supportedInterfaces/0/url", "http://[::1]:80/", ""},
		{"supportedInterfaces/0/url", "https://user:secret@agent.example/", "should supportedInterfaces[0].url 14.3"},
		{"supportedInterfaces/1/url", "agent.example", "should supportedInterfaces[1].url 4.4.6"},
		{"supportedInterfaces/1/url", "agent.example:x", "should supportedInterfaces[1].url 4.4.6"},
		{"supportedInterfaces/1/url", "[::1]:443", ""},
		{"supportedInterfaces/1/url", "https://agent.example:443", ""},
		{"supportedInterfaces/1/url", "https://127.0.0.1:50051", ""},
		{"supportedInterfaces/1/url", "https://agent.example:443/a2a", "should supportedInterfaces[1].url 4.4.6"},
		{"supportedInterfaces/1/url", "https://agent.example", "should supportedInterfaces[1].url 4.4.6"},
		{"supportedInterfaces/1/url", "grpc://agent.example:443", "should supportedInterfaces[1].url 4.4.6"},
		{"supportedInterfaces/1/url", "http://agent.example:80", "should supportedInterfaces[1].url 4.4.6\nmust supportedInterfaces[1].url 7.1"},
		{"supportedInterfaces/3/url", "ws://agent.example/ws", "must supportedInterfaces[3].url 7.1"},
		{"supportedInterfaces/3/protocolBinding", "websocket", "should supportedInterfaces[3].protocolBinding 5.8"},
		{"supportedInterfaces/0/protocolBinding", "jsonrpc", "should supportedInterfaces[0].protocolBinding 5.8"},
		{"supportedInterfaces/0/protocolBinding", nil, "must supportedInterfaces[0].protocolBinding 4.4.6"},
		{"supportedInterfaces/0/protocolVersion", nil, "must supportedInterfaces[0].protocolVersion 4.4.6"},
		{"supportedInterfaces/0/protocolVersion", "1.0.1", "should supportedInterfaces[0].protocolVersion 3.6"},
		{"supportedInterfaces/0/protocolVersion", "v1", "must supportedInterfaces[0].protocolVersion 3.6"},
		{"provider", object{}, "must provider.url 4.4.2\nmust provider.organization 4.4.2"},
		{"provider/url", "example.com", "must provider.url 4.4.2"},
		{"documentationUrl", "docs", "must documentationUrl 4.4.1"},
		{"iconUrl", "/icon.png", "must iconUrl 4.4.1"},
		{"capabilities/extensions", list(object{}), "must capabilities.extensions[0].uri 4.4.4"},
		{"capabilities/extensions/0/uri", "review", "must capabilities.extensions[0].uri 4.4.4"},
		{"capabilities/extensions/0/uri", "https://example.com/ext/review", "should capabilities.extensions[0].uri 4.6.3"},
		{"capabilities/extensions/0/uri", "https://v1.example.com/ext/review", "should capabilities.extensions[0].uri 4.6.3"},
		{"capabilities/extensions/0/uri", "urn:example:review:1.2", ""},
		{"capabilities/extensions/0/params", list(), "must capabilities.extensions[0].params 4.4.4"},
		{"capabilities/extensions/0/params/n", json.RawMessage("9007199254740993"), "must capabilities.extensions[0].params.n 8.4.1"},
		{"capabilities/extensions/0/params/n", json.RawMessage("[1e400]"), "must capabilities.extensions[0].params.n[0] 8.4.1"},
		{"capabilities/extensions", list(object{"uri": "urn:x:v1"}, object{"uri": "urn:x:v1"}), "must capabilities.extensions[1].uri 4.4.4"},
		{"securitySchemes", object{}, "must securityRequirements[0].schemes.mtls 4.4.1\nmust securityRequirements[0].schemes.oidc 4.4.1\n" +
			"must skills[0].securityRequirements[0].schemes.key 4.4.1\nmust securitySchemes 13.3"},
		{"securitySchemes/key", object{"type": "apiKey", "in": "header", "name": "X"}, "must securitySchemes.key 4.5.1"},
		{"securitySchemes/key", null{}, "must securitySchemes.key 4.5.1"},
		{"securitySchemes/key/mtlsSecurityScheme", object{}, "must securitySchemes.key 4.5.1"},
		{"securitySchemes/key/apiKeySecurityScheme/location", "body", "must securitySchemes.key.apiKeySecurityScheme.location 4.5.2"},
		{"securitySchemes/http/httpAuthSecurityScheme/scheme", "Token", "should securitySchemes.http.httpAuthSecurityScheme.scheme 4.5.3"},
		{"securitySchemes/oidc/openIdConnectSecurityScheme/openIdConnectUrl", "http://id.example/", "must securitySchemes.oidc.openIdConnectSecurityScheme.openIdConnectUrl 4.5.5"},
		{"securitySchemes/code/oauth2SecurityScheme/oauth2MetadataUrl", "http://id.example/", "must securitySchemes.code.oauth2SecurityScheme.oauth2MetadataUrl 4.5.4"},
		{"securitySchemes/code/oauth2SecurityScheme/flows/authorizationCode/pkceRequired", nil, "should securitySchemes.code.oauth2SecurityScheme.flows.authorizationCode.pkceRequired 4.5.8"},
		{"securitySchemes/code/oauth2SecurityScheme/flows/authorizationCode/tokenUrl", "token", "must securitySchemes.code.oauth2SecurityScheme.flows.authorizationCode.tokenUrl 4.5.8"},
		{"securitySchemes/code/oauth2SecurityScheme/flows", object{}, "must securitySchemes.code.oauth2SecurityScheme.flows 4.5.7"},
		{"securitySchemes/machine/oauth2SecurityScheme/flows", object{"implicit": object{}}, "should securitySchemes.machine.oauth2SecurityScheme.flows.implicit 4.5.7"},
		{"securitySchemes/machine/oauth2SecurityScheme/flows/password", object{}, "must securitySchemes.machine.oauth2SecurityScheme.flows 4.5.7\n" +
			"should securitySchemes.machine.oauth2SecurityScheme.flows.password 4.5.7"},
		{"securitySchemes/machine/oauth2SecurityScheme/flows/clientCredentials/scopes", nil, "must securitySchemes.machine.oauth2SecurityScheme.flows.clientCredentials.scopes 4.5.9"},
		{"securitySchemes/machine/oauth2SecurityScheme/flows/clientCredentials/scopes/x", 5, "must securitySchemes.machine.oauth2SecurityScheme.flows.clientCredentials.scopes.x 4.5.9"},
		{"securityRequirements", list(object{"oidc": list("openid")}), "should securityRequirements[0].oidc 4.5"},
		{"securityRequirements", list(object{"oidc": list(5)}), "must securityRequirements[0].oidc 4.5"},
		{"securityRequirements", list(object{"schemes": object{"oidc": list("x")}}), "must securityRequirements[0].schemes.oidc 4.5"},
		{"signatures", signature(`{"alg":"ES256","kid":"a","typ":"JOSE"}`), ""},
		{"signatures", signature(`{"alg":"ES384","kid":"a","typ":"JOSE","jku":"https://a/b"}`), ""},
		{"signatures", signature(`{"alg":"ES256","kid":"a"}`), "should signatures[0].protected 8.4.2"},
		{"signatures", signature(`{"alg":"ES256","typ":"JOSE"}`), "must signatures[0].protected 8.4.2"},
		{"signatures", signature(`["alg"]`), "must signatures[0].protected 8.4.2"},
		{"signatures", signature(`{"alg":"none","kid":"a","typ":"JOSE"}`), "must signatures[0].protected 8.4"},
		{"signatures", signature(`{"alg":"ES256","kid":"a","typ":"JOSE","jku":"http://a/b"}`), "should signatures[0].protected 8.4.3"},
		{"signatures", list(object{"protected": b64(`{"alg":"ES256","kid":"a","typ":"JOSE"}`), "signature": "AA="}), "must signatures[0].signature 8.4.2"},
		{"signatures", list(object{}), "must signatures[0].protected 4.4.7\nmust signatures[0].signature 4.4.7"},
		{"futureField", null{}, ""},
	} {
		var card map[string]any
		if err := json.Unmarshal([]byte(flawless), &card); err != nil {
			t.Fatal(err)
		}
		set(t, card, c.path, c.v)
		raw, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range Validate(raw) {
			got = append(got, fmt.Sprintf("%s %s %s", f.Level, f.Path, f.Clause))
			if f.Text == "" || f.Fix == "" {
				t.Errorf("%s = %v: %+v", c.path, c.v, f)
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s = %v: -want +got\n%s", c.path, c.v, diff)
		}
	}
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// TestValidateOld: a card of version 0.3 is told what became of its fields.
func TestValidateOld(t *testing.T) {
	const old = `{"protocolVersion":"0.3.0","name":"a","description":"b","version":"1","url":"https://agent.example/","preferredTransport":"JSONRPC",
		"additionalInterfaces":[{"url":"https://agent.example/","transport":"JSONRPC"}],"capabilities":{"stateTransitionHistory":true},
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"a","name":"a","description":"a","tags":["a"]}],
		"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X"}},"security":[{"key":[]}],"supportsAuthenticatedExtendedCard":true}`
	var got []string
	for _, f := range Validate([]byte(old)) {
		got = append(got, f.Fix)
	}
	for i, want := range []string{
		"this is a scheme of version 0.3", "this is a card of version 0.3", "name it securityRequirements", "write capabilities.extendedAgentCard",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("finding %d: want %q in %q", i, want, got)
		}
	}
}

func TestValidateNoJSON(t *testing.T) {
	for raw, want := range map[string]string{
		``: "must  5.5", `{`: "must  5.5", `{"name":"a","name":"b"}`: "must name 5.5", `[]`: "must  4.4.1", `"card"`: "must  4.4.1",
		"{\"skills\":[{\"id\":\"\xff\"}]}": "must skills[0].id 5.5", `{"name":"\ud800"}`: "must name 5.5",
	} {
		got := Validate([]byte(raw))
		if len(got) != 1 || fmt.Sprintf("%s %s %s", got[0].Level, got[0].Path, got[0].Clause) != want {
			t.Errorf("%q: %v, want %s", raw, got, want)
		}
	}
	many := `{"skills":[` + strings.Repeat(`5,`, 5000) + `5]}`
	if got := Validate([]byte(many)); len(got) != maxFindings {
		t.Errorf("%d findings", len(got))
	}
	evil := `{"supportedInterfaces":[{"url":"\u001b[2Jx\u202e","protocolBinding":"\u001b]0;","protocolVersion":"\u0007"}],"securitySchemes":{"\u001b[2J":5}}`
	for _, f := range Validate([]byte(evil)) {
		if i := slices.IndexFunc([]rune(f.String()+f.Fix), func(r rune) bool { return r < ' ' || r == '\u202e' }); i >= 0 {
			t.Errorf("a control character of the card is shown as it is: %q", f)
		}
	}
}
