package parley

import (
	"net"
	"strings"

	"google.golang.org/grpc/credentials"
)

// handshakes tells of clients whose certificate TLS has refused. There is no request then, so nobody else hears of them. All
// else that servers say of connections, such as that a port scanner went away, is for debugging.
type handshakes struct{ *Config }

// failed tells of a handshake that failed if it was for the client's certificate, and otherwise returns false.
func (h handshakes) failed(peer, why string) bool {
	if !strings.HasPrefix(why, "tls: failed to verify certificate") && !strings.HasPrefix(why, "tls: client didn't provide a certificate") {
		return false
	}
	h.Log.Warn("a client certificate was refused", "peer", peer, "reason", why)
	if h.CertificateRefused != nil {
		h.CertificateRefused(peer)
	}
	return true
}

// Write takes a line of http.Server.ErrorLog, the only place where net/http says it.
func (h handshakes) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if rest, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		if peer, why, _ := strings.Cut(rest, ": "); h.failed(peer, why) {
			return len(line), nil
		}
	}
	h.Log.Debug(text) //nolint:sloglint // the words are those of net/http
	return len(line), nil
}

// toldCredentials are gRPC's, whose server says it to nobody.
type toldCredentials struct {
	credentials.TransportCredentials
	handshakes
}

func (c toldCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.failed(raw.RemoteAddr().String(), err.Error())
	}
	return conn, info, err
}

func (c toldCredentials) Clone() credentials.TransportCredentials {
	return toldCredentials{c.TransportCredentials.Clone(), c.handshakes}
}
