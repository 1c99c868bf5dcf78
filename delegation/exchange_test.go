package delegation_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/delegation"
	"github.com/parley-a2a/parley/internal/netguard"
)

// actor is who acts for a subject (RFC 8693, 4.1).
type actor struct {
	Subject string `json:"sub"`
	Act     *actor `json:"act,omitempty"`
}

// claims are what a token of the test's token service says.
type claims struct {
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	Act      *actor `json:"act,omitempty"`
}

// service is a token service.
type service struct {
	*httptest.Server
	life  time.Duration
	asked box[string] // audiences
}

func newService(t *testing.T, life time.Duration) *service {
	s := &service{life: life}
	s.Server = httptest.NewServer(http.HandlerFunc(s.exchange))
	t.Cleanup(s.Close)
	return s
}

var enc = base64.RawURLEncoding

func sign(text string) string {
	m := hmac.New(sha256.New, []byte("the service's key"))
	m.Write([]byte(text))
	return enc.EncodeToString(m.Sum(nil))
}

func mint(c claims) string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	text := enc.EncodeToString([]byte(`{"alg":"HS256","typ":"at+jwt"}`)) + "." + enc.EncodeToString(b)
	return text + "." + sign(text)
}

// read returns what a token says that the service made and that is good for an audience.
func read(token, audience string) (c claims, ok bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 || sign(token[:i]) != token[i+1:] {
		return c, false
	}
	b, err := enc.DecodeString(token[strings.IndexByte(token, '.')+1 : i])
	return c, err == nil && json.Unmarshal(b, &c) == nil && c.Audience == audience && time.Now().Unix() < c.Expires
}

func ownToken(name string) string {
	return mint(claims{Subject: name, Audience: "service", Expires: time.Now().Add(time.Hour).Unix()})
}

func (s *service) exchange(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id) // RFC 6749, 2.3.1
	secret, _ = url.QueryUnescape(secret)
	actorClaims, good := read(r.FormValue("actor_token"), "service")
	subject, ok := read(r.FormValue("subject_token"), actorClaims.Subject) // the token must have been for the actor
	access := "urn:ietf:params:oauth:token-type:access_token"
	if !good || !ok || r.Method != http.MethodPost || id != "id+:" || secret != "s%cret" || r.FormValue("audience") == "" ||
		r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" ||
		r.FormValue("subject_token_type") != access || r.FormValue("actor_token_type") != access {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_request","error_description":%q}`, fmt.Sprint(r.Form))
		return
	}
	s.asked.add(r.FormValue("audience"))
	token := mint(claims{
		Subject: subject.Subject, Audience: r.FormValue("audience"), Expires: time.Now().Add(time.Hour).Unix(),
		Act: &actor{Subject: actorClaims.Subject, Act: subject.Act},
	})
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"issued_token_type":%q,"token_type":"Bearer","expires_in":%d}`, token, access, int(s.life.Seconds()))
}

func (s *service) options(self string) delegation.ExchangeOptions {
	return delegation.ExchangeOptions{
		Endpoint: s.URL, AllowPrivate: true, ClientID: "id+:", ClientSecret: "s%cret",
		Actor: delegation.TokenFunc(func(context.Context) (string, error) { return ownToken(self), nil }),
	}
}

func exchangeOf(t *testing.T, opts delegation.ExchangeOptions) *delegation.Exchange {
	t.Helper()
	x, err := delegation.NewExchange(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// member is an agent that knows its callers by the service's tokens, and hands on what it gets.
type member struct {
	name  string
	calls box[http.Header]
	did   box[claims]
	host  *parley.Host
}

// join starts a member whose next agent is next, nil for the last.
func (s *service) join(t *testing.T, name, binding string, next *member) *member {
	t.Helper()
	m := &member{name: name}
	auth := func(_ context.Context, info *a2a.CallInfo) error {
		m.calls.add(info.Header.Clone())
		c, ok := read(strings.TrimPrefix(info.Header.Get("Authorization"), "Bearer "), name)
		if !ok {
			return &a2a.Error{Code: a2a.ErrUnauthenticated}
		}
		m.did.add(c)
		info.Caller = a2a.Caller{Issuer: "service", Subject: c.Subject, Expiry: time.Unix(c.Expires, 0)}
		return nil
	}
	var tokens delegation.Tokens
	x := exchangeOf(t, s.options(name))
	var cl *client.Client
	if next != nil {
		cl = dial(t, next.host, binding)
	}
	a := agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if next == nil {
			return u.Complete(a2a.TextPart("done for " + r.Caller.Subject))
		}
		to := delegation.Client(cl, x.Source(r, &tokens, next.name, cl.Interface().URL))
		for e, err := range to.SendStreamingMessage(ctx, message("x")) {
			if err != nil {
				return err
			}
			if ev, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok && ev.Status.State.Terminal() {
				return u.Complete(ev.Status.Message.Parts...)
			}
		}
		return agent.Errorf("no end")
	})
	m.host = start(t, parley.Config{Authenticate: auth, Wrap: tokens.Wrap}, delegation.Guard(a, delegation.Options{Self: name}))
	return m
}

// TestIdentity is threat A3: C sees the subject U, acted for by B and before that by A, and nobody but A sees U's token.
func TestIdentity(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		s := newService(t, time.Hour)
		c := s.join(t, "C", binding, nil)
		b := s.join(t, "B", binding, c)
		a := s.join(t, "A", binding, b)
		mine := mint(claims{Subject: "U", Audience: "A", Expires: time.Now().Add(time.Hour).Unix()})
		for range 2 {
			ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Header: http.Header{"Authorization": {"Bearer " + mine}}})
			res, err := dial(t, a.host, binding).SendMessage(ctx, message("x"))
			if err != nil {
				t.Fatal(err)
			}
			if said := res.(*a2a.Task).Status.Message.Text(); said != "done for U" {
				t.Fatal(said)
			}
		}
		got := c.did.got()[0]
		if got.Subject != "U" || got.Audience != "C" || got.Act.Subject != "B" || got.Act.Act.Subject != "A" || got.Act.Act.Act != nil {
			t.Errorf("C sees %+v", got)
		}
		for _, m := range []*member{b, c} {
			for _, header := range m.calls.got() {
				if strings.Contains(fmt.Sprint(header), mine) {
					t.Errorf("%s was given U's token", m.name)
				}
			}
		}
		if n := len(s.asked.got()); n != 2 {
			t.Errorf("%d exchanges for two messages, one after the other", n)
		}
	})
}

// TestExchangeExpires: a token is not used beyond its time.
func TestExchangeExpires(t *testing.T) {
	s := newService(t, 0)
	x := exchangeOf(t, s.options("A"))
	mine := mint(claims{Subject: "U", Audience: "A", Expires: time.Now().Add(time.Hour).Unix()})
	for range 2 {
		if _, err := x.Token(t.Context(), mine, "B"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.asked.got()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// says is an answer of a token service.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// TestExchangeRefuses has what a token service may answer, and that no error has a token in it.
func TestExchangeRefuses(t *testing.T) {
	const mine, own = "users-token", "actors-token"
	var hits box[string]
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hits.add(r.URL.Path) }))
	defer elsewhere.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":"`+r.FormValue("subject_token")+`"}`, 400)
		},
		"an error in words": func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.FormValue("actor_token"), 500) },
		"the token itself": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, r.FormValue("subject_token"))
		},
		"the actor's": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, r.FormValue("actor_token"))
		},
		"no token":           says(`{"token_type":"Bearer"}`),
		"not a bearer token": says(`{"access_token":"x","token_type":"N_A"}`),
		"another type":       says(`{"access_token":"x","token_type":"Bearer","issued_token_type":"urn:x"}`),
		"a broken header":    says(`{"access_token":"x\r\ny","token_type":"Bearer"}`),
		"more than fits":     says(strings.Repeat(" ", 70<<10)),
		"another place to ask": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(answer)
			defer s.Close()
			x := exchangeOf(t, delegation.ExchangeOptions{
				Endpoint: s.URL, AllowPrivate: true, Actor: delegation.TokenFunc(func(context.Context) (string, error) { return own, nil }),
			})
			token, err := x.Token(t.Context(), mine, "B")
			if err == nil || token != "" || strings.Contains(err.Error(), mine) || strings.Contains(err.Error(), own) {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	if len(hits.got()) > 0 {
		t.Error("a redirect was followed")
	}
	_, err := delegation.NewExchange(t.Context(), delegation.ExchangeOptions{
		Endpoint: "http://127.0.0.1:1", Actor: delegation.TokenFunc(func(context.Context) (string, error) { return own, nil }),
	})
	if !errors.Is(err, netguard.ErrRefused) {
		t.Errorf("a private token service: %v", err)
	}
}

// TestForeignOrigin: a token is not sent where a card leads, if that is not where the agent is.
func TestForeignOrigin(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		s := newService(t, time.Hour)
		var seen box[http.Header]
		foreign := start(t, parley.Config{Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			seen.add(info.Header)
			return nil
		}}, &handsOn{name: "X"})
		var tokens delegation.Tokens
		caller := a2a.Caller{Issuer: "service", Subject: "U"}
		mine := mint(claims{Subject: "U", Audience: "A", Expires: time.Now().Add(time.Hour).Unix()})
		r := &agent.Request{Message: &a2a.Message{MessageID: "m"}, Caller: caller}
		x := exchangeOf(t, s.options("A"))
		if _, err := x.Source(r, &tokens, "B").Token(t.Context()); !errors.Is(err, delegation.ErrNoToken) {
			t.Errorf("without a token: %v", err)
		}
		ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Caller: caller, Header: http.Header{"Authorization": {"Bearer " + mine}}})
		_, _ = tokens.Wrap(refuses{}).SendMessage(ctx, &a2a.SendMessageRequest{Message: r.Message})
		tokensOf := x.Source(r, &tokens, "B", "https://b.example", "b.example:443")
		if _, err := tokensOf.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := delegation.Client(dial(t, foreign, binding), tokensOf).GetTask(t.Context(), &a2a.GetTaskRequest{ID: "x"})
		if err == nil || len(seen.got()) > 0 {
			t.Errorf("%v; it saw %v", err, seen.got())
		}
		other := *r
		other.Caller.Subject = "V"
		if _, ok := tokens.Of(&other); ok {
			t.Error("another caller's message of the same id has the token")
		}
	})
}

type refuses struct{ a2a.Service }

func (refuses) SendMessage(context.Context, *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return nil, a2a.ErrUnavailable
}
