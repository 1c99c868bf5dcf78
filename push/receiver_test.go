package push

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// testKey is a key whose seed is this letter 32 times.
func testKey(letter string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(letter, ed25519.SeedSize)))
}

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The example of the Standard Webhooks specification's reference implementations.
func TestSharedSecretVector(t *testing.T) {
	secret, err := parseSecret(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	s, h := signer{secret: secret}, http.Header{}
	s.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got, want := h.Get(SignatureHeader), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The second test vector of RFC 8032, 7.1, as keys.
func TestKeysAsText(t *testing.T) {
	seed := []byte{
		0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11, 0x4e, 0x0f,
		0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb,
	}
	if got, want := PublicKey(ed25519.NewKeyFromSeed(seed)), "whpk_PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "webhook.key")
	keys := make([]ed25519.PrivateKey, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = KeyFile(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if !k.Equal(keys[0]) {
			t.Error("those who came first have different keys")
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Error("left over:", files, err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mixed := privatePrefix + base64.StdEncoding.EncodeToString(slices.Concat(keys[0][:32], testKey("k")[32:]))
	for _, bad := range []string{mixed, "", "whsk_", "whsk_AAAA", string(good[:len(good)-9]), strings.Replace(string(good), "whsk_", "whsec_", 1), strings.Replace(string(good), string(good[8]), "!", 1)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := KeyFile(path); err == nil || strings.Contains(err.Error(), string(good[5:20])) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := KeyFile(filepath.Join(t.TempDir(), "none", "key")); err == nil {
		t.Error("a folder that is not there was taken")
	}
}

// inbox is what a receiver handed over.
type inbox struct {
	mu     sync.Mutex
	tasks  []string
	events []string
	err    error
}

func (b *inbox) handle(_ context.Context, task string, e a2a.Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	b.tasks, b.events = append(b.tasks, task), append(b.events, string(e.JSON()))
	return nil
}

func (b *inbox) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events)
}

func newReceiver(t testing.TB, h Handle, opts ReceiverOptions) *Receiver {
	t.Helper()
	r, err := NewReceiver(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const eventBody = `{"statusUpdate":{"taskId":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`

// delivery of a body that the signer signed.
func delivered(s *signer, id string, at time.Time, body string) *http.Request {
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hook", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/a2a+json")
	s.sign(req.Header, id, at, []byte(body))
	return req
}

func answerOf(r *Receiver, req *http.Request) int {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Code
}

// What a Push sends, a Receiver takes: over real sockets, with every proof at once.
func TestPushToReceiver(t *testing.T) {
	key := testKey("k")
	var in inbox
	r := newReceiver(t, in.handle, ReceiverOptions{
		Keys: []string{PublicKey(testKey("o")), PublicKey(key)}, Secrets: []string{testSecret}, Token: "tok", Authorization: "bearer c",
	})
	srv := httptest.NewServer(r)
	defer srv.Close()
	s := memory()
	p := newPush(t, s, Options{Key: key, Secret: testSecret})
	k := keyOf("t1")
	h := prepared(t, p, keyOf("t1"), a2a.TaskPushNotificationConfig{
		URL: srv.URL, Token: "tok", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "c"},
	})
	want := bodies(create(t, s, k, h))
	for i := range 50 {
		want = append(want, bodies(write(t, s, k, chunk("t1", i)))...)
	}
	want = append(want, bodies(write(t, s, k, status("t1", a2a.TaskStateCompleted)))...)
	hookWhen(t, s, k, h.Config.ID, done)
	if got := strings.Join(in.events, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestReceiverRefuses(t *testing.T) {
	good := &signer{key: testKey("k")}
	now := time.Now()
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		change func(r *http.Request)
		body   string
		want   int
	}{
		"nothing wrong":      {nil, eventBody, 204},
		"plain JSON":         {set("Content-Type", "application/json; charset=utf-8"), eventBody, 204},
		"one of two fits":    {func(r *http.Request) { r.Header.Set(SignatureHeader, "v1a,AAAA "+r.Header.Get(SignatureHeader)) }, eventBody, 204},
		"GET":                {func(r *http.Request) { r.Method = http.MethodGet }, eventBody, 405},
		"a form":             {set("Content-Type", "text/plain"), eventBody, 415},
		"no media type":      {func(r *http.Request) { r.Header.Del("Content-Type") }, eventBody, 415},
		"no token":           {func(r *http.Request) { r.Header.Del(TokenHeader) }, eventBody, 401},
		"another token":      {set(TokenHeader, "tokk"), eventBody, 401},
		"two tokens":         {func(r *http.Request) { r.Header.Add(TokenHeader, "tok") }, eventBody, 401},
		"no authorization":   {func(r *http.Request) { r.Header.Del("Authorization") }, eventBody, 401},
		"another scheme":     {set("Authorization", "Basic c"), eventBody, 401},
		"another credential": {set("Authorization", "Bearer C"), eventBody, 401},
		"no id":              {func(r *http.Request) { r.Header.Del(IDHeader) }, eventBody, 401},
		"another id":         {set(IDHeader, "i2"), eventBody, 401},
		"two ids":            {func(r *http.Request) { r.Header.Add(IDHeader, "i1") }, eventBody, 400},
		"a long id":          {set(IDHeader, strings.Repeat("i", 257)), eventBody, 400},
		"no time":            {func(r *http.Request) { r.Header.Del(TimestampHeader) }, eventBody, 401},
		"another time":       {set(TimestampHeader, strconv.FormatInt(now.Unix()+1, 10)), eventBody, 401},
		"a time of words":    {set(TimestampHeader, now.Format(time.RFC3339)), eventBody, 401},
		"the end of time":    {set(TimestampHeader, "9223372036854775807"), eventBody, 401},
		"no signature":       {func(r *http.Request) { r.Header.Del(SignatureHeader) }, eventBody, 401},
		"a cut signature":    {func(r *http.Request) { r.Header.Set(SignatureHeader, r.Header.Get(SignatureHeader)[:40]) }, eventBody, 401},
		"another version": {func(r *http.Request) {
			r.Header.Set(SignatureHeader, strings.Replace(r.Header.Get(SignatureHeader), "v1a", "v1", 1))
		}, eventBody, 401},
		"another key":      {func(r *http.Request) { (&signer{key: testKey("x")}).sign(r.Header, "i1", now, []byte(eventBody)) }, eventBody, 401},
		"many signatures":  {set(SignatureHeader, strings.Repeat("v1a,AAAA ", 1000)), eventBody, 401},
		"stale":            {func(r *http.Request) { good.sign(r.Header, "i1", now.Add(-6*time.Minute), []byte(eventBody)) }, eventBody, 401},
		"from the future":  {func(r *http.Request) { good.sign(r.Header, "i1", now.Add(6*time.Minute), []byte(eventBody)) }, eventBody, 401},
		"not JSON":         {nil, "{", 400},
		"trailing bytes":   {nil, eventBody + "x", 400},
		"two keys":         {nil, `{"task":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}},"message":{"messageId":"m","role":"ROLE_AGENT","parts":[]}}`, 400},
		"a duplicate name": {nil, strings.Replace(eventBody, `"contextId"`, `"taskId":"t2","contextId"`, 1), 400},
		"an empty body":    {nil, "", 400},
		"a large body":     {nil, eventBody + strings.Repeat(" ", 1000), 413},
	} {
		t.Run(name, func(t *testing.T) {
			var in inbox
			r := newReceiver(t, in.handle, ReceiverOptions{Keys: []string{PublicKey(good.key)}, Token: "tok", Authorization: "Bearer c", MaxBody: 1000})
			req := delivered(good, "i1", now, tt.body)
			req.Header.Set(TokenHeader, "tok")
			req.Header.Set("Authorization", "Bearer c")
			if tt.change != nil {
				tt.change(req)
			}
			if got := answerOf(r, req); got != tt.want || (in.len() == 1) != (tt.want == 204) {
				t.Errorf("answered %d, want %d; %d events were handed over", got, tt.want, in.len())
			}
		})
	}
}

// A body that was changed on the way fits no signature (docs/threats.md, B5).
func TestChangedBody(t *testing.T) {
	for _, s := range []*signer{{key: testKey("k")}, {secret: []byte(strings.Repeat("s", 24))}} {
		var in inbox
		r := newReceiver(t, in.handle, ReceiverOptions{
			Keys: []string{PublicKey(testKey("k"))}, Secrets: []string{"whsec_c3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nz"},
		})
		req := delivered(s, "i1", time.Now(), eventBody)
		forged := delivered(s, "i1", time.Now(), strings.Replace(eventBody, "WORKING", "COMPLETED", 1))
		forged.Header = req.Header.Clone()
		if got := answerOf(r, forged); got != 401 || in.len() != 0 {
			t.Errorf("answered %d, handed over %v", got, in.events)
		}
		if got := answerOf(r, req); got != 204 || in.len() != 1 {
			t.Errorf("answered %d", got)
		}
	}
}

// A delivery is handed over once, also when many come at the same time; one that failed is handed over again.
func TestDuplicates(t *testing.T) {
	var in inbox
	s := &signer{key: testKey("k")}
	r := newReceiver(t, in.handle, ReceiverOptions{Keys: []string{PublicKey(s.key)}})
	in.fail(errors.New("the disk is full"))
	if got := answerOf(r, delivered(s, "i1", time.Now(), eventBody)); got != 500 {
		t.Errorf("answered %d to what was not taken", got)
	}
	in.fail(fmt.Errorf("no: %w", ErrGone))
	if got := answerOf(r, delivered(s, "i1", time.Now(), eventBody)); got != 410 {
		t.Errorf("answered %d to what is not wanted", got)
	}
	in.fail(nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if got := answerOf(r, delivered(s, "i1", time.Now().Add(time.Duration(i)*time.Second), eventBody)); got != 204 {
				t.Errorf("answered %d", got)
			}
		})
	}
	wg.Wait()
	if in.len() != 1 {
		t.Errorf("handed over %d times", in.len())
	}
	if len(r.lanes) != 0 {
		t.Errorf("%d lanes are left", len(r.lanes))
	}
}

// One task's deliveries are handed over one at a time; another task's do not wait for them.
func TestLanes(t *testing.T) {
	s := &signer{key: testKey("k")}
	var now atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(_ context.Context, task string, _ a2a.Entry) error {
		if task != "t1" {
			return nil
		}
		if now.Add(1) > 1 {
			t.Error("two at once")
		}
		defer now.Add(-1)
		select {
		case begun <- struct{}{}:
			<-release
		case <-release:
		}
		return nil
	}, ReceiverOptions{Keys: []string{PublicKey(s.key)}})
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() { answerOf(r, delivered(s, fmt.Sprint("i", i), time.Now(), eventBody)) })
	}
	<-begun
	if got := answerOf(r, delivered(s, "other", time.Now(), strings.Replace(eventBody, "t1", "t2", 1))); got != 204 {
		t.Errorf("answered %d", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := answerOf(r, delivered(s, "i9", time.Now(), eventBody).WithContext(gone)); got != 503 {
		t.Errorf("a sender that went away got %d", got)
	}
	close(release)
	wg.Wait()
}

// A handler that panics leaves the task's next deliveries their turn.
func TestHandlerPanics(t *testing.T) {
	s := &signer{key: testKey("k")}
	broken := true
	r := newReceiver(t, func(context.Context, string, a2a.Entry) error {
		if broken {
			panic("broken")
		}
		return nil
	}, ReceiverOptions{Keys: []string{PublicKey(s.key)}})
	func() {
		defer func() { _ = recover() }()
		answerOf(r, delivered(s, "i1", time.Now(), eventBody))
	}()
	broken = false
	if got := answerOf(r, delivered(s, "i1", time.Now(), eventBody)); got != 204 {
		t.Errorf("answered %d", got)
	}
}

func TestIDsAreBounded(t *testing.T) {
	var in inbox
	s := &signer{key: testKey("k")}
	r := newReceiver(t, in.handle, ReceiverOptions{Keys: []string{PublicKey(s.key)}, MaxIDs: 3})
	for i := range 10 {
		for range 2 {
			answerOf(r, delivered(s, fmt.Sprint("i", i), time.Now(), eventBody))
		}
	}
	if in.len() != 10 || len(r.seen) != 3 || len(r.order) != 3 {
		t.Errorf("handed over %d, remembered %d and %d", in.len(), len(r.seen), len(r.order))
	}
	for i := 7; i < 10; i++ {
		answerOf(r, delivered(s, fmt.Sprint("i", i), time.Now(), eventBody))
	}
	if in.len() != 10 {
		t.Error("one of the last ids was forgotten")
	}
}

func TestNewReceiverRefuses(t *testing.T) {
	handle := new(inbox).handle
	for _, opts := range []ReceiverOptions{
		{},
		{Keys: []string{"whpk_AAAA"}},
		{Keys: []string{testSecret}},
		{Secrets: []string{"whsec_AAAA"}},
		{Secrets: []string{"secret"}},
	} {
		if _, err := NewReceiver(handle, opts); err == nil {
			t.Errorf("NewReceiver(%+v) took it", opts)
		}
	}
	if _, err := NewReceiver(nil, ReceiverOptions{Token: "t"}); err == nil {
		t.Error("no function was taken")
	}
}

// FuzzReceiver holds that nothing that lacks a signature is handed over, and that nothing is handed over that is
// not exactly one event.
func FuzzReceiver(f *testing.F) {
	key := testKey("k")
	f.Add("i1", "v1a,AAAA", "1614265330", "application/a2a+json", []byte(eventBody), true)
	f.Add("i1", "v1,AAAA v1a,", "", "application/json", []byte(`{"task":{}}`), false)
	f.Add("", "", "-1", "text/plain", []byte(`{"message":{"messageId":"m","parts":[{"data":[1,{"a":null}]}]}}`), true)
	f.Fuzz(func(t *testing.T, id, signature, at, media string, body []byte, sign bool) {
		handed := 0
		r := newReceiver(t, func(_ context.Context, _ string, e a2a.Entry) error {
			handed++
			if _, err := a2a.ParseStreamResponse(e.JSON()); err != nil {
				t.Errorf("handed over what cannot be read: %v", err)
			}
			return nil
		}, ReceiverOptions{Keys: []string{PublicKey(key)}, MaxBody: 4096})
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		req.Header.Set("Content-Type", media)
		if sign {
			(&signer{key: key}).sign(req.Header, id, time.Now(), body)
		} else {
			req.Header.Set(IDHeader, id)
			req.Header.Set(TimestampHeader, at)
			req.Header.Set(SignatureHeader, signature)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if (w.Code == http.StatusNoContent) != (handed == 1) || handed == 1 && !sign {
			t.Errorf("answered %d after %d events; signed: %v", w.Code, handed, sign)
		}
	})
}
