package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// Exchange is a request and what came back, as bytes.
type Exchange struct {
	Binding string // a2a.BindingJSONRPC, a2a.BindingREST or a2a.BindingGRPC
	// Op is the operation that the request names, as package op has it; empty where it names none.
	Op string

	// The request: on gRPC the Body is the proto's bytes and Method and URL are those of the operation.
	Method, URL string
	Sent        http.Header
	Body        []byte
	Partial     bool // Body is not all of it, so that nothing can be said about it

	// The answer. Status is HTTP's, on gRPC the status code. Frames are the data of a stream's events, on gRPC its
	// messages; a unary answer on gRPC is the one frame. Answer is the body over HTTP, and on gRPC the details of an
	// error, as the bytes of a google.rpc.Status.
	Status  int
	Header  http.Header
	Answer  []byte
	Message string // the status message on gRPC
	Stream  bool   // what came back is a stream
	Frames  [][]byte
	Bad     string // what about a stream is not framed as it should be
	Open    bool   // whoever recorded it stopped reading before the stream's end
	Err     string // why there is no answer, or no more of it; empty: there is
}

// Error is an error as every binding says it.
type Error struct {
	Code    a2a.ErrorCode // by its reason where it has one, else by its number; zero: unknown
	Number  int           // the JSON-RPC code, HTTP status or gRPC status
	Reason  string        // of its ErrorInfo; empty: none
	Domain  string        // of its ErrorInfo
	Message string
	Fields  []string // that violate something, of its BadRequest

	details []json.RawMessage
}

// String returns the error's kind, or what else is known of it.
func (e *Error) String() string {
	if e.Code != 0 {
		return e.Code.Name()
	}
	return fmt.Sprintf("error %d %s", e.Number, e.Message)
}

// envelope is a JSON-RPC response. What is absent is nil; a null is the bytes null.
type envelope struct {
	JSONRPC json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// Result returns the result as JSON, or the error. Both are nil where there is neither: for a stream, see Events.
func (x *Exchange) Result() (json.RawMessage, *Error) {
	switch {
	case x.Err != "":
		return nil, nil
	case x.Binding == a2a.BindingGRPC:
		if x.Status != 0 {
			return nil, x.grpcError()
		}
		if x.Stream || len(x.Frames) != 1 {
			return nil, nil
		}
		raw, _ := x.render(x.Frames[0])
		return raw, nil
	case x.Stream:
		return nil, nil
	case x.Binding == a2a.BindingJSONRPC:
		return splitRPC(x.Answer)
	case x.Status >= 200 && x.Status < 300:
		if len(bytes.TrimSpace(x.Answer)) == 0 {
			return json.RawMessage("{}"), nil // a deletion may say nothing
		}
		return x.Answer, nil
	}
	return nil, restError(x.Answer, x.Status)
}

// Events returns the results in a stream's frames as JSON. An error among them ends it.
func (x *Exchange) Events() (events []json.RawMessage, end *Error) {
	if !x.Stream {
		return nil, nil
	}
	for _, f := range x.Frames {
		raw, err := x.event(f)
		if err != nil {
			return events, err
		}
		events = append(events, raw)
	}
	if x.Binding == a2a.BindingGRPC && x.Status != 0 && x.Err == "" {
		return events, x.grpcError()
	}
	return events, nil
}

func (x *Exchange) event(frame []byte) (json.RawMessage, *Error) {
	switch x.Binding {
	case a2a.BindingGRPC:
		raw, _ := x.render(frame)
		return raw, nil
	case a2a.BindingJSONRPC:
		return splitRPC(frame)
	}
	var failed struct{ Error json.RawMessage }
	if json.Unmarshal(frame, &failed) == nil && failed.Error != nil {
		return nil, restError(frame, 0)
	}
	return frame, nil
}

// Failure returns the error that the exchange ended with, wherever it stands, or nil.
func (x *Exchange) Failure() *Error {
	if _, err := x.Result(); err != nil {
		return err
	}
	_, err := x.Events()
	return err
}

func splitRPC(data []byte) (json.RawMessage, *Error) {
	var e envelope
	if json.Unmarshal(data, &e) != nil {
		return nil, nil
	}
	if e.Error == nil || string(e.Error) == "null" {
		return e.Result, nil
	}
	var body struct {
		Code    json.Number
		Message any
		Data    json.RawMessage
	}
	out := new(Error)
	if json.Unmarshal(e.Error, &body) == nil {
		n, _ := body.Code.Int64()
		out.Number = int(n)
		out.Message, _ = body.Message.(string)
		_ = json.Unmarshal(body.Data, &out.details) // else they are none
	}
	if c := a2a.ErrorCode(out.Number); c.Known() {
		out.Code = c
	}
	out.read()
	return nil, out
}

func restError(data []byte, status int) *Error {
	var body struct {
		Error struct {
			Code    int
			Message string
			Details []json.RawMessage
		}
	}
	out := &Error{Number: status}
	if json.Unmarshal(data, &body) == nil {
		out.Message, out.details = body.Error.Message, body.Error.Details
		if status == 0 {
			out.Number = body.Error.Code
		}
	}
	out.read()
	return out
}

func (x *Exchange) grpcError() *Error {
	out := &Error{Number: x.Status, Message: x.Message}
	st := new(rpcstatus.Status)
	if proto.Unmarshal(x.Answer, st) == nil {
		for _, d := range st.GetDetails() {
			if b, err := protojson.Marshal(d); err == nil {
				out.details = append(out.details, b)
			}
		}
	}
	out.read()
	return out
}

// The details that are read here, by name.
var (
	errorInfo  = "type.googleapis.com/" + string((&errdetails.ErrorInfo{}).ProtoReflect().Descriptor().FullName())
	badRequest = "type.googleapis.com/" + string((&errdetails.BadRequest{}).ProtoReflect().Descriptor().FullName())
)

// read takes what is known from the details.
func (e *Error) read() {
	for _, raw := range e.details {
		var d struct {
			Type            string `json:"@type"`
			Reason, Domain  string
			FieldViolations []struct{ Field string }
		}
		if json.Unmarshal(raw, &d) != nil {
			continue
		}
		switch d.Type {
		case errorInfo:
			e.Reason, e.Domain = d.Reason, d.Domain
			if c, ok := a2a.CodeOfReason(d.Reason); ok && (e.Code == 0 || protocol(c)) {
				e.Code = c
			}
		case badRequest:
			for _, v := range d.FieldViolations {
				e.Fields = append(e.Fields, v.Field)
			}
		}
	}
}

// protocol reports whether an error is one that the protocol itself names (3.3.2).
func protocol(c a2a.ErrorCode) bool {
	return c <= a2a.ErrTaskNotFound && c >= a2a.ErrVersionNotSupported
}

// method returns the operation in the proto, or nil.
func method(name string) protoreflect.MethodDescriptor {
	return pb.File_a2av1_proto.Services().ByName("A2AService").Methods().ByName(protoreflect.Name(name))
}

// NewMessage returns an empty message of an operation's request, or of its answer; nil where there is no such operation.
func NewMessage(operation string, answer bool) proto.Message {
	m := method(operation)
	if m == nil {
		return nil
	}
	d := m.Input()
	if answer {
		d = m.Output()
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil
	}
	return t.New().Interface()
}

// render returns a gRPC message as JSON.
func (x *Exchange) render(data []byte) (json.RawMessage, error) {
	m := NewMessage(x.Op, true)
	if m == nil {
		return nil, fmt.Errorf("no operation %q", x.Op)
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return renderMessage(m)
}

func renderMessage(m proto.Message) (json.RawMessage, error) { return protojson.Marshal(m) }

// Streams reports whether the operation answers by a stream.
func Streams(operation string) bool {
	o := op.ByName(operation)
	return o != nil && o.Stream != nil
}

// shown are the headers that a report shows: none that could hold a secret.
var shown = []string{"A2a-Version", "A2a-Extensions", "Accept", "Content-Type", "Www-Authenticate", "Cache-Control", "Etag", "If-None-Match", "Location"}

func writeHeader(b *strings.Builder, h http.Header) {
	for _, name := range shown {
		for _, v := range h[name] {
			b.WriteString(name + ": " + Clip(v, 200) + "\n")
		}
	}
}

// maxShown is how many bytes of a body, or of all frames, a report shows.
const maxShown = 4000

// Request returns what was sent, for a person: credentials are left out.
func (x *Exchange) Request() string {
	var b strings.Builder
	address, _, _ := strings.Cut(x.URL, "?")
	if _, query, ok := strings.Cut(x.URL, "?"); ok {
		address += "?" + blot(query)
	}
	b.WriteString(x.Method + " " + address + "\n")
	writeHeader(&b, x.Sent)
	if len(x.Body) > 0 {
		body := x.Body
		if m := NewMessage(x.Op, false); x.Binding == a2a.BindingGRPC && m != nil && proto.Unmarshal(body, m) == nil {
			body, _ = protojson.Marshal(m)
		}
		b.WriteString("\n" + Clip(string(body), maxShown) + "\n")
	}
	return b.String()
}

// plain are the query parameters of the protocol; others may be secrets.
var plain = func() []string {
	names := []string{"A2A-Version"}
	for i := range op.All {
		names = append(names, op.All[i].Query...)
	}
	return names
}()

func blot(query string) string {
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if name, _, _ := strings.Cut(p, "="); !slices.Contains(plain, name) {
			parts[i] = name + "=…"
		}
	}
	return strings.Join(parts, "&")
}

// Response returns what came back, for a person.
func (x *Exchange) Response() string {
	var b strings.Builder
	if x.Binding == a2a.BindingGRPC {
		fmt.Fprintf(&b, "status %s %s\n", a2a.Status(x.Status), Clip(x.Message, 400))
	} else if x.Status != 0 {
		fmt.Fprintf(&b, "HTTP %d\n", x.Status)
	}
	writeHeader(&b, x.Header)
	left := maxShown
	show := func(s string) {
		if left > 0 {
			b.WriteString(Clip(s, left) + "\n")
			left -= len(s)
		}
	}
	if x.Binding == a2a.BindingGRPC && x.Status != 0 {
		for _, d := range x.grpcError().details {
			show(string(d))
		}
	} else if len(x.Answer) > 0 {
		show("\n" + string(x.Answer))
	}
	for _, f := range x.Frames {
		if x.Binding == a2a.BindingGRPC {
			f, _ = x.render(f)
		}
		show(string(f))
	}
	switch {
	case x.Err != "":
		b.WriteString("(" + x.Err + ")\n")
	case x.Stream && x.Open:
		b.WriteString("(still open)\n")
	case x.Stream:
		b.WriteString("(end of stream)\n")
	}
	return b.String()
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return h.Get("Content-Type")
	}
	return t
}
