package delegation

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// Limits of Tokens.
const (
	maxTokens  = 4096 // of one caller, more than may run, wait and be parked for it
	maxIDBytes = 256
	tokenTime  = time.Hour // for a credential that does not say when it ends
	sweepTime  = time.Minute
)

// Tokens keeps, in memory, the bearer tokens with which messages came, for the runs that exchange them. A run's context
// and request have nothing of it, so that nothing is passed on by accident. The zero value is ready.
//
// A token is there until it expires, at most an hour where the credential does not say, and not after a restart: then an
// exchange fails, and with it the task. Of a caller who sends very many messages those that expire first are forgotten,
// and nobody else's.
type Tokens struct {
	mu    sync.Mutex
	of    map[owner]map[string]kept // by the message's id
	swept time.Time
}

type owner struct{ tenant, owner string }

func ownerOf(c a2a.Caller) owner { return owner{c.Tenant, c.Owner()} }

type kept struct {
	token   string
	expires time.Time
}

// Wrap returns the service of a host, which keeps the tokens of authenticated callers: for parley.Config.Wrap.
func (t *Tokens) Wrap(svc a2a.Service) a2a.Service { return &keeper{Service: svc, tokens: t} }

// keep notes the token of a message's call, if there is one and only one.
func (t *Tokens) keep(ctx context.Context, req *a2a.SendMessageRequest) {
	info := a2a.CallInfoFrom(ctx)
	if info == nil || info.Caller.Anonymous() || req.Message == nil || len(req.Message.MessageID) > maxIDBytes {
		return
	}
	values := info.Header.Values("Authorization")
	if len(values) != 1 {
		return
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return
	}
	now := time.Now()
	expires := info.Caller.Expiry
	if expires.IsZero() {
		expires = now.Add(tokenTime)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	if t.of == nil {
		t.of = map[owner]map[string]kept{}
	}
	o := ownerOf(info.Caller)
	if t.of[o] == nil {
		t.of[o] = map[string]kept{}
	}
	if len(t.of[o]) >= maxTokens {
		forget(t.of[o])
	}
	t.of[o][req.Message.MessageID] = kept{token, expires}
}

// sweep takes out what has expired, once in a while.
func (t *Tokens) sweep(now time.Time) {
	if now.Sub(t.swept) < sweepTime {
		return
	}
	t.swept = now
	for o, m := range t.of {
		maps.DeleteFunc(m, func(_ string, v kept) bool { return !now.Before(v.expires) })
		if len(m) == 0 {
			delete(t.of, o)
		}
	}
}

// forget makes room: the tenth that expires first goes.
func forget(m map[string]kept) {
	ids := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[a].expires.Compare(m[b].expires) })
	for _, id := range ids[:len(ids)/10] {
		delete(m, id)
	}
}

// Of returns the token with which the message of a request came, and false if there is none any more.
func (t *Tokens) Of(r *agent.Request) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.of[ownerOf(r.Caller)][r.Message.MessageID]
	if !ok || !time.Now().Before(v.expires) {
		return "", false
	}
	return v.token, true
}

// keeper is a host's service that keeps the tokens of messages.
type keeper struct {
	a2a.Service
	tokens *Tokens
}

// SendMessage implements a2a.Service.
func (k *keeper) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	k.tokens.keep(ctx, req)
	return k.Service.SendMessage(ctx, req)
}

// SendStreamingMessage implements a2a.Service.
func (k *keeper) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		k.tokens.keep(ctx, req)
		k.Service.SendStreamingMessage(ctx, req)(yield)
	}
}
