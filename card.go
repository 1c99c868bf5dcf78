package parley

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// cardFile is the card with what HTTP says of it.
type cardFile struct {
	card  *a2a.AgentCard
	json  []byte
	etag  string
	since time.Time
}

// Card returns the agent's card.
func (h *Host) Card() *a2a.AgentCard {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.card.card
}

// announce makes the card for the addresses that are listened at.
func (h *Host) announce(httpAddr, grpcAddr string) error {
	card, hosts, err := h.buildCard(httpAddr, grpcAddr)
	if err != nil {
		return err
	}
	body := card.AppendJSON(nil)
	sum := sha256.Sum256(body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.card = &cardFile{card: card, json: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, since: time.Now()}
	h.hosts = hosts
	return nil
}

func (h *Host) buildCard(httpAddr, grpcAddr string) (*a2a.AgentCard, map[string]bool, error) {
	c := &h.cfg
	streaming, push, extended := !c.NoStreaming, false, c.ExtendedCard != nil
	card := &a2a.AgentCard{
		Name: c.Name, Description: c.Description, Version: c.Version, Provider: c.Provider,
		Capabilities: a2a.AgentCapabilities{
			Streaming: &streaming, PushNotifications: &push, ExtendedAgentCard: &extended, Extensions: c.Extensions,
		},
		DefaultInputModes: c.DefaultInputModes, DefaultOutputModes: c.DefaultOutputModes, Skills: c.Skills,
	}
	if c.DocumentationURL != "" {
		card.DocumentationURL = &c.DocumentationURL
	}
	if c.IconURL != "" {
		card.IconURL = &c.IconURL
	}
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	base := c.PublicURL
	if base == "" && httpAddr != NoListen {
		base = "http://" + reachable(httpAddr)
	}
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, nil, fmt.Errorf("parley: the public URL %q is not an absolute http or https URL", base)
		}
		hosts[u.Hostname()] = true
		base = strings.TrimRight(base, "/")
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2a.AgentInterface{URL: base + "/", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: a2a.Version},
			&a2a.AgentInterface{URL: base + "/a2a/rest", ProtocolBinding: a2a.BindingREST, ProtocolVersion: a2a.Version})
	}
	grpcURL := c.PublicGRPCURL
	if grpcURL == "" && grpcAddr != NoListen {
		grpcURL = reachable(grpcAddr)
	}
	if grpcURL != "" {
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2a.AgentInterface{URL: grpcURL, ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: a2a.Version})
	}
	if len(card.SupportedInterfaces) == 0 {
		return nil, nil, errors.New("parley: nothing to serve: neither Listen nor GRPCListen is an address")
	}
	if host, _, err := net.SplitHostPort(httpAddr); err == nil && !isUnspecified(host) {
		hosts[host] = true
	}
	return card, hosts, nil
}

// reachable returns an address that a caller on this machine can dial, for one that may be 0.0.0.0.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !isUnspecified(host) {
		return addr
	}
	return net.JoinHostPort("127.0.0.1", port)
}

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serveCard serves the card (specification 8.2, 8.6).
func (h *Host) serveCard(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		plain(w, http.StatusMethodNotAllowed, "the agent card is read with GET")
		return
	}
	h.mu.RLock()
	f := h.card
	h.mu.RUnlock()
	hd := w.Header()
	hd.Set("Content-Type", "application/json")
	hd.Set("Cache-Control", "public, max-age=300")
	hd.Set("ETag", f.etag)
	hd.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", f.since, bytes.NewReader(f.json))
}

// guard keeps browsers from driving a host: the Host header must be one of ours, so that a name that was
// bound anew reaches nothing, and a page of another origin is refused.
func (h *Host) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.ours(r.Host) {
			plain(w, http.StatusForbidden, "this host does not answer to that Host header; set the public URL (PUBLIC_URL) to the name it is reached by")
			return
		}
		if o := r.Header.Get("Origin"); o != "" {
			u, err := url.Parse(o)
			if err != nil || u.Host != r.Host { // a page of another port is another origin
				plain(w, http.StatusForbidden, "requests from web pages of other origins are refused")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (h *Host) ours(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.hosts[strings.ToLower(host)]
}

// routingWord makes an agent's routing word from its name: what is no letter, digit, - or _ becomes -.
func routingWord(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "agent"
}
