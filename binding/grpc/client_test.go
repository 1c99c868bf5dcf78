package grpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

func TestAddress(t *testing.T) {
	for target, want := range map[string]string{
		"agent.example:50051":           "agent.example:50051",
		"grpc://agent.example:50051":    "agent.example:50051",
		"http://agent.example:50051/":   "agent.example:50051",
		"https://agent.example":         "agent.example:443",
		"agent.example":                 "agent.example:443",
		"[::1]:7":                       "[::1]:7",
		"127.0.0.1:7":                   "127.0.0.1:7",
		"":                              "",
		"https://":                      "",
		"https://agent.example/a2a":     "",
		"https://agent.example?x=1":     "",
		"https://user@agent.example":    "",
		"unix:///socket":                "",
		"ftp://agent.example:1":         "",
		"agent.example:no":              "",
		"passthrough:///agent.example":  "",
		"dns:///agent.example:50051":    "",
		"https://agent.example#frag:80": "",
	} {
		got, err := address(target)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", target, got, err, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LocalHost:1": true,
		"[::ffff:127.0.0.1]:1": true,
		"128.0.0.1:1":          false, "0.0.0.0:1": false, "localhost.example:1": false, "127.0.0.1.example:1": false, "[::2]:1": false,
	} {
		if got := loopback(addr); got != want {
			t.Errorf("%s: got %v", addr, got)
		}
	}
}

// certificate returns one for agent.example, signed by itself.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"agent.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Beyond loopback there is TLS 1.3 with roots that are trusted, or nothing, whatever the prefix says.
func TestTLSBeyondLoopback(t *testing.T) {
	cert := certificate(t)
	svc := &fake{call: func(context.Context, op.Message) (any, error) { return &a2a.Task{ID: "1"}, nil }}
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	tests := []struct {
		name   string
		server *tls.Config // nil: plaintext
		opts   []grpc.DialOption
		want   string // of the cause; empty: it works
	}{
		{"plaintext", nil, nil, "first record does not look like a TLS handshake"},
		{"TLS 1.2", &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12}, nil, "protocol version"},
		{"TLS 1.3 of nobody", &tls.Config{Certificates: []tls.Certificate{cert}}, nil, "unknown authority"},
		{"TLS 1.3 by the caller's choice", &tls.Config{Certificates: []tls.Certificate{cert}}, []grpc.DialOption{
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13})),
		}, ""},
		{"TLS 1.3 with other roots", &tls.Config{Certificates: []tls.Certificate{cert}}, []grpc.DialOption{
			WithTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}),
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sopts := ServerOptions()
			if tt.server != nil {
				sopts = append(sopts, grpc.Creds(credentials.NewTLS(tt.server)))
			}
			addr := serve(t, NewHandler(svc, HandlerOptions{}).Register, sopts...)
			conn := dial(t, "http://agent.example:50051", append(tt.opts,
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", addr)
				}))...)
			_, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e, ok := errors.AsType[*a2a.Error](err)
			if !ok || e.Code != a2a.ErrUnavailable || !strings.Contains(e.Cause().Error(), tt.want) {
				t.Errorf("got %v, caused by %v", err, errors.Unwrap(err))
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	conn := dial(t, addr)
	for _, name := range []string{"GetTask", "SubscribeToTask"} {
		o := op.ByName(name)
		_, err := call(t.Context(), NewClient(conn), o, o.NewRequest())
		if !errors.Is(err, a2a.ErrUnavailable) || err.Error() != "the agent cannot be reached: connection refused" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// generated is a server of generated code with errors that are not ours.
type generated struct {
	pb.UnimplementedA2AServiceServer

	err error
	res *pb.SendMessageResponse
}

func (g *generated) SendMessage(context.Context, *pb.SendMessageRequest) (*pb.SendMessageResponse, error) {
	return g.res, g.err
}

func TestServersOfOthers(t *testing.T) {
	g := &generated{}
	conn := dial(t, serve(t, func(r grpc.ServiceRegistrar) { pb.RegisterA2AServiceServer(r, g) }))
	send := func() error {
		_, err := NewClient(conn).SendMessage(t.Context(), &a2a.SendMessageRequest{})
		return err
	}
	info := func(domain string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: domain}
	}
	withInfo := func(domain string) error {
		st, err := status.New(codes.Internal, "m").WithDetails(info(domain))
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, tt := range []struct {
		err  error
		want a2a.ErrorCode
	}{
		{withInfo(a2a.ErrorDomain), a2a.ErrTaskNotFound},
		{withInfo("example.com"), a2a.ErrInternal},
		{status.Error(codes.NotFound, "m"), a2a.ErrTaskNotFound},
		{status.Error(codes.Aborted, "m"), a2a.ErrInternal},
		{status.Error(codes.Canceled, "m"), a2a.ErrCanceled},
		{status.Error(codes.ResourceExhausted, "m"), a2a.ErrResourceExhausted},
		{errors.New("m"), a2a.ErrInternal},
	} {
		g.err = tt.err
		if err := send(); !errors.Is(err, tt.want) || err.Error() != "m" || errors.Is(err, context.Canceled) {
			t.Errorf("%v: got %v, want %v", tt.err, err, tt.want)
		}
	}
	g.err = nil
	for name, res := range map[string]*pb.SendMessageResponse{
		"nothing":      {},
		"unknown role": {Payload: &pb.SendMessageResponse_Message{Message: &pb.Message{Role: 7}}},
	} {
		g.res = res
		if err := send(); !errors.Is(err, a2a.ErrInvalidAgentResponse) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{}); !errors.Is(err, a2a.ErrMethodNotFound) {
		t.Errorf("not implemented: got %v", err)
	}
}

func TestRequestThatCannotBeSent(t *testing.T) {
	conn := dial(t, "127.0.0.1:1")
	_, err := NewClient(conn).CancelTask(t.Context(), &a2a.CancelTaskRequest{Metadata: a2a.Struct{"a": []byte("{")}})
	if !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("got %v", err)
	}
}
