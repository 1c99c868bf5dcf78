// floor: the cheapest honest server for each workload on plain net/http (or grpc-go).
//
//	-codec v1|v2|hand  decode with encoding/json, encoding/json/v2 or a hand parser; responses are appended bytes
//	-codec const       net/http, body read and dropped, constant response (no decode, no store)
//	-codec raw         the same constant bytes from a goroutine-per-connection TCP loop (no net/http)
//	-codec rawhand     that TCP loop with the hand parser, the task store and the append encoder (SendMessage only)
//	-flush event|batch SSE flush policy: per event, or only when nothing more is pending
//	-cache             GetTask answers from bytes encoded once
package main

import (
	"bufio"
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ---- model ----

type Part struct {
	Text string `json:"text"`
}
type Message struct {
	MessageID string `json:"messageId"`
	ContextID string `json:"contextId"`
	TaskID    string `json:"taskId"`
	Role      string `json:"role"`
	Parts     []Part `json:"parts"`
}
type Config struct {
	ReturnImmediately bool `json:"returnImmediately"`
}
type Params struct { // union of the params used here, so one decode pass is enough
	Message       *Message `json:"message"`
	Configuration *Config  `json:"configuration"`
	ID            string   `json:"id"`
	PageSize      int      `json:"pageSize"`
}
type Req struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  Params          `json:"params"`
}

type artifact struct {
	id, name string
	parts    []Part
}
type task struct {
	id, ctx, state string
	ts             time.Time
	history        []Message
	artifacts      []artifact

	mu    sync.Mutex
	subs  []*sub
	log   [][]byte // encoded events, shared by all subscribers
	done  bool
	cache []byte
}
type sub struct {
	wake chan struct{}
	pos  int
}

type store struct {
	mu    sync.RWMutex
	m     map[string]*task
	order []*task // by last update; an echo task finishes as it is inserted
}

var st = store{m: map[string]*task{}}

func (s *store) put(t *task) {
	s.mu.Lock()
	s.m[t.id] = t
	s.order = append(s.order, t)
	s.mu.Unlock()
}
func (s *store) get(id string) *task { s.mu.RLock(); t := s.m[id]; s.mu.RUnlock(); return t }

// ---- ids ----

var (
	idMu  sync.Mutex
	idBuf [4096]byte
	idPos = len(idBuf)
)

func newID() string {
	var b [16]byte
	idMu.Lock()
	if idPos == len(idBuf) {
		crand.Read(idBuf[:])
		idPos = 0
	}
	copy(b[:], idBuf[idPos:])
	idPos += 16
	idMu.Unlock()
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var d [36]byte
	hex.Encode(d[:8], b[:4])
	d[8] = '-'
	hex.Encode(d[9:13], b[4:6])
	d[13] = '-'
	hex.Encode(d[14:18], b[6:8])
	d[18] = '-'
	hex.Encode(d[19:23], b[8:10])
	d[23] = '-'
	hex.Encode(d[24:], b[10:])
	return string(d[:])
}

// ---- append encoder ----

const hexd = "0123456789abcdef"

// safeLen counts the leading bytes of s that need no escape, eight at a time.
func safeLen(s []byte) int {
	const lo, hi = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64(s[i:])
		q, bs := x^(lo*'"'), x^(lo*'\\')
		if ((x-lo*0x20)&^x|(q-lo)&^q|(bs-lo)&^bs)&hi != 0 {
			break
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

func appStr(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		i += safeLen(unsafe.Slice(unsafe.StringData(s), len(s))[i:])
		if i == len(s) {
			break
		}
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hexd[c>>4], hexd[c&15])
		}
		start = i + 1
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appParts(b []byte, ps []Part) []byte {
	b = append(b, `"parts":[`...)
	for i := range ps {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"text":`...)
		b = appStr(b, ps[i].Text)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appMsg(b []byte, m *Message) []byte {
	b = append(b, `{"messageId":`...)
	b = appStr(b, m.MessageID)
	if m.ContextID != "" {
		b = append(b, `,"contextId":`...)
		b = appStr(b, m.ContextID)
	}
	b = append(b, ',')
	b = appParts(b, m.Parts)
	b = append(b, `,"role":`...)
	b = appStr(b, m.Role)
	if m.TaskID != "" {
		b = append(b, `,"taskId":`...)
		b = appStr(b, m.TaskID)
	}
	return append(b, '}')
}

func appStatus(b []byte, state string, ts time.Time) []byte {
	b = append(b, `"status":{"state":"`...)
	b = append(b, state...)
	b = append(b, `","timestamp":"`...)
	b = ts.AppendFormat(b, "2006-01-02T15:04:05.000Z")
	return append(b, `"}`...)
}

func appArtifact(b []byte, a *artifact) []byte {
	b = append(b, `{"artifactId":`...)
	b = appStr(b, a.id)
	if a.name != "" {
		b = append(b, `,"name":`...)
		b = appStr(b, a.name)
	}
	b = append(b, ',')
	b = appParts(b, a.parts)
	return append(b, '}')
}

func appTask(b []byte, t *task, withArtifacts bool) []byte {
	b = append(b, `{"id":`...)
	b = appStr(b, t.id)
	b = append(b, `,"contextId":`...)
	b = appStr(b, t.ctx)
	b = append(b, ',')
	b = appStatus(b, t.state, t.ts)
	if withArtifacts && len(t.artifacts) > 0 {
		b = append(b, `,"artifacts":[`...)
		for i := range t.artifacts {
			if i > 0 {
				b = append(b, ',')
			}
			b = appArtifact(b, &t.artifacts[i])
		}
		b = append(b, ']')
	}
	b = append(b, `,"history":[`...)
	for i := range t.history {
		if i > 0 {
			b = append(b, ',')
		}
		b = appMsg(b, &t.history[i])
	}
	return append(b, `]}`...)
}

func appStatusEv(b []byte, t *task, state string) []byte {
	b = append(b, `{"statusUpdate":{"taskId":"`...)
	b = append(b, t.id...)
	b = append(b, `","contextId":"`...)
	b = append(b, t.ctx...)
	b = append(b, `",`...)
	b = appStatus(b, state, t.ts)
	return append(b, `}}`...)
}

func appArtEv(b []byte, t *task, a *artifact, appnd bool) []byte {
	b = append(b, `{"artifactUpdate":{"taskId":"`...)
	b = append(b, t.id...)
	b = append(b, `","contextId":"`...)
	b = append(b, t.ctx...)
	b = append(b, `","artifact":`...)
	b = appArtifact(b, a)
	if appnd {
		b = append(b, `,"append":true`...)
	}
	return append(b, `}}`...)
}

// ---- agent ----

var (
	gateMu sync.Mutex
	gate   = make(chan struct{})
)

func newTask(m *Message) *task {
	ctx := m.ContextID
	if ctx == "" {
		ctx = newID()
	}
	return &task{id: newID(), ctx: ctx, state: "TASK_STATE_SUBMITTED", ts: time.Now().UTC(), history: []Message{*m}}
}

func echo(m *Message) *task {
	t := newTask(m)
	t.state = "TASK_STATE_WORKING"
	text := m.Parts[0].Text
	if strings.HasPrefix(text, "B:") {
		for i := 1; i < 20; i++ {
			role := "ROLE_USER"
			if i%2 == 1 {
				role = "ROLE_AGENT"
			}
			t.history = append(t.history, Message{MessageID: newID(), ContextID: t.ctx, TaskID: t.id, Role: role, Parts: []Part{{strings.Repeat("h", 100)}}})
		}
		for range 5 {
			t.artifacts = append(t.artifacts, artifact{id: newID(), name: "result", parts: []Part{{strings.Repeat("a", 200)}}})
		}
	} else {
		t.artifacts = []artifact{{id: newID(), parts: []Part{{text}}}}
	}
	t.state = "TASK_STATE_COMPLETED"
	t.ts = time.Now().UTC()
	t.done = true
	st.put(t)
	return t
}

func (t *task) emit(ev []byte, last bool) {
	t.mu.Lock()
	t.log = append(t.log, ev)
	if last {
		t.done = true
	}
	for _, s := range t.subs {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	t.mu.Unlock()
}

// runStream applies each event to the stored task and publishes its bytes.
func (t *task) runStream(n int, mode string, size int, emit func([]byte, bool)) {
	if mode == "s" {
		for range n {
			t.mu.Lock()
			t.state, t.ts = "TASK_STATE_WORKING", time.Now().UTC()
			t.mu.Unlock()
			emit(appStatusEv(nil, t, t.state), false)
		}
	} else {
		id := newID()
		for i := range n {
			chunk := artifact{id: id, parts: []Part{{strings.Repeat("x", size)}}}
			t.mu.Lock()
			if i == 0 {
				t.artifacts = append(t.artifacts, artifact{id: id})
			}
			a := &t.artifacts[0]
			a.parts = append(a.parts, chunk.parts...)
			t.mu.Unlock()
			emit(appArtEv(make([]byte, 0, 320), t, &chunk, i > 0), false)
		}
	}
	t.mu.Lock()
	t.state, t.ts = "TASK_STATE_COMPLETED", time.Now().UTC()
	t.mu.Unlock()
	emit(appStatusEv(nil, t, t.state), true)
}

func parseCmd(text string) (n int, mode string, size int) {
	f := strings.Split(text, ":")
	n, _ = strconv.Atoi(f[1])
	mode, size = f[2], 32
	if len(f) > 3 {
		size, _ = strconv.Atoi(f[3])
	}
	return n, mode, size
}

// ---- http ----

type (
	codec   interface{ decode([]byte, any) error }
	v1codec struct{}
)

func (v1codec) decode(b []byte, v any) error { return json.Unmarshal(b, v) }

var (
	codecs             = map[string]codec{"v1": v1codec{}, "hand": handCodec{}}
	cd                 codec
	perEvent, useCache bool
)

var bufs = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func readBody(r *http.Request, b []byte) ([]byte, error) {
	if n := r.ContentLength; n >= 0 {
		if int64(cap(b)) < n {
			b = make([]byte, 0, n)
		}
		b = b[:n]
		_, err := io.ReadFull(r.Body, b)
		return b, err
	}
	bb, err := io.ReadAll(r.Body)
	return append(b, bb...), err
}

func send(w http.ResponseWriter, b []byte) {
	h := w.Header()
	h["Content-Type"] = ctJSON
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Write(b)
}

var (
	ctJSON  = []string{"application/json"}
	ctSSE   = []string{"text/event-stream"}
	noCache = []string{"no-cache"}
)

func handle(w http.ResponseWriter, r *http.Request) {
	bp := bufs.Get().(*[]byte)
	op := bufs.Get().(*[]byte)
	defer func() { bufs.Put(bp); bufs.Put(op) }()
	out := (*op)[:0]
	path := r.URL.Path
	if path != "/rpc" {
		switch {
		case path == "/rest/message:send":
			b, err := readBody(r, (*bp)[:0])
			*bp = b
			var p Params
			if err == nil {
				err = cd.decode(b, &p)
			}
			if err != nil || p.Message == nil || len(p.Message.Parts) == 0 {
				http.Error(w, "bad", 400)
				return
			}
			out = append(out, `{"task":`...)
			out = appTask(out, echo(p.Message), true)
			out = append(out, '}')
			send(w, out)
			*op = out
		case strings.HasPrefix(path, "/rest/tasks/"):
			t := st.get(path[len("/rest/tasks/"):])
			if t == nil {
				http.NotFound(w, r)
				return
			}
			out = appTask(out, t, true)
			send(w, out)
			*op = out
		default:
			http.NotFound(w, r)
		}
		return
	}
	b, err := readBody(r, (*bp)[:0])
	*bp = b
	var q Req
	if err == nil {
		err = cd.decode(b, &q)
	}
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	head := func(out []byte) []byte {
		out = append(out, `{"jsonrpc":"2.0","id":`...)
		out = append(out, q.ID...)
		return append(out, `,"result":`...)
	}
	switch q.Method {
	case "SendMessage":
		if q.Params.Message == nil || len(q.Params.Message.Parts) == 0 {
			http.Error(w, "bad", 400)
			return
		}
		out = head(out)
		out = append(out, `{"task":`...)
		if text := q.Params.Message.Parts[0].Text; strings.HasPrefix(text, "F:") {
			t := newTask(q.Params.Message)
			st.put(t)
			n, mode, size := parseCmd(text)
			gateMu.Lock()
			g := gate
			gateMu.Unlock()
			go func() { <-g; t.runStream(n, mode, size, t.emit) }()
			out = appTask(out, t, true)
		} else {
			out = appTask(out, echo(q.Params.Message), true)
		}
		out = append(out, `}}`...)
		send(w, out)
		*op = out
	case "GetTask":
		t := st.get(q.Params.ID)
		if t == nil {
			http.NotFound(w, r)
			return
		}
		out = head(out)
		if useCache {
			t.mu.Lock()
			if t.cache == nil {
				t.cache = appTask(nil, t, true)
			}
			c := t.cache
			t.mu.Unlock()
			out = append(out, c...)
		} else {
			t.mu.Lock()
			out = appTask(out, t, true)
			t.mu.Unlock()
		}
		out = append(out, '}')
		send(w, out)
		*op = out
	case "ListTasks":
		n := q.Params.PageSize
		if n == 0 {
			n = 50
		}
		st.mu.RLock()
		total := len(st.order)
		page := st.order[max(0, total-n):]
		st.mu.RUnlock()
		out = head(out)
		out = append(out, `{"tasks":[`...)
		for i := len(page) - 1; i >= 0; i-- {
			out = appTask(out, page[i], false)
			if i > 0 {
				out = append(out, ',')
			}
		}
		out = append(out, `],"totalSize":`...)
		out = strconv.AppendInt(out, int64(total), 10)
		out = append(out, `,"pageSize":`...)
		out = strconv.AppendInt(out, int64(n), 10)
		out = append(out, `,"nextPageToken":"`...)
		if len(page) > 0 && total > n {
			out = append(out, page[0].id...)
		}
		out = append(out, `"}}`...)
		send(w, out)
		*op = out
	case "SendStreamingMessage":
		t := newTask(q.Params.Message)
		st.put(t)
		n, mode, size := parseCmd(q.Params.Message.Parts[0].Text)
		fl := sseStart(w)
		ev := func(payload []byte, last bool) {
			out = append(out[:0], "data: "...)
			out = head(out)
			out = append(out, payload...)
			out = append(out, "}\n\n"...)
			w.Write(out)
			if perEvent {
				fl.Flush()
			}
		}
		first := append([]byte(`{"task":`), appTask(nil, t, true)...)
		ev(append(first, '}'), false)
		t.runStream(n, mode, size, ev)
		*op = out
	case "SubscribeToTask":
		t := st.get(q.Params.ID)
		if t == nil {
			http.NotFound(w, r)
			return
		}
		fl := sseStart(w)
		s := &sub{wake: make(chan struct{}, 1)}
		t.mu.Lock()
		snap := append([]byte(`{"task":`), appTask(nil, t, true)...)
		snap = append(snap, '}')
		s.pos = len(t.log)
		t.subs = append(t.subs, s)
		t.mu.Unlock()
		pre := head([]byte("data: "))
		w.Write(pre)
		w.Write(snap)
		io.WriteString(w, "}\n\n")
		fl.Flush()
		for {
			t.mu.Lock()
			pending, done := t.log[s.pos:], t.done
			t.mu.Unlock()
			s.pos += len(pending)
			for _, p := range pending {
				out = append(out[:0], pre...)
				out = append(out, p...)
				out = append(out, "}\n\n"...)
				w.Write(out)
				if perEvent {
					fl.Flush()
				}
			}
			if done && len(pending) == 0 {
				*op = out
				return
			}
			if len(pending) > 0 {
				if !perEvent {
					fl.Flush()
				}
				continue
			}
			select {
			case <-s.wake:
			case <-r.Context().Done():
				return
			}
		}
	default:
		http.Error(w, "method", 400)
	}
}

func sseStart(w http.ResponseWriter) http.Flusher {
	h := w.Header()
	h["Content-Type"] = ctSSE
	h["Cache-Control"] = noCache
	w.WriteHeader(200)
	return w.(http.Flusher)
}

// ---- constant floors ----

func constBody(size int) []byte {
	t := &task{id: newID(), ctx: newID(), state: "TASK_STATE_COMPLETED", ts: time.Now().UTC()}
	x := strings.Repeat("x", size)
	t.history = []Message{{MessageID: newID(), Role: "ROLE_USER", Parts: []Part{{x}}}}
	t.artifacts = []artifact{{id: newID(), parts: []Part{{x}}}}
	b := append([]byte(`{"jsonrpc":"2.0","id":1,"result":{"task":`), appTask(nil, t, true)...)
	return append(b, `}}`...)
}

func constHandler(small, big []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		bp := bufs.Get().(*[]byte)
		b, err := readBody(r, (*bp)[:0])
		*bp = b
		bufs.Put(bp)
		if err != nil {
			return
		}
		if r.ContentLength > 32<<10 {
			send(w, big)
			return
		}
		send(w, small)
	}
}

func rawServe(l net.Listener, small, big []byte, work bool) {
	hdr := func(b []byte) []byte {
		return append([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(b))+"\r\n\r\n"), b...)
	}
	rs, rb := hdr(small), hdr(big)
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer c.Close()
			br := bufio.NewReaderSize(c, 8<<10)
			var body, res, head []byte
			for {
				cl := 0
				for {
					line, err := br.ReadSlice('\n')
					if err != nil {
						return
					}
					if len(line) <= 2 {
						break
					}
					if (line[0]|0x20) == 'c' && len(line) > 16 && bytes.EqualFold(line[:15], []byte("content-length:")) {
						cl, _ = strconv.Atoi(string(bytes.TrimSpace(line[15:])))
					}
				}
				if work {
					if cap(body) < cl {
						body = make([]byte, cl)
					}
					body = body[:cl]
					if _, err := io.ReadFull(br, body); err != nil {
						return
					}
					var q Req
					if (handCodec{}).decode(body, &q) != nil || q.Params.Message == nil || len(q.Params.Message.Parts) == 0 {
						return
					}
					t := echo(q.Params.Message)
					res = append(res[:0], `{"jsonrpc":"2.0","id":`...)
					res = append(res, q.ID...)
					res = append(res, `,"result":{"task":`...)
					res = appTask(res, t, true)
					res = append(res, `}}`...)
					head = append(head[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "...)
					head = strconv.AppendInt(head, int64(len(res)), 10)
					head = append(head, "\r\n\r\n"...)
					head = append(head, res...)
					if _, err := c.Write(head); err != nil {
						return
					}
					continue
				}
				if _, err := br.Discard(cl); err != nil {
					return
				}
				out := rs
				if cl > 32<<10 {
					out = rb
				}
				if _, err := c.Write(out); err != nil {
					return
				}
			}
		}()
	}
}

// ---- grpc floor ----

type pbSrv struct {
	a2apb.UnimplementedA2AServiceServer
	mu sync.Mutex
	m  map[string]*a2apb.Task
}

func (s *pbSrv) SendMessage(ctx context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	m := r.GetMessage()
	t := &a2apb.Task{
		Id: newID(), ContextId: newID(), History: []*a2apb.Message{m},
		Artifacts: []*a2apb.Artifact{{ArtifactId: newID(), Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: m.GetParts()[0].GetText()}}}}},
		Status:    &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED, Timestamp: timestamppb.Now()},
	}
	s.mu.Lock()
	s.m[t.Id] = t
	s.mu.Unlock()
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: t}}, nil
}

func main() {
	httpAddr := flag.String("http", "127.0.0.1:7001", "")
	grpcAddr := flag.String("grpc", "127.0.0.1:7002", "")
	adminAddr := flag.String("admin", "127.0.0.1:7003", "")
	name := flag.String("codec", "v1", "")
	flush := flag.String("flush", "event", "")
	flag.BoolVar(&useCache, "cache", false, "")
	flag.Parse()
	perEvent = *flush == "event"
	small, big := constBody(100), constBody(64<<10)
	l, err := net.Listen("tcp", *httpAddr)
	if err != nil {
		log.Fatal(err)
	}
	switch *name {
	case "raw":
		go rawServe(l, small, big, false)
	case "rawhand":
		go rawServe(l, small, big, true)
	case "const":
		go http.Serve(l, constHandler(small, big))
	default:
		cd = codecs[*name]
		if cd == nil {
			log.Fatalf("codec %s is not in this build", *name)
		}
		go http.Serve(l, http.HandlerFunc(handle))
	}
	go func() {
		l, err := net.Listen("tcp", *grpcAddr)
		if err != nil {
			log.Fatal(err)
		}
		s := grpc.NewServer()
		a2apb.RegisterA2AServiceServer(s, &pbSrv{m: map[string]*a2apb.Task{}})
		log.Fatal(s.Serve(l))
	}()
	http.HandleFunc("/admin/go", func(w http.ResponseWriter, r *http.Request) {
		gateMu.Lock()
		close(gate)
		gate = make(chan struct{})
		gateMu.Unlock()
		fmt.Fprint(w, "ok")
	})
	http.HandleFunc("/admin/gc", func(w http.ResponseWriter, r *http.Request) {
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		json.NewEncoder(w).Encode(map[string]any{"heap": m.HeapAlloc, "mallocs": m.Mallocs, "total_alloc": m.TotalAlloc, "goroutines": runtime.NumGoroutine(), "go": runtime.Version(), "procs": runtime.GOMAXPROCS(0)})
	})
	log.Fatal(http.ListenAndServe(*adminAddr, nil))
}
