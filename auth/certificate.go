package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"time"

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
// them, see [ServerTLS].
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
func (c *Certificates) Identify(_ context.Context, info *a2a.CallInfo) (Identity, error) {
	if info.TLS == nil || len(info.TLS.PeerCertificates) == 0 {
		return Identity{}, ErrNone
	}
	if len(info.TLS.VerifiedChains) == 0 {
		return Identity{}, refused(whyIssuer, "the client certificate is not signed by an authority that counts here")
	}
	cert := info.TLS.PeerCertificates[0]
	sum := sha256.Sum256(cert.Raw)
	id := Identity{
		Caller:     a2a.Caller{Issuer: CertificateIssuer, Subject: subjectOf(cert), Expiry: cert.NotAfter},
		Credential: hex.EncodeToString(sum[:]),
	}
	if !c.now().Before(cert.NotAfter) {
		return Identity{}, expired(id.Caller)
	}
	if c.opts.Allow != nil {
		var ok bool
		if id.Tenant, id.Scopes, ok = c.opts.Allow(id.Subject, cert); !ok {
			return Identity{}, refusedOf(a2a.Caller{Issuer: id.Issuer, Subject: id.Subject}, whyForbidden, "the holder of the client certificate may not call here")
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

// Scheme implements [Method].
func (c *Certificates) Scheme() (string, a2a.SecurityScheme) {
	return c.opts.Scheme, &a2a.MutualTLSSecurityScheme{}
}

// Challenge implements [Method]. There is no registered scheme for certificates, and HTTP wants a challenge with every 401.
func (*Certificates) Challenge() (string, []string) { return "ClientCertificate", nil }
