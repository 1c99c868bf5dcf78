package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
	"github.com/parley-a2a/parley/rules"
)

type object = map[string]any

// hop is an HTTP exchange on its way through the proxy.
type hop struct {
	binding, op string
	header      http.Header // of the request
	path        string
	query       url.Values
	body        []byte

	handled bool // there is an answer already
	broken  bool // the connection breaks instead
	status  int
	out     http.Header
	answer  []byte

	p *proxy
}

// decode reads JSON and keeps numbers as they are.
func decode(data []byte) object {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out object
	if dec.Decode(&out) != nil {
		return nil
	}
	return out
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what was JSON
	}
	return b
}

// params lets f change the request's fields.
func (h *hop) params(f func(object)) {
	if h.binding == a2a.BindingREST {
		if len(h.body) == 0 {
			return
		}
		if m := decode(h.body); m != nil {
			f(m)
			h.body = encode(m)
		}
		return
	}
	m := decode(h.body)
	if in, ok := m["params"].(object); ok {
		f(in)
		h.body = encode(m)
	}
}

// param returns a field of the request, by a path such as message.taskId.
func (h *hop) param(path string) string {
	var at any
	h.params(func(m object) { at = m })
	for name := range strings.SplitSeq(path, ".") {
		m, _ := at.(object)
		at = m[name]
	}
	s, _ := at.(string)
	return s
}

// result lets f change the answer, if it is one.
func (h *hop) result(f func(object)) {
	m := decode(h.answer)
	if m == nil || m["error"] != nil {
		return
	}
	in := m
	if h.binding == a2a.BindingJSONRPC {
		in, _ = m["result"].(object)
	}
	if in != nil {
		f(in)
		h.answer = encode(m)
	}
}

// task lets f change the task in the answer.
func (h *hop) task(f func(object)) {
	h.result(func(m object) {
		if t, ok := m["task"].(object); ok {
			f(t)
		} else if m["status"] != nil {
			f(m)
		}
	})
}

// failure lets f change the answer's error.
func (h *hop) failure(f func(e object)) {
	m := decode(h.answer)
	if e, ok := m["error"].(object); ok {
		f(e)
		h.answer = encode(m)
	}
}

// refuse answers a JSON-RPC request with an error.
func (h *hop) refuse(code int, message string) {
	h.reply(object{"error": object{"code": code, "message": message}})
}

func (h *hop) reply(m object) {
	m["jsonrpc"], m["id"] = "2.0", decode(h.body)["id"]
	h.handled, h.status, h.answer = true, http.StatusOK, encode(m)
	h.out = http.Header{"Content-Type": {"application/json"}}
}

// fault is one thing that the proxy does wrong.
type fault struct {
	name string
	rule string   // that finds it
	also []string // rules that see it too; ending in *: all that begin so
	on   string   // the binding; "": JSON-RPC, "all": all
	host setup

	ask    func(*hop)                                   // changes the request
	tell   func(*hop)                                   // changes the answer
	frames func(h *hop, n int, e object) []object       // what is sent for a stream's nth event, from 1
	after  func(h *hop, n int) []object                 // what is sent after the last
	lines  func(line string) string                     // changes the lines of a stream
	hang   func(h *hop) bool                            // streams do not end
	left   func(h *hop)                                 // a caller left a stream
	hook   func(body object) object                     // changes what a webhook gets
	card   func(http.Header, object)                    // changes the card
	msg    func(op string, n int, m proto.Message) bool // changes a gRPC message; false: it is dropped
	bytes  func(op string, b []byte) []byte             // changes a gRPC message's bytes
	fails  func(op string, s *status.Status) *status.Status
}

// proxy stands before a good host and does one thing wrong.
type proxy struct {
	fault
	url, grpc  string // its own addresses
	host, back string // the host's
	conn       *grpc.ClientConn
	hc         *http.Client
	counts     sync.Map
	hooks      sync.Map // the receivers' URLs, by path
}

// count returns how often it was called for a name.
func (p *proxy) count(name string) int64 {
	n, _ := p.counts.LoadOrStore(name, new(atomic.Int64))
	return n.(*atomic.Int64).Add(1)
}

// startProxy starts a good host behind a proxy with a fault.
func startProxy(t *testing.T, f fault) *proxy {
	t.Helper()
	p := &proxy{fault: f, hc: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	p.url = front.URL
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.grpc = l.Addr().String()
	f.host.publicURL, f.host.publicGRPC = p.url, p.grpc
	p.host, p.back = startHost(t, f.host)
	if p.conn, err = grpc.NewClient("passthrough:///"+p.back, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer(grpc.UnknownServiceHandler(p.forwardGRPC), grpc.ForceServerCodec(rawCodec{}))
	go func() { _ = gs.Serve(l) }()
	t.Cleanup(func() {
		gs.Stop()
		_ = p.conn.Close()
		front.CloseClientConnections()
	})
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h := &hop{header: r.Header.Clone(), path: r.URL.Path, query: r.URL.Query(), body: body, p: p}
	switch {
	case strings.HasPrefix(h.path, "/hook/"):
		p.relay(w, h)
		return
	case h.path == "/":
		h.binding = a2a.BindingJSONRPC
		h.op, _ = decode(body)["method"].(string)
	case strings.HasPrefix(h.path, "/a2a/rest/"):
		h.binding, h.op = a2a.BindingREST, restOp(r.Method, strings.TrimPrefix(h.path, "/a2a/rest"))
	}
	mine := h.binding != "" && (p.on == "" && h.binding == a2a.BindingJSONRPC || p.on == h.binding || p.on == "all")
	if mine && p.ask != nil {
		p.ask(h)
	}
	if h.broken {
		panic(http.ErrAbortHandler)
	}
	if !h.handled && !p.forward(w, r, h, mine) {
		return
	}
	if mine && p.tell != nil {
		p.tell(h)
	}
	if h.path == a2a.CardPath && p.card != nil && h.status == http.StatusOK {
		m := decode(h.answer)
		p.card(h.out, m)
		h.answer = encode(m)
	}
	for name, values := range h.out {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(h.answer)
}

// restOp returns the operation that a REST call is.
func restOp(method, path string) string {
	for _, o := range op.All {
		parts, got := strings.Split(o.Path, "/"), strings.Split(path, "/")
		ok := o.Method == method && len(parts) == len(got)
		for i := range parts {
			_, verb, _ := strings.Cut(parts[i], ":")
			_, gotVerb, _ := strings.Cut(got[min(i, len(got)-1)], ":")
			ok = ok && (strings.HasPrefix(parts[i], "{") && verb == gotVerb || i < len(got) && parts[i] == got[i])
		}
		if ok {
			return o.Name
		}
	}
	return ""
}

// forward asks the host. It reports whether there is an answer to be passed on; a stream is passed on already.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request, h *hop, mine bool) bool {
	address := p.host + h.path
	if len(h.query) > 0 {
		address += "?" + h.query.Encode()
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, address, bytes.NewReader(h.body))
	if err != nil {
		panic(err)
	}
	req.Header = h.header
	res, err := p.hc.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	h.status, h.out = res.StatusCode, res.Header
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		p.stream(w, r, h, res, mine)
		return false
	}
	h.answer, _ = io.ReadAll(res.Body)
	return true
}

func (p *proxy) stream(w http.ResponseWriter, r *http.Request, h *hop, res *http.Response, mine bool) {
	if mine && p.tell != nil {
		p.tell(h)
	}
	for name, values := range h.out {
		w.Header()[name] = values
	}
	w.WriteHeader(h.status)
	flush := w.(http.Flusher).Flush
	write := func(line string) {
		if mine && p.lines != nil {
			line = p.lines(line)
		}
		_, _ = io.WriteString(w, line)
		flush()
	}
	event := func(m object) {
		if h.binding == a2a.BindingJSONRPC {
			m = object{"jsonrpc": "2.0", "id": decode(h.body)["id"], "result": m}
		}
		write("data: " + string(encode(m)) + "\n\n")
	}
	in, n := bufio.NewScanner(res.Body), 0
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		n++
		m := decode([]byte(data))
		if result, ok := m["result"].(object); ok {
			m = result
		}
		list := []object{m}
		if mine && p.frames != nil {
			list = p.frames(h, n, m)
		}
		for _, e := range list {
			if e == nil { // cut
				return
			}
			event(e)
		}
	}
	if r.Context().Err() != nil {
		if mine && p.left != nil {
			p.left(h)
		}
		return
	}
	if mine && p.after != nil {
		for _, e := range p.after(h, n) {
			event(e)
		}
	}
	if mine && p.hang != nil && p.hang(h) {
		<-r.Context().Done()
	}
}

// relay passes a notification on to the receiver.
func (p *proxy) relay(w http.ResponseWriter, h *hop) {
	to, _ := p.hooks.Load(h.path)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to.(string), bytes.NewReader(encode(p.hook(decode(h.body)))))
	if err != nil {
		panic(err)
	}
	req.Header = h.header
	if res, err := p.hc.Do(req); err == nil {
		_ = res.Body.Close()
	}
	w.WriteHeader(http.StatusNoContent)
}

func (p *proxy) forwardGRPC(_ any, in grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(in)
	name := strings.TrimPrefix(full, grpcService)
	var req []byte
	if err := in.RecvMsg(&req); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(in.Context())
	out, err := p.conn.NewStream(metadata.NewOutgoingContext(in.Context(), md), &grpc.StreamDesc{ServerStreams: true}, full, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := errors.Join(out.SendMsg(&req), out.CloseSend()); err != nil {
		return err
	}
	for n := 1; ; n++ {
		var data []byte
		if err := out.RecvMsg(&data); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			trailer := out.Trailer()
			trailer.Delete("grpc-status-details-bin") // the status below has them
			in.SetTrailer(trailer)
			s, _ := status.FromError(err)
			if p.fails != nil {
				s = p.fails(name, s)
			}
			return s.Err()
		}
		if p.msg != nil {
			m := rules.NewMessage(name, true)
			if err := proto.Unmarshal(data, m); err != nil {
				return err
			}
			if !p.msg(name, n, m) {
				continue
			}
			data, _ = proto.Marshal(m)
		}
		if p.bytes != nil {
			data = p.bytes(name, data)
		}
		if err := in.SendMsg(&data); err != nil {
			return err
		}
	}
}

// wait is for what a fault does too late.
func wait(d time.Duration) { <-time.After(d) }
