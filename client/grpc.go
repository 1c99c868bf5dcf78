package client

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/parley-a2a/parley/a2a"
)

// grpcOptions returns the options of a connection: it is tried again as often as a stream is, and a host that went
// away without a word is found out about.
func grpcOptions(opts *Options) []grpc.DialOption {
	return append([]grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: defaultTiming.first, Multiplier: 1.6, Jitter: 0.2, MaxDelay: defaultTiming.most,
			},
			MinConnectTimeout: connectTimeout,
		}),
		// Many servers end a connection whose client asks more often than every five minutes.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}),
	}, opts.GRPC...)
}

// unreachable reports whether a call found no connection. gRPC has no type for it, only words.
func unreachable(err error) bool {
	return errors.Is(err, ErrUnreachable) || saysGRPC(err, codes.Unavailable,
		"Error while dialing", "authentication handshake failed", "error reading server preface")
}

// transient reports whether a call that failed so may succeed when it is made again.
func transient(err error) bool {
	switch a2a.AsError(err).Code {
	case a2a.ErrUnavailable, a2a.ErrResourceExhausted, a2a.ErrRequestTimeout, a2a.ErrCanceled:
		return true
	case a2a.ErrInternal: // what gRPC makes of a stream that a proxy cut
		return saysGRPC(err, codes.Internal, "RST_STREAM", "without sending trailers")
	default:
		return false
	}
}

// saysGRPC reports whether the cause of err is a status that gRPC made itself, with any of the words in it.
func saysGRPC(err error, code codes.Code, words ...string) bool {
	var e *a2a.Error
	if !errors.As(err, &e) || e.Cause() == nil {
		return false
	}
	st, ok := status.FromError(e.Cause())
	if !ok || st.Code() != code || len(st.Details()) > 0 {
		return false
	}
	for _, w := range words {
		if strings.Contains(st.Message(), w) {
			return true
		}
	}
	return false
}
