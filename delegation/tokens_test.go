package delegation_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/delegation"
)

// TestTokens: a token is there for its caller's message until it expires, and one caller's many do not drive out others'.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tokens delegation.Tokens
		svc := tokens.Wrap(refuses{})
		send := func(c a2a.Caller, id string, authorization ...string) {
			ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Caller: c, Header: http.Header{"Authorization": authorization}})
			_, _ = svc.SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{MessageID: id}})
		}
		has := func(c a2a.Caller, id string) bool {
			token, ok := tokens.Of(&agent.Request{Caller: c, Message: &a2a.Message{MessageID: id}})
			return ok && token == "secret"
		}
		ann := a2a.Caller{Issuer: "i", Subject: "ann", Expiry: time.Now().Add(10 * time.Minute)}
		bob := a2a.Caller{Issuer: "i", Subject: "bob"}
		send(ann, "m", "Bearer secret")
		for i := range 10_000 {
			send(bob, fmt.Sprint(i), "bearer  secret")
			<-time.After(time.Millisecond)
		}
		for c, id := range map[*a2a.Caller]string{&ann: "m", &bob: "9999"} {
			if !has(*c, id) {
				t.Errorf("%s has no token", c.Subject)
			}
		}
		if has(bob, "0") || has(bob, "m") {
			t.Error("too many are kept, or another caller's")
		}
		for id, authorization := range map[string][]string{
			"none": nil, "two": {"Bearer secret", "Bearer secret"}, "basic": {"Basic secret"}, "empty": {"Bearer "},
		} {
			if send(ann, id, authorization...); has(ann, id) {
				t.Errorf("%s: kept", id)
			}
		}
		if send(a2a.Caller{}, "m", "Bearer secret"); has(a2a.Caller{}, "m") {
			t.Error("an anonymous caller's was kept")
		}
		<-time.After(10 * time.Minute)
		if has(ann, "m") || !has(bob, "9999") {
			t.Error("ann's has expired, bob's has not")
		}
		<-time.After(time.Hour)
		if has(bob, "9999") {
			t.Error("kept for more than an hour")
		}
	})
}
