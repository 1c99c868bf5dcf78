package a2a

import (
	"errors"
	"io"
	"testing"
)

func TestErrorf(t *testing.T) {
	for _, c := range []struct {
		err   *Error
		want  string
		cause error
	}{
		{Errorf(ErrInternal, "doing %d: %w", 7, io.EOF), "doing 7", io.EOF},
		{Errorf(ErrInternal, "%w", io.EOF), "internal error", io.EOF},
		{Errorf(ErrInternal, "a %w b %s", io.EOF, "c"), "a  b c", io.EOF},
		{Errorf(ErrInternal, "said %v", io.EOF), "said EOF", nil},
		{Errorf(ErrTaskNotFound, "no such task"), "no such task", nil},
	} {
		if c.err.Error() != c.want || c.err.Cause() != c.cause { //nolint:errorlint // the value itself
			t.Errorf("message %q, cause %v; want %q, %v", c.err.Error(), c.err.Cause(), c.want, c.cause)
		}
		if !errors.Is(c.err, c.err.Code) || c.cause != nil && !errors.Is(c.err, c.cause) {
			t.Errorf("%v is not its code or cause", c.err)
		}
	}
}

// TestErrorTable holds the table to specification 5.4.
func TestErrorTable(t *testing.T) {
	for _, c := range []struct {
		code   ErrorCode
		number int32
		name   string
		reason string
		status string
		http   int
	}{
		{ErrTaskNotFound, -32001, "TaskNotFoundError", "TASK_NOT_FOUND", "NOT_FOUND", 404},
		{ErrTaskNotCancelable, -32002, "TaskNotCancelableError", "TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", 400},
		{ErrPushNotificationNotSupported, -32003, "PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400},
		{ErrUnsupportedOperation, -32004, "UnsupportedOperationError", "UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", 400},
		{ErrContentTypeNotSupported, -32005, "ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", 400},
		{ErrInvalidAgentResponse, -32006, "InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", "INTERNAL", 500},
		{ErrExtendedAgentCardNotConfigured, -32007, "ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", 400},
		{ErrExtensionSupportRequired, -32008, "ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", 400},
		{ErrVersionNotSupported, -32009, "VersionNotSupportedError", "VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400},
		{ErrParse, -32700, "JSONParseError", "JSON_PARSE_ERROR", "INVALID_ARGUMENT", 400},
		{ErrInvalidParams, -32602, "InvalidParamsError", "INVALID_PARAMS", "INVALID_ARGUMENT", 400},
		{ErrInternal, -32603, "InternalError", "INTERNAL_ERROR", "INTERNAL", 500},
	} {
		if int32(c.code) != c.number || c.code.Name() != c.name || c.code.Reason() != c.reason || c.code.Status().String() != c.status || c.code.HTTP() != c.http {
			t.Errorf("%d: %s %s %s %d", c.code, c.code.Name(), c.code.Reason(), c.code.Status(), c.code.HTTP())
		}
		if back, ok := CodeOfReason(c.reason); !ok || back != c.code {
			t.Errorf("CodeOfReason(%s) = %d", c.reason, back)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for v, ok := range map[string]bool{
		"1.0": true, "1.0.7": true, " 1.0 ": true, "99.0": false, "1": false, "": false, "0.3": false, "1.0.": false, "1.0.x": false, "1.1": false, "1.00": false,
	} {
		if err := CheckVersion(v); (err == nil) != ok || err != nil && !errors.Is(err, ErrVersionNotSupported) {
			t.Errorf("CheckVersion(%q) = %v", v, err)
		}
	}
}
