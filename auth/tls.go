package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// ServerTLSOptions are the choices of [ServerTLS]. CertFile and KeyFile are required.
type ServerTLSOptions struct {
	CertFile, KeyFile string // PEM: the certificate with its chain, and its private key
	// ClientCAFile has the authorities whose client certificates are verified, in PEM. Empty: clients are not asked for one.
	ClientCAFile string
	// RequireClient refuses connections without a client certificate. Otherwise one may be left out, for callers that have
	// another credential.
	RequireClient bool
	// TLS12 lets TLS 1.2 be spoken. Otherwise it is 1.3 only.
	TLS12 bool
	Log   *slog.Logger // hears of a file that is wrong after a change; nil: slog.Default
}

// ServerTLS returns the TLS configuration of an HTTP or gRPC server. A change of any of the files is in effect for new
// connections within 5 seconds; what is wrong after a change is logged and not used.
func ServerTLS(opts ServerTLSOptions) (*tls.Config, error) {
	pair, err := watchPair(opts.Log, opts.CertFile, opts.KeyFile)
	if err != nil {
		return nil, err
	}
	if opts.RequireClient && opts.ClientCAFile == "" {
		return nil, errors.New("auth: RequireClient needs a ClientCAFile")
	}
	c := &tls.Config{
		MinVersion:     minVersion(opts.TLS12),
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil },
	}
	if opts.ClientCAFile == "" {
		return c, nil
	}
	pool, err := watch(opts.Log, func(files [][]byte) (*x509.CertPool, error) { return parsePool(files[0]) }, opts.ClientCAFile)
	if err != nil {
		return nil, err
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if opts.RequireClient {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.ClientCAs = pool.get()
	c.SessionTicketsDisabled = true // a resumed session would not be verified by authorities that changed
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, pool.get()
		return now, nil
	}
	return c, nil
}

// ClientTLSOptions are the choices of [ClientTLS]. The zero value is good.
type ClientTLSOptions struct {
	// CAFile has the authorities that may vouch for servers, in PEM, in place of the system's. It is read once.
	CAFile string
	// CertFile and KeyFile are the client's certificate with its chain and its private key, in PEM; empty: it has none. A
	// change is in effect for new connections within 5 seconds. Every server that asks gets to see the certificate, which
	// is no secret; one with another name is refused before.
	CertFile, KeyFile string
	TLS12             bool         // lets TLS 1.2 be spoken
	Log               *slog.Logger // hears of a file that is wrong after a change; nil: slog.Default
}

// ClientTLS returns the TLS configuration of a client.
func ClientTLS(opts ClientTLSOptions) (*tls.Config, error) {
	c := &tls.Config{MinVersion: minVersion(opts.TLS12)}
	if opts.CAFile != "" {
		b, err := os.ReadFile(opts.CAFile)
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		if c.RootCAs, err = parsePool(b); err != nil {
			return nil, fmt.Errorf("auth: %s: %w", opts.CAFile, err)
		}
	}
	if opts.CertFile == "" && opts.KeyFile == "" {
		return c, nil
	}
	pair, err := watchPair(opts.Log, opts.CertFile, opts.KeyFile)
	if err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.get(), nil }
	return c, nil
}

func minVersion(tls12 bool) uint16 {
	if tls12 {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

func watchPair(log *slog.Logger, certFile, keyFile string) (*watched[*tls.Certificate], error) {
	if certFile == "" || keyFile == "" {
		return nil, errors.New("auth: a certificate needs both a CertFile and a KeyFile")
	}
	return watch(log, func(files [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(files[0], files[1])
		if err != nil {
			return nil, errors.New("the certificate and the key are not PEM or do not belong together")
		}
		if time.Now().After(pair.Leaf.NotAfter) {
			return nil, errors.New("the certificate has expired: renew it")
		}
		return &pair, nil
	}, certFile, keyFile)
}

func parsePool(b []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("there is no certificate in PEM")
	}
	return pool, nil
}
