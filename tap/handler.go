package tap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// Handler returns next with what passes through it recorded. It stands in front of a proxy, or of a host's own handler.
func (r *Recorder) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := r.start(req)
		req = req.WithContext(context.WithValue(req.Context(), passingKey{}, p))
		if req.Body != nil && req.Body != http.NoBody {
			req.Body = &sent{ReadCloser: req.Body, p: p}
		}
		out := &received{w: w, p: p}
		defer func() {
			broken := recover()
			p.over(req, out, broken)
			if broken != nil {
				panic(broken)
			}
		}()
		next.ServeHTTP(out, req)
	})
}

// start begins an exchange.
func (r *Recorder) start(req *http.Request) *passing {
	scheme := "http://"
	if req.TLS != nil {
		scheme = "https://"
	}
	p := &passing{rec: r, start: r.now(), length: req.ContentLength}
	p.x = Exchange{
		ID: r.lastID.Add(1), Start: p.start, Method: req.Method, URL: scheme + req.Host + req.URL.RequestURI(), Proto: req.Proto,
		Client: req.RemoteAddr, RequestHeader: req.Header.Clone(),
	}
	if kind, ok := req.Context().Value(kindKey{}).(string); ok {
		p.x.Kind = kind
	}
	r.push(note{p: p, kind: noteBegin})
	return p
}

// kindKey is where a handler in front of the recorder says what an exchange is, if its URL does not.
type kindKey struct{}

func (p *passing) since() time.Duration { return p.rec.now().Sub(p.start) }

func (p *passing) copied(kind noteKind, b []byte) {
	if len(b) > 0 {
		p.rec.push(note{p: p, kind: kind, at: p.since(), data: bytes.Clone(b)})
	}
}

// goesTo notes where the request goes.
func (p *passing) goesTo(u string) {
	if p != nil {
		p.rec.push(note{p: p, kind: noteUpstream, text: u})
	}
}

// remarks notes what the tap does to the exchange.
func (p *passing) remarks(text string) {
	if p != nil {
		p.rec.push(note{p: p, kind: noteRemark, text: text})
	}
}

// Reasons for which an exchange has no whole answer.
const (
	clientLeft  = "the client went away"
	agentBroke  = "the agent broke the connection off"
	handlerBust = "the handler panicked"
)

// over notes the end.
func (p *passing) over(req *http.Request, w *received, broken any) {
	n := note{p: p, kind: noteEnd, at: p.since(), header: w.trailer(), text: w.err}
	switch {
	case req.Context().Err() != nil && (broken != nil || w.err != ""):
		n.text = clientLeft
	case n.text != "":
	case broken == http.ErrAbortHandler: //nolint:errorlint // a value of recover
		n.text = agentBroke
	case broken != nil:
		n.text = handlerBust
	}
	if w.head == nil && broken == nil && w.err == "" {
		w.WriteHeader(http.StatusOK) // as net/http does
	}
	p.rec.push(n)
}

// sent is a request's body that is copied as it is read.
type sent struct {
	io.ReadCloser
	p     *passing
	n     int64
	ended bool
}

// Read implements io.Reader. After the end it is the end, also when the server has closed the body because the answer
// begins: a transport looks once more whether more comes, takes an error there for a broken request, and would close
// the connection under the answer.
func (s *sent) Read(b []byte) (int, error) {
	if s.ended {
		return 0, io.EOF
	}
	n, err := s.ReadCloser.Read(b)
	s.n += int64(n)
	s.p.copied(noteSent, b[:n])
	if s.ended = errors.Is(err, io.EOF); s.ended {
		s.p.rec.push(note{p: s.p, kind: noteLength, length: s.n})
	}
	return n, err
}

// received is an answer that is copied after it was written.
type received struct {
	w    http.ResponseWriter
	p    *passing
	head http.Header // nil: not written yet
	err  string      // why the handler could not answer as it should
}

// Header implements http.ResponseWriter.
func (w *received) Header() http.Header { return w.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (w *received) WriteHeader(status int) {
	if status >= 200 && w.head == nil {
		w.head = w.w.Header().Clone()
		w.p.rec.push(note{p: w.p, kind: noteHead, at: w.p.since(), status: status, header: w.head})
	}
	w.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *received) Write(b []byte) (int, error) {
	if w.head == nil {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.w.Write(b)
	w.p.copied(noteReceived, b[:n])
	return n, err
}

// Flush implements http.Flusher.
func (w *received) Flush() { _ = w.FlushError() } // whoever wants the error asks for it

// FlushError is what http.ResponseController flushes by. A gRPC answer whose status is in its header has nothing after it, and
// has to end with that frame: flushed, it would end with an empty one, which clients take for a stream without a status.
func (w *received) FlushError() error {
	if w.head.Get("Grpc-Status") != "" {
		return nil
	}
	return http.NewResponseController(w.w).Flush()
}

// Unwrap lets http.ResponseController set deadlines.
func (w *received) Unwrap() http.ResponseWriter { return w.w }

// trailer returns the trailer of the answer.
func (w *received) trailer() http.Header {
	t := http.Header{}
	for name, values := range w.w.Header() {
		if plain, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			t[http.CanonicalHeaderKey(plain)] = values
		}
	}
	for _, list := range w.head["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values := w.w.Header()[name]; len(values) > 0 {
				t[name] = values
			}
		}
	}
	if len(t) == 0 {
		return nil
	}
	return t.Clone()
}

// route says which binding is below a path of the tap.
type route struct {
	path    string // without a slash at its end
	binding string
}

// routesOf returns the routes of a card's interfaces over HTTP, as they are at a handler of the agent's own.
func routesOf(card *a2a.AgentCard) []route {
	var routes []route
	if card == nil {
		return nil
	}
	for _, i := range card.SupportedInterfaces {
		if u, err := url.Parse(i.URL); err == nil && i.ProtocolBinding != a2a.BindingGRPC {
			routes = append(routes, route{strings.TrimRight(u.EscapedPath(), "/"), i.ProtocolBinding})
		}
	}
	return routes
}

// classify says what a request is, and on REST what is left of its path below the interface's.
func (r *Recorder) classify(u *url.URL, h http.Header) (kind, binding, rest string) {
	if strings.HasPrefix(h.Get("Content-Type"), "application/grpc") {
		return KindCall, a2a.BindingGRPC, ""
	}
	if u == nil {
		return KindOther, "", ""
	}
	if u.Path == r.cardPath || u.Path == a2a.CardPath {
		return KindCard, "", ""
	}
	kind = KindOther
	longest := -1
	for _, i := range r.routes {
		below, ok := strings.CutPrefix(u.EscapedPath(), i.path)
		switch {
		case !ok || len(i.path) < longest:
		case i.binding == a2a.BindingJSONRPC && strings.Trim(below, "/") == "",
			i.binding == a2a.BindingREST && strings.HasPrefix(below, "/") && len(below) > 1:
			kind, binding, rest, longest = KindCall, i.binding, below, len(i.path)
		}
	}
	return kind, binding, rest
}

// restOperation returns the operation of a REST call, by the path below the interface's, and the task's id in it. Before
// the path there may be a tenant.
func restOperation(method, path string) (operation, task string) {
	got := strings.Split(strings.TrimPrefix(colons.Replace(path), "/"), "/")
	for _, from := range []int{0, 1} {
		if from >= len(got) {
			break
		}
		for i := range op.All {
			o := &op.All[i]
			if o.Method != method && (o.Name != "SubscribeToTask" || method != http.MethodGet) {
				continue
			}
			if task, ok := matchPath(strings.Split(strings.TrimPrefix(o.Path, "/"), "/"), got[from:]); ok {
				return o.Name, task
			}
		}
	}
	return "", ""
}

var colons = strings.NewReplacer("%3A", ":", "%3a", ":")

func matchPath(want, got []string) (task string, ok bool) {
	if len(want) != len(got) {
		return "", false
	}
	for i, w := range want {
		g := got[i]
		if !strings.HasPrefix(w, "{") {
			if w != g {
				return "", false
			}
			continue
		}
		_, verb, _ := strings.Cut(w, ":")
		at := strings.LastIndexByte(g, ':')
		if verb == "" {
			at = len(g)
		} else if at < 0 || g[at+1:] != verb {
			return "", false
		}
		if task == "" {
			task, _ = url.PathUnescape(g[:at])
		}
	}
	return task, true
}

// readRPC returns what a JSON-RPC request says that it is about.
func readRPC(body []byte) (operation, task, context string) {
	var r struct {
		Method any
		Params json.RawMessage
	}
	if json.Unmarshal(body, &r) != nil {
		return "", "", ""
	}
	operation, _ = r.Method.(string)
	task, context = requestIDs(operation, r.Params)
	return operation, task, context
}

// requestIDs returns the ids of the task and the context that an operation's request is about.
func requestIDs(operation string, raw []byte) (task, context string) {
	var p struct{ ID, TaskID string }
	_ = json.Unmarshal(raw, &p) // what has no ids has none
	if strings.HasSuffix(operation, "Task") || p.TaskID != "" {
		return cmp.Or(p.TaskID, p.ID), ""
	}
	return idsOf(raw)
}

// named is whatever may name a task and its context.
type named struct {
	ID, TaskID, ContextID string
	Status                *struct{}
}

// idsOf returns the ids of the task and the context in a request, an answer or an event; empty where it names none.
func idsOf(raw []byte) (task, context string) {
	var m struct {
		named
		Result                                      json.RawMessage
		Task, Message, StatusUpdate, ArtifactUpdate *named
	}
	_ = json.Unmarshal(raw, &m) // the id of JSON-RPC may be a number
	if len(m.Result) > 0 {
		return idsOf(m.Result)
	}
	for _, n := range []*named{m.Task, m.Message, m.StatusUpdate, m.ArtifactUpdate, &m.named} {
		if n == nil {
			continue
		}
		if task = n.TaskID; task == "" && (n == m.Task || n.Status != nil) {
			task = n.ID
		}
		if task != "" || n.ContextID != "" {
			return task, n.ContextID
		}
	}
	return "", ""
}
