package tap

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/rules"
)

// note is something that was seen of an exchange.
type note struct {
	p    *passing
	at   time.Duration // from the exchange's start
	kind noteKind
	data []byte // copied

	length int64       // length
	status int         // head
	header http.Header // head, and end for the trailer
	text   string      // upstream, remark and end
}

type noteKind uint8

const (
	noteBegin    noteKind = iota // the request's header is there
	noteSent                     // bytes of the request's body
	noteLength                   // it has ended, and how long it was
	noteUpstream                 // where it goes
	noteRemark                   // what the tap did
	noteHead                     // the answer's header
	noteReceived                 // bytes of the answer's body
	noteEnd
)

// passing is an exchange on its way. Its fields are of the recorder's goroutine, unless something else is said.
type passing struct {
	rec   *Recorder
	start time.Time // constant, as is x.ID

	// Under the lock of the queue, until the end.
	torn bool
	lost int64

	x       Exchange
	secrets []string
	raw     []byte // of the request
	length  int64  // of the request's body; negative: not known yet
	rest    string // on REST: the path below the interface's URL
	asked   bool   // the request was read
	begun   bool   // it is in the file

	coded  string // the answer's Content-Encoding
	framer framer
	answer []byte
	live   *rules.Live
	wire   rules.Exchange // what live judges

	frames  int
	grown   int64 // bytes in memory since it was last shown
	kept    int64
	shown   bool
	touched bool
	counted bool
	fresh   []Finding // not yet counted
	said    []string  // the rules that the log has
}

// take takes in a note.
func (p *passing) take(n *note) {
	p.x.Duration = max(p.x.Duration, n.at)
	switch n.kind {
	case noteBegin:
		p.begin()
	case noteSent:
		p.x.Sent += int64(len(n.data))
		p.raw = p.bounded(p.raw, n.data)
	case noteLength:
		p.length = n.length
	case noteUpstream:
		p.x.Upstream = p.rec.redact.address(n.text)
	case noteRemark:
		p.remark(n.text)
	case noteHead:
		p.readRequest()
		p.head(n)
	case noteReceived:
		p.x.Received += int64(len(n.data))
		if p.framer != nil {
			p.feed(n.data, n.at)
		} else {
			p.answer = p.bounded(p.answer, n.data)
		}
	case noteEnd:
		p.end(n)
	}
}

func (p *passing) remark(text string) {
	if p.x.Note != "" {
		p.x.Note += "; "
	}
	p.x.Note += text
}

func (p *passing) bounded(to, b []byte) []byte {
	if over := len(to) + len(b) - maxBody; over > 0 {
		p.x.Truncated += int64(over)
		b = b[:len(b)-over]
	}
	return append(to, b...)
}

// begin reads the request's header.
func (p *passing) begin() {
	p.x.RequestHeader, p.secrets = p.rec.redact.header(p.x.RequestHeader)
	p.x.URL = p.rec.redact.address(p.x.URL)
	if p.x.Kind == "" {
		u, _ := url.ParseRequestURI(p.x.URL)
		p.x.Kind, p.x.Binding, p.rest = p.rec.classify(u, p.x.RequestHeader)
	}
}

// readRequest reads what there is of the request's body: when the answer begins it is whole, unless the agent refuses it
// early.
func (p *passing) readRequest() {
	if p.asked {
		return
	}
	p.asked = true
	body, whole := p.raw, p.x.Sent == p.length && p.x.Truncated == 0
	switch p.x.Binding {
	case a2a.BindingJSONRPC:
		body = p.rec.redact.body(body, "", p.secrets)
		p.x.Operation, p.x.Task, p.x.Context = readRPC(body)
	case a2a.BindingREST:
		body = p.rec.redact.body(body, p.x.RequestHeader.Get("Content-Type"), p.secrets)
		var id string
		p.x.Operation, id = restOperation(p.x.Method, p.rest)
		p.x.Task, p.x.Context = idsOf(body)
		if id != "" {
			p.x.Task = id
		}
	case a2a.BindingGRPC:
		body, whole = p.readMessage(whole)
	default:
		body = p.rec.redact.body(body, p.x.RequestHeader.Get("Content-Type"), p.secrets)
	}
	p.x.Request, p.raw = body, nil
	p.keep(int64(len(body)))
	p.wire = rules.Exchange{
		Binding: p.x.Binding, Op: p.x.Operation, Method: p.x.Method, URL: p.x.URL, Sent: p.x.RequestHeader, Body: body, Partial: !whole,
	}
	if !whole && (p.x.Kind == KindCall || p.x.Kind == KindWebhook) {
		p.remark("the request was not read to its end, or not recorded whole, and its body is not judged")
	}
	switch {
	case p.x.Kind == KindCall:
		p.found(&p.x.Findings, rules.CheckRequest(&p.wire).Findings)
	case p.x.Kind == KindWebhook && whole:
		p.x.Task, p.x.Context = idsOf(body)
		p.found(&p.x.Findings, rules.CheckEvent(json.RawMessage(body)).Findings)
	}
	p.begun = true
	p.rec.write(&line{Type: lineBegin, Exchange: &p.x})
}

// readMessage reads the message of a call over gRPC. A message says how long it is, so that it may be whole before the end
// of the body was seen.
func (p *passing) readMessage(ended bool) (message []byte, whole bool) {
	if u, err := url.Parse(p.x.URL); err == nil {
		p.x.Operation = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	var body []byte
	m := messages{encoding: p.x.RequestHeader.Get("Grpc-Encoding")}
	m.feed(p.raw, func(f Frame) { body = f.Data })
	clean, ok := p.rec.redact.message(p.x.Operation, false, body, p.secrets)
	if !ok && len(body) > 0 {
		p.x.Truncated += int64(len(body))
		p.remark("the request's message cannot be read; it is not recorded, since nobody can tell whether there are secrets in it")
		return nil, ended
	}
	p.x.Task, p.x.Context = requestIDs(p.x.Operation, []byte(p.x.text(clean, false)))
	return clean, ended || p.x.Sent > 0 && m.end() == ""
}

// head reads the answer's header.
func (p *passing) head(n *note) {
	p.x.Status, p.x.First = n.status, n.at
	var secrets []string
	p.x.ResponseHeader, secrets = p.rec.redact.header(n.header)
	p.secrets = append(p.secrets, secrets...)
	p.coded = n.header.Get("Content-Encoding")
	switch {
	case p.x.Binding == a2a.BindingGRPC:
		p.framer = &messages{encoding: n.header.Get("Grpc-Encoding")}
		p.x.Stream, p.coded = rules.Streams(p.x.Operation), ""
	case strings.HasPrefix(n.header.Get("Content-Type"), "text/event-stream"):
		p.x.Stream = true
		p.framer = new(events)
	}
	p.wire.Status, p.wire.Header, p.wire.Stream = p.x.Status, p.x.ResponseHeader, p.x.Stream
	if p.x.Kind == KindCall {
		p.live = rules.Follow(&p.wire)
	}
	if p.coded != "" && p.framer != nil {
		p.framer = nil // it is cut when it is whole
	}
}

// feed cuts bytes of the answer into frames.
func (p *passing) feed(b []byte, at time.Duration) {
	p.framer.feed(b, func(f Frame) {
		f.At = at
		p.frame(f)
	})
}

func (p *passing) frame(f Frame) {
	p.frames++
	if p.x.Binding != a2a.BindingGRPC {
		f.Data = p.rec.redact.body(f.Data, "", p.secrets)
	} else if clean, ok := p.rec.redact.message(p.x.Operation, true, f.Data, p.secrets); ok {
		f.Data = clean
	} else {
		f.Data = literals(f.Data, p.secrets) // an agent's answer that is broken is there to be looked at
	}
	if p.live != nil {
		p.found(&f.Findings, p.live.Frame(f.Data))
	}
	if p.x.Task == "" || p.x.Context == "" {
		p.name(idsOf([]byte(p.x.text(f.Data, true))))
	}
	p.rec.write(&line{Type: lineFrame, Exchange: &Exchange{ID: p.x.ID}, Frame: &f})
	if size := int64(len(f.Data)) + frameSize; p.keep(size) {
		p.x.Frames = append(p.x.Frames, f)
	} else {
		p.x.Truncated += int64(len(f.Data))
	}
}

// name sets the ids that are not known yet.
func (p *passing) name(task, context string) {
	if p.x.Task == "" {
		p.x.Task = task
	}
	if p.x.Context == "" {
		p.x.Context = context
	}
}

// keep reports whether so many bytes more of the exchange are kept in memory, and counts them.
func (p *passing) keep(n int64) bool {
	if p.kept+n > p.rec.opts.MaxBytes/2 && p.kept > 0 {
		return false
	}
	p.kept += n
	p.grown += n
	return true
}

// found keeps what rules found.
func (p *passing) found(to *[]Finding, found []rules.Finding) {
	list := findings(found)
	*to = slices.Concat(*to, list) // never in place: a snapshot has the old ones
	p.fresh = append(p.fresh, list...)
	for _, f := range list {
		p.rec.complain(p, f)
	}
}

// end finishes the exchange.
func (p *passing) end(n *note) {
	p.readRequest()
	p.x.Trailer, _ = p.rec.redact.header(n.header)
	p.x.Err = n.text
	p.decode(n.at)
	bad := ""
	if p.framer != nil {
		bad = p.framer.end()
		p.x.Truncated += cutBy(p.framer)
	} else if len(p.answer) > 0 {
		p.unary()
	}
	p.answer = nil
	p.judge(bad)
	if p.lost > 0 {
		p.x.Truncated += p.lost
		p.remark(fmt.Sprintf("the recorder could not keep up: the last %d bytes passed unrecorded", p.lost))
	}
	p.x.Done = true
	final := p.x
	final.Version, final.RequestHeader, final.Request, final.Frames = 0, nil, nil, nil
	p.rec.write(&line{Type: lineEnd, Exchange: &final})
	p.rec.report(p)
}

func cutBy(f framer) int64 {
	switch f := f.(type) {
	case *events:
		return f.cut
	case *messages:
		return f.cut
	}
	return 0
}

// decode undoes the answer's Content-Encoding, for the record only.
func (p *passing) decode(at time.Duration) {
	if p.coded == "" || len(p.answer) == 0 {
		return
	}
	plain, err := decompress(p.coded, p.answer)
	if err != nil {
		p.remark("the answer is compressed, recorded as it came and not judged: " + err.Error())
		p.live, p.wire.Stream = nil, false
		return
	}
	p.remark("the answer passed compressed with " + p.coded)
	p.answer = plain
	if p.x.Stream {
		p.framer = new(events)
		p.feed(plain, at)
		p.answer = nil
	}
}

// unary reads an answer that is no stream.
func (p *passing) unary() {
	body := p.rec.redact.body(p.answer, p.x.ResponseHeader.Get("Content-Type"), p.secrets)
	p.name(idsOf(body))
	p.x.Response = body
	p.keep(int64(len(body)))
}

// judge holds the whole to the clauses.
func (p *passing) judge(bad string) {
	w := &p.wire
	w.Answer, w.Bad, w.Err = p.x.Response, bad, p.x.Err
	switch {
	case p.x.Method == http.MethodHead: // its answer has no body
		return
	case p.x.Kind == KindCard && p.x.Status == http.StatusOK:
		p.judgeCard()
		return
	case p.live == nil || p.lost > 0 || p.left():
		return
	case p.x.Binding == a2a.BindingGRPC:
		p.grpcStatus()
	}
	before := len(p.live.Found())
	p.found(&p.x.Findings, p.live.End().Findings[before:])
}

// left reports whether the client went away, so that how the answer ends is not the agent's doing.
func (p *passing) left() bool { return p.x.Err == clientLeft }

// grpcStatus reads how a call over gRPC ended.
func (p *passing) grpcStatus() {
	w := &p.wire
	end := p.x.Trailer
	if end.Get("Grpc-Status") == "" {
		end = p.x.ResponseHeader // an answer that is only a trailer
	}
	code, err := strconv.Atoi(end.Get("Grpc-Status"))
	w.Status, w.Answer = code, nil
	switch {
	case p.x.Err != "":
	case err != nil:
		w.Err = "no grpc-status"
		p.x.Err = "the call ended without a status"
	default:
		w.Message = grpcMessage(end.Get("Grpc-Message"))
		w.Answer, _ = decodeBinary(end.Get("Grpc-Status-Details-Bin"))
		if w.Status != 0 && p.frames == 0 {
			w.Stream = false
		}
	}
}

// grpcMessage undoes the percent-encoding of gRPC's status messages.
func grpcMessage(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// decodeBinary reads a binary header of gRPC, with padding or without.
func decodeBinary(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// judgeCard holds a card to the clauses about cards, as far as they do not need more than the card.
func (p *passing) judgeCard() {
	var found []rules.Finding
	for _, f := range agentcard.Validate(p.x.Response) {
		found = append(found, rules.Finding{Rule: rules.CardRule(f.Path, f.Level == agentcard.Should), Path: f.Path, Got: f.Text, Want: f.Fix})
	}
	p.found(&p.x.Findings, found)
}
