// Package httpx is what the two HTTP bindings have in common: the way of a request through a handler and of a
// call through a client, the limits, and the JSON of errors.
package httpx

import (
	"log/slog"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Options are the settings of a handler. The zero value of each is its default.
type Options struct {
	// Authenticate is asked about every request before its body is read. Nil: every caller is anonymous.
	Authenticate a2a.Authenticate
	// Prefix is the path below which the HTTP+JSON binding is mounted, such as "/a2a/rest". JSON-RPC has one path and needs
	// none.
	Prefix string
	// Log receives what callers do not read, such as the causes of internal errors. Nil: slog.Default().
	Log *slog.Logger
	// MaxBody is the size of a request body that is read, in bytes: 10 MiB. A larger one is answered with
	// ErrTooLarge.
	MaxBody int64
	// BodyTimeout is the time in which a request body must arrive: 30 s. A slower one is answered with
	// ErrRequestTimeout.
	BodyTimeout time.Duration
	// KeepAlive is the silence on a stream after which a comment is sent: 15 s. Negative: never.
	KeepAlive time.Duration
	// WriteTimeout is the time in which a reader must take a piece (256 KiB) of an answer or a stream: 30 s.
	// A slower one is dropped.
	WriteTimeout time.Duration
}

// withDefaults returns o with its zero values replaced.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 10 << 20
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 30 * time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	return o
}
