package agentcard

import (
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

func addCards(f *testing.F) {
	for _, raw := range []string{
		sample, `{}`, `null`, `[]`, `{"name":null,"icon_url":"","iconUrl":""}`,
		`{"capabilities":{"extensions":[{"uri":"u","required":false,"params":{"n":[1e21,1e-7,-0,9007199254740993,0.1,1e400]}}]}}`,
		`{"securitySchemes":{"a":{"oauth2SecurityScheme":{"flows":{"implicit":{}}}},"b":{},"c":null,"d":5},"security":[{"a":["x"]}]}`,
		`{"securityRequirements":[{"schemes":{"a":{"list":[]},"b":null,"c":["x"]}},{"a":["x"]},null]}`,
		`{"supportedInterfaces":[{"url":"://","protocolBinding":"GRPC"},{"url":"http://[::1","protocolBinding":"x"}]}`,
		`{"signatures":[{"protected":"e30","signature":"AA","header":{"crit":1}},{"protected":"W10","signature":"="},5]}`,
		`{"skills":[{"id":"\ud83d\ude00","tags":["\u0000"]}]}`,
	} {
		f.Add([]byte(raw))
	}
}

// FuzzCanonical: a canonical form is its own, and what the model reads and writes again has one as well.
func FuzzCanonical(f *testing.F) {
	addCards(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		form, err := CanonicalJSON(raw)
		if err != nil {
			return
		}
		again, err := CanonicalJSON(form)
		if err != nil || string(again) != string(form) {
			t.Fatalf("%v\n%s\n%s", err, form, again)
		}
		var card a2a.AgentCard
		if card.UnmarshalJSON(raw) != nil {
			return
		}
		one, err := Canonical(&card)
		if err != nil {
			t.Fatal(err)
		}
		var back a2a.AgentCard
		if err := back.UnmarshalJSON(form); err != nil {
			t.Fatalf("the canonical form is no card: %v\n%s", err, form)
		}
		if two, err := Canonical(&back); err != nil || string(one) != string(two) {
			t.Fatalf("the canonical form says something else: %v\n%s\n%s", err, one, two)
		}
	})
}

// FuzzValidate: a card without a finding that is a must is one that everything here takes.
func FuzzValidate(f *testing.F) {
	addCards(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, finding := range Validate(raw) {
			if finding.Clause == "" || finding.Text == "" || finding.Fix == "" {
				t.Fatalf("%+v", finding)
			}
			if finding.Level == Must {
				return
			}
		}
		if _, err := CanonicalJSON(raw); err != nil {
			t.Fatal(err)
		}
		var card a2a.AgentCard
		if err := card.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		ValidateCard(&card)
	})
}

// FuzzVerify: nothing that was not signed verifies.
func FuzzVerify(f *testing.F) {
	addCards(f)
	k := testKeys()[ES256]
	set, err := JWKS(k)
	if err != nil {
		f.Fatal(err)
	}
	var card a2a.AgentCard
	if err := card.UnmarshalJSON([]byte(sample)); err != nil {
		f.Fatal(err)
	}
	if err := Sign(&card, k); err != nil {
		f.Fatal(err)
	}
	signed := card.AppendJSON(nil)
	f.Add(signed)
	want, err := Digest(signed)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := Policy{Origin: home, Enrolled: map[string]Enrollment{home: {KeySet: set}}}
		r := Verify(t.Context(), raw, p)
		if r.Outcome == Verified && r.Digest != want || (r.Outcome == Unverifiable) != (r.Why != "") {
			t.Fatalf("%+v", r)
		}
		p.Enrolled[home] = Enrollment{KeySet: raw}
		if r := Verify(t.Context(), signed, p); r.Outcome == Verified && r.KeyID != k.ID {
			t.Fatalf("%+v", r)
		}
	})
}
