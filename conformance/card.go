package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/rules"
)

// lastAnswer notes how the card was answered, on its way to the client.
type lastAnswer struct {
	base http.RoundTripper
	got  *http.Response // without its body
}

// RoundTrip implements http.RoundTripper.
func (l *lastAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	base := l.base
	if base == nil {
		base = http.DefaultTransport
	}
	res, err := base.RoundTrip(r)
	if err == nil {
		l.got = res
	}
	return res, err
}

// readCard reads the card and judges it.
func (r *run) readCard(ref string) error {
	r.progress("the card")
	last := &lastAnswer{base: r.HTTP.Transport}
	card, err := client.FetchCard(r.ctx, ref, client.Options{HTTP: &http.Client{Transport: last}})
	var invalid *client.InvalidCardError
	if errors.As(err, &invalid) && invalid.Raw != nil {
		for _, f := range agentcard.Validate(invalid.Raw) {
			err = fmt.Errorf("%w; %s", err, f)
		}
	}
	if err != nil {
		return err
	}
	r.card = card
	r.report.Agent, r.report.Card = card.Name, card.URL
	x := &rules.Exchange{Method: http.MethodGet, URL: card.URL, Answer: card.Raw}
	if last.got != nil {
		x.Status, x.Header = last.got.StatusCode, last.got.Header
		x.Sent = last.got.Request.Header
	}
	r.pass("card-available", CardName)
	r.validateCard(x, card)
	r.signatures(x, card)
	if last.got != nil {
		r.caching(x, card.URL)
	}
	return nil
}

func (r *run) validateCard(x *rules.Exchange, card *client.Card) {
	for _, id := range []string{"card-required", "card-advice", "card-interfaces"} {
		r.pass(id, CardName)
	}
	for _, f := range agentcard.Validate(card.Raw) {
		r.fail(rules.CardRule(f.Path, f.Level == agentcard.Should), CardName, x, f.Path, f.Text, f.Fix)
	}
	for _, i := range card.SupportedInterfaces {
		if strings.Count(i.ProtocolVersion, ".") > 1 {
			r.fail("card-version", CardName, x, "supportedInterfaces", i.ProtocolVersion, "Major.Minor")
		}
	}
	r.pass("card-version", CardName)
}

// signatures checks what can be checked of them without a key of one's own.
func (r *run) signatures(x *rules.Exchange, card *client.Card) {
	if len(card.Signatures) == 0 {
		r.notMeasured("card-signature", CardName, "the card is not signed")
		r.notMeasured("card-signature-header", CardName, "the card is not signed")
		return
	}
	set := ""
	for _, s := range card.Signatures {
		var h struct{ Alg, Kid, Jku string }
		raw, err := base64.RawURLEncoding.DecodeString(s.Protected)
		if err != nil || json.Unmarshal(raw, &h) != nil || h.Alg == "" || h.Kid == "" || strings.EqualFold(h.Alg, "none") {
			r.fail("card-signature-header", CardName, x, "signatures", rules.Clip(string(raw), 200), "a JSON object with alg and kid")
			continue
		}
		r.pass("card-signature-header", CardName)
		set = h.Jku
	}
	at, err := agentcard.Origin(card.URL)
	keys := r.Keys
	if len(keys.KeySet) == 0 && keys.URL == "" {
		other, err2 := agentcard.Origin(set)
		if set == "" || err2 != nil || at != other {
			r.notMeasured("card-signature", CardName, "no key was given, and no signature names a key set (jku) at the card's own origin")
			return
		}
		keys.URL = set
	}
	from := card.URL
	if err != nil {
		at, from = "https://file.invalid", "https://file.invalid" // a card in a file: the keys were given for it
	}
	result := agentcard.Verify(r.ctx, card.Raw, agentcard.Policy{
		Origin: from, Enrolled: map[string]agentcard.Enrollment{at: keys},
		Fetch: func(ctx context.Context, url string) ([]byte, error) {
			return client.FetchKeySet(ctx, url, client.Options{HTTP: r.HTTP})
		},
	})
	if result.Outcome != agentcard.Verified {
		r.fail("card-signature", CardName, x, "signatures", result.Why, "a signature that the key verifies")
		return
	}
	r.pass("card-signature", CardName)
}

var maxAge = regexp.MustCompile(`(?i)\bmax-age="?\d+`)

func (r *run) caching(x *rules.Exchange, address string) {
	hold := func(ok bool, rule, got, want string) {
		if ok {
			r.pass(rule, CardName)
		} else {
			r.fail(rule, CardName, x, "", got, want)
		}
	}
	hold(maxAge.MatchString(x.Header.Get("Cache-Control")), "card-cache-control", orNone(x.Header.Get("Cache-Control")), "Cache-Control with max-age")
	tag := x.Header.Get("ETag")
	hold(tag != "", "card-etag", "no ETag", "an ETag")
	if tag == "" {
		r.notMeasured("card-revalidates", CardName, "the card has no ETag to ask by")
		return
	}
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, address, nil)
	if err != nil {
		return
	}
	req.Header.Set("If-None-Match", tag)
	req.Header.Set(a2a.VersionHeader, a2a.Version)
	res, err := r.HTTP.Do(req)
	if err != nil {
		r.notMeasured("card-revalidates", CardName, clean(err))
		return
	}
	defer res.Body.Close()
	x = &rules.Exchange{Method: http.MethodGet, URL: address, Sent: req.Header, Status: res.StatusCode, Header: res.Header}
	hold(res.StatusCode == http.StatusNotModified, "card-revalidates", "HTTP "+strconv.Itoa(res.StatusCode), "304 Not Modified")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
