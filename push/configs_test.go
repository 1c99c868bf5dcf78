package push

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

func code(err error) a2a.ErrorCode {
	if err == nil {
		return 0
	}
	return a2a.AsError(err).Code
}

// Case 28: ids are made, lists are complete, an unknown id is TaskNotFound, and deleting twice succeeds.
func TestConfigurations(t *testing.T) {
	s := memory()
	p := idlePush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	a := register(t, p, key, a2a.TaskPushNotificationConfig{URL: "http://127.0.0.1:1/a", Tenant: "agent", TaskID: "t1"})
	b := register(t, p, key, a2a.TaskPushNotificationConfig{URL: "http://127.0.0.1:1/b"})
	if a == "" || b == "" || a == b {
		t.Errorf("the ids are %q and %q", a, b)
	}
	list, err := p.List(t.Context(), key, 0, "")
	if err != nil || len(list.Configs) != 2 || list.NextPageToken != "" {
		t.Fatal(list, err)
	}
	got, err := p.Get(t.Context(), key, a)
	if err != nil || got.URL != "http://127.0.0.1:1/a" || got.TaskID != "t1" || got.Tenant != "agent" {
		t.Error(got, err)
	}
	if _, err := p.Get(t.Context(), key, "other"); code(err) != a2a.ErrTaskNotFound {
		t.Error(err)
	}
	for range 2 {
		if err := p.Delete(t.Context(), key, a); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Get(t.Context(), key, a); code(err) != a2a.ErrTaskNotFound {
		t.Error(err)
	}
}

// Case 29: what one caller registered, no other sees or changes.
func TestCallersApart(t *testing.T) {
	s, r1, r2 := memory(), newRecorder(t), newRecorder(t)
	p := newPush(t, s, Options{})
	hers, his := keyOf("hers"), taskstore.Key{Scope: taskstore.Scope{Agent: alice.Agent, Owner: "bob"}, Task: "his"}
	create(t, s, hers, nil)
	create(t, s, his, nil)
	id := register(t, p, hers, a2a.TaskPushNotificationConfig{URL: r1.URL})
	register(t, p, his, a2a.TaskPushNotificationConfig{URL: r2.URL})
	r1.take(t, 1)
	r2.take(t, 1)
	theft := taskstore.Key{Scope: his.Scope, Task: hers.Task}
	_, errGet := p.Get(t.Context(), theft, id)
	_, errList := p.List(t.Context(), theft, 0, "")
	_, errCreate := p.Create(t.Context(), theft, &a2a.TaskPushNotificationConfig{URL: r2.URL})
	for _, err := range []error{errGet, errList, errCreate, p.Delete(t.Context(), theft, id)} {
		if code(err) != a2a.ErrTaskNotFound {
			t.Error(err)
		}
	}
	write(t, s, hers, status("hers", a2a.TaskStateCompleted))
	write(t, s, his, status("his", a2a.TaskStateCompleted))
	if q := r1.take(t, 1)[0]; !strings.Contains(q.body, `"hers"`) {
		t.Error(q.body)
	}
	if q := r2.take(t, 1)[0]; !strings.Contains(q.body, `"his"`) {
		t.Error(q.body)
	}
	r1.quiet(t)
	r2.quiet(t)
}

func TestPages(t *testing.T) {
	s := memory()
	p := idlePush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	create(t, s, keyOf("t2"), nil)
	var want, got []string
	for i := range 7 {
		want = append(want, register(t, p, key, a2a.TaskPushNotificationConfig{ID: fmt.Sprintf("h%d", i), URL: "http://127.0.0.1:1"}))
	}
	var token string
	for pages := 1; ; pages++ {
		list, err := p.List(t.Context(), key, 3, token)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Configs {
			got = append(got, c.ID)
		}
		if pages == 1 {
			_, err := p.List(t.Context(), keyOf("t2"), 3, list.NextPageToken)
			wantField(t, err, "pageToken")
		}
		if token = list.NextPageToken; token == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"x", "h3", "AAAAAAAA", "%"} {
		_, err := p.List(t.Context(), key, 3, bad)
		wantField(t, err, "pageToken")
	}
}

func TestTooMany(t *testing.T) {
	s := memory()
	p := newPush(t, s, Options{})
	key := keyOf("t1")
	create(t, s, key, nil)
	c := func(i int) *a2a.TaskPushNotificationConfig {
		return &a2a.TaskPushNotificationConfig{ID: fmt.Sprintf("h%d", i), URL: "http://127.0.0.1:1"}
	}
	for i := range 10 {
		register(t, p, key, *c(i))
	}
	if _, err := p.Create(t.Context(), key, c(10)); code(err) != a2a.ErrResourceExhausted {
		t.Error(err)
	}
	if _, err := p.Prepare(t.Context(), key, c(10)); code(err) != a2a.ErrResourceExhausted {
		t.Error(err)
	}
	register(t, p, key, *c(3)) // replaces
	prepared(t, p, key, *c(3))
	if err := p.Delete(t.Context(), key, "h0"); err != nil {
		t.Error(err)
	}
	register(t, p, key, *c(10))
}

func TestRefusedConfigurations(t *testing.T) {
	s := memory()
	p := idlePush(t, s, Options{})
	create(t, s, keyOf("t1"), nil)
	auth := func(scheme, credentials string) *a2a.AuthenticationInfo {
		return &a2a.AuthenticationInfo{Scheme: scheme, Credentials: credentials}
	}
	for _, tt := range []struct {
		field string
		c     a2a.TaskPushNotificationConfig
	}{
		{"url", a2a.TaskPushNotificationConfig{}},
		{"url", a2a.TaskPushNotificationConfig{URL: "ftp://127.0.0.1"}},
		{"url", a2a.TaskPushNotificationConfig{URL: "http://169.254.169.254/"}},
		{"taskId", a2a.TaskPushNotificationConfig{TaskID: "t2"}},
		{"id", a2a.TaskPushNotificationConfig{ID: "a\x00"}},
		{"id", a2a.TaskPushNotificationConfig{ID: strings.Repeat("x", 129)}},
		{"token", a2a.TaskPushNotificationConfig{Token: "a\r\nHost: b"}},
		{"token", a2a.TaskPushNotificationConfig{Token: strings.Repeat("x", 4097)}},
		{"authentication.scheme", a2a.TaskPushNotificationConfig{Authentication: auth("", "c")}},
		{"authentication.scheme", a2a.TaskPushNotificationConfig{Authentication: auth("", "")}},
		{"authentication.scheme", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer x", "c")}},
		{"authentication.scheme", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer:", "c")}},
		{"authentication.scheme", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer\n", "c")}},
		{"authentication.credentials", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer", "")}},
		{"authentication.credentials", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer", " c")}},
		{"authentication.credentials", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer", "a\r\nX: b")}},
		{"authentication.credentials", a2a.TaskPushNotificationConfig{Authentication: auth("Bearer", strings.Repeat("x", 8193))}},
	} {
		if tt.c.URL == "" && tt.field != "url" {
			tt.c.URL = "http://127.0.0.1:1"
		}
		_, err := p.Create(t.Context(), keyOf("t1"), &tt.c)
		wantField(t, err, tt.field)
		_, err = p.Prepare(t.Context(), keyOf("t1"), &tt.c)
		wantField(t, err, tt.field)
	}
	if _, err := p.Create(t.Context(), keyOf("none"), &a2a.TaskPushNotificationConfig{URL: "http://127.0.0.1:1"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Error(err)
	}
	for _, a := range []*a2a.AuthenticationInfo{nil, auth("Basic", "dXNlcjpwYXNz"), auth("Digest", `username="x", realm="y"`), auth("x-own_scheme", "é")} {
		register(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{URL: "http://127.0.0.1:1", Authentication: a})
	}
}
