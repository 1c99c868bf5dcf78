package a2a

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ErrorDomain is the domain of every ErrorInfo of the protocol (specification 10.6).
const ErrorDomain = "a2a-protocol.org"

// ErrorCode is a kind of error. Its number is the JSON-RPC code; [ErrorCode.Status], [ErrorCode.HTTP] and
// [ErrorCode.Reason] are the same error on the other bindings (specification 5.4). An ErrorCode is itself
// an error, so that errors.Is(err, a2a.ErrTaskNotFound) holds for whatever wraps it.
type ErrorCode int32

// The errors of the protocol (specification 3.3.2).
const (
	ErrTaskNotFound                   ErrorCode = -32001
	ErrTaskNotCancelable              ErrorCode = -32002
	ErrPushNotificationNotSupported   ErrorCode = -32003
	ErrUnsupportedOperation           ErrorCode = -32004
	ErrContentTypeNotSupported        ErrorCode = -32005
	ErrInvalidAgentResponse           ErrorCode = -32006
	ErrExtendedAgentCardNotConfigured ErrorCode = -32007
	ErrExtensionSupportRequired       ErrorCode = -32008
	ErrVersionNotSupported            ErrorCode = -32009
)

// ErrTaskGenerationMismatch says that a task is not where a caller's precondition wants it: an error of the
// task-log extension, with the numbers that the draft of version 1.1 gives it.
const ErrTaskGenerationMismatch ErrorCode = -32010

// The errors of JSON-RPC (specification 9.5), with their like on the other bindings.
const (
	ErrParse          ErrorCode = -32700 // the bytes are not JSON
	ErrInvalidRequest ErrorCode = -32600 // JSON, but not a request
	ErrMethodNotFound ErrorCode = -32601 // no such operation
	ErrInvalidParams  ErrorCode = -32602 // a field is wrong; the violations say which
	ErrInternal       ErrorCode = -32603 // the host's fault
)

// Errors of the transport that the protocol leaves open. Their JSON-RPC codes are -31000 minus the HTTP
// status, as other implementations do it.
const (
	ErrUnauthenticated      ErrorCode = -31401 // no credential, or a wrong one
	ErrPermissionDenied     ErrorCode = -31403 // known, but not allowed
	ErrMethodNotAllowed     ErrorCode = -31405 // a wrong HTTP method
	ErrRequestTimeout       ErrorCode = -31408 // the request came too slowly
	ErrTooLarge             ErrorCode = -31413 // the request is over a limit of size
	ErrUnsupportedMediaType ErrorCode = -31415 // the body is not JSON
	ErrResourceExhausted    ErrorCode = -31429 // over a limit of rate or number; see Error.RetryAfter
	ErrUnavailable          ErrorCode = -31503 // not now; see Error.RetryAfter
	ErrCanceled             ErrorCode = -31499 // the caller went away
)

type errorRow struct {
	code    ErrorCode
	name    string // as the specification writes it
	reason  string // ErrorInfo.reason
	status  Status
	http    int
	message string // what a caller reads when nothing better was said
}

// The error table: every number and word of an error stands here and nowhere else.
var errorTable = [...]errorRow{
	{ErrTaskNotFound, "TaskNotFoundError", "TASK_NOT_FOUND", StatusNotFound, http.StatusNotFound, "task not found"},
	{ErrTaskNotCancelable, "TaskNotCancelableError", "TASK_NOT_CANCELABLE", StatusFailedPrecondition, http.StatusBadRequest, "task cannot be canceled"},
	{ErrPushNotificationNotSupported, "PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", StatusFailedPrecondition, http.StatusBadRequest, "push notifications are not supported"},
	{ErrUnsupportedOperation, "UnsupportedOperationError", "UNSUPPORTED_OPERATION", StatusFailedPrecondition, http.StatusBadRequest, "this operation is not supported"},
	{ErrContentTypeNotSupported, "ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", StatusInvalidArgument, http.StatusBadRequest, "incompatible content types"},
	{ErrInvalidAgentResponse, "InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", StatusInternal, http.StatusInternalServerError, "invalid agent response"},
	{ErrExtendedAgentCardNotConfigured, "ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", StatusFailedPrecondition, http.StatusBadRequest, "no extended agent card is configured"},
	{ErrExtensionSupportRequired, "ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", StatusFailedPrecondition, http.StatusBadRequest, "a required extension was not declared"},
	{ErrVersionNotSupported, "VersionNotSupportedError", "VERSION_NOT_SUPPORTED", StatusFailedPrecondition, http.StatusBadRequest, "this protocol version is not supported"},
	{ErrTaskGenerationMismatch, "TaskGenerationMismatchError", "TASK_GENERATION_MISMATCH", StatusAborted, http.StatusConflict, "the task has moved on"},

	{ErrParse, "JSONParseError", "JSON_PARSE_ERROR", StatusInvalidArgument, http.StatusBadRequest, "invalid JSON payload"},
	{ErrInvalidRequest, "InvalidRequestError", "INVALID_REQUEST", StatusInvalidArgument, http.StatusBadRequest, "request payload validation error"},
	{ErrMethodNotFound, "MethodNotFoundError", "METHOD_NOT_FOUND", StatusUnimplemented, http.StatusNotFound, "method not found"},
	{ErrInvalidParams, "InvalidParamsError", "INVALID_PARAMS", StatusInvalidArgument, http.StatusBadRequest, "invalid parameters"},
	{ErrInternal, "InternalError", "INTERNAL_ERROR", StatusInternal, http.StatusInternalServerError, "internal error"},

	{ErrUnauthenticated, "UnauthenticatedError", "UNAUTHENTICATED", StatusUnauthenticated, http.StatusUnauthorized, "authentication required"},
	{ErrPermissionDenied, "PermissionDeniedError", "PERMISSION_DENIED", StatusPermissionDenied, http.StatusForbidden, "permission denied"},
	{ErrMethodNotAllowed, "MethodNotAllowedError", "METHOD_NOT_ALLOWED", StatusUnimplemented, http.StatusMethodNotAllowed, "method not allowed"},
	{ErrRequestTimeout, "RequestTimeoutError", "REQUEST_TIMEOUT", StatusDeadlineExceeded, http.StatusRequestTimeout, "the request took too long to arrive"},
	{ErrTooLarge, "TooLargeError", "TOO_LARGE", StatusResourceExhausted, http.StatusRequestEntityTooLarge, "the request is too large"},
	{ErrUnsupportedMediaType, "UnsupportedMediaTypeError", "UNSUPPORTED_MEDIA_TYPE", StatusInvalidArgument, http.StatusUnsupportedMediaType, "the body must be JSON"},
	{ErrResourceExhausted, "ResourceExhaustedError", "RESOURCE_EXHAUSTED", StatusResourceExhausted, http.StatusTooManyRequests, "over a limit"},
	{ErrUnavailable, "UnavailableError", "UNAVAILABLE", StatusUnavailable, http.StatusServiceUnavailable, "temporarily unavailable"},
	{ErrCanceled, "CanceledError", "CANCELED", StatusCanceled, 499, "the request was canceled"},
}

var errorRows = func() map[ErrorCode]*errorRow {
	m := make(map[ErrorCode]*errorRow, len(errorTable))
	for i := range errorTable {
		m[errorTable[i].code] = &errorTable[i]
	}
	return m
}()

func (c ErrorCode) row() *errorRow {
	if r, ok := errorRows[c]; ok {
		return r
	}
	return errorRows[ErrInternal]
}

// Error returns what a caller reads when nothing better was said.
func (c ErrorCode) Error() string { return c.row().message }

// Name returns the specification's name, such as TaskNotFoundError.
func (c ErrorCode) Name() string { return c.row().name }

// Reason returns the reason of ErrorInfo, such as TASK_NOT_FOUND.
func (c ErrorCode) Reason() string { return c.row().reason }

// RPC returns the number that a JSON-RPC response carries: c itself, but for a body that is not JSON the
// protocol's own error for media types, which every client knows.
func (c ErrorCode) RPC() int32 {
	if c == ErrUnsupportedMediaType {
		c = ErrContentTypeNotSupported
	}
	return int32(c)
}

// Status returns the gRPC status.
func (c ErrorCode) Status() Status { return c.row().status }

// HTTP returns the HTTP status.
func (c ErrorCode) HTTP() int { return c.row().http }

// Known reports whether the table has c; an unknown code reads like ErrInternal.
func (c ErrorCode) Known() bool { _, ok := errorRows[c]; return ok }

// CodeOfReason returns the code whose ErrorInfo reason is given.
func CodeOfReason(reason string) (ErrorCode, bool) {
	for i := range errorTable {
		if errorTable[i].reason == reason {
			return errorTable[i].code, true
		}
	}
	return 0, false
}

// CodeOfHTTP returns the code for an HTTP response that says no more than its status.
func CodeOfHTTP(status int) ErrorCode {
	for i := len(errorTable) - 1; i >= 0; i-- { // the transport's own errors are the better fit
		if errorTable[i].http == status && errorTable[i].code != ErrExtensionSupportRequired {
			switch status {
			case http.StatusBadRequest:
				return ErrInvalidParams
			case http.StatusNotFound:
				return ErrMethodNotFound
			case http.StatusConflict:
				return ErrInvalidRequest
			case http.StatusInternalServerError:
				return ErrInternal
			}
			return errorTable[i].code
		}
	}
	switch {
	case status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return ErrUnavailable
	case status >= 400 && status < 500:
		return ErrInvalidRequest
	}
	return ErrInternal
}

// CodeOfStatus returns the code for a gRPC status that carries no ErrorInfo.
func CodeOfStatus(s Status) ErrorCode {
	switch s {
	case StatusCanceled:
		return ErrCanceled
	case StatusInvalidArgument:
		return ErrInvalidParams
	case StatusDeadlineExceeded:
		return ErrRequestTimeout
	case StatusNotFound:
		return ErrTaskNotFound
	case StatusPermissionDenied:
		return ErrPermissionDenied
	case StatusResourceExhausted:
		return ErrResourceExhausted
	case StatusFailedPrecondition:
		return ErrUnsupportedOperation
	case StatusUnimplemented:
		return ErrMethodNotFound
	case StatusUnavailable:
		return ErrUnavailable
	case StatusUnauthenticated:
		return ErrUnauthenticated
	case StatusOK, StatusUnknown, StatusAborted, StatusInternal:
		return ErrInternal
	}
	return ErrInternal
}

// Status is a google.rpc.Code: the gRPC status of an error, and the status word of a REST error body.
type Status uint32

const (
	StatusOK                 Status = 0
	StatusCanceled           Status = 1
	StatusUnknown            Status = 2
	StatusInvalidArgument    Status = 3
	StatusDeadlineExceeded   Status = 4
	StatusNotFound           Status = 5
	StatusPermissionDenied   Status = 7
	StatusResourceExhausted  Status = 8
	StatusFailedPrecondition Status = 9
	StatusAborted            Status = 10
	StatusUnimplemented      Status = 12
	StatusInternal           Status = 13
	StatusUnavailable        Status = 14
	StatusUnauthenticated    Status = 16
)

var statusNames = map[Status]string{
	StatusOK: "OK", StatusCanceled: "CANCELLED", StatusUnknown: "UNKNOWN", StatusInvalidArgument: "INVALID_ARGUMENT",
	StatusDeadlineExceeded: "DEADLINE_EXCEEDED", StatusNotFound: "NOT_FOUND", StatusPermissionDenied: "PERMISSION_DENIED",
	StatusResourceExhausted: "RESOURCE_EXHAUSTED", StatusFailedPrecondition: "FAILED_PRECONDITION",
	StatusAborted: "ABORTED", StatusUnimplemented: "UNIMPLEMENTED", StatusInternal: "INTERNAL", StatusUnavailable: "UNAVAILABLE",
	StatusUnauthenticated: "UNAUTHENTICATED",
}

// String returns the status word, such as NOT_FOUND.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "UNKNOWN"
}

// Error is an error of the protocol. All of it but the cause crosses the wire, on every binding alike; the
// cause stays here, for the log.
type Error struct {
	Code       ErrorCode
	Message    string            // for people; empty: the code's own words
	Reason     string            // ErrorInfo.reason; empty: the code's
	Metadata   map[string]string // ErrorInfo.metadata, such as taskId
	Violations []FieldViolation  // google.rpc.BadRequest: which fields are wrong
	RetryAfter time.Duration     // Retry-After and google.rpc.RetryInfo; zero: not said
	Challenge  []string          // WWW-Authenticate, one value each

	cause error
}

// FieldViolation says what is wrong with a field (google.rpc.BadRequest.FieldViolation).
type FieldViolation struct {
	Field       string // path from the request, such as message.parts[0].text
	Description string
}

// Errorf returns an Error with a message for people. A %w operand becomes the cause: it can be found with
// errors.Is, but its text does not enter the message; a colon before it at the end goes with it.
func Errorf(code ErrorCode, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
	if e.cause == nil {
		return e
	}
	kept := slices.Clone(args)
	for i, a := range kept {
		if operand, ok := a.(error); ok && (!reflect.TypeOf(operand).Comparable() || operand == e.cause) { //nolint:errorlint // the operand itself
			kept[i] = hidden{}
		}
	}
	e.Message = strings.TrimRight(fmt.Errorf(format, kept...).Error(), ": ")
	return e
}

// hidden is an operand that leaves no text.
type hidden struct{}

// Error implements error.
func (hidden) Error() string { return "" }

// InvalidField returns an ErrInvalidParams error about one field.
func InvalidField(field, format string, args ...any) *Error {
	d := fmt.Sprintf(format, args...)
	return &Error{Code: ErrInvalidParams, Message: field + ": " + d, Violations: []FieldViolation{{field, d}}}
}

// WithCause returns a copy of e whose cause is err. The cause never crosses the wire.
func (e *Error) WithCause(err error) *Error {
	out := *e
	out.cause = err
	return &out
}

// Error returns the message for people, without the cause.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Code.Error()
}

// Cause returns the error behind e, or nil. It is for logs.
func (e *Error) Cause() error { return e.cause }

// Unwrap makes errors.Is find the code and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.cause}
}

// ErrorReason returns the ErrorInfo reason of e: its own, or its code's.
func (e *Error) ErrorReason() string {
	if e.Reason != "" {
		return e.Reason
	}
	return e.Code.Reason()
}

// AsError returns err as a protocol error. What is not one becomes ErrInternal with no word of the cause,
// and an ErrorCode becomes an Error of that code.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c ErrorCode
	if errors.As(err, &c) {
		return &Error{Code: c, cause: err}
	}
	return &Error{Code: ErrInternal, cause: err}
}
