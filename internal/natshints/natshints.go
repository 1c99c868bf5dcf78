// Package natshints carries the hints of nodes over NATS (core, without a stream: hints may be lost), so that the
// database does not have to.
package natshints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// subject is where the lines go. Nodes of several databases may share it: tasks have ids that occur once.
const subject = "parley.hints"

// Hints is a connection to a NATS server. It implements postgres.Hints.
type Hints struct{ conn *nats.Conn }

// Check returns an error for what are no URLs of NATS servers. It does not repeat them.
func Check(urls string) error {
	for s := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) || u.Hostname() == "" ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("this names no NATS server: want nats://HOST:PORT or tls://HOST:PORT, perhaps with USER:PASSWORD@ before HOST; several with commas")
		}
	}
	return nil
}

// Dial connects to the servers that a URL names (nats://…, tls://…; several with commas). A server that is away is tried
// again for as long as it takes, also one that refuses the password, and is in the log once: only what is wrong with the
// URL is an error, and it does not repeat the URL, which may hold a password.
func Dial(urls string, log *slog.Logger) (*Hints, error) {
	if err := Check(urls); err != nil { // the library takes any word for the name of a host
		return nil, err
	}
	var away atomic.Bool
	down := func(_ *nats.Conn, err error) {
		if err != nil && away.CompareAndSwap(false, true) {
			log.Warn("no hints go over NATS: this node and the others see each other's records up to a second later", "err", err)
		}
	}
	up := func(*nats.Conn) {
		if away.CompareAndSwap(true, false) {
			log.Info("hints go over NATS again")
		}
	}
	conn, err := nats.Connect(urls, nats.Name("parley"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second), nats.Timeout(5*time.Second), nats.NoEcho(), nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(down), nats.ReconnectErrHandler(down), nats.ConnectHandler(up), nats.ReconnectHandler(up))
	if err != nil {
		return nil, errors.New("the NATS server cannot be used: see that the URL is as nats://USER:PASSWORD@HOST:4222")
	}
	return &Hints{conn: conn}, nil
}

// Tell sends a line to the other nodes.
func (h *Hints) Tell(line string) error { return h.conn.Publish(subject, []byte(line)) }

// Hear calls f with the lines of the other nodes until ctx ends.
func (h *Hints) Hear(ctx context.Context, f func(line string)) error {
	sub, err := h.conn.Subscribe(subject, func(m *nats.Msg) { f(string(m.Data)) })
	if err != nil {
		return fmt.Errorf("natshints: %w", err)
	}
	<-ctx.Done()
	return sub.Unsubscribe()
}

// Close ends the connection.
func (h *Hints) Close() { h.conn.Close() }
