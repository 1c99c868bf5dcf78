package push

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// ErrGone is what a Receiver's function returns when nothing more is wanted: the sender is answered 410, and gives the
// webhook up.
var ErrGone = errors.New("push: nothing more is wanted for this task")

// Handle takes one event of a task. An error has the sender try again, ErrGone has it stop. ctx ends when the
// sender does not wait any more. The entry has no generation: deliveries do not say it.
type Handle func(ctx context.Context, taskID string, e a2a.Entry) error

// ReceiverOptions say what a delivery must prove. At least one of Keys, Secrets, Token and Authorization is
// required, and each that is given must fit; of Keys and Secrets, any one.
type ReceiverOptions struct {
	// Keys are the senders' public keys, whpk_ and base64. More than one while keys change.
	Keys []string
	// Secrets are shared with the senders, whsec_ and base64.
	Secrets []string
	// Token is what the webhook was registered with as token.
	Token string
	// Authorization is the whole header, scheme and credentials, that the webhook was registered with.
	Authorization string
	// MaxBody is the size of a delivery, in bytes: 10 MiB.
	MaxBody int64
	// MaxIDs is how many ids of deliveries are remembered, those that came last: 100,000. A signed delivery can be
	// replayed for ten minutes at most, so it should be more than come in that time.
	MaxIDs int
}

const (
	maxSkew       = 5 * time.Minute // between the sender's clock and ours
	maxDeliveryID = 256             // bytes
	maxChallenge  = 128             // bytes
	maxSignatures = 16              // that one delivery carries
)

// Receiver is the handler behind a webhook's URL. It takes deliveries that prove themselves, each once, and hands
// them over one at a time for each task. It is safe for concurrent use.
type Receiver struct {
	handle  Handle
	keys    []ed25519.PublicKey
	secrets [][]byte
	token   string
	auth    string
	maxBody int64

	mu    sync.Mutex
	lanes map[string]*lane // tasks with deliveries on their way, by id
	seen  map[string]struct{}
	order []string // of seen, a ring
	first int      // of order, the oldest
	max   int
}

// lane lets one delivery of a task pass at a time.
type lane struct {
	turn  chan struct{} // full while one passes
	users int
}

// NewReceiver returns a receiver that hands events over to handle.
func NewReceiver(handle Handle, opts ReceiverOptions) (*Receiver, error) {
	if handle == nil {
		return nil, errors.New("push: no function to hand events to")
	}
	r := &Receiver{
		handle: handle, token: opts.Token, auth: opts.Authorization, maxBody: opts.MaxBody, max: opts.MaxIDs,
		lanes: map[string]*lane{}, seen: map[string]struct{}{},
	}
	for _, k := range opts.Keys {
		key, err := parsePublic(k)
		if err != nil {
			return nil, fmt.Errorf("push: Keys: %w", err)
		}
		r.keys = append(r.keys, key)
	}
	for _, s := range opts.Secrets {
		secret, err := parseSecret(s)
		if err != nil {
			return nil, fmt.Errorf("push: Secrets: %w", err)
		}
		r.secrets = append(r.secrets, secret)
	}
	if !r.signed() && r.token == "" && r.auth == "" {
		return nil, errors.New("push: a receiver without Keys, Secrets, Token and Authorization would believe anybody: give at least one")
	}
	if r.maxBody <= 0 {
		r.maxBody = 10 << 20
	}
	if r.max <= 0 {
		r.max = 100_000
	}
	return r, nil
}

func (r *Receiver) signed() bool { return len(r.keys)+len(r.secrets) > 0 }

// refusal is an answer that is not 2xx.
type refusal struct {
	status int
	text   string
}

// ServeHTTP implements http.Handler: 204 for a delivery that was taken, now or before, and the word of a challenge that
// proves itself like a delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if req.Method == http.MethodGet {
		r.echo(w, req)
		return
	}
	if no := r.receive(w, req); no != nil {
		http.Error(w, no.text, no.status)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// echo answers a challenge.
func (r *Receiver) echo(w http.ResponseWriter, req *http.Request) {
	word := only(req.Header, ChallengeHeader)
	no := r.checkSender(req)
	switch {
	case word == "":
		no = r.methodNotAllowed(w)
	case no != nil:
	case len(word) > maxChallenge || strings.ContainsFunc(word, notToken):
		no = &refusal{http.StatusBadRequest, ChallengeHeader + " must be one word of at most 128 bytes"}
	case r.signed() && !r.verify(req.Header, req.Header.Get(IDHeader), []byte(word)):
		no = unsigned()
	}
	if no != nil {
		http.Error(w, no.text, no.status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, word) //nolint:gosec // plain text, and notToken leaves none of what a page is made of
}

func unsigned() *refusal { return &refusal{http.StatusUnauthorized, "no signature fits"} }

func (r *Receiver) methodNotAllowed(w http.ResponseWriter) *refusal {
	w.Header().Set("Allow", http.MethodPost)
	return &refusal{http.StatusMethodNotAllowed, "deliveries are POST"}
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) *refusal {
	if no := r.checkHead(w, req); no != nil {
		return no
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.maxBody))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("at most %d bytes are taken", r.maxBody)}
	case err != nil:
		return &refusal{http.StatusBadRequest, "the body did not arrive"}
	}
	id := req.Header.Get(IDHeader)
	if r.signed() && !r.verify(req.Header, id, body) {
		return unsigned()
	}
	ev, err := a2a.ParseStreamResponse(body)
	if err != nil {
		return &refusal{http.StatusBadRequest, "not a StreamResponse: " + err.Error()}
	}
	return r.pass(req.Context(), taskOf(ev), id, a2a.NewEntry(0, ev))
}

// checkHead checks what does not need the body.
func (r *Receiver) checkHead(w http.ResponseWriter, req *http.Request) *refusal {
	if req.Method != http.MethodPost {
		return r.methodNotAllowed(w)
	}
	if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || media != "application/a2a+json" && media != "application/json" {
		return &refusal{http.StatusUnsupportedMediaType, "deliveries are application/a2a+json"}
	}
	return r.checkSender(req)
}

// checkSender checks what proves the sender and does not need the body.
func (r *Receiver) checkSender(req *http.Request) *refusal {
	if r.token != "" && !equal(only(req.Header, TokenHeader), r.token) {
		return &refusal{http.StatusUnauthorized, TokenHeader + " does not fit"}
	}
	if r.auth != "" && !sameAuthorization(only(req.Header, "Authorization"), r.auth) {
		return &refusal{http.StatusUnauthorized, "Authorization does not fit"}
	}
	if len(req.Header.Values(IDHeader)) > 1 || len(req.Header.Get(IDHeader)) > maxDeliveryID {
		return &refusal{http.StatusBadRequest, IDHeader + " must be one id of at most 256 bytes"}
	}
	if !r.signed() {
		return nil
	}
	if only(req.Header, IDHeader) == "" {
		return &refusal{http.StatusUnauthorized, "signed deliveries are wanted: " + IDHeader + ", " + TimestampHeader + " and " + SignatureHeader}
	}
	at, err := strconv.ParseInt(only(req.Header, TimestampHeader), 10, 64)
	if skew := time.Since(time.Unix(at, 0)); err != nil || skew > maxSkew || skew < -maxSkew {
		return &refusal{http.StatusUnauthorized, TimestampHeader + " is not within 5 minutes of now"}
	}
	return nil
}

// only returns the value of a header that is there once.
func only(h http.Header, name string) string {
	if v := h.Values(name); len(v) == 1 {
		return v[0]
	}
	return ""
}

// equal compares in a time that says nothing about the secret, not even its length.
func equal(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// sameAuthorization compares two values of Authorization. The scheme's letters may be of either case.
func sameAuthorization(got, want string) bool {
	gotScheme, gotRest, _ := strings.Cut(got, " ")
	wantScheme, wantRest, _ := strings.Cut(want, " ")
	return equal(gotRest, wantRest) && strings.EqualFold(gotScheme, wantScheme)
}

// verify reports whether one of the signatures is by one of the keys or secrets.
func (r *Receiver) verify(h http.Header, id string, body []byte) bool {
	content := signed(id, only(h, TimestampHeader), body)
	for i, s := range strings.Fields(only(h, SignatureHeader)) {
		if i == maxSignatures {
			break
		}
		if sig, ok := signatureOf(s, ed25519Prefix); ok {
			for _, k := range r.keys {
				if ed25519.Verify(k, content, sig) {
					return true
				}
			}
		}
		if sig, ok := signatureOf(s, hmacPrefix); ok {
			for _, secret := range r.secrets {
				if hmac.Equal(sig, mac(secret, content)) {
					return true
				}
			}
		}
	}
	return false
}

func signatureOf(s, prefix string) ([]byte, bool) {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return nil, false
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(text)
	return sig, err == nil
}

func taskOf(ev a2a.Event) string {
	switch ev := ev.(type) {
	case *a2a.Task:
		return ev.ID
	case *a2a.TaskStatusUpdateEvent:
		return ev.TaskID
	case *a2a.TaskArtifactUpdateEvent:
		return ev.TaskID
	case *a2a.Message:
		return ev.TaskID
	}
	return ""
}

// pass hands an event over when its turn comes, unless one of this id was taken before.
func (r *Receiver) pass(ctx context.Context, task, id string, e a2a.Entry) *refusal {
	l := r.enter(task)
	defer r.leave(task, l)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return &refusal{http.StatusServiceUnavailable, "an earlier delivery is still being taken"}
	}
	if r.taken(id) {
		return nil
	}
	switch err := r.handle(ctx, task, e); {
	case errors.Is(err, ErrGone):
		return &refusal{http.StatusGone, "nothing more is wanted"}
	case err != nil:
		return &refusal{http.StatusInternalServerError, "not taken: try again"}
	}
	r.take(id)
	return nil
}

func (r *Receiver) enter(task string) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[task]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		r.lanes[task] = l
	}
	l.users++
	return l
}

func (r *Receiver) leave(task string, l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(r.lanes, task)
	}
}

func (r *Receiver) taken(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.seen[id]
	return ok
}

// take remembers an id, in the place of the oldest when there are many.
func (r *Receiver) take(id string) {
	if id == "" { // a sender that gives none
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) < r.max {
		r.order = append(r.order, id)
	} else {
		delete(r.seen, r.order[r.first])
		r.order[r.first] = id
		r.first = (r.first + 1) % r.max
	}
	r.seen[id] = struct{}{}
}
