package auth

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestActors(t *testing.T) {
	for _, c := range []struct {
		claims string
		want   []string
	}{
		{`{"sub":"u"}`, nil},
		{`{"sub":"u","act":{"sub":"a"}}`, []string{"a"}},
		{`{"sub":"u","act":{"sub":"b","act":{"sub":"a"}}}`, []string{"a", "b"}},
		{`{"sub":"u","act":"a"}`, nil},
		{`{"sub":"u","act":{"act":{"sub":"a"}}}`, []string{"a", ""}},
	} {
		var claims map[string]any
		if err := json.Unmarshal([]byte(c.claims), &claims); err != nil {
			t.Fatal(err)
		}
		if got := actorsOf(claims); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.claims, got, c.want)
		}
	}
	var deep map[string]any
	if err := json.Unmarshal([]byte(strings.Repeat(`{"act":`, 100)+"{}"+strings.Repeat("}", 100)), &deep); err != nil {
		t.Fatal(err)
	}
	if n := len(actorsOf(deep)); n != maxActors {
		t.Errorf("%d actors", n)
	}
}
