package tap

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// What an exchange is.
const (
	KindCall    = "call"    // an operation of the protocol, or an attempt at one
	KindCard    = "card"    // the agent's card, which is what the tap changes
	KindWebhook = "webhook" // a notification on its way from the agent to a webhook
	KindOther   = "other"   // anything else that was asked of the agent's server
)

// Exchange is one HTTP request and its answer as they passed, without secrets. On gRPC it is one call. Times are those of
// the tap. Its JSON is what a recording has; durations are nanoseconds there.
type Exchange struct {
	ID      int64     `json:"id"`                // from 1, in the order in which requests came; each exactly 1 higher
	Version int64     `json:"version,omitempty"` // of the recorder, at this exchange's last change: see Recorder.Exchanges
	Start   time.Time `json:"start,omitzero"`
	Kind    string    `json:"kind,omitempty"`
	Binding string    `json:"binding,omitempty"` // as package a2a names them; empty where it is no interface of the card
	// Operation is the one that the request names, as the specification writes it, or what a JSON-RPC request has in its
	// place; empty where it names none.
	Operation string `json:"operation,omitempty"`
	Method    string `json:"method,omitempty"`   // of HTTP
	URL       string `json:"url,omitempty"`      // what the client asked for, at the tap
	Upstream  string `json:"upstream,omitempty"` // what the tap asked for; empty where it did not ask
	Proto     string `json:"proto,omitempty"`    // of the client's connection, such as HTTP/2.0
	Client    string `json:"client,omitempty"`   // its address and port
	Task      string `json:"task,omitempty"`     // the task's id, from the request or the first answer that names one
	Context   string `json:"context,omitempty"`  // the context's id, likewise

	RequestHeader http.Header `json:"requestHeader,omitempty"`
	Request       Body        `json:"request,omitempty"` // the body, on gRPC the message

	Status         int         `json:"status,omitempty"` // of HTTP; zero: no answer yet, or none at all
	ResponseHeader http.Header `json:"responseHeader,omitempty"`
	Trailer        http.Header `json:"trailer,omitempty"`
	Response       Body        `json:"response,omitempty"` // the body of an answer without frames
	Stream         bool        `json:"stream,omitempty"`   // server-sent events, or a streaming operation of gRPC
	Frames         []Frame     `json:"frames,omitempty"`   // the events of a stream; on gRPC every message of the answer

	First    time.Duration `json:"first,omitempty"`    // from Start to the answer's header
	Duration time.Duration `json:"duration,omitempty"` // from Start to the last byte so far
	Done     bool          `json:"done,omitempty"`     // it has ended
	Err      string        `json:"err,omitempty"`      // why there is no answer, or no more of it; empty: it ended in order
	Findings []Finding     `json:"findings,omitempty"` // about the whole; those about a frame are the frame's
	Sent     int64         `json:"sent,omitempty"`     // bytes of the request's body that passed
	Received int64         `json:"received,omitempty"` // bytes of the answer's body that passed
	// Truncated counts the bytes of bodies and frames that are not here: in memory because the window is full (the file has
	// them), in a file because they are over a limit.
	Truncated int64  `json:"truncated,omitempty"`
	Note      string `json:"note,omitempty"` // what the tap did to it, such as what it changed; empty: nothing
}

// Frame is one event of a stream, or one message of gRPC.
type Frame struct {
	At       time.Duration `json:"at"`             // from the exchange's Start to the frame's last byte
	Data     Body          `json:"data,omitempty"` // the event's data, or the message
	Event    string        `json:"event,omitempty"`
	ID       string        `json:"id,omitempty"` // the event's id field
	Findings []Finding     `json:"findings,omitempty"`
}

// Finding is one place where a clause of the specification is broken: what package rules found, with the clause itself.
type Finding struct {
	Rule    string      `json:"rule"`           // the clause's id, such as stream-first
	Level   rules.Level `json:"level"`          // MUST or SHOULD
	Section string      `json:"section"`        // of the specification
	Says    string      `json:"says"`           // what the clause asks for, in words
	Path    string      `json:"path,omitempty"` // in the result or frame, such as status.timestamp; empty: the whole
	Got     string      `json:"got"`            // what was there
	Want    string      `json:"want"`           // what should have been
	Client  bool        `json:"client,omitempty"`
}

// findings explains what rules found.
func findings(found []rules.Finding) []Finding {
	out := make([]Finding, 0, len(found))
	for _, f := range found {
		c := rules.ByID(f.Rule)
		if c == nil {
			continue
		}
		out = append(out, Finding{
			Rule: f.Rule, Level: c.Level, Section: c.Section, Says: c.Says, Path: f.Path, Got: f.Got, Want: f.Want, Client: rules.OfClients(f.Rule),
		})
	}
	return out
}

// Body is bytes that are most often text. In JSON it is a string, or an object with the member base64 where it is not
// UTF-8, so that nothing is lost.
type Body []byte

type binaryBody struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return marshal(string(b))
	}
	return marshal(binaryBody{b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Body) UnmarshalJSON(data []byte) error {
	var s *string
	if json.Unmarshal(data, &s) == nil {
		*b = nil
		if s != nil {
			*b = Body(*s)
		}
		return nil
	}
	var bin binaryBody
	if json.Unmarshal(data, &bin) != nil {
		return errors.New("tap: a body is a string, or an object with base64")
	}
	*b = bin.Base64
	return nil
}

// RequestText returns the request's body for a person: as it is, or on gRPC the message as JSON.
func (x *Exchange) RequestText() string { return x.text(x.Request, false) }

// Text returns the body of an answer, or the data of a frame, for a person: as it is, or on gRPC the message as JSON.
func (x *Exchange) Text(data []byte) string { return x.text(data, true) }

func (x *Exchange) text(data []byte, answer bool) string {
	if x.Binding != a2a.BindingGRPC {
		return string(data)
	}
	m := rules.NewMessage(x.Operation, answer)
	if m == nil || proto.Unmarshal(data, m) != nil {
		return string(data)
	}
	b, err := protojson.Marshal(m)
	if err != nil {
		return string(data)
	}
	return string(b)
}

// All returns the exchange's findings and those of its frames, in that order.
func (x *Exchange) All() []Finding {
	all := append([]Finding(nil), x.Findings...)
	for i := range x.Frames {
		all = append(all, x.Frames[i].Findings...)
	}
	return all
}
