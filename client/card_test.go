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
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere.URL+a2a.CardPath, http.StatusFound)
		case "/tls":
			http.Redirect(w, r, strings.Replace("http://"+r.Host, "http:", "https:", 1)+"/near", http.StatusFound)
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
		{o.URL + "/tls", client.ErrCardNotFound, "another origin"},
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
		card, err := client.FetchCard(t.Context(), c.ref, client.Options{})
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
		"nonsense":         {http.Header{"Cache-Control": {"max-age=-1,,x"}, "Etag": {`"1"`}}, []time.Duration{0, 1}, []int{200, 304}},
	} {
		t.Run(name, func(t *testing.T) {
			var answers []int
			o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
				unchanged := r.Header.Get("If-None-Match") == `"1"` || r.Header.Get("If-Modified-Since") == lastModified
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
			began := time.Now()
			now := began
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
