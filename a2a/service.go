package a2a

import (
	"context"
	"crypto/tls"
	"iter"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Version is the protocol version of this package, as it goes into A2A-Version.
const Version = "1.0"

// Names of the service parameters (specification 3.2.6): HTTP headers, and gRPC metadata in lower case.
const (
	VersionHeader    = "A2A-Version"
	ExtensionsHeader = "A2A-Extensions"
)

// CardPath is where an agent's card is found (specification 8.2).
const CardPath = "/.well-known/agent-card.json"

// Service is the eleven operations of the protocol (specification 3.1), as a server offers them and as a
// client of any binding calls them: who takes a Service need not know which it is.
//
// A stream is ranged once. An error that is known before the first entry is the first yield; an error
// during a stream is its last. Leaving the loop ends the stream and changes nothing about the task.
type Service interface {
	// SendMessage starts or continues an interaction. It waits until the task ends or is interrupted,
	// unless the configuration says ReturnImmediately.
	SendMessage(context.Context, *SendMessageRequest) (SendMessageResult, error)
	// SendStreamingMessage is SendMessage with every event as it happens: one Message, or the Task and
	// then its updates.
	SendStreamingMessage(context.Context, *SendMessageRequest) iter.Seq2[Entry, error]
	// GetTask returns a task as it is now.
	GetTask(context.Context, *GetTaskRequest) (*Task, error)
	// ListTasks returns a page of the caller's tasks, those with the newest status first.
	ListTasks(context.Context, *ListTasksRequest) (*ListTasksResponse, error)
	// CancelTask ends a task that has not ended and returns it.
	CancelTask(context.Context, *CancelTaskRequest) (*Task, error)
	// SubscribeToTask yields the task as it is now and then its updates, until it ends.
	SubscribeToTask(context.Context, *SubscribeToTaskRequest) iter.Seq2[Entry, error]
	// CreateTaskPushNotificationConfig registers a webhook.
	CreateTaskPushNotificationConfig(context.Context, *TaskPushNotificationConfig) (*TaskPushNotificationConfig, error)
	// GetTaskPushNotificationConfig returns a webhook registration, without its secrets.
	GetTaskPushNotificationConfig(context.Context, *GetTaskPushNotificationConfigRequest) (*TaskPushNotificationConfig, error)
	// ListTaskPushNotificationConfigs returns a task's webhook registrations, without their secrets.
	ListTaskPushNotificationConfigs(context.Context, *ListTaskPushNotificationConfigsRequest) (*ListTaskPushNotificationConfigsResponse, error)
	// GetExtendedAgentCard returns the card for authenticated callers.
	GetExtendedAgentCard(context.Context, *GetExtendedAgentCardRequest) (*AgentCard, error)
	// DeleteTaskPushNotificationConfig removes a webhook registration; removing it again is no error.
	DeleteTaskPushNotificationConfig(context.Context, *DeleteTaskPushNotificationConfigRequest) (*Empty, error)
}

// Entry is one event of a task's log on its way to a reader.
type Entry struct {
	// Generation is the event's number in the task's log: 1 for the first, each exactly one higher. Zero
	// where there is no log: for a direct Message, and from servers that do not say.
	Generation int64
	// Event is immutable: every reader of the log shares it.
	Event Event
	// More says that the next entry is in hand, so that a writer gathers instead of flushing.
	More bool

	wire *wire
}

// NewEntry returns an entry whose encodings are kept once made and shared by every copy of it.
func NewEntry(generation int64, ev Event) Entry {
	return Entry{Generation: generation, Event: ev, wire: new(wire)}
}

// wire holds what an event looks like on the bindings, made at most once each.
type wire struct {
	mu      sync.Mutex
	form    [wireForms][]byte
	variant *Entry
}

// Variant returns the entry with the event that derive makes of its own. The first call of any copy of the entry
// makes it; the others share it, with its encodings, whatever their derive: an entry has one variant.
func (e Entry) Variant(derive func(Entry) Event) Entry {
	if e.wire == nil {
		return Entry{Generation: e.Generation, Event: derive(e), More: e.More}
	}
	e.wire.mu.Lock()
	defer e.wire.mu.Unlock()
	if e.wire.variant == nil {
		v := NewEntry(e.Generation, derive(e))
		e.wire.variant = &v
	}
	v := *e.wire.variant
	v.More = e.More
	return v
}

// WireForm is a form that an entry's event is kept in once it was made.
type WireForm uint8

const (
	WireJSON  WireForm = iota // a StreamResponse as JSON
	WireProto                 // a StreamResponse as protobuf
	wireForms
)

// Wire returns the event in the given form. The first call of any copy of the entry makes it with encode;
// the others wait for that one and share the bytes, which must not be changed.
func (e Entry) Wire(form WireForm, encode func(Event) ([]byte, error)) ([]byte, error) {
	if e.wire == nil {
		return encode(e.Event)
	}
	e.wire.mu.Lock()
	defer e.wire.mu.Unlock()
	if b := e.wire.form[form]; b != nil {
		return b, nil
	}
	b, err := encode(e.Event)
	if err == nil {
		e.wire.form[form] = b
	}
	return b, err
}

// JSON returns the event as the JSON of a StreamResponse, made once for all readers.
func (e Entry) JSON() []byte {
	b, _ := e.Wire(WireJSON, func(ev Event) ([]byte, error) { return AppendStreamResponse(nil, ev), nil })
	return b
}

// Caller is who calls: what an authenticator made of a credential. The zero Caller is anonymous. Two calls
// are by the same caller when Tenant, Issuer and Subject are equal.
type Caller struct {
	Tenant  string   // the caller's own organisation; never taken from the wire's tenant field
	Issuer  string   // who vouches for Subject
	Subject string   // who it is, in the issuer's words
	Scopes  []string // what it may do
	Actors  []string // who acts for Subject, through whom the call came (RFC 8693, act), the first one first
	// Claims are what else the credential says of Subject that the host was told to hand on, such as which customers it may
	// see, by name and as encoding/json decodes it. They are not part of who it is. Read them only.
	Claims map[string]any
	// Expiry is when the credential ends, any leeway for clocks included: streams end then. Zero: it does not.
	Expiry time.Time
}

// Anonymous reports whether nobody vouches for the caller.
func (c Caller) Anonymous() bool { return c.Issuer == "" && c.Subject == "" }

// Owner returns the issuer and subject as one key: equal for equal callers of one tenant.
func (c Caller) Owner() string {
	if c.Anonymous() {
		return ""
	}
	return c.Issuer + "\x00" + c.Subject
}

// CallInfo is what is beside the message of one call, in both directions. A binding's handler fills in the
// request's side and writes the answer's side back; a binding's client sends the one and fills in the
// other. One call has one CallInfo; it is not safe for concurrent use.
type CallInfo struct {
	// The request's side.
	Binding    string               // such as BindingJSONRPC
	Operation  string               // such as SendMessage
	Version    string               // A2A-Version as sent; empty: not sent
	Extensions []string             // A2A-Extensions: what the client declares
	Header     http.Header          // every header or metadata of the request; on a client, those to add
	Peer       string               // network address of the other end
	TLS        *tls.ConnectionState // of the connection that the request came by; nil: there is no TLS, or this is a client
	Caller     Caller               // set by the authenticator
	Counted    any                  // who has counted the call among its caller's requests, see package limits; nil: nobody yet

	// The answer's side.
	Activated []string // extensions in effect, echoed in A2A-Extensions
	// Reply is what a handler's answer carries besides, be it a result or an error: HTTP headers, and header metadata
	// of gRPC. Whoever serves adds to it before it answers or yields the first entry. Clients leave it alone, so that a
	// call that is passed on does not hand on another host's headers.
	Reply http.Header
}

// SetReply sets a header of the answer.
func (i *CallInfo) SetReply(name, value string) {
	if i.Reply == nil {
		i.Reply = make(http.Header, 2)
	}
	i.Reply.Set(name, value)
}

// Who returns what tells callers apart, for limits: the tenant and owner, or, where nobody vouches for the caller, the
// network that the call came from, an address or 64 bits of one in IPv6. A peer that has no such address is itself.
func (i *CallInfo) Who() string {
	if !i.Caller.Anonymous() {
		return i.Caller.Tenant + "\x00" + i.Caller.Owner()
	}
	addr, ok := i.PeerAddr()
	if !ok {
		return i.Peer
	}
	if network, err := addr.Prefix(64); err == nil && addr.Is6() {
		return network.String()
	}
	return addr.String()
}

// PeerAddr returns the address of the other end, if Peer has one: an IPv4 address as such, and none with a zone.
func (i *CallInfo) PeerAddr() (addr netip.Addr, ok bool) {
	peer, err := netip.ParseAddrPort(i.Peer)
	addr = peer.Addr()
	if err != nil {
		addr, err = netip.ParseAddr(i.Peer)
	}
	return addr.Unmap().WithZone(""), err == nil
}

type callInfoKey struct{}

// WithCallInfo returns a context that carries info.
func WithCallInfo(ctx context.Context, info *CallInfo) context.Context {
	return context.WithValue(ctx, callInfoKey{}, info)
}

// CallInfoFrom returns the CallInfo of the call, or nil where there is none.
func CallInfoFrom(ctx context.Context) *CallInfo {
	info, _ := ctx.Value(callInfoKey{}).(*CallInfo)
	return info
}

// Authenticate sets info.Caller from the credential in info.Header, or returns an ErrUnauthenticated error
// with a challenge. Bindings call it before they read a request's body.
type Authenticate func(ctx context.Context, info *CallInfo) error

// ParseExtensions splits the values of A2A-Extensions.
func ParseExtensions(values []string) []string {
	var out []string
	for _, v := range values {
		for u := range strings.SplitSeq(v, ",") {
			if u = strings.TrimSpace(u); u != "" {
				out = append(out, u)
			}
		}
	}
	return out
}

// CheckVersion returns nil if a call that sent this A2A-Version can be served as 1.0, and otherwise an
// ErrVersionNotSupported error that says how to mend the call (specification 3.6.2).
func CheckVersion(version string) error {
	v := strings.TrimSpace(version)
	if v == Version {
		return nil
	}
	if patch, ok := strings.CutPrefix(v, Version+"."); ok && isDigits(patch) {
		return nil
	}
	e := &Error{Code: ErrVersionNotSupported, Metadata: map[string]string{"supportedVersions": Version}}
	if v == "" {
		e.Message = "no A2A-Version was sent, which means 0.3; this agent speaks 1.0: send the header \"A2A-Version: 1.0\""
	} else {
		e.Metadata["requestedVersion"] = clip(v, 32)
		e.Message = "A2A-Version " + strconvQuote(clip(v, 32)) + " is not supported; this agent speaks 1.0: send the header \"A2A-Version: 1.0\""
	}
	return e
}
