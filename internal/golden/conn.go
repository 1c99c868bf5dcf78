package golden

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
)

// The bindings, as agent cards name them (specification 4.4.6).
const (
	JSONRPC = "JSONRPC"
	REST    = "HTTP+JSON"
	GRPC    = "GRPC"
)

// Bindings are all of them.
var Bindings = []string{JSONRPC, REST, GRPC}

const (
	// VersionHeader is the service parameter that every request has unless it says otherwise.
	VersionHeader = "A2a-Version"
	// CallerHeader names the caller to hosts of tests.
	CallerHeader = "Test-Caller"
)

// Request is one call.
type Request struct {
	Op     string      // such as SendMessage
	JSON   string      // the operation's request message, in camelCase
	Header http.Header // in addition; A2A-Version without a value is not sent at all
}

// Conn speaks one binding, in requests that are written by hand.
type Conn interface {
	// Do sends a request and yields the result, or the frames of a stream as they come. An error of the
	// protocol is an [*Error], any other error says how the answer breaks the rules of the binding.
	Do(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error]
	Close()
}

// Dial returns a connection to a host by one binding.
func Dial(binding, url, grpc string) (Conn, error) {
	switch binding {
	case JSONRPC:
		return &jsonrpcConn{httpConn: newHTTP(url)}, nil
	case REST:
		return &restConn{httpConn: newHTTP(url)}, nil
	case GRPC:
		return newGRPC(grpc)
	case rawHTTP:
		return rawConn{addr: strings.TrimPrefix(url, "http://")}, nil
	}
	return nil, fmt.Errorf("golden: no binding %q", binding)
}

// Call runs a unary operation.
func Call(ctx context.Context, c Conn, r Request) (result json.RawMessage, err error) {
	for raw, e := range c.Do(ctx, r) {
		result, err = raw, e
	}
	return result, err
}

func isStream(op string) bool { return op == "SendStreamingMessage" || op == "SubscribeToTask" }

// header returns the header of a request with the version.
func (r *Request) header() http.Header {
	h := http.Header{VersionHeader: {"1.0"}}
	for name, values := range r.Header {
		if strings.EqualFold(name, VersionHeader) {
			name = VersionHeader
		}
		h[name] = values
	}
	if len(h[VersionHeader]) == 0 {
		delete(h, VersionHeader)
	}
	return h
}

// Error is an error of the protocol in the form that all bindings have in common: what this binding did not say
// is filled in from the table of specification 5.4, so that equal errors look equal.
type Error struct {
	Reason    string // of ErrorInfo
	JSONRPC   int
	HTTP      int
	GRPC      string
	Message   string
	Details   []json.RawMessage
	Challenge []string
	InStream  bool // it came as a frame, or after one
}

func (e *Error) Error() string {
	name := errorTable[e.Reason].name
	if name == "" {
		name = "unknown error " + e.Reason
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (JSON-RPC %d, HTTP %d, gRPC %s): %s", name, e.JSONRPC, e.HTTP, e.GRPC, e.Message)
	for _, d := range e.Details {
		b.WriteString("\n" + compact(d))
	}
	for _, c := range e.Challenge {
		b.WriteString("\nchallenge " + c)
	}
	return b.String()
}

// newError returns an error with these details, and with what its reason says about the bindings.
func newError(message string, details []json.RawMessage) *Error {
	e := &Error{Message: message, Details: details}
	for _, d := range details {
		var info struct {
			Type   string `json:"@type"`
			Reason string `json:"reason"`
		}
		if json.Unmarshal(d, &info) == nil && info.Type == "type.googleapis.com/google.rpc.ErrorInfo" {
			e.Reason = info.Reason
		}
	}
	row := errorTable[e.Reason]
	e.JSONRPC, e.HTTP, e.GRPC = row.jsonrpc, row.http, row.grpc
	return e
}

type errorRow struct {
	name          string
	jsonrpc, http int
	grpc          string
}

// errorTable is the table of specification 5.4, the standard errors of JSON-RPC (9.5) with the statuses of
// 3.3.2, and those of the transport, which the specification leaves open. It is not the host's own table: the
// two are compared.
var errorTable = map[string]errorRow{
	"TASK_NOT_FOUND":                     {"TaskNotFoundError", -32001, 404, "NOT_FOUND"},
	"TASK_NOT_CANCELABLE":                {"TaskNotCancelableError", -32002, 400, "FAILED_PRECONDITION"},
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    {"PushNotificationNotSupportedError", -32003, 400, "FAILED_PRECONDITION"},
	"UNSUPPORTED_OPERATION":              {"UnsupportedOperationError", -32004, 400, "FAILED_PRECONDITION"},
	"CONTENT_TYPE_NOT_SUPPORTED":         {"ContentTypeNotSupportedError", -32005, 400, "INVALID_ARGUMENT"},
	"INVALID_AGENT_RESPONSE":             {"InvalidAgentResponseError", -32006, 500, "INTERNAL"},
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": {"ExtendedAgentCardNotConfiguredError", -32007, 400, "FAILED_PRECONDITION"},
	"EXTENSION_SUPPORT_REQUIRED":         {"ExtensionSupportRequiredError", -32008, 400, "FAILED_PRECONDITION"},
	"VERSION_NOT_SUPPORTED":              {"VersionNotSupportedError", -32009, 400, "FAILED_PRECONDITION"},
	"TASK_GENERATION_MISMATCH":           {"TaskGenerationMismatchError", -32010, 409, "ABORTED"}, // dev-1.1

	"INVALID_REQUEST":  {"InvalidRequestError", -32600, 400, "INVALID_ARGUMENT"},
	"METHOD_NOT_FOUND": {"MethodNotFoundError", -32601, 404, "UNIMPLEMENTED"},
	"INVALID_PARAMS":   {"InvalidParamsError", -32602, 400, "INVALID_ARGUMENT"},
	"INTERNAL_ERROR":   {"InternalError", -32603, 500, "INTERNAL"},

	"UNAUTHENTICATED":    {"UnauthenticatedError", -31401, 401, "UNAUTHENTICATED"},
	"PERMISSION_DENIED":  {"PermissionDeniedError", -31403, 403, "PERMISSION_DENIED"},
	"RESOURCE_EXHAUSTED": {"ResourceExhaustedError", -31429, 429, "RESOURCE_EXHAUSTED"},
	"UNAVAILABLE":        {"UnavailableError", -31503, 503, "UNAVAILABLE"},
}
