package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

const (
	minToken    = 22             // characters: 128 bits in base64
	sessionTime = 12 * time.Hour // of a session, if the credential does not end before
	maxSessions = 1000           // then the oldest go
	maxLogin    = 4096           // bytes of a request for a session
)

// NewToken returns a random token for Options.Token.
func NewToken() string { return rand.Text() }

// session is somebody who has shown a token or a credential.
type session struct {
	caller  *a2a.Caller // nil: the operator
	header  http.Header // with the credential of the caller
	expires time.Time
	// other is whose tasks the operator looks at, in one request; nil: whoever asks sees what is its own.
	other *a2a.Caller
}

// sessions are those that are open, by the secret in their cookie.
type sessions struct {
	mu    sync.Mutex
	open  map[string]session
	order []string // the oldest first; those that were closed may still be here
}

func (s *sessions) add(v session) (id string) {
	id = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]session{}
	}
	for len(s.order) >= maxSessions {
		delete(s.open, s.order[0])
		s.order = s.order[1:]
	}
	s.open[id] = v
	s.order = append(s.order, id)
	return id
}

func (s *sessions) find(id string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.open[id]
	if ok && !time.Now().Before(v.expires) {
		delete(s.open, id)
		return session{}, false
	}
	return v, ok
}

func (s *sessions) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

type sessionKey struct{}

// sessionOf returns the session that known has found.
func sessionOf(ctx context.Context) session {
	s, _ := ctx.Value(sessionKey{}).(session)
	return s
}

// cookieName has the port in it: browsers send the cookies of one port to all of a machine.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "parley-console"
	}
	return "parley-console-" + port
}

// session returns the open session of a request.
func (c *Console) session(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return session{}, false
	}
	return c.sessions.find(cookie.Value)
}

// valid reports whether the credential of a session is still good, as far as that can be known now.
func (c *Console) valid(r *http.Request, s session) bool {
	if s.caller == nil || c.opts.Valid == nil {
		return true
	}
	info := &a2a.CallInfo{Binding: a2a.BindingREST, Header: s.header, Peer: r.RemoteAddr, Caller: *s.caller}
	return !errors.Is(c.opts.Valid(a2a.WithCallInfo(r.Context(), info)), a2a.ErrUnauthenticated)
}

// known lets requests with a session through. Its context ends with the session. It alone reads callerHeader.
func (c *Console) known(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, ok := c.session(r)
		if ok && !c.valid(r, s) {
			c.endSession(w, r)
			ok = false
		}
		if !ok {
			refuse(w, http.StatusUnauthorized, "open the console with the address that was printed, or with your credential")
			return
		}
		if id := r.Header.Get(callerHeader); id != "" {
			if s.caller != nil {
				refuse(w, http.StatusForbidden, "only the operator sees other callers' tasks")
				return
			}
			other, err := parseCaller(id)
			if err != nil {
				refuse(w, http.StatusBadRequest, callerHeader+": "+err.Error())
				return
			}
			s.other = &other
		}
		ctx, cancel := context.WithDeadline(context.WithValue(r.Context(), sessionKey{}, s), s.expires)
		defer cancel()
		next(w, r.WithContext(ctx))
	})
}

// operator lets an operator through, where there is a recorder.
func (c *Console) operator(next http.HandlerFunc) http.Handler {
	return c.known(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case sessionOf(r.Context()).caller != nil:
			refuse(w, http.StatusForbidden, "only the operator sees the wire")
		case c.opts.Wire == nil:
			refuse(w, http.StatusNotFound, "nothing records the wire here")
		default:
			next(w, r)
		}
	})
}

// self returns who the requester is to the agent.
func (a *Agent) self(ctx context.Context) a2a.Caller {
	if c := sessionOf(ctx).caller; c != nil {
		return *c
	}
	return a.Caller
}

// caller returns whose tasks a request is about: the requester's, or those that the operator looks at.
func (a *Agent) caller(ctx context.Context) a2a.Caller {
	if c := sessionOf(ctx).other; c != nil {
		return *c
	}
	return a.self(ctx)
}

// authenticate says who calls, and hands the credential on with which the session was opened: whoever serves asks for it again
// while a stream lasts.
func (a *Agent) authenticate(ctx context.Context, info *a2a.CallInfo) error {
	info.Caller = a.self(ctx)
	if s := sessionOf(ctx); s.header != nil {
		header := s.header.Clone()
		maps.Copy(header, info.Header)
		info.Header = header
	}
	return nil
}

// serveSession says how a session is opened, and whether this one is.
func (c *Console) serveSession(w http.ResponseWriter, r *http.Request) {
	_, open := c.session(r)
	reply(w, map[string]bool{"open": open, "token": c.opts.Token != "", "credential": c.opts.Authenticate != nil})
}

// openSession takes the token, or a credential in the header that is the agent's for it.
func (c *Console) openSession(w http.ResponseWriter, r *http.Request) {
	if t := r.Header.Get("Content-Type"); t != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "send JSON")
		return
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLogin)).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not an object with a token")
		return
	}
	s := session{expires: time.Now().Add(sessionTime)}
	if !c.isToken(body.Token) {
		caller, err := c.credential(r, body.Token)
		if err != nil {
			refuse(w, http.StatusUnauthorized, err.Error())
			return
		}
		s.caller, s.header = &caller, r.Header.Clone()
		s.header.Del("Cookie")
		if !caller.Expiry.IsZero() && caller.Expiry.Before(s.expires) {
			s.expires = caller.Expiry
		}
	}
	c.setCookie(w, r, c.sessions.add(s), int(time.Until(s.expires).Seconds()))
	w.WriteHeader(http.StatusNoContent)
}

// credential returns whose credential a request has.
func (c *Console) credential(r *http.Request, token string) (a2a.Caller, error) {
	if c.opts.Authenticate == nil || token != "" {
		return a2a.Caller{}, a2a.Errorf(a2a.ErrUnauthenticated, "that is not the token of this console: it is in the address that was printed when it started")
	}
	info := &a2a.CallInfo{Binding: a2a.BindingREST, Header: r.Header, Peer: r.RemoteAddr}
	if err := c.opts.Authenticate(a2a.WithCallInfo(r.Context(), info), info); err != nil {
		return a2a.Caller{}, err
	}
	if info.Caller.Anonymous() {
		return a2a.Caller{}, a2a.Errorf(a2a.ErrUnauthenticated, "the console wants a credential")
	}
	return info.Caller, nil
}

func (c *Console) closeSession(w http.ResponseWriter, r *http.Request) {
	c.endSession(w, r)
	w.WriteHeader(http.StatusNoContent)
}

func (c *Console) endSession(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		c.sessions.remove(cookie.Value)
	}
	c.setCookie(w, r, "", -1)
}

func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where there is TLS: at loopback there is none
		Name: cookieName(r), Value: value, Path: strings.TrimSuffix(Path, "/"), MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.opts.Secure,
	})
}
