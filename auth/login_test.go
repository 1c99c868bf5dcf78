package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/auth"
)

// provider serves a discovery document, in which ISSUER stands for its own URL.
func provider(t *testing.T, document string) *httptest.Server {
	t.Helper()
	var s *httptest.Server
	s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/openid-configuration" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(document, "ISSUER", s.URL)))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestDiscover(t *testing.T) {
	for document, want := range map[string]string{
		`{"issuer":"ISSUER","token_endpoint":"ISSUER/t","device_authorization_endpoint":"ISSUER/d"}`: "",
		`{"issuer":"ISSUER/","token_endpoint":"ISSUER/t"}`:                                           "",
		`{"issuer":"https://other.example","token_endpoint":"ISSUER/t"}`:                             "is the document of another issuer",
		`{"issuer":"ISSUER"}`: "token_endpoint of ISSUER is required",
		`{"issuer":"ISSUER","token_endpoint":"http://127.0.0.1/t"}`:                                      "is not https",
		`{"issuer":"ISSUER","token_endpoint":"ISSUER/t","authorization_endpoint":"javascript:alert(1)"}`: "is not an absolute https URL",
		`{"issuer":"/","token_endpoint":"ISSUER/t"}`:                                                     "is not a discovery document",
		`<html>`: "is not a discovery document",
	} {
		s := provider(t, document)
		for _, from := range []string{s.URL, s.URL + "/.well-known/openid-configuration"} {
			e, err := auth.Discover(t.Context(), s.Client(), from)
			want := strings.ReplaceAll(want, "ISSUER", s.URL)
			switch {
			case want == "" && (err != nil || e.TokenURL != s.URL+"/t"):
				t.Errorf("%s: %+v, %v", document, e, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %v, want %q", document, err, want)
			}
		}
	}
	if _, err := auth.Discover(t.Context(), nil, "http://login.example"); err == nil {
		t.Error("a provider is asked without encryption")
	}
}

// TestAuthorizationCode: only the browser that was sent there comes back, and it brings a code or the reason why not.
func TestAuthorizationCode(t *testing.T) {
	var asked url.Values
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = r.PostForm
		_, _ = w.Write([]byte(`{"access_token":"t0ken","token_type":"bearer","refresh_token":"r"}`))
	}))
	t.Cleanup(s.Close)
	o := auth.OAuth{TokenURL: s.URL + "/token", ClientID: "c", Scopes: []string{"a", "b"}, Client: s.Client()}
	come := func(change func(url.Values)) func(context.Context, string) error {
		return func(ctx context.Context, to string) error {
			u, err := url.Parse(to)
			if err != nil {
				return err
			}
			q := u.Query()
			if q.Get("x") != "y" || q.Get("scope") != "a b" || q.Get("code_challenge_method") != "S256" || q.Get("client_id") != "c" {
				t.Errorf("the address is %s", to)
			}
			back := url.Values{"state": {q.Get("state")}, "code": {"c0de"}}
			visit := func(v url.Values) int {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.Get("redirect_uri")+"?"+v.Encode(), nil)
				if err != nil {
					t.Error(err)
					return 0
				}
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return 0
				}
				_ = res.Body.Close()
				return res.StatusCode
			}
			if code := visit(url.Values{"state": {"forged"}, "code": {"other"}}); code != http.StatusNotFound {
				t.Errorf("a forged state: %d", code)
			}
			change(back)
			if code := visit(back); code != http.StatusOK {
				t.Errorf("the browser is answered %d", code)
			}
			return nil
		}
	}
	token, refresh, err := o.AuthorizationCode(t.Context(), s.URL+"/authorize?x=y", come(func(url.Values) {}))
	if err != nil || token.Secret.Reveal() != "t0ken" || refresh.Reveal() != "r" {
		t.Fatalf("%v", err)
	}
	if asked.Get("code") != "c0de" || len(asked.Get("code_verifier")) != 43 || asked.Get("client_id") != "c" {
		t.Errorf("the form was %v", asked)
	}
	for code, change := range map[string]func(url.Values){
		"access_denied":   func(v url.Values) { v.Del("code"); v.Set("error", "access_denied") },
		"invalid_request": func(v url.Values) { v.Del("code") },
	} {
		_, _, err := o.AuthorizationCode(t.Context(), s.URL+"/authorize?x=y", come(change))
		if auth.ErrorCode(err) != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = o.AuthorizationCode(ctx, s.URL+"/authorize", func(context.Context, string) error { cancel(); return nil })
	if err == nil || auth.ErrorCode(err) != "" {
		t.Errorf("a person who gave up: %v", err)
	}
}
