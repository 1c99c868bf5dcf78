package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Valid returns nil if the credential of the call in ctx is still good: it has not expired, was not revoked, and still
// vouches for the same caller. Otherwise the error is ErrUnauthenticated; ErrUnavailable says that it cannot be known
// now. An anonymous call is always valid. It does what Authenticate did, but counts no failures.
func (a *Authenticator) Valid(ctx context.Context) error {
	info := a2a.CallInfoFrom(ctx)
	if info == nil || info.Caller.Anonymous() {
		return nil
	}
	return a.valid(ctx, info)
}

func (a *Authenticator) valid(ctx context.Context, info *a2a.CallInfo) error {
	was := info.Caller
	if !was.Expiry.IsZero() && !a.now().Before(was.Expiry) {
		return refusedAs(errExpired)
	}
	id, err := a.identify(ctx, info)
	switch {
	case errors.Is(err, ErrNone):
		return refused("the credential is no longer accepted")
	case err != nil:
		return err
	case id.Tenant != was.Tenant || id.Issuer != was.Issuer || id.Subject != was.Subject:
		return refused("the credential is now somebody else's")
	}
	return nil
}

// Watch returns a context that ends when the credential of the call in ctx does: at its expiry, or at most 30 seconds
// after it was revoked. A credential that cannot be looked at, since its issuer is not there, is good for 15 minutes. The
// context's cause is then the ErrUnauthenticated error to end the call with; see [Ended]. The function stops the watch.
func (a *Authenticator) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	info := a2a.CallInfoFrom(ctx)
	if info == nil || info.Caller.Anonymous() {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{
		auth: a, ctx: ctx, cancel: cancel, checked: a.now(),
		info: &a2a.CallInfo{Binding: info.Binding, Header: info.Header, Peer: info.Peer, Caller: info.Caller},
	}
	w.arm()
	return ctx, w.stop
}

// endedError is the cause of a context that a watch ended.
type endedError struct{ error }

func (e endedError) Unwrap() error { return e.error }

// Ended returns the error to end a call with whose context, one by [Authenticator.Watch], ended with the credential;
// otherwise nil.
func Ended(ctx context.Context) error {
	if e, ok := errors.AsType[endedError](context.Cause(ctx)); ok {
		return e.error
	}
	return nil
}

type watcher struct {
	auth    *Authenticator
	ctx     context.Context
	cancel  context.CancelCauseFunc
	info    *a2a.CallInfo // a copy: the call's own is not for two goroutines
	checked time.Time     // the last time that the credential was found good

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// arm sets the timer to the next check or to the expiry, whichever comes first.
func (w *watcher) arm() {
	wait := w.auth.recheck
	if expiry := w.info.Caller.Expiry; !expiry.IsZero() {
		wait = max(0, min(wait, expiry.Sub(w.auth.now())))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer = time.AfterFunc(wait, w.check)
	}
}

func (w *watcher) check() {
	if w.ctx.Err() != nil {
		return
	}
	err := w.auth.valid(w.ctx, w.info)
	now := w.auth.now()
	switch {
	case err == nil:
		w.checked = now
	case errors.Is(err, a2a.ErrUnauthenticated), now.Sub(w.checked) >= uncheckedMost:
		e := a2a.AsError(err)
		if e.Code != a2a.ErrUnauthenticated {
			e = &a2a.Error{Code: a2a.ErrUnauthenticated, Message: "the credential could not be checked for 15 minutes"}
		}
		w.cancel(endedError{w.auth.challenge(e, true)})
		return
	}
	w.arm()
}

func (w *watcher) stop() {
	w.mu.Lock()
	w.stopped = true
	w.timer.Stop()
	w.mu.Unlock()
	w.cancel(context.Canceled)
}
