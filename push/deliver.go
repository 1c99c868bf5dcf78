package push

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/netguard"
	"github.com/parley-a2a/parley/taskstore"
)

const (
	// batch is how many entries a turn sends at most. So many are repeated at most after a crash.
	batch = 16
	// turnTime is how long a turn may take before it sends no more, records what was accepted and gives way.
	turnTime = time.Second
	// promptTime is how long an answer may take of an origin that counts as a good one.
	promptTime = 2 * time.Second
	// maxAnswer is how much of an answer's body is read, so that its connection can be used again.
	maxAnswer = 4 << 10

	firstBackoff  = time.Second // doubled by every failure in a row
	maxBackoff    = 5 * time.Minute
	maxRetryAfter = time.Hour
)

// turn sends the next entries of the task's log.
func (p *Push) turn(ctx context.Context, d *delivery) verdict {
	h := &d.hook
	if h.Done { // what could not be recorded before
		return p.record(d, finished)
	}
	still, err := p.still(ctx, d)
	if err == nil && !still {
		return finished
	}
	var events []a2a.Entry
	var full bool
	if err == nil {
		events, full, err = p.events(ctx, h)
	}
	switch {
	case errors.Is(err, taskstore.ErrNotFound):
		return finished
	case err != nil:
		return p.storeFailed(ctx, d, "read the task", err)
	}
	if len(events) > 0 && p.mustProve(d) {
		if v, ok := p.prove(ctx, d); !ok {
			return v
		}
	}
	v, sent, start := caughtUp, 0, time.Now()
	if full {
		v = more
	}
	for i := range events {
		if p.ends() {
			v = later
			break
		}
		if sent > 0 && time.Since(start) > turnTime || !p.allowed(d.origin) {
			v = more
			break
		}
		a := p.attempt(ctx, d, &events[i])
		if !a.accepted() {
			if ctx.Err() == nil {
				return p.record(d, p.failed(d, a))
			}
			v = later // broken off: the webhook was removed, or the host shuts down
			break
		}
		p.accepted(d.origin, a.took)
		h.Delivered, h.Begun, h.Attempts, h.Failure, h.Due = events[i].Generation, true, 0, "", time.Time{}
		h.Done = ends(events[i].Event)
		sent++
	}
	if sent == 0 {
		return v
	}
	return p.record(d, v)
}

// mustProve reports whether a receiver must show that it wants deliveries before it gets any.
func (p *Push) mustProve(d *delivery) bool { return p.opts.Challenge && !d.hook.Begun && !d.proven }

// prove challenges a receiver. If it does not echo the challenge, nothing is sent and the turn ends with the verdict.
func (p *Push) prove(ctx context.Context, d *delivery) (v verdict, ok bool) {
	switch {
	case p.ends():
		return later, false
	case !p.allowed(d.origin):
		return more, false
	}
	a := p.challenge(ctx, d)
	switch {
	case a.accepted():
		p.accepted(d.origin, a.took)
		d.proven = true
		return 0, true
	case ctx.Err() != nil:
		return later, false
	}
	return p.record(d, p.failed(d, a)), false
}

// ends reports whether the host shuts down.
func (p *Push) ends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

// allowed takes what the limit of unproven origins allows.
func (p *Push) allowed(o *origin) bool {
	if o.proven.Load() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit(o.host).Allow()
}

// accepted notes that an origin answered 2xx.
func (p *Push) accepted(o *origin, took time.Duration) {
	o.good.Store(took <= promptTime)
	o.failed.Store(took > promptTime)
	if !o.proven.Swap(true) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.offer(o) // it need not wait for the limit any more
		p.schedule()
	}
}

// events returns what follows for the receiver, at most a batch, and whether there may be more.
func (p *Push) events(ctx context.Context, h *taskstore.Webhook) (out []a2a.Entry, full bool, err error) {
	if !h.Begun {
		out, err = p.snapshot(ctx, h.Key, h.Delivered)
		return out, true, err
	}
	records, err := p.store.Entries(ctx, h.Key, h.Delivered, batch)
	if errors.Is(err, taskstore.ErrTrimmed) {
		out, err = p.snapshot(ctx, h.Key, 0)
		return out, true, err
	}
	if err != nil {
		return nil, false, err
	}
	for i := range records {
		out = append(out, records[i].Entry)
	}
	return out, len(records) == batch, nil
}

// snapshot returns the Task as of a generation, or as it is now where the log does not go back there.
func (p *Push) snapshot(ctx context.Context, key taskstore.Key, at int64) ([]a2a.Entry, error) {
	snap, err := p.store.Task(ctx, key, at)
	if errors.Is(err, taskstore.ErrTrimmed) {
		snap, err = p.store.Task(ctx, key, 0)
	}
	if err != nil {
		return nil, err
	}
	return []a2a.Entry{a2a.NewEntry(snap.Generation, snap.Task)}, nil
}

// ends reports whether an event is a task's last.
func ends(ev a2a.Event) bool {
	switch ev := ev.(type) {
	case *a2a.Task:
		return ev.Status.State.Terminal()
	case *a2a.TaskStatusUpdateEvent:
		return ev.Status.State.Terminal()
	case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
	}
	return false
}

// record writes down how far the delivery has come, and returns the verdict with which the turn ends.
func (p *Push) record(d *delivery, v verdict) verdict {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), recordTime)
	defer cancel()
	_, err := p.store.Commit(ctx, taskstore.Change{Key: d.key, Delivered: &d.hook})
	switch {
	case errors.Is(err, taskstore.ErrConflict), errors.Is(err, taskstore.ErrNotFound): // registered anew, or gone
		return finished
	case err != nil:
		return p.storeFailed(ctx, d, "record what was delivered", err)
	case d.hook.Done:
		return finished
	}
	return v
}

// storeFailed has the turn taken again a little later. The receiver is not to blame.
func (p *Push) storeFailed(ctx context.Context, d *delivery, what string, err error) verdict {
	if ctx.Err() == nil {
		p.log.Error("the store failed a webhook", "operation", what, "task", d.key.Task, "webhook", d.id, "err", err)
	}
	if due := time.Now().Add(storeRetry); d.hook.Due.Before(due) {
		d.hook.Due = due
	}
	return later
}

// answer is what came of an attempt.
type answer struct {
	status     int // 0: none
	retryAfter time.Duration
	took       time.Duration
	failure    string // in words of our own: what the receiver says may repeat its credentials
}

func (a *answer) accepted() bool { return a.status >= 200 && a.status < 300 }

// attempt sends one event.
func (p *Push) attempt(ctx context.Context, d *delivery, e *a2a.Entry) answer {
	start := time.Now()
	actx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	a := p.post(actx, d, e)
	a.took = time.Since(start)
	if ctx.Err() == nil {
		p.meters.attempt(a)
	}
	return a
}

func (p *Push) post(ctx context.Context, d *delivery, e *a2a.Entry) answer {
	body := e.JSON()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.hook.Config.URL, bytes.NewReader(body))
	if err != nil {
		return answer{failure: "the URL cannot be requested"}
	}
	req.Header.Set("Content-Type", "application/a2a+json")
	// The receiver tells a repetition by the id, so a connection that was closed while idle is replaced. The
	// header itself is not sent.
	req.Header["Idempotency-Key"] = nil
	a, _ := p.send(req, d, e.Generation, body)
	return a
}

// challenge asks a receiver to echo a random word: accepted is the answer of one that did. It is told by the same
// headers as with a delivery who asks, the word being what is signed.
func (p *Push) challenge(ctx context.Context, d *delivery) answer {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.hook.Config.URL, nil)
	if err != nil {
		return answer{failure: "the URL cannot be requested"}
	}
	word := rand.Text()
	req.Header.Set(ChallengeHeader, word)
	a, echo := p.send(req, d, 0, []byte(word))
	a.took = time.Since(start)
	switch {
	case a.accepted() && string(bytes.TrimSpace(echo)) != word:
		a = answer{failure: "it did not echo the challenge"}
	case a.status != 0 && !a.accepted():
		a.failure = "challenged, " + a.failure
	}
	return a
}

// send sends a request with the headers by which a receiver knows the sender, and returns the beginning of what it
// answers.
func (p *Push) send(req *http.Request, d *delivery, generation int64, signed []byte) (answer, []byte) {
	c, header := d.hook.Config, req.Header
	header.Set("User-Agent", "parley")
	if a := c.Authentication; a != nil {
		header.Set("Authorization", a.Scheme+" "+a.Credentials)
	}
	if c.Token != "" {
		header.Set(TokenHeader, c.Token)
	}
	p.signer.sign(header, d.registration+"-"+strconv.FormatInt(generation, 10), time.Now(), signed)

	res, err := p.transport.RoundTrip(req)
	if err != nil {
		return answer{failure: reason(err)}, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	a := answer{status: res.StatusCode}
	if !a.accepted() {
		a.failure = "it answered " + strconv.Itoa(a.status)
		if a.status >= 300 && a.status < 400 {
			a.failure += ", and redirects are not followed"
		}
		a.retryAfter = retryAfter(res.Header.Get("Retry-After"))
	}
	return a, body
}

// reason returns why no answer came, without a word of the receiver's.
func reason(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var errno syscall.Errno
	var op *net.OpError
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return "its address is not public"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return "it did not answer in time"
	case errors.As(err, &dns):
		return "its name leads to no address"
	case errors.As(err, &cert):
		return "its certificate was not accepted"
	case errors.As(err, &errno):
		return "no connection: " + errno.Error()
	}
	return "the connection ended, or what came was not HTTP"
}

// retryAfter returns how long the receiver asks to wait (RFC 9110, 10.2.3), 0 if it does not say.
func retryAfter(value string) time.Duration {
	if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if t, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(t), 0), maxRetryAfter)
	}
	return 0
}

// failed notes a failure: when to try again, or that the receiver is given up.
func (p *Push) failed(d *delivery, a answer) verdict {
	h := &d.hook
	d.origin.good.Store(false)
	d.origin.failed.Store(true)
	h.Attempts++
	h.Failure = a.failure
	switch {
	case a.status == http.StatusGone:
		h.Failure = "it answered 410: it wants no more"
	case h.Attempts >= p.opts.MaxFailures:
		h.Failure = fmt.Sprintf("%d attempts in a row failed, the last one: %s", h.Attempts, a.failure)
	default:
		h.Due = time.Now().Add(max(backoff(h.Attempts), a.retryAfter))
		p.log.Debug("a webhook did not take an event", "task", d.key.Task, "webhook", d.id, "origin", d.origin.name,
			"attempts", h.Attempts, "failure", h.Failure, "due", h.Due)
		return later
	}
	h.Done = true
	p.meters.gaveUp()
	p.log.Warn("a webhook was given up", "task", d.key.Task, "webhook", d.id, "origin", d.origin.name, "failure", h.Failure)
	return finished
}

// backoff returns how long to wait after so many failures in a row: any time up to a bound that doubles.
func backoff(failures int) time.Duration {
	limit := maxBackoff
	if n := failures - 1; n < 9 {
		limit = min(limit, firstBackoff<<n)
	}
	return mathrand.N(limit + 1) //nolint:gosec // to spread attempts needs no secret numbers
}
