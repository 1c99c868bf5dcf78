package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	grpcbinding "github.com/parley-a2a/parley/binding/grpc"
	"github.com/parley-a2a/parley/binding/jsonrpc"
	"github.com/parley-a2a/parley/binding/rest"
)

// connect takes the first interface that can be used (specification 8.3.2).
func (c *Client) connect(opts *Options) error {
	var refused []error
	for _, i := range preferred(c.card.SupportedInterfaces, opts.Transports) {
		err := check(i)
		if err == nil {
			err = c.open(i, opts)
		}
		if err == nil {
			c.iface, c.where = i, where(i, c.card.SupportedInterfaces)
			if why := c.card.Doubt(i); why != "" {
				c.where += ": " + why
			}
			return nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", name(i), err))
	}
	return c.card.unusable(refused)
}

// preferred returns the interfaces in the order in which they are tried.
func preferred(interfaces []*a2a.AgentInterface, transports []string) []*a2a.AgentInterface {
	rank := func(i *a2a.AgentInterface) int {
		if n := slices.Index(transports, i.ProtocolBinding); n >= 0 {
			return n
		}
		return len(transports)
	}
	return slices.SortedStableFunc(slices.Values(interfaces), func(a, b *a2a.AgentInterface) int {
		return cmp.Compare(rank(a), rank(b))
	})
}

// check returns why an interface cannot be used, if its description says so.
func check(i *a2a.AgentInterface) error {
	http := true
	switch i.ProtocolBinding {
	case a2a.BindingJSONRPC, a2a.BindingREST:
	case a2a.BindingGRPC:
		http = false
	default:
		return fmt.Errorf("the binding is none of %s, %s and %s", a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC)
	}
	if a2a.CheckVersion(i.ProtocolVersion) != nil {
		return a2a.Errorf(a2a.ErrVersionNotSupported, "it speaks version %q of the protocol, and this client %s",
			i.ProtocolVersion, a2a.Version)
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(i.URL), "://"); http && scheme != "http" && scheme != "https" {
		return errors.New("the URL does not begin with https:// or http://")
	}
	target := i.URL
	if !strings.Contains(target, "://") {
		target = "//" + target // host:port, as gRPC has it
	}
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return fmt.Errorf("the URL cannot be read: %w", errors.Unwrap(err))
	case u.Hostname() == "":
		return errors.New("the URL names no host")
	case u.User != nil:
		return errors.New("the URL has a user name in it")
	case unspecified(u.Hostname()):
		return fmt.Errorf("%s is an address to listen at, not one to call: whoever runs the agent has to set its public address", u.Hostname())
	}
	return nil
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

func (c *Client) open(i *a2a.AgentInterface, opts *Options) error {
	c.close = func() error { return nil }
	switch i.ProtocolBinding {
	case a2a.BindingJSONRPC:
		c.svc = jsonrpc.NewClient(i.URL, jsonrpc.ClientOptions{HTTP: opts.http()})
	case a2a.BindingREST:
		c.svc = rest.NewClient(i.URL, rest.ClientOptions{HTTP: opts.http()})
	case a2a.BindingGRPC:
		conn, err := grpcbinding.Dial(i.URL, grpcOptions(opts)...)
		if err != nil {
			return err
		}
		c.svc, c.close = grpcbinding.NewClient(conn), conn.Close
	}
	return nil
}

func name(i *a2a.AgentInterface) string { return fmt.Sprintf("%q at %q", i.ProtocolBinding, i.URL) }

// where is the end of the message of a call that found no connection.
func where(used *a2a.AgentInterface, all []*a2a.AgentInterface) string {
	s := " (" + name(used)
	more := "; the card also offers "
	for _, i := range all {
		if i != used && check(i) == nil {
			s += more + name(i)
			more = ", "
		}
	}
	return s + ")"
}

// unusable returns the error for a card none of whose interfaces can be used.
func (card *Card) unusable(refused []error) error {
	if len(refused) == 0 {
		hint := ""
		if card.old() {
			hint = "; it looks like a card of protocol 0.3, which this client does not speak"
		}
		return fmt.Errorf("client: %w: it lists no interfaces (supportedInterfaces)%s", ErrCardInvalid, hint)
	}
	why := make([]string, len(refused))
	for n, err := range refused {
		why[n] = err.Error()
	}
	text := "none of the agent's interfaces can be used: " + strings.Join(why, "; ")
	for _, err := range refused {
		if errors.Is(err, a2a.ErrVersionNotSupported) {
			return a2a.Errorf(a2a.ErrVersionNotSupported, "%s", text)
		}
	}
	return fmt.Errorf("client: %w: %s", ErrCardInvalid, text)
}

// old reports whether the card has what cards of protocol 0.3 have in the place of supportedInterfaces.
func (card *Card) old() bool {
	var v struct {
		URL             string `json:"url"`
		ProtocolVersion string `json:"protocolVersion"`
	}
	return json.Unmarshal(card.Raw, &v) == nil && (v.URL != "" || v.ProtocolVersion != "")
}
