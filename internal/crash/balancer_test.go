package crash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/internal/loopback"
)

// balancer gives each call to some host, whatever the one before went to. It knows nothing but who is to be left out, and
// that a host which takes no connection has got nothing of the call.
type balancer struct {
	addr    string
	targets []string
	through *http.Transport

	mu  sync.Mutex
	out map[string]bool // hosts that are to get no calls
}

// newBalancer listens for what goes to one of the targets: over HTTP/1, or, for gRPC, over HTTP/2 without TLS.
func newBalancer(t *testing.T, grpc bool, targets ...string) *balancer {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!grpc)
	protocols.SetUnencryptedHTTP2(grpc)
	b := &balancer{
		addr: loopback.Address(t), targets: targets, out: map[string]bool{},
		through: &http.Transport{Protocols: &protocols, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext},
	}
	l := loopback.Listen(t, b.addr)
	s := &http.Server{
		Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000},
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(&url.URL{Scheme: "http", Host: "any"})
				r.Out.Host = r.In.Host
			},
			Transport: b, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return b
}

// leaveOut has a host get no calls, or some again.
func (b *balancer) leaveOut(target string, out bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out[target] = out
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (res *http.Response, err error) {
	b.mu.Lock()
	var in []string
	for _, target := range b.targets {
		if !b.out[target] {
			in = append(in, target)
		}
	}
	b.mu.Unlock()
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil { // no call is a stream of requests
			return nil, err
		}
	}
	rand.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	err = errors.New("all hosts are left out")
	for _, target := range in {
		try := r.Clone(r.Context())
		try.URL.Host = target
		if r.Body != nil {
			try.Body = io.NopCloser(bytes.NewReader(body))
		}
		res, err = b.through.RoundTrip(try)
		var op *net.OpError
		if err == nil || !errors.As(err, &op) || op.Op != "dial" || r.Context().Err() != nil {
			return res, err
		}
	}
	return nil, err
}

// waitFor polls until ok, and reports false if that takes longer than most.
func waitFor(ctx context.Context, most time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
