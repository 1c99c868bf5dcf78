package tap

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// What the tap changes: the card; the extended card, which has the same addresses; and with Config.Webhooks the URLs of
// webhooks, in the requests that register them and, back again, in the answers that repeat them.

// plan is what is to be done to the answer of a request.
type plan struct {
	card bool   // it is the card
	have string // If-None-Match, of the card

	binding, operation string
	webhooks           bool
}

type planKey struct{}

const extendedCard = "GetExtendedAgentCard"

// prepare reads a call or a notification before it is sent on, since nobody may be there who would take it, changes it where
// it has to, and decides what happens to its answer.
func (t *Tap) prepare(r *http.Request) *http.Request {
	if t.isCard(r) {
		return planned(r, &plan{card: true, have: strings.Join(r.Header["If-None-Match"], ",")})
	}
	kind, binding, rest := t.rec.classify(r.URL, r.Header)
	p := plan{binding: binding}
	var body []byte
	if (kind == KindCall || t.hooks.target(r.URL.Path) != nil) && r.ContentLength != 0 && r.ContentLength <= maxEdit {
		body = peek(r)
	}
	switch binding {
	case a2a.BindingGRPC:
		p.operation = r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	case a2a.BindingREST:
		p.operation, _ = restOperation(r.Method, rest)
	case a2a.BindingJSONRPC:
		if body == nil || r.Method != http.MethodPost {
			return r
		}
		if bytes.Contains(body, []byte(extendedCard)) || t.cfg.Webhooks && bytes.Contains(body, []byte("ush")) {
			p.operation, _, _ = readRPC(body)
		}
	default:
		return r
	}
	if t.cfg.Webhooks {
		p.webhooks = strings.Contains(p.operation, "PushNotification")
		if p.webhooks || p.operation == "SendMessage" || p.operation == "SendStreamingMessage" {
			t.redirectHooks(r, &p, body)
		}
	}
	if p.operation != extendedCard && !p.webhooks {
		return r
	}
	r = planned(r, &p)
	r.Header.Del("Accept-Encoding") // the recorder has its own copy
	return r
}

func planned(r *http.Request, p *plan) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), planKey{}, p))
}

// peek returns the request's body, or the beginning of one that is over maxEdit, and leaves it to be read again.
func peek(r *http.Request) []byte {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxEdit+1))
	var rest io.Reader = r.Body
	if err != nil {
		rest = broken{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	return body
}

// broken is a reader that has nothing but an error.
type broken struct{ err error }

// Read implements io.Reader.
func (b broken) Read([]byte) (int, error) { return 0, b.err }

// redirectHooks changes the URLs of webhooks in a request, whose body was read, to such of the tap.
func (t *Tap) redirectHooks(r *http.Request, p *plan, body []byte) {
	if r.ContentLength > maxEdit {
		passingOf(r).remarks("the request is too large to look for webhooks in it")
		return
	}
	var changed []byte
	one := func(u string) string {
		here := t.hooks.here(t.base(), u)
		if here != u {
			passingOf(r).remarks("the webhook " + t.rec.redact.address(u) + " was routed through the tap as " + here)
		}
		return here
	}
	if p.binding == a2a.BindingGRPC {
		changed = reframe(body, r.Header.Get("Grpc-Encoding"), func(m []byte) []byte {
			out, _ := editMessage(p.operation, false, m, func(owner protoreflect.Name, name, s string) string {
				if owner != "TaskPushNotificationConfig" || name != "url" {
					return s
				}
				return one(s)
			})
			return out
		})
	} else {
		changed = edit(body, "", func(path string, value json.RawMessage) []byte {
			if !isHookURL(path, p.webhooks) {
				return nil
			}
			var u string
			if json.Unmarshal(value, &u) != nil {
				return nil
			}
			b, _ := marshal(one(u)) // of a string
			return b
		})
	}
	if !bytes.Equal(changed, body) {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
	}
}

// isHookURL reports whether a path in a request, of one of the operations on push configurations or of another, is that of
// a webhook's URL.
func isHookURL(path string, pushOperation bool) bool {
	path, ok := strings.CutSuffix(path, "url")
	path = strings.TrimSuffix(strings.TrimPrefix(path, "params."), ".")
	return ok && (path == "" && pushOperation || strings.HasSuffix(path, "ushNotificationConfig") || pushOperation && strings.HasSuffix(path, "onfig"))
}

// reframe returns the body of gRPC with its messages changed.
func reframe(body []byte, encoding string, change func([]byte) []byte) []byte {
	var out []byte
	m := messages{encoding: encoding}
	m.feed(body, func(f Frame) { out = appendMessage(out, change(f.Data)) })
	if m.end() != "" {
		return body
	}
	return out
}

// appendMessage appends a message as gRPC frames it.
func appendMessage(b, message []byte) []byte {
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	return append(b, message...)
}

// modify changes an answer, if it is one that the tap changes.
func (t *Tap) modify(res *http.Response) error {
	p, _ := res.Request.Context().Value(planKey{}).(*plan)
	var change func([]byte) []byte
	in := passingOf(res.Request)
	switch {
	case t.hooks.has(res.Request.URL.String()):
		return nil
	case p == nil || res.StatusCode != http.StatusOK:
		return nil
	case p.card:
		res.Header.Del("ETag") // they are those of the other bytes
		res.Header.Del("Last-Modified")
		change = func(b []byte) []byte {
			b = t.changeCard(in, b)
			res.Header.Set("ETag", tagOf(b))
			return b
		}
	case p.operation == extendedCard:
		change = func(b []byte) []byte { return t.changeExtended(in, p, b) }
	default:
		change = func(b []byte) []byte { return t.hooks.restore(b, p) }
	}
	if res.Request.Method == http.MethodHead {
		res.Header.Del("Content-Length")
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxEdit+1))
	var rest io.Reader = res.Body
	switch {
	case err != nil:
		rest = broken{err}
	case len(body) <= maxEdit:
		changed := change(body)
		if len(changed) != len(body) && res.ContentLength >= 0 {
			res.ContentLength = int64(len(changed))
			res.Header.Set("Content-Length", strconv.Itoa(len(changed)))
		}
		body = changed
		if p.card && hasTag(p.have, res.Header.Get("ETag")) {
			res.StatusCode, res.ContentLength, body = http.StatusNotModified, 0, nil
			res.Header.Del("Content-Length")
		}
	default:
		in.remarks("the answer is too large to be changed, and passed as it is")
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), res.Body}
	return nil
}

// tagOf returns the ETag of what the tap has changed.
func tagOf(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// hasTag reports whether an If-None-Match names the tag.
func hasTag(list, tag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// changeExtended points an extended card at the tap.
func (t *Tap) changeExtended(in *passing, p *plan, body []byte) []byte {
	in.remarks("the extended card's interfaces were pointed at the tap, and its signature, if any, was dropped")
	if p.binding == a2a.BindingGRPC {
		return reframe(body, "", func(m []byte) []byte {
			out, ok := editMessage(p.operation, true, m, func(owner protoreflect.Name, name, s string) string {
				if owner != "AgentInterface" || name != "url" {
					return s
				}
				return t.hereIs(s)
			})
			if !ok {
				return m
			}
			card := rules.NewMessage(p.operation, true)
			if proto.Unmarshal(out, card) == nil {
				card.ProtoReflect().Clear(card.ProtoReflect().Descriptor().Fields().ByName("signatures"))
				out, _ = proto.Marshal(card)
			}
			return out
		})
	}
	changed, _ := t.point(body)
	return changed
}

// hookPath is where webhooks are at the tap.
const hookPath = "/~hook/"

// maxHooks bounds the webhooks of one run.
const maxHooks = 10_000

// hooks are the webhooks that were registered through the tap.
type hooks struct {
	mu     sync.Mutex
	byPath map[string]*url.URL
	byURL  map[string]string // the tap's URL by the webhook's
}

// here returns the tap's URL for a webhook, or the webhook's own where it has none.
func (h *hooks) here(base, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return address
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if here, ok := h.byURL[address]; ok {
		return here
	}
	if len(h.byPath) >= maxHooks || strings.HasPrefix(address, base+hookPath) {
		return address
	}
	if h.byPath == nil {
		h.byPath, h.byURL = map[string]*url.URL{}, map[string]string{}
	}
	path := hookPath + rand.Text()
	h.byPath[path], h.byURL[address] = u, base+path
	return base + path
}

// target returns the webhook at a path of the tap, or nil.
func (h *hooks) target(path string) *url.URL {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byPath[path]
}

// has reports whether a URL is that of a webhook.
func (h *hooks) has(address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.byURL[address]
	return ok
}

// restore returns an answer with the webhooks' own URLs instead of the tap's.
func (h *hooks) restore(body []byte, p *plan) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := func(here string) string {
		for address, u := range h.byURL {
			if u == here {
				return address
			}
		}
		return here
	}
	if p.binding == a2a.BindingGRPC {
		return reframe(body, "", func(m []byte) []byte {
			out, _ := editMessage(p.operation, true, m, func(owner protoreflect.Name, name, s string) string {
				if owner != "TaskPushNotificationConfig" || name != "url" {
					return s
				}
				return own(s)
			})
			return out
		})
	}
	return edit(body, "", func(path string, value json.RawMessage) []byte {
		var u string
		if !strings.HasSuffix(path, "url") || json.Unmarshal(value, &u) != nil {
			return nil
		}
		b, _ := marshal(own(u)) // of a string
		return b
	})
}

// transport speaks HTTP/2 for gRPC, in plaintext too, and whatever the agent has for the rest.
type transport struct{ http, grpc *http.Transport }

func newTransport(config *tls.Config) *transport {
	t := &transport{http: http.DefaultTransport.(*http.Transport).Clone()}
	t.http.DisableCompression = true // what is asked for is what the client asked for
	t.http.MaxIdleConnsPerHost = 100
	t.http.TLSClientConfig = config.Clone()
	t.http.Protocols = new(http.Protocols)
	t.http.Protocols.SetHTTP1(true)
	t.http.Protocols.SetHTTP2(true)
	t.grpc = t.http.Clone()
	t.grpc.Protocols = new(http.Protocols)
	t.grpc.Protocols.SetHTTP2(true)
	t.grpc.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if isGRPC(r.Header) {
		return t.grpc.RoundTrip(r)
	}
	return t.http.RoundTrip(r)
}

// buffers lends the memory that bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() httputil.BufferPool {
	return &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buf []byte) { b.pool.Put((*[32 << 10]byte)(buf)) }
