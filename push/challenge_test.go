package push

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// TestChallenge is threat A2: a receiver that does not echo the challenge gets nothing of the task, whatever else it
// answers, and is given up; one that does gets everything.
func TestChallenge(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, word string)
		echoes bool
	}{
		"echo":            {func(w http.ResponseWriter, word string) { _, _ = io.WriteString(w, word) }, true},
		"echo with break": {func(w http.ResponseWriter, word string) { _, _ = io.WriteString(w, word+"\r\n") }, true},
		"nothing":         {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNoContent) }, false},
		"another word":    {func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "ok") }, false},
		"within a page":   {func(w http.ResponseWriter, word string) { _, _ = io.WriteString(w, "<p>"+word+"</p>") }, false},
		"only a header":   {func(w http.ResponseWriter, word string) { w.Header().Set(ChallengeHeader, word) }, false},
		"refused": {func(w http.ResponseWriter, word string) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, word)
		}, false},
		"not for GET": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusMethodNotAllowed) }, false},
		"elsewhere":   {func(w http.ResponseWriter, _ string) { w.Header().Set("Location", "/other"); w.WriteHeader(302) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := memory(), newRecorder(t)
			var asked atomic.Int64
			r.do(func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodGet {
					return false
				}
				asked.Add(1)
				word := req.Header.Get(ChallengeHeader)
				if len(word) < 20 || req.Header.Get(TokenHeader) != "token" || req.Header.Get(IDHeader) == "" {
					t.Errorf("challenged with %v", req.Header)
				}
				c.answer(w, word)
				return true
			})
			p := newPush(t, s, Options{Challenge: true, MaxFailures: 1})
			key := keyOf("t1")
			create(t, s, key, nil)
			id := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL, Token: "token"})
			write(t, s, key, status("t1", a2a.TaskStateCompleted))
			h := hookWhen(t, s, key, id, done)
			posts := 0
			for _, q := range r.requests() {
				if q.body != "" {
					posts++
				}
			}
			if asked.Load() != 1 || c.echoes != (posts > 0) || c.echoes != (h.Failure == "") {
				t.Errorf("asked %d times, then %d payloads; failure %q", asked.Load(), posts, h.Failure)
			}
		})
	}
}

// TestChallengedOnce: whoever took an event is not asked again, by this process or the next. A new registration is.
func TestChallengedOnce(t *testing.T) {
	s, r := memory(), newRecorder(t)
	var asked atomic.Int64
	r.do(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet {
			return false
		}
		asked.Add(1)
		_, _ = io.WriteString(w, req.Header.Get(ChallengeHeader))
		return true
	})
	key := keyOf("t1")
	create(t, s, key, nil)
	p := idlePush(t, s, Options{Challenge: true})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL})
	r.take(t, 1)
	write(t, s, key, chunk("t1", 1))
	r.take(t, 1)
	hookWhen(t, s, key, id, func(h taskstore.Webhook) bool { return h.Delivered == 2 })
	p.Shutdown(t.Context())
	p = newPush(t, s, Options{Challenge: true})
	write(t, s, key, chunk("t1", 2))
	r.take(t, 1)
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	register(t, p, key, a2a.TaskPushNotificationConfig{URL: r.URL, ID: id})
	r.take(t, 1)
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times after the second registration", n)
	}
}

// TestReceiverEchoes: the Receiver answers the challenge of a sender that it knows, and of nobody else.
func TestReceiverEchoes(t *testing.T) {
	key, other := testKey("k"), testKey("o")
	for name, c := range map[string]struct {
		opts   ReceiverOptions
		config a2a.TaskPushNotificationConfig
		taken  bool
	}{
		"key":   {ReceiverOptions{Keys: []string{PublicKey(key)}}, a2a.TaskPushNotificationConfig{}, true},
		"token": {ReceiverOptions{Token: "token"}, a2a.TaskPushNotificationConfig{Token: "token"}, true},
		"authorization": {ReceiverOptions{Authorization: "Bearer x"}, a2a.TaskPushNotificationConfig{
			Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "x"},
		}, true},
		"another key":   {ReceiverOptions{Keys: []string{PublicKey(other)}}, a2a.TaskPushNotificationConfig{}, false},
		"another token": {ReceiverOptions{Token: "token"}, a2a.TaskPushNotificationConfig{Token: "guess"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan a2a.Event, 10)
			receiver, err := NewReceiver(func(_ context.Context, _ string, e a2a.Entry) error {
				got <- e.Event
				return nil
			}, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(receiver)
			defer srv.Close()
			s := memory()
			p := newPush(t, s, Options{Challenge: true, MaxFailures: 1, Key: key})
			create(t, s, keyOf("t1"), nil)
			c.config.URL = srv.URL
			id := register(t, p, keyOf("t1"), c.config)
			write(t, s, keyOf("t1"), status("t1", a2a.TaskStateCompleted))
			h := hookWhen(t, s, keyOf("t1"), id, done)
			if (len(got) > 0) != c.taken || !c.taken && !strings.Contains(h.Failure, "challenged") {
				t.Errorf("%d events taken, failure %q", len(got), h.Failure)
			}
		})
	}
}

// TestReceiverRefusesGET: what is no challenge, or one that would have the receiver say what others wrote.
func TestReceiverRefusesGET(t *testing.T) {
	receiver, err := NewReceiver(func(context.Context, string, a2a.Entry) error { return nil }, ReceiverOptions{Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		words  []string
		status int
	}{
		"none":     {nil, http.StatusMethodNotAllowed},
		"two":      {[]string{"a", "b"}, http.StatusMethodNotAllowed},
		"a page":   {[]string{"<script>"}, http.StatusBadRequest},
		"a phrase": {[]string{"a b"}, http.StatusBadRequest},
		"long":     {[]string{strings.Repeat("x", 129)}, http.StatusBadRequest},
		"longest":  {[]string{strings.Repeat("x", 128)}, http.StatusOK},
	} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set(TokenHeader, "token")
		for _, w := range c.words {
			req.Header.Add(ChallengeHeader, w)
		}
		res := httptest.NewRecorder()
		receiver.ServeHTTP(res, req)
		if res.Code != c.status || res.Code == http.StatusOK && res.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %v", name, res.Code, res.Header())
		}
	}
}

// TestAllowedOrigins is threat A2: off the list of a caller is refused, with a message or for a task.
func TestAllowedOrigins(t *testing.T) {
	s, r := memory(), newRecorder(t)
	type question struct {
		caller a2a.Caller
		origin string
	}
	var asked []question
	p := newPush(t, s, Options{Allow: func(c a2a.Caller, origin string) bool {
		asked = append(asked, question{c, origin})
		return c.Subject == "alice" && origin == r.URL
	}})
	bob := keyOf("t2")
	bob.Owner, bob.Tenant = "issuer\x00bob", "b"
	create(t, s, keyOf("t1"), nil)
	create(t, s, bob, nil)
	register(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{URL: r.URL + "/path?x=1"})
	for _, c := range []struct {
		key taskstore.Key
		url string
	}{{bob, r.URL}, {keyOf("t1"), "http://127.0.0.1:1/"}, {keyOf("t1"), strings.Replace(r.URL, "127.0.0.1", "localhost", 1)}} {
		config := a2a.TaskPushNotificationConfig{URL: c.url}
		_, prepared := p.Prepare(t.Context(), c.key, &config)
		_, created := p.Create(t.Context(), c.key, &config)
		for _, err := range []error{prepared, created} {
			var e *a2a.Error
			if !errors.As(err, &e) || e.Code != a2a.ErrInvalidParams || len(e.Violations) != 1 || e.Violations[0].Field != "url" {
				t.Errorf("%s at %s: %v", c.key.Owner, c.url, err)
			}
		}
	}
	if asked[0].caller.Issuer != "issuer" || asked[0].origin != r.URL || asked[1].caller.Tenant != "b" || asked[1].caller.Subject != "bob" {
		t.Errorf("asked %+v", asked[:2])
	}
}
