package limits

import (
	"context"
	"errors"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Together with an answer of Check that is 10 s old, the first two keep the end of a call under 30 s after a revocation.
const (
	checkEvery    = 10 * time.Second
	checkTime     = 10 * time.Second // for an answer of Check
	uncheckedMost = 15 * time.Minute // that a call lasts while Check cannot tell
)

// endedError is the cause of a context that ended with a credential.
type endedError struct{ error }

var (
	errExpired   = over("the credential has expired: get a new one, and go on with SubscribeToTask or GetTask")
	errRevoked   = over("the credential is no longer accepted")
	errUnchecked = over("the credential could not be checked for 15 minutes: call again")
)

func over(why string) *endedError {
	return &endedError{&a2a.Error{Code: a2a.ErrUnauthenticated, Message: why}}
}

// ended returns the error with which to end a call whose context has ended with its credential, otherwise nil.
func ended(ctx context.Context) error {
	if e, ok := errors.AsType[*endedError](context.Cause(ctx)); ok {
		return e.error
	}
	return nil
}

// watch returns a context that ends when the credential of the call does, see [ended].
func (s *service) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	info := a2a.CallInfoFrom(ctx)
	if info == nil || info.Caller.Anonymous() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	if s.check != nil {
		known := time.Now() // by whoever authenticated the call
		asked := *info      // the call's own is not for two goroutines
		timer := time.AfterFunc(checkEvery, func() { s.recheck(a2a.WithCallInfo(ctx, &asked), cancel, known) })
		stop = func() {
			timer.Stop()
			cancel(nil)
		}
	}
	if info.Caller.Expiry.IsZero() {
		return ctx, stop
	}
	ctx, expired := context.WithDeadlineCause(ctx, info.Caller.Expiry, errExpired)
	return ctx, func() {
		expired()
		stop()
	}
}

// recheck asks about a credential until its call has ended, or ends it.
func (s *service) recheck(ctx context.Context, cancel context.CancelCauseFunc, known time.Time) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		begin := time.Now()
		err := s.ask(ctx)
		switch {
		case err == nil:
			known = begin
		case errors.Is(err, a2a.ErrUnauthenticated):
			cancel(&endedError{err}) // in Check's own words, with its challenge
			return
		case errors.Is(err, a2a.ErrPermissionDenied):
			cancel(errRevoked)
			return
		case time.Since(known) >= uncheckedMost:
			cancel(errUnchecked)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (s *service) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return s.check(ctx)
}
