package tap

import (
	"net/http"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

// TestHead asks for a card by HEAD: the answer has no body that could be judged, or recorded.
func TestHead(t *testing.T) {
	host := startHost(t, scripted(), nil)
	tap := startTap(t, host, nil)
	for _, tap := range []*running{tap, startTapOn(t, Config{Card: fakeCard(host), CardURL: "file:///card.json"}, nil)} {
		res, err := http.Head(tap.url + a2a.CardPath)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		x := tap.until(t, func(x *Exchange) bool { return x.Kind == KindCard && x.Done })
		if x.Status != 200 || len(x.All()) > 0 || len(x.Response) > 0 {
			t.Errorf("recorded %+v", x)
		}
	}
}

// TestCardTag asks for the changed card again by the ETag that it came with, also where each signature would be new bytes.
func TestCardTag(t *testing.T) {
	host := startHost(t, scripted(), nil)
	seen := map[string]bool{}
	for name, tap := range map[string]*running{
		"changed": startTap(t, host, nil),
		"signed":  startTap(t, host, func(c *Config) { c.Keys = []*agentcard.Key{newKey(t)} }),
		"a file":  startTapOn(t, Config{Card: fakeCard(host), CardURL: "file:///card.json"}, nil),
	} {
		res, card := post(t, tap.url+a2a.CardPath, "")
		tag := res.Header.Get("ETag")
		if tag == "" || seen[tag] {
			t.Errorf("%s: the ETag is %q", name, tag)
		}
		seen[tag] = true
		for list, want := range map[string]int{tag: 304, `"x", W/` + tag: 304, "*": 304, `"x"`: 200} {
			res, body := post(t, tap.url+a2a.CardPath, "", "If-None-Match", list)
			if res.StatusCode != want || res.Header.Get("ETag") != tag || body != map[bool]string{true: card}[want == 200] {
				t.Errorf("%s, If-None-Match %s: %d, %v, %q", name, list, res.StatusCode, res.Header, body)
			}
		}
		x := tap.until(t, func(x *Exchange) bool { return x.Status == 304 && x.Done })
		if len(x.All()) > 0 || x.Received != 0 {
			t.Errorf("%s: recorded %+v", name, x)
		}
	}
}
