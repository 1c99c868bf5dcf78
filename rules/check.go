package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-a2a/parley/a2a"
)

// Check holds an exchange to the clauses that it shows by itself: the envelope, the media types, errors, the data in a
// result, and the frames of a stream. What was asked for and whether it should have been granted is not judged here.
func Check(x *Exchange) Verdict {
	l := Follow(x)
	for _, f := range x.Frames {
		l.Frame(f)
	}
	return l.End()
}

// rpc checks JSON-RPC over HTTP.
func (v *Verdict) rpc(x *Exchange) {
	if !x.Stream {
		if len(bytes.TrimSpace(x.Answer)) == 0 || refused(x.Status) && mediaType(x.Header) != "application/json" {
			return // a notification, or a refusal by something in front of the agent
		}
		v.hold(mediaType(x.Header) == "application/json", "rpc-media-type", "", x.Header.Get("Content-Type"), "Content-Type: application/json")
		v.envelope(x, x.Answer, "")
	}
}

// refused reports whether an HTTP status says that the request never reached the protocol.
func refused(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests || status >= 502
}

func (v *Verdict) envelope(x *Exchange, data []byte, path string) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		v.fail("rpc-envelope", path, string(data), "a JSON-RPC response")
		return
	}
	v.hold(string(e.JSONRPC) == `"2.0"`, "rpc-envelope", at(path, "jsonrpc"), orAbsent(e.JSONRPC), `"2.0"`)
	hasError := e.Error != nil && string(e.Error) != "null"
	v.hold((e.Result != nil) != hasError, "rpc-envelope", path, string(data), "exactly one of result and error")
	var sent envelope
	switch {
	case json.Unmarshal(x.Body, &sent) == nil && sent.ID != nil && plainID(sent.ID):
		early := string(e.ID) == "null" && x.Status >= 400 // refused before it was read
		v.hold(early || equalID(e.ID, sent.ID), "rpc-id", at(path, "id"), orAbsent(e.ID), string(sent.ID))
	case e.ID == nil:
		v.fail("rpc-id", at(path, "id"), "absent", "an id, null where the request's is not known")
	}
	if hasError {
		v.rpcError(e.Error, at(path, "error"))
	}
}

// plainID reports whether an id is one that JSON-RPC takes.
func plainID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// equalID compares ids as JSON values; numbers exactly, so that none may be rounded.
func equalID(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 || (a[0] == '"') != (b[0] == '"') {
		return false
	}
	if a[0] != '"' {
		if len(a) > 40 || len(b) > 40 || bytes.ContainsAny(a, "eE") || bytes.ContainsAny(b, "eE") {
			return bytes.Equal(a, b)
		}
		x, ok := new(big.Rat).SetString(string(a))
		y, ok2 := new(big.Rat).SetString(string(b))
		return ok && ok2 && x.Cmp(y) == 0
	}
	var x, y string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

func (v *Verdict) rpcError(raw json.RawMessage, path string) {
	var e struct {
		Code    json.RawMessage
		Message json.RawMessage
		Data    json.RawMessage
	}
	if json.Unmarshal(raw, &e) != nil {
		v.fail("error-rpc-object", path, string(raw), "an object")
		return
	}
	var code int
	v.hold(json.Unmarshal(e.Code, &code) == nil && len(e.Code) > 0, "error-rpc-object", at(path, "code"), orAbsent(e.Code), "a whole number")
	var message string
	v.hold(json.Unmarshal(e.Message, &message) == nil && len(e.Message) > 0, "error-rpc-object", at(path, "message"), orAbsent(e.Message), "a string")
	if len(e.Data) > 0 && string(e.Data) != "null" {
		v.details("error-rpc-object", e.Data, at(path, "data"))
	}
	parsed := &Error{Number: code, Code: a2a.ErrorCode(code)}
	_ = json.Unmarshal(e.Data, &parsed.details)
	parsed.read()
	if c, ok := a2a.CodeOfReason(parsed.Reason); ok && protocol(c) {
		v.hold(code == int(c), "error-rpc-code", at(path, "code"), fmt.Sprint(code), fmt.Sprintf("%d for %s", int(c), c.Reason()))
	}
	if named := a2a.ErrorCode(code); protocol(named) {
		v.info(parsed, named, "error-rpc-info", path)
	}
}

// details checks that error details are a list of objects that say what they are.
func (v *Verdict) details(rule string, raw json.RawMessage, path string) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		v.fail(rule, path, string(raw), "a list of objects with @type")
		return
	}
	for i, d := range list {
		var o struct {
			Type string `json:"@type"`
		}
		v.hold(json.Unmarshal(d, &o) == nil && o.Type != "", rule, fmt.Sprintf("%s[%d]", path, i), string(d), "an object with @type")
	}
}

// info checks the ErrorInfo of an error that the protocol names.
func (v *Verdict) info(e *Error, c a2a.ErrorCode, rule, path string) {
	got := "no ErrorInfo"
	if e.Reason != "" || e.Domain != "" {
		got = fmt.Sprintf("reason %q, domain %q", e.Reason, e.Domain)
	}
	want := fmt.Sprintf("ErrorInfo with reason %s and domain %s", c.Reason(), a2a.ErrorDomain)
	if c == 0 {
		want = "ErrorInfo with one of the protocol's reasons and domain " + a2a.ErrorDomain
		known, ok := a2a.CodeOfReason(e.Reason)
		v.hold(ok && protocol(known) && e.Domain == a2a.ErrorDomain, rule, path, got, want)
		return
	}
	v.hold(e.Reason == c.Reason() && e.Domain == a2a.ErrorDomain, rule, path, got, want)
}

// ordinary reports whether a reason is that of an error which is not of A2A in particular: the specification gives it none
// (sections 10.6 and 11.6), and what is wrong with such a request may still be said so.
func ordinary(reason string) bool {
	return slices.Contains([]string{"PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND"}, reason)
}

// rest checks HTTP+JSON.
func (v *Verdict) rest(x *Exchange) {
	failed := x.Status >= 400
	if !x.Stream && len(bytes.TrimSpace(x.Answer)) > 0 && !refused(x.Status) {
		t := mediaType(x.Header)
		isJSON := t == "application/a2a+json" || t == "application/json"
		v.hold(json.Valid(x.Answer) && isJSON, "rest-json", "", t+": "+string(x.Answer), "JSON, as application/a2a+json")
		if isJSON && strings.Contains(x.Sent.Get("Accept"), "application/a2a+json") {
			v.hold(t == "application/a2a+json", "rest-media-type", "", t, "Content-Type: application/a2a+json")
		}
	}
	if failed && !refused(x.Status) && x.Status != http.StatusNotFound || failed && json.Valid(x.Answer) {
		v.restError(x.Answer, x.Status, "error")
	}
}

// restError checks an error; the status is 0 in a frame, where there is none.
func (v *Verdict) restError(data []byte, status int, path string) {
	var body struct {
		Error *struct {
			Code    json.RawMessage
			Message json.RawMessage
			Details json.RawMessage
		}
	}
	if json.Unmarshal(data, &body) != nil || body.Error == nil {
		v.fail("error-rest-body", "", string(data), `{"error": {"code", "status", "message", "details"}}`)
		return
	}
	var code int
	v.hold(json.Unmarshal(body.Error.Code, &code) == nil && len(body.Error.Code) > 0, "error-rest-body", at(path, "code"), orAbsent(body.Error.Code), "a whole number")
	var message string
	v.hold(json.Unmarshal(body.Error.Message, &message) == nil && len(body.Error.Message) > 0, "error-rest-body", at(path, "message"), orAbsent(body.Error.Message), "a string")
	if len(body.Error.Details) > 0 && string(body.Error.Details) != "null" {
		v.details("error-rest-body", body.Error.Details, at(path, "details"))
	}
	if status != 0 {
		v.hold(code == status, "error-rest-status", at(path, "code"), fmt.Sprint(code), fmt.Sprintf("the HTTP status, %d", status))
	}
	e := restError(data, status)
	if c, ok := a2a.CodeOfReason(e.Reason); ok && protocol(c) {
		v.hold(e.Number == c.HTTP(), "error-rest-status", "", fmt.Sprint(e.Number), fmt.Sprintf("%d for %s", c.HTTP(), c.Reason()))
		v.info(e, c, "error-rest-info", path)
	} else if e.Domain == a2a.ErrorDomain && !ok && !ordinary(e.Reason) {
		v.info(e, 0, "error-rest-info", path)
	}
}

// Demand checks the ErrorInfo of an error that is known, from what was asked, to be one of the protocol's: on REST and
// gRPC nothing else tells what it is.
func Demand(x *Exchange, want a2a.ErrorCode) Verdict {
	var v Verdict
	e := x.Failure()
	if e == nil {
		return v
	}
	switch x.Binding {
	case a2a.BindingREST:
		v.info(e, want, "error-rest-info", "error")
	case a2a.BindingGRPC:
		v.info(e, want, "error-grpc-info", "")
	}
	return v
}

// message checks the bytes of a gRPC message.
func (v *Verdict) message(x *Exchange, data []byte, path string) {
	m := NewMessage(x.Op, true)
	if m == nil {
		return
	}
	if err := proto.Unmarshal(data, m); err != nil {
		v.fail("grpc-message", path, fmt.Sprintf("%v: % x", err, data[:min(len(data), 40)]), "the bytes of "+string(m.ProtoReflect().Descriptor().FullName()))
		return
	}
	where := unknown(m.ProtoReflect())
	v.hold(where == "", "grpc-message", path, "a field that the proto has not, in "+where, "the fields of the proto")
}

// grpc checks the end of a call over gRPC.
func (v *Verdict) grpc(x *Exchange) {
	if x.Status == 0 || x.Err != "" {
		return
	}
	e := x.grpcError()
	if len(x.Answer) > 0 {
		v.hold(proto.Unmarshal(x.Answer, new(rpcstatus.Status)) == nil, "error-grpc-info", "", "details that cannot be read", "a google.rpc.Status")
	}
	if c, ok := a2a.CodeOfReason(e.Reason); ok && protocol(c) {
		v.hold(x.Status == int(c.Status()), "error-grpc-status", "", a2a.Status(x.Status).String(), fmt.Sprintf("%s for %s", c.Status(), c.Reason()))
		v.info(e, c, "error-grpc-info", "")
	} else if e.Domain == a2a.ErrorDomain && !ok && !ordinary(e.Reason) {
		v.info(e, 0, "error-grpc-info", "")
	}
}

// unknown returns where in a message there are fields that its type has not, or "".
func unknown(m protoreflect.Message) (where string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().FullName())
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() || fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				if where == "" {
					where = unknown(v.List().Get(i).Message())
				}
			}
		default:
			where = unknown(v.Message())
		}
		return where == ""
	})
	return where
}

func at(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orAbsent(raw json.RawMessage) string {
	if raw == nil {
		return "absent"
	}
	return string(raw)
}
