package httpx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// Types of the details of an error (specification 9.5 and 11.6).
const (
	typePrefix     = "type.googleapis.com/google.rpc."
	typeErrorInfo  = typePrefix + "ErrorInfo"
	typeBadRequest = typePrefix + "BadRequest"
	typeRetryInfo  = typePrefix + "RetryInfo"
)

// AppendDetails appends the details of e as a JSON array: an ErrorInfo, a BadRequest where fields are wrong,
// and a RetryInfo where it is known when to come again.
func AppendDetails(b []byte, e *a2a.Error) []byte {
	b = append(b, `[{"@type":"`+typeErrorInfo+`","reason":`...)
	b = jsonx.AppendString(b, e.ErrorReason())
	b = append(b, `,"domain":"`+a2a.ErrorDomain+`"`...)
	if len(e.Metadata) > 0 {
		b = append(b, `,"metadata":{`...)
		for i, k := range slices.Sorted(maps.Keys(e.Metadata)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonx.AppendString(b, k)
			b = append(b, ':')
			b = jsonx.AppendString(b, e.Metadata[k])
		}
		b = append(b, '}')
	}
	b = append(b, '}')
	if len(e.Violations) > 0 {
		b = append(b, `,{"@type":"`+typeBadRequest+`","fieldViolations":[`...)
		for i, v := range e.Violations {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"field":`...)
			b = jsonx.AppendString(b, v.Field)
			b = append(b, `,"description":`...)
			b = jsonx.AppendString(b, v.Description)
			b = append(b, '}')
		}
		b = append(b, `]}`...)
	}
	if e.RetryAfter > 0 {
		b = append(b, `,{"@type":"`+typeRetryInfo+`","retryDelay":"`...)
		b = strconv.AppendFloat(b, e.RetryAfter.Seconds(), 'f', -1, 64)
		b = append(b, `s"}`...)
	}
	return append(b, ']')
}

// WireError is the error object of either binding as it came.
type WireError struct {
	Code    int32  // of JSON-RPC, or the HTTP status
	Status  string // REST only, such as NOT_FOUND
	Message string
	// Info reports whether there was an ErrorInfo of the protocol.
	Info bool

	reason     string
	metadata   map[string]string
	violations []a2a.FieldViolation
	retryAfter time.Duration
}

// ReadError reads the error object at hand. What it does not know, or finds in another shape than the
// specification's, it passes over: an error that cannot be read would hide the error.
func ReadError(r *jsonx.Reader) *WireError {
	e := new(WireError)
	for name := range r.Fields() {
		switch kind := r.Kind(); {
		case name == "code" && isNumber(kind):
			e.Code = r.Int32()
		case name == "status" && kind == '"':
			e.Status = r.String()
		case name == "message" && kind == '"':
			e.Message = r.String()
		case (name == "data" || name == "details") && kind == '[':
			for range r.Elems() {
				if r.Kind() == '{' {
					e.readDetail(r)
				}
			}
		}
	}
	return e
}

func isNumber(kind byte) bool { return kind == '-' || '0' <= kind && kind <= '9' }

// readDetail reads one of the details. The fields of their types all have names of their own.
func (e *WireError) readDetail(r *jsonx.Reader) {
	var domain, reason string
	var metadata map[string]string
	for name := range r.Fields() {
		switch kind := r.Kind(); {
		case name == "domain" && kind == '"':
			domain = r.String()
		case name == "reason" && kind == '"':
			reason = r.String()
		case name == "metadata" && kind == '{':
			metadata = readStrings(r)
		case name == "fieldViolations" && kind == '[':
			for range r.Elems() {
				if r.Kind() == '{' {
					e.violations = append(e.violations, readViolation(r))
				}
			}
		case name == "retryDelay" && kind == '"':
			if d, err := time.ParseDuration(r.String()); err == nil && d > 0 {
				e.retryAfter = d
			}
		}
	}
	if domain == a2a.ErrorDomain && reason != "" {
		e.Info, e.reason, e.metadata = true, reason, metadata
	}
}

func readStrings(r *jsonx.Reader) map[string]string {
	m := make(map[string]string)
	for name := range r.RawFields() {
		if r.Kind() == '"' {
			m[name] = r.String()
		} else {
			m[name] = string(r.Raw())
		}
	}
	return m
}

func readViolation(r *jsonx.Reader) (v a2a.FieldViolation) {
	for name := range r.Fields() {
		switch kind := r.Kind(); {
		case name == "field" && kind == '"':
			v.Field = r.String()
		case name == "description" && kind == '"':
			v.Description = r.String()
		}
	}
	return v
}

// errNoInfo is in the cause of an error that came without an ErrorInfo of the protocol, so that its code is
// a guess from a status.
var errNoInfo = errors.New("no ErrorInfo")

// HasInfo reports whether err, which a client returned, came as an error of the protocol, and not as a bare
// HTTP status.
func HasInfo(err error) bool { return !errors.Is(err, errNoInfo) }

// Error returns e as an error of the given code that came with res.
func (e *WireError) Error(code a2a.ErrorCode, res *http.Response) *a2a.Error {
	out := &a2a.Error{
		Code: code, Message: e.Message, Metadata: e.metadata, Violations: e.violations, RetryAfter: e.retryAfter,
	}
	if e.reason != code.Reason() {
		out.Reason = e.reason
	}
	addHeaders(out, res)
	if !e.Info {
		return out.WithCause(errNoInfo)
	}
	return out
}

// CodeOfRPC returns the code of a JSON-RPC error: its number's, or that of its reason where that is more exact.
func (e *WireError) CodeOfRPC() a2a.ErrorCode {
	if code, ok := a2a.CodeOfReason(e.reason); ok && code.RPC() == e.Code {
		return code
	}
	return cmp.Or(a2a.ErrorCode(e.Code), a2a.ErrInternal)
}

// CodeOfREST returns the code of an error that came with the given HTTP status: that of its reason, or of
// its status word, or of the HTTP status.
func (e *WireError) CodeOfREST(status int) a2a.ErrorCode {
	if code, ok := a2a.CodeOfReason(e.reason); ok {
		return code
	}
	for s := range a2a.StatusUnauthenticated + 1 {
		if s != a2a.StatusOK && s != a2a.StatusUnknown && s.String() == e.Status {
			return a2a.CodeOfStatus(s)
		}
	}
	return a2a.CodeOfHTTP(status)
}

// PlainError returns the error for an answer that has no error of the protocol in it, with the beginning of
// its body.
func PlainError(res *http.Response, body []byte) *a2a.Error {
	e := a2a.Errorf(a2a.CodeOfHTTP(res.StatusCode), "the server answered with HTTP status %d %s: %s",
		res.StatusCode, http.StatusText(res.StatusCode), Excerpt(body))
	addHeaders(e, res)
	return e.WithCause(errNoInfo)
}

// InvalidAnswer returns the error for an answer that is not what the protocol asks for.
func InvalidAnswer(format string, args ...any) *a2a.Error {
	return a2a.Errorf(a2a.ErrInvalidAgentResponse, "invalid answer: %s", fmt.Sprintf(format, args...))
}

// Excerpt returns the beginning of a body for a message that quotes it.
func Excerpt(body []byte) string {
	const most = 200
	if len(body) == 0 {
		return "no body"
	}
	if len(body) > most {
		return strconv.Quote(strings.ToValidUTF8(string(body[:most]), "")) + "…"
	}
	return strconv.Quote(string(body))
}

// addHeaders takes over what the HTTP headers say about an error.
func addHeaders(e *a2a.Error, res *http.Response) {
	e.Challenge = res.Header.Values("WWW-Authenticate")
	after := res.Header.Get("Retry-After")
	if e.RetryAfter > 0 || after == "" {
		return
	}
	if n, err := strconv.Atoi(after); err == nil && n > 0 && n < 1<<31 {
		e.RetryAfter = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(after); err == nil {
		e.RetryAfter = max(0, time.Until(t))
	}
}
