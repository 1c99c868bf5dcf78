package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/parley-a2a/parley/a2a"
)

// CertificateIssuer is the Issuer of callers with a client certificate.
const CertificateIssuer = "mtls"

// CertificateOptions are the choices of [NewCertificates].
type CertificateOptions struct {
	// Allow says what a certificate that one of the server's client CAs signed may do, or that it may not call at all. Nil:
	// every one may call, without tenant or scopes.
	Allow  func(subject string, cert *x509.Certificate) (tenant string, scopes []string, ok bool)
	Scheme string // the name in the card; default mtls
}

// Certificates is the [Method] for client certificates (mutual TLS). The server's TLS configuration asks for and verifies
// them, see [ServerTLS]; for HTTP its handler must be one by [KeepCertificate].
//
// The caller's Subject is the certificate's first URI (such as a SPIFFE ID), else its first DNS name, else its first
// e-mail address, in its subject alternative names, each with its kind in front, else its distinguished name.
type Certificates struct {
	opts CertificateOptions
	now  func() time.Time
}

// NewCertificates returns the method.
func NewCertificates(opts CertificateOptions) *Certificates {
	opts.Scheme = cmp.Or(opts.Scheme, "mtls")
	return &Certificates{opts: opts, now: time.Now}
}

// Header implements [Method]: the certificate is the connection's.
func (*Certificates) Header() string { return "" }

// Identify implements [Method].
func (c *Certificates) Identify(ctx context.Context, _ *a2a.CallInfo) (Identity, error) {
	state := connection(ctx)
	if state == nil || len(state.PeerCertificates) == 0 {
		return Identity{}, ErrNone
	}
	if len(state.VerifiedChains) == 0 {
		return Identity{}, refused("the client certificate is not signed by an authority that counts here")
	}
	cert := state.PeerCertificates[0]
	if !c.now().Before(cert.NotAfter) {
		return Identity{}, refusedAs(errExpired)
	}
	sum := sha256.Sum256(cert.Raw)
	id := Identity{
		Caller:     a2a.Caller{Issuer: CertificateIssuer, Subject: subjectOf(cert), Expiry: cert.NotAfter},
		Credential: hex.EncodeToString(sum[:]),
	}
	if c.opts.Allow != nil {
		var ok bool
		if id.Tenant, id.Scopes, ok = c.opts.Allow(id.Subject, cert); !ok {
			return Identity{}, refused("the holder of the client certificate may not call here")
		}
	}
	return id, nil
}

func subjectOf(cert *x509.Certificate) string {
	switch {
	case len(cert.URIs) > 0:
		return "uri:" + cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return "dns:" + cert.DNSNames[0]
	case len(cert.EmailAddresses) > 0:
		return "email:" + cert.EmailAddresses[0]
	}
	if dn := cert.Subject.String(); dn != "" {
		return "dn:" + dn
	}
	return ""
}

type connectionKey struct{}

// KeepCertificate returns next with the state of each request's TLS connection in its context, where [Certificates] finds
// it.
func KeepCertificate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, r.TLS))
		}
		next.ServeHTTP(w, r)
	})
}

// connection returns the state of the call's TLS connection, or nil.
func connection(ctx context.Context) *tls.ConnectionState {
	if state, ok := ctx.Value(connectionKey{}).(*tls.ConnectionState); ok {
		return state
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return &info.State
		}
	}
	return nil
}

// Scheme implements [Method].
func (c *Certificates) Scheme() (string, a2a.SecurityScheme) {
	return c.opts.Scheme, &a2a.MutualTLSSecurityScheme{}
}

// Challenge implements [Method]. There is no registered scheme for certificates, and HTTP wants a challenge with every 401.
func (*Certificates) Challenge() (string, []string) { return "ClientCertificate", nil }
