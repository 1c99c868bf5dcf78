package agentcard

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/parley-a2a/parley/a2a"
)

// sample is the card of specification 8.5.
//
//go:embed testdata/sample.json
var sample string

// plainJCS is RFC 8785 without the rules for cards.
func plainJCS(t *testing.T, raw string) (string, error) {
	t.Helper()
	v, err := parse([]byte(raw))
	if err != nil {
		return "", err
	}
	var w writer
	w.value(v)
	form, err := w.finish()
	return string(form), err
}

// TestRFC8785 has the examples of RFC 8785, sections 3.2.2 to 3.2.4.
func TestRFC8785(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"3.2.2": {
			`{
  "numbers": [333333333.33333329, 1E30, 4.50,
              2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"3.2.3": {
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
				`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
	} {
		if got, err := plainJCS(t, c.in); err != nil || got != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
	const bytes324 = "7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 " +
		"75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a " +
		"5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 " +
		"65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37 " +
		"5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30 " +
		"30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d"
	got, err := plainJCS(t, `{"literals":[null,true,false],"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],`+
		`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}`)
	if err != nil || fmt.Sprintf("% x", got) != bytes324 {
		t.Errorf("3.2.4: %v\n got % x\nwant %s", err, got, bytes324)
	}
}

// TestRFC8785Numbers has the numbers of RFC 8785, appendix B, by their bits.
func TestRFC8785Numbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		in := fmt.Sprintf("%.17e", math.Float64frombits(bits))
		if got, err := plainJCS(t, in); err != nil || got != want {
			t.Errorf("%016x, written %s: got %s, %v, want %s", bits, in, got, err, want)
		}
	}
}

func TestNoCanonicalForm(t *testing.T) {
	card := func(params string) string {
		return `{"capabilities":{"extensions":[{"uri":"u","params":` + params + `}]}}`
	}
	for name, raw := range map[string]string{
		"empty":                         ``,
		"not an object":                 `[]`,
		"null":                          `null`,
		"trailing bytes":                `{} {}`,
		"a name twice":                  `{"name":"a","name":"b"}`,
		"a name twice, escaped":         `{"name":"a","n\u0061me":"b"}`,
		"a name twice, deep":            card(`{"a":{"b":1,"b":1}}`),
		"a field twice":                 `{"iconUrl":"a","icon_url":"b"}`,
		"a field twice, once null":      `{"iconUrl":"a","icon_url":null}`,
		"a field twice, once a default": `{"securityRequirements":[],"security_requirements":[{}]}`,
		"bad UTF-8":                     "{\"name\":\"\xff\"}",
		"bad UTF-8 in a name":           "{\"\xc0\x80\":1}",
		"overlong UTF-8":                "{\"name\":\"\xe0\x80\xaf\"}",
		"a surrogate in UTF-8":          "{\"name\":\"\xed\xa0\x80\"}",
		"half a pair":                   `{"name":"\ud83d"}`,
		"the other half":                `{"name":"\ude00"}`,
		"a pair the wrong way round":    `{"name":"\ude00\ud83d"}`,
		"half a pair in a name":         card(`{"\ud800":1}`),
		"2^53+1":                        card(`{"n":9007199254740993}`),
		"-2^53-1":                       card(`{"n":-9007199254740993}`),
		"2^64":                          card(`{"n":18446744073709551617}`),
		"2^53+1 in an unknown field":    `{"x":[9007199254740993]}`,
		"too large":                     card(`{"n":1e400}`),
		"too large and negative":        card(`{"n":-1e400}`),
		"not a number":                  card(`{"n":NaN}`),
		"a leading zero":                card(`{"n":01}`),
		"65 levels":                     strings.Repeat(`{"x":`, 64) + `{}` + strings.Repeat(`}`, 64),
	} {
		if form, err := CanonicalJSON([]byte(raw)); err == nil {
			t.Errorf("%s: %s", name, form)
		}
	}
	for name, raw := range map[string]string{
		"2^53":            card(`{"n":9007199254740992}`),
		"2^53 as a float": card(`{"n":9007199254740993.0}`),
		"1e20 in full":    card(`{"n":100000000000000000000}`),
		"64 levels":       strings.Repeat(`{"x":`, 63) + `{}` + strings.Repeat(`}`, 63),
	} {
		if _, err := CanonicalJSON([]byte(raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPresence has the rules of 8.4.1 and its example.
func TestPresence(t *testing.T) {
	const empty = `"capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"description":"","name":"","skills":[],"supportedInterfaces":[],"version":""`
	skill := func(more string) string { return `{"description":"","id":"","name":""` + more + `,"tags":[]}` }
	for name, c := range map[string]struct{ raw, want string }{
		"the example": {
			`{"name":"Example Agent","description":"","capabilities":{"streaming":false,"pushNotifications":false,"extensions":[]},"skills":[]}`,
			`{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],` +
				`"description":"","name":"Example Agent","skills":[],"supportedInterfaces":[],"version":""}`,
		},
		"required, absent":   {`{}`, `{` + empty + `}`},
		"required, null":     {`{"name":null,"skills":null,"capabilities":null}`, `{` + empty + `}`},
		"optional, default":  {`{"iconUrl":"","documentationUrl":""}`, `{` + strings.Replace(empty, `"name"`, `"documentationUrl":"","iconUrl":"","name"`, 1) + `}`},
		"plain, default":     {`{"securitySchemes":{},"securityRequirements":[]}`, `{` + empty + `}`},
		"null":               {`{"provider":null,"iconUrl":null,"securitySchemes":null}`, `{` + empty + `}`},
		"signatures":         {`{"signatures":[{"protected":"a","signature":"b"}]}`, `{` + empty + `}`},
		"the proto's name":   {`{"supported_interfaces":[],"security_requirements":[]}`, `{` + empty + `}`},
		"unknown, kept":      {`{"zebra":{"b":"","a":[],"c":null,"d":false}}`, `{` + empty + `,"zebra":{"a":[],"b":"","c":null,"d":false}}`},
		"unknown, null":      {`{"zebra":null}`, `{` + empty + `,"zebra":null}`},
		"unknown, own name":  {`{"ze_bra":0}`, `{` + empty + `,"ze_bra":0}`},
		"mistyped, kept":     {`{"version":5}`, `{` + strings.Replace(empty, `"version":""`, `"version":5`, 1) + `}`},
		"mistyped default":   {`{"securityRequirements":{}}`, `{` + strings.Replace(empty, `"skills"`, `"securityRequirements":{},"skills"`, 1) + `}`},
		"a message, present": {`{"provider":{}}`, `{` + strings.Replace(empty, `"skills"`, `"provider":{"organization":"","url":""},"skills"`, 1) + `}`},
		"in a list": {
			`{"skills":[{"examples":[],"inputModes":["a/b"]}]}`,
			`{` + strings.Replace(empty, `"skills":[]`, `"skills":[{"description":"","id":"","inputModes":["a/b"],"name":"","tags":[]}]`, 1) + `}`,
		},
		"not in a list":  {`{"skills":[` + skill("") + `]}`, `{` + strings.Replace(empty, `"skills":[]`, `"skills":[`+skill("")+`]`, 1) + `}`},
		"in a list, odd": {`{"skills":[null,5]}`, `{` + strings.Replace(empty, `"skills":[]`, `"skills":[null,5]`, 1) + `}`},
		"in a map": {
			`{"securitySchemes":{"o":{"oauth2SecurityScheme":{"description":"","flows":{"authorizationCode":{"pkceRequired":false,"scopes":{"":""}}}}},"m":{"mtlsSecurityScheme":{}}}}`,
			`{` + strings.Replace(empty, `"skills"`, `"securitySchemes":{"m":{"mtlsSecurityScheme":{}},"o":{"oauth2SecurityScheme":{"flows":{"authorizationCode":`+
				`{"authorizationUrl":"","scopes":{"":""},"tokenUrl":""}}}}},"skills"`, 1) + `}`,
		},
		"scopes": {
			`{"securityRequirements":[{"schemes":{"b":{"list":[]},"a":{"list":["x"]}}},{"schemes":{}}]}`,
			`{` + strings.Replace(empty, `"skills"`, `"securityRequirements":[{"schemes":{"a":{"list":["x"]},"b":{}}},{}],"skills"`, 1) + `}`,
		},
		"an extension": {
			`{"capabilities":{"extensions":[{"uri":"u","description":"","required":false,"params":{"a":"","b":[],"c":null,"d":false,"e":{},"f":-0,"g":1e21,"h":1e-7}}]}}`,
			`{` + strings.Replace(empty, `"capabilities":{}`, `"capabilities":{"extensions":[{"params":`+
				`{"a":"","b":[],"c":null,"d":false,"e":{},"f":0,"g":1e+21,"h":1e-7},"uri":"u"}]}`, 1) + `}`,
		},
	} {
		got, err := CanonicalJSON([]byte(c.raw))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
}

// TestSpecificationSample: what the sample of 8.5 says is not changed by going through the model or the proto.
func TestSpecificationSample(t *testing.T) {
	want, err := CanonicalJSON([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var card a2a.AgentCard
	if err := card.UnmarshalJSON([]byte(sample)); err != nil {
		t.Fatal(err)
	}
	if got, err := Canonical(&card); err != nil || string(got) != string(want) {
		t.Errorf("through the model: %v\n%s", err, cmp.Diff(string(want), string(got)))
	}
	var pb a2apb.AgentCard
	if err := protojson.Unmarshal([]byte(sample), &pb); err != nil {
		t.Fatal(err)
	}
	again, err := protojson.Marshal(&pb)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := CanonicalJSON(again); err != nil || string(got) != string(want) {
		t.Errorf("through the proto: %v\n%s", err, cmp.Diff(string(want), string(got)))
	}
}

// TestPresenceSurvives: a card of random fields has one canonical form, however it was written: by the model, by protojson
// with and without default values, with the proto's names, with null for what is absent.
func TestPresenceSurvives(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		card := randomCard(rng)
		raw := card.AppendJSON(nil)
		want, err := Canonical(card)
		if err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		var back a2a.AgentCard
		if err := back.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		if got, err := Canonical(&back); err != nil || string(got) != string(want) {
			t.Fatalf("read back: %v\n%s", err, cmp.Diff(string(want), string(got)))
		}
		var pb a2apb.AgentCard
		if err := protojson.Unmarshal(raw, &pb); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		for _, o := range []protojson.MarshalOptions{
			{}, {EmitUnpopulated: true}, {EmitDefaultValues: true}, {UseProtoNames: true}, {Multiline: true},
		} {
			other, err := o.Marshal(&pb)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := CanonicalJSON(other); err != nil || string(got) != string(want) {
				t.Fatalf("protojson %+v: %v\n%s", o, err, cmp.Diff(string(want), string(got)))
			}
		}
	}
}

func maybe[T any](rng *rand.Rand, v T) (zero T) {
	if rng.IntN(2) == 0 {
		return v
	}
	return zero
}

func few[T any](rng *rand.Rand, one func() T) []T {
	var out []T
	for range rng.IntN(3) {
		out = append(out, one())
	}
	return out
}

func randomText(rng *rand.Rand) string {
	return []string{"", "x", "é", "𝄞", "a\"b\\", "\u2028", "\x7f", "line\nbreak", "ﬀ"}[rng.IntN(9)]
}

func randomCard(rng *rand.Rand) *a2a.AgentCard {
	word := func() string { return randomText(rng) }
	words := func() []string { return few(rng, word) }
	scopes := func() map[string]string {
		m := map[string]string{}
		for _, w := range words() {
			m[w] = word()
		}
		return m
	}
	requirement := func() *a2a.SecurityRequirement {
		m := map[string][]string{}
		for _, w := range words() {
			m[w] = words()
		}
		return &a2a.SecurityRequirement{Schemes: m}
	}
	flag := func() *bool { b := rng.IntN(2) == 0; return maybe(rng, &b) }
	params := a2a.Struct{
		"n": json.RawMessage([]string{"0", "-0", "1e21", "1e-7", "0.1", "null", `""`, "[]", "{}", `{"é":[1.5,{"a":null}]}`}[rng.IntN(10)]),
	}
	icon, doc := word(), word()
	card := &a2a.AgentCard{
		Name: word(), Description: word(), Version: word(), IconURL: maybe(rng, &icon), DocumentationURL: maybe(rng, &doc),
		SupportedInterfaces: few(rng, func() *a2a.AgentInterface {
			return &a2a.AgentInterface{URL: word(), ProtocolBinding: word(), Tenant: word(), ProtocolVersion: word()}
		}),
		Provider:          maybe(rng, &a2a.AgentProvider{URL: word(), Organization: word()}),
		DefaultInputModes: words(), DefaultOutputModes: words(),
		Capabilities: a2a.AgentCapabilities{
			Streaming: flag(), PushNotifications: flag(), ExtendedAgentCard: flag(),
			Extensions: few(rng, func() *a2a.AgentExtension {
				return &a2a.AgentExtension{
					URI: word(), Description: word(), Required: rng.IntN(2) == 0,
					Params: maybe(rng, []a2a.Struct{params, {}}[rng.IntN(2)]),
				}
			}),
		},
		SecurityRequirements: few(rng, requirement),
		Skills: few(rng, func() *a2a.AgentSkill {
			return &a2a.AgentSkill{
				ID: word(), Name: word(), Description: word(), Tags: words(), Examples: words(), InputModes: words(), OutputModes: words(),
				SecurityRequirements: few(rng, requirement),
			}
		}),
		Signatures: few(rng, func() *a2a.AgentCardSignature { return &a2a.AgentCardSignature{Protected: "a", Signature: "b"} }),
	}
	flows := []a2a.OAuthFlow{
		&a2a.AuthorizationCodeOAuthFlow{AuthorizationURL: word(), TokenURL: word(), RefreshURL: word(), Scopes: scopes(), PKCERequired: rng.IntN(2) == 0},
		&a2a.ClientCredentialsOAuthFlow{TokenURL: word(), RefreshURL: word(), Scopes: scopes()},
		&a2a.ImplicitOAuthFlow{AuthorizationURL: word(), RefreshURL: word(), Scopes: scopes()},
		&a2a.PasswordOAuthFlow{TokenURL: word(), RefreshURL: word(), Scopes: scopes()},
		&a2a.DeviceCodeOAuthFlow{DeviceAuthorizationURL: word(), TokenURL: word(), RefreshURL: word(), Scopes: scopes()},
		nil,
	}
	schemes := []a2a.SecurityScheme{
		&a2a.APIKeySecurityScheme{Description: word(), Location: word(), Name: word()},
		&a2a.HTTPAuthSecurityScheme{Description: word(), Scheme: word(), BearerFormat: word()},
		&a2a.OAuth2SecurityScheme{Description: word(), Flows: flows[rng.IntN(len(flows))], OAuth2MetadataURL: word()},
		&a2a.OpenIDConnectSecurityScheme{Description: word(), OpenIDConnectURL: word()},
		&a2a.MutualTLSSecurityScheme{Description: word()},
	}
	card.SecuritySchemes = map[string]a2a.SecurityScheme{}
	for _, name := range words() {
		card.SecuritySchemes[name] = schemes[rng.IntN(len(schemes))]
	}
	return card
}

func TestNilInCard(t *testing.T) {
	for name, card := range map[string]*a2a.AgentCard{
		"card":         nil,
		"interface":    {SupportedInterfaces: []*a2a.AgentInterface{nil}},
		"extension":    {Capabilities: a2a.AgentCapabilities{Extensions: []*a2a.AgentExtension{nil}}},
		"requirement":  {SecurityRequirements: []*a2a.SecurityRequirement{nil}},
		"skill":        {Skills: []*a2a.AgentSkill{nil}},
		"skill's":      {Skills: []*a2a.AgentSkill{{SecurityRequirements: []*a2a.SecurityRequirement{nil}}}},
		"signature":    {Signatures: []*a2a.AgentCardSignature{nil}},
		"bad raw JSON": {Capabilities: a2a.AgentCapabilities{Extensions: []*a2a.AgentExtension{{Params: a2a.Struct{"a": json.RawMessage("{")}}}}},
	} {
		if _, err := Canonical(card); err == nil {
			t.Errorf("%s: a canonical form", name)
		}
		if len(ValidateCard(card)) == 0 {
			t.Errorf("%s: no finding", name)
		}
	}
	odd := &a2a.AgentCard{SecuritySchemes: map[string]a2a.SecurityScheme{
		"nil": nil, "typed": (*a2a.MutualTLSSecurityScheme)(nil), "flow": &a2a.OAuth2SecurityScheme{Flows: (*a2a.ImplicitOAuthFlow)(nil)},
	}}
	if _, err := Canonical(odd); err != nil {
		t.Error(err)
	}
}
