package parley_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/parley-a2a/parley/audit"
)

// TestForeignCertificate: a client certificate of an authority that does not count ends the connection, and the log and the
// audit log say so; a connection that is no TLS at all is for debugging.
func TestForeignCertificate(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate and a pool that has it
	defer certified.Close()
	var out, record lines
	h := startHost(t, hostOptions{})
	h.stop()
	h.cfg.Log = slog.New(slog.NewJSONHandler(&out, nil))
	heard, told := audit.New(slog.NewJSONHandler(&record, nil)).CertificateRefused, make(chan struct{}, 100)
	h.cfg.CertificateRefused = func(peer string) {
		heard(peer)
		told <- struct{}{}
	}
	h.cfg.TLS = &tls.Config{
		Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: x509.NewCertPool(),
	}
	h.start()
	pool := certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert // httptest's own
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &certified.TLS.Certificates[0], nil
	}}
	for binding, call := range map[string]func() error{
		"HTTP": func() error {
			tr := &http.Transport{TLSClientConfig: config}
			defer tr.CloseIdleConnections()
			res, err := (&http.Client{Transport: tr}).Get(strings.Replace(h.url, "http://", "https://", 1) + "/healthz")
			if err == nil {
				_ = res.Body.Close()
			}
			return err
		},
		"gRPC": func() error {
			conn, err := grpc.NewClient("passthrough:///"+h.grpc, grpc.WithTransportCredentials(credentials.NewTLS(config)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err = pb.NewA2AServiceClient(conn).GetTask(ctx, &pb.GetTaskRequest{Id: "x"})
			return err
		},
	} {
		out.reset()
		record.reset()
		if err := call(); err == nil {
			t.Errorf("%s: answered", binding)
		}
		select {
		case <-told:
		case <-time.After(10 * time.Second):
		}
		first, _, _ := strings.Cut(record.String(), "\n")
		var r struct{ Msg, Decision, Peer, Reason string }
		if err := json.Unmarshal([]byte(first), &r); err != nil || r.Msg != "authentication" || r.Decision != "denied" ||
			!strings.HasPrefix(r.Peer, "127.0.0.1:") || r.Reason != "client-certificate" {
			t.Errorf("%s: %v, audit %q", binding, err, record.String())
		}
		if s := out.String(); !strings.Contains(s, `"level":"WARN"`) || !strings.Contains(s, "a client certificate was refused") || !strings.Contains(s, r.Peer) {
			t.Errorf("%s: log %q", binding, s)
		}
	}
	out.reset()
	if res, err := http.Get(h.url + "/healthz"); err == nil {
		_ = res.Body.Close()
	}
	if strings.Contains(out.String(), "certificate") {
		t.Errorf("no TLS at all: %s", out.String())
	}
}

func (l *lines) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = bytes.Buffer{}
}
