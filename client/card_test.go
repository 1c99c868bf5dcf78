package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

const smallCard = `{"name":"Small","supportedInterfaces":[{"url":"http://127.0.0.1:1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`

// origin is a web server that notes what it was asked for.
type origin struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*http.Request
}

func newOrigin(t *testing.T, h http.HandlerFunc) *origin {
	t.Helper()
	o := new(origin)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.asked = append(o.asked, r)
		o.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) requests() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked)
}

func writes(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// TestFetchCardFrom has what names a card.
func TestFetchCardFrom(t *testing.T) {
	o := newOrigin(t, writes(smallCard))
	host := strings.TrimPrefix(o.URL, "http://")
	_, port, _ := strings.Cut(host, ":")
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"card.json", host, "a card.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(smallCard, "Small", "File", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "localhost:"+port), 0o700); err != nil {
		t.Fatal(err)
	}
	file := "file://" + filepath.ToSlash(dir)
	for _, c := range []struct{ ref, name, url string }{
		{o.URL, "Small", o.URL + a2a.CardPath},
		{o.URL + "/", "Small", o.URL + a2a.CardPath},
		{o.URL + "/?x=1", "Small", o.URL + a2a.CardPath + "?x=1"},
		{o.URL + "/agents/a/card", "Small", o.URL + "/agents/a/card"},
		{o.URL + "/agents/a/", "Small", o.URL + "/agents/a" + a2a.CardPath},
		{"localhost:" + port, "Small", "http://localhost:" + port + a2a.CardPath}, // a folder of that name is no card
		{"localhost:" + port + "/card", "Small", "http://localhost:" + port + "/card"},
		{host, "File", file + "/" + host},
		{"card.json", "File", file + "/card.json"},
		{"./card.json", "File", file + "/card.json"},
		{filepath.Join(dir, "card.json"), "File", file + "/card.json"},
		{file + "/card.json", "File", file + "/card.json"},
		{file + "/a%20card.json", "File", file + "/a%20card.json"},
	} {
		card, err := client.FetchCard(t.Context(), c.ref, client.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.ref, err)
			continue
		}
		if card.Name != c.name || card.URL != c.url || !bytes.Contains(card.Raw, []byte(c.name)) {
			t.Errorf("%s: %s from %s, want %s from %s", c.ref, card.Name, card.URL, c.name, c.url)
		}
	}
	for _, r := range o.requests() {
		if r.Header.Get("A2A-Version") != "1.0" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("asked with %v", r.Header)
		}
	}
}

// TestFetchCardScheme: without a scheme, only this machine is spoken to in plaintext.
func TestFetchCardScheme(t *testing.T) {
	var got string
	hc := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		got = r.URL.String()
		return nil, errors.New("stop")
	})}
	for ref, want := range map[string]string{
		"agent.example":         "https://agent.example" + a2a.CardPath,
		"agent.example:8443":    "https://agent.example:8443" + a2a.CardPath,
		"10.0.0.1:80":           "https://10.0.0.1:80" + a2a.CardPath,
		"127.9.9.9":             "http://127.9.9.9" + a2a.CardPath,
		"[::1]:41241":           "http://[::1]:41241" + a2a.CardPath,
		"LOCALHOST:1":           "http://LOCALHOST:1" + a2a.CardPath,
		"agent.localhost":       "http://agent.localhost" + a2a.CardPath,
		"0.0.0.0:1":             "http://0.0.0.0:1" + a2a.CardPath,
		"localhost.example":     "https://localhost.example" + a2a.CardPath,
		"https://127.0.0.1":     "https://127.0.0.1" + a2a.CardPath,
		"http://agent.example/": "http://agent.example" + a2a.CardPath,
	} {
		got = ""
		if _, err := client.FetchCard(t.Context(), ref, client.Options{HTTP: hc}); !errors.Is(err, client.ErrUnreachable) || got != want {
			t.Errorf("%s: asked for %s, want %s (%v)", ref, got, want, err)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestFetchCardErrors has what is not a card, and what is said of it.
func TestFetchCardErrors(t *testing.T) {
	elsewhere := newOrigin(t, writes(smallCard))
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, elsewhere.URL+"/card", http.StatusFound)
			return
		}
		writes(smallCard)(w, r)
	}))
	t.Cleanup(secure.Close)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere.URL+a2a.CardPath, http.StatusFound)
		case "/tls":
			http.Redirect(w, r, strings.Replace("http://"+r.Host, "http:", "https:", 1)+"/near", http.StatusFound)
		case "/secure":
			http.Redirect(w, r, secure.URL+"/card", http.StatusFound)
		case "/hop3", "/hop4", "/hop2", "/hop1":
			n := r.URL.Path[len("/hop")] - '0'
			http.Redirect(w, r, []string{"/card", "/hop1", "/hop2", "/hop3"}[n-1], http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/card", http.StatusTemporaryRedirect)
		case "/card":
			writes(smallCard)(w, r)
		case "/page":
			writes("\n<!doctype html><title>x</title>")(w, r)
		case "/empty":
		case "/other":
			writes(`{"error":"no"}`)(w, r)
		case "/list":
			writes(`[`+smallCard+`]`)(w, r)
		case "/twice":
			writes(`{"name":"a","name":"b"}`)(w, r)
		case "/big":
			writes(smallCard+strings.Repeat(" ", client.MaxCard+1-len(smallCard)))(w, r)
		case "/short":
			w.Header().Set("Content-Length", "1000")
			writes(smallCard)(w, r)
		case "/full":
			writes(smallCard+strings.Repeat(" ", client.MaxCard-len(smallCard)))(w, r)
		case "/odd":
			w.Header().Set("Content-Type", "text/plain")
			writes(`{"name":"odd","skills":null,"x":{"y":[1]},"supportedInterfaces":[{"z":1}],"capabilities":{"q":null}}`)(w, r)
		case "/denied":
			w.WriteHeader(http.StatusUnauthorized)
		case "/unchanged":
			w.WriteHeader(http.StatusNotModified)
		default:
			http.NotFound(w, r)
		}
	})
	gone := newOrigin(t, writes(""))
	gone.Close()
	dir := t.TempDir()
	for _, c := range []struct {
		ref   string
		err   error
		words string
	}{
		{o.URL + "/near", nil, ""},
		{o.URL + "/full", nil, ""},
		{o.URL + "/odd", nil, ""},
		{o.URL + "/away", client.ErrCardNotFound, elsewhere.URL + a2a.CardPath},
		{o.URL + "/tls", client.ErrUnreachable, "does not speak TLS"},
		{o.URL + "/secure", nil, ""},
		{secure.URL + "/down", client.ErrCardNotFound, "without TLS"},
		{o.URL + "/hop3", nil, ""},
		{o.URL + "/hop4", client.ErrCardNotFound, "more than 3 redirects"},
		{o.URL + "/loop", client.ErrCardNotFound, "redirects"},
		{o.URL, client.ErrCardNotFound, "404"},
		{o.URL + "/denied", client.ErrCardNotFound, "401"},
		{o.URL + "/unchanged", client.ErrCardNotFound, "304"},
		{o.URL + "/page", client.ErrCardInvalid, "a page for people"},
		{o.URL + "/empty", client.ErrCardInvalid, ""},
		{o.URL + "/other", client.ErrCardInvalid, "neither a name nor interfaces"},
		{o.URL + "/list", client.ErrCardInvalid, ""},
		{o.URL + "/twice", client.ErrCardInvalid, "name"},
		{o.URL + "/big", client.ErrCardInvalid, "262144"},
		{o.URL + "/short", client.ErrUnreachable, "EOF"},
		{gone.URL, client.ErrUnreachable, "refused"},
		{strings.Replace(o.URL, "http:", "https:", 1), client.ErrUnreachable, "try http://"},
		{"no-such-host.invalid", client.ErrUnreachable, "no-such-host.invalid"},
		{"./none.json", client.ErrCardNotFound, "none.json"},
		{filepath.Join(dir, "none.json"), client.ErrCardNotFound, "none.json"},
		{"file://" + dir, client.ErrCardNotFound, ""},
		{"file://host/card.json", client.ErrCardNotFound, ""},
		{"ftp://host/card.json", client.ErrCardNotFound, "scheme"},
		{"http://a b", client.ErrCardNotFound, "a b"},
		{"", client.ErrCardNotFound, "host"},
	} {
		card, err := client.FetchCard(t.Context(), c.ref, client.Options{HTTP: secure.Client()})
		if !errors.Is(err, c.err) || (c.err == nil) != (card != nil) {
			t.Errorf("%s: %v, want %v", c.ref, err, c.err)
		} else if err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %q does not say %q", c.ref, err, c.words)
		}
	}
	if n := len(elsewhere.requests()); n > 0 {
		t.Errorf("%d requests at the foreign origin", n)
	}
	_, err := client.FetchCard(t.Context(), "https://user:canary@agent.example/", client.Options{})
	if !errors.Is(err, client.ErrCardNotFound) || strings.Contains(err.Error(), "canary") {
		t.Errorf("an address with a password: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.FetchCard(ctx, o.URL, client.Options{}); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnreachable) {
		t.Errorf("with an ended ctx: %v", err)
	}
}

// TestCardCache counts what is asked for again (specification 8.6.2).
func TestCardCache(t *testing.T) {
	const lastModified = "Mon, 02 Jan 2006 15:04:05 GMT"
	for name, c := range map[string]struct {
		header http.Header
		at     []time.Duration // when the card is fetched
		status []int           // what the server answers, for each request that arrives
	}{
		"max-age":          {http.Header{"Cache-Control": {"public, max-age=300"}, "Etag": {`"1"`}}, []time.Duration{0, 299, 301, 599, 602}, []int{200, 304, 304}},
		"max-age, no ETag": {http.Header{"Cache-Control": {"max-age=300"}}, []time.Duration{0, 299, 301}, []int{200, 200}},
		"age":              {http.Header{"Cache-Control": {`Max-Age="300"`}, "Age": {"200"}, "Etag": {`"1"`}}, []time.Duration{0, 99, 101}, []int{200, 304}},
		"last modified":    {http.Header{"Cache-Control": {"max-age=1"}, "Last-Modified": {lastModified}}, []time.Duration{0, 2}, []int{200, 304}},
		"no-cache":         {http.Header{"Cache-Control": {"max-age=300, no-cache"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"no-store":         {http.Header{"Cache-Control": {"max-age=300", "no-store"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 200}},
		"nothing said":     {http.Header{}, []time.Duration{0, 1}, []int{200, 200}},
		"only an ETag":     {http.Header{"Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"zero":             {http.Header{"Cache-Control": {"max-age=0, max-age=300"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"a huge number":    {http.Header{"Cache-Control": {"max-age=99999999999999999999"}, "Etag": {`"1"`}}, []time.Duration{0, 30_000_000, 32_000_000}, []int{200, 304}},
		"must-revalidate":  {http.Header{"Cache-Control": {"must-revalidate, max-age=300"}, "Etag": {`"1"`}}, []time.Duration{0, 299, 301}, []int{200, 304}},
		"a comma in quotes": {
			http.Header{"Cache-Control": {`ext="a\", no-store, max-age=300", max-age=10`}, "Etag": {`"1"`}},
			[]time.Duration{0, 9, 11},
			[]int{200, 304},
		},
		"no-cache of a field": {http.Header{"Cache-Control": {`no-cache="x, y", max-age=300`}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"expires":             {http.Header{"Expires": {"Fri, 02 Jan 2026 03:09:05 GMT"}, "Etag": {`"1"`}}, []time.Duration{0, 299, 301}, []int{200, 304}},
		"expired":             {http.Header{"Expires": {"0"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"max-age wins": {
			http.Header{"Expires": {"Fri, 02 Jan 2026 04:04:05 GMT"}, "Cache-Control": {"max-age=10"}, "Etag": {`"1"`}},
			[]time.Duration{0, 9, 11},
			[]int{200, 304},
		},
		"an old answer":    {http.Header{"Cache-Control": {"max-age=300"}, "Date": {"Fri, 02 Jan 2026 03:03:05 GMT"}, "Etag": {`"1"`}}, []time.Duration{0, 239, 241}, []int{200, 304}},
		"varies by sender": {http.Header{"Cache-Control": {"max-age=300"}, "Vary": {"Accept, Authorization"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"varies by all":    {http.Header{"Cache-Control": {"max-age=300"}, "Vary": {"*"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
		"varies by what is always the same": {
			http.Header{"Cache-Control": {"max-age=300"}, "Vary": {"accept-encoding, A2A-VERSION"}, "Etag": {`"1"`}},
			[]time.Duration{0, 299, 301},
			[]int{200, 304},
		},
		"nonsense": {http.Header{"Cache-Control": {"max-age=-1,,x"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
	} {
		t.Run(name, func(t *testing.T) {
			var answers []int
			began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			now := began
			o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
				unchanged := r.Header.Get("If-None-Match") == `"1"` || r.Header.Get("If-Modified-Since") == lastModified
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
				for k, v := range c.header {
					if k != "Age" || !unchanged {
						w.Header()[k] = v
					}
				}
				if unchanged {
					answers = append(answers, 304)
					w.Header().Del("Etag") // an answer that says no more than it must
					w.WriteHeader(304)
					return
				}
				answers = append(answers, 200)
				writes(smallCard)(w, r)
			})
			cache := new(client.CardCache)
			cache.SetNow(func() time.Time { return now })
			for _, at := range c.at {
				now = began.Add(at * time.Second)
				card, err := client.FetchCard(t.Context(), o.URL, client.Options{Cache: cache})
				if err != nil || card.Name != "Small" {
					t.Fatal(card, err)
				}
			}
			if !slices.Equal(answers, c.status) {
				t.Errorf("the server answered %v, want %v", answers, c.status)
			}
		})
	}
}

func TestCardCacheChanged(t *testing.T) {
	n := 0
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Etag", fmt.Sprintf(`"%d"`, n))
		if n == 3 {
			w.Header().Set("Cache-Control", "no-store")
		}
		writes(strings.Replace(smallCard, "Small", fmt.Sprint("Card ", n), 1))(w, r)
	})
	opts := client.Options{Cache: new(client.CardCache)}
	for i := range 4 {
		card, err := client.FetchCard(t.Context(), o.URL, opts)
		if want := fmt.Sprint("Card ", i+1); err != nil || card.Name != want {
			t.Errorf("%v, %v, want %s", card, err, want)
		}
	}
	for i, want := range []string{"", `"1"`, `"2"`, ""} { // what came with no-store is forgotten, with what was before
		if got := o.requests()[i].Header.Get("If-None-Match"); got != want {
			t.Errorf("asked with the ETag %s, want %s", got, want)
		}
	}
	o.Close()
	if _, err := client.FetchCard(t.Context(), o.URL, opts); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("a stale card of a host that is gone: %v", err)
	}
}

// TestCardCacheRedirect: where a redirect led is asked for again each time, and not by what was kept from elsewhere.
func TestCardCacheRedirect(t *testing.T) {
	moved := false
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		w.Header().Set("Etag", `"1"`) // of whatever is at the path
		switch {
		case r.URL.Path == a2a.CardPath && moved:
			http.Redirect(w, r, "/other", http.StatusFound)
		case r.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		case r.URL.Path == "/other":
			writes(strings.Replace(smallCard, "Small", "Other", 1))(w, r)
		default:
			writes(smallCard)(w, r)
		}
	})
	opts := client.Options{Cache: new(client.CardCache)}
	for i, want := range []string{"Small", "Small", "Other", "Other"} {
		moved = i >= 2
		card, err := client.FetchCard(t.Context(), o.URL, opts)
		if err != nil || card.Name != want {
			t.Fatalf("%d: %v, %v", i, card, err)
		}
	}
	if n := opts.Cache.Len(); n != 0 {
		t.Errorf("%d cards are kept", n)
	}
}

// TestInvalidCard: what could not be read is there to be looked at.
func TestInvalidCard(t *testing.T) {
	for _, body := range []string{`{"name":7,"supportedInterfaces":[]}`, `{"name":"a"`, `null`, "", `{"name":"\ud800"}`, "\xff", strings.Repeat("[", 100)} {
		o := newOrigin(t, writes(body))
		_, err := client.FetchCard(t.Context(), o.URL, client.Options{})
		var e *client.InvalidCardError
		if !errors.As(err, &e) || !errors.Is(err, client.ErrCardInvalid) || string(e.Raw) != body || e.URL != o.URL+a2a.CardPath {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// TestCardCacheShared has many goroutines and more cards than are kept.
func TestCardCacheShared(t *testing.T) {
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		writes(smallCard)(w, r)
	})
	opts := client.Options{Cache: new(client.CardCache)}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 100 {
				if _, err := client.FetchCard(t.Context(), fmt.Sprintf("%s/%d", o.URL, 70*i+n), opts); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := opts.Cache.Len(); n != 256 {
		t.Errorf("%d cards are kept", n)
	}
}
