package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// versioned is the context of a call of the generated client, which sends no version by itself.
func versioned(t *testing.T, kv ...string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), append([]string{"a2a-version", "1.0"}, kv...)...)
}

func TestEveryOperationIsServed(t *testing.T) {
	var names []string
	for _, m := range methods {
		if m.op == nil {
			t.Fatal("a method is not in the operation table")
		}
		if (m.op.Stream != nil) != (m.out == nil) {
			t.Errorf("%s: unary or stream?", m.op.Name)
		}
		names = append(names, m.op.Name)
	}
	for i, all := 0, pb.File_a2av1_proto.Services().Get(0).Methods(); i < all.Len(); i++ {
		if m := all.Get(i); !slices.Contains(names, string(m.Name())) {
			t.Errorf("%s is not served", m.Name())
		}
	}
	if len(names) != len(op.All) {
		t.Errorf("%d operations are served, want %d", len(names), len(op.All))
	}
}

// call calls an operation of svc by its name and returns what it returned, for a stream its events.
func call(ctx context.Context, svc a2a.Service, o *op.Op, req op.Message) (any, error) {
	out := reflect.ValueOf(svc).MethodByName(o.Name).Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(req)})
	if o.Stream == nil {
		err, _ := out[1].Interface().(error)
		return out[0].Interface(), err
	}
	var events []a2a.Event
	for e, err := range out[0].Interface().(iter.Seq2[a2a.Entry, error]) {
		if err != nil {
			return events, err
		}
		events = append(events, e.Event)
	}
	return events, nil
}

func fillRequest(o *op.Op) op.Message {
	req := o.NewRequest()
	new(filler).fill(reflect.ValueOf(req).Elem())
	return req
}

func TestEveryFieldOfEveryOperation(t *testing.T) {
	events := []a2a.Event{
		filled[a2a.Task](0), filled[a2a.Message](1), filled[a2a.TaskStatusUpdateEvent](2), filled[a2a.TaskArtifactUpdateEvent](3),
	}
	for _, o := range op.All {
		t.Run(o.Name, func(t *testing.T) {
			var want any = events
			if o.Stream == nil {
				res := o.NewResponse()
				new(filler).fill(reflect.ValueOf(res).Elem())
				want = res
				if r, ok := res.(*a2a.SendMessageResponse); ok {
					want = r.Result
				}
				if r, ok := res.(*a2a.ListTasksResponse); ok {
					r.WithArtifacts = true // as asked for
				}
			}
			var got op.Message
			var info *a2a.CallInfo
			svc := NewClient(connect(t, &fake{
				call: func(ctx context.Context, req op.Message) (any, error) {
					got, info = req, a2a.CallInfoFrom(ctx)
					return want, nil
				},
				stream: func(ctx context.Context, req op.Message) iter.Seq2[a2a.Entry, error] {
					got, info = req, a2a.CallInfoFrom(ctx)
					return entries(nil, events...)
				},
			}, HandlerOptions{}))
			req := fillRequest(&o)
			res, err := call(t.Context(), svc, &o, req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(req, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, res); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if info == nil || info.Binding != a2a.BindingGRPC || info.Operation != o.Name || info.Version != a2a.Version ||
				!strings.HasPrefix(info.Peer, "127.0.0.1:") {
				t.Errorf("got %+v", info)
			}
		})
	}
}

// Case 33, on every operation.
func TestVersions(t *testing.T) {
	svc := &fake{
		call: func(_ context.Context, req op.Message) (any, error) {
			return nil, a2a.ErrTaskNotFound // as good as any: it came through
		},
		stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
			return entries(a2a.ErrTaskNotFound)
		},
	}
	conn := connect(t, svc, HandlerOptions{})
	for _, o := range op.All {
		for version, want := range map[string]a2a.ErrorCode{
			"1.0": a2a.ErrTaskNotFound, "1.0.7": a2a.ErrTaskNotFound, " 1.0 ": a2a.ErrTaskNotFound,
			"99.0": a2a.ErrVersionNotSupported, "1": a2a.ErrVersionNotSupported, "0.3": a2a.ErrVersionNotSupported,
		} {
			ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Version: version})
			_, err := call(ctx, NewClient(conn), &o, fillRequest(&o))
			if !errors.Is(err, want) {
				t.Errorf("%s %q: got %v, want %v", o.Name, version, err, want)
			}
		}
		for _, ctx := range []context.Context{
			t.Context(), metadata.AppendToOutgoingContext(t.Context(), "a2a-version", ""),
		} {
			err := conn.Invoke(ctx, fullMethod(o.Name), &pb.GetTaskRequest{}, &pb.Task{})
			st := status.Convert(err)
			if st.Code() != codes.FailedPrecondition || !strings.Contains(st.Message(), "0.3") {
				t.Errorf("%s without a version: got %v", o.Name, err)
			}
		}
	}
}

func TestCallInfo(t *testing.T) {
	var got *a2a.CallInfo
	conn := connect(t, &fake{call: func(ctx context.Context, _ op.Message) (any, error) {
		got = a2a.CallInfoFrom(ctx)
		got.Activated = []string{"urn:b", "urn:c"}
		return &a2a.Task{}, nil
	}}, HandlerOptions{
		Authenticate: func(ctx context.Context, info *a2a.CallInfo) error {
			if a2a.CallInfoFrom(ctx) != info {
				t.Error("the authenticator's context has not the info of the call")
			}
			info.Caller.Subject = info.Header.Get("Authorization")
			return nil
		},
	})
	_, err := pb.NewA2AServiceClient(conn).GetTask(versioned(t,
		"a2a-extensions", "urn:a, urn:b", "a2a-extensions", "urn:c", "authorization", "Bearer x", "x-list", "1", "x-list", "2",
	), &pb.GetTaskRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"urn:a", "urn:b", "urn:c"}; !slices.Equal(got.Extensions, want) {
		t.Errorf("extensions: got %q, want %q", got.Extensions, want)
	}
	if got.Caller.Subject != "Bearer x" || !slices.Equal(got.Header["X-List"], []string{"1", "2"}) {
		t.Errorf("got %+v", got)
	}

	info := &a2a.CallInfo{
		Extensions: []string{"urn:b", "urn:d"},
		Header:     http.Header{"Authorization": {"Bearer y"}, "X-More": {"1", "2"}, "Content-Length": {"7"}, "Connection": {"close"}},
	}
	if _, err := NewClient(conn).GetTask(a2a.WithCallInfo(t.Context(), info), &a2a.GetTaskRequest{}); err != nil {
		t.Fatal(err)
	}
	if got.Caller.Subject != "Bearer y" || !slices.Equal(got.Header["X-More"], []string{"1", "2"}) ||
		!slices.Equal(got.Extensions, info.Extensions) || got.Header.Get("Content-Length") != "" {
		t.Errorf("got %+v", got)
	}
	if want := []string{"urn:b", "urn:c"}; !slices.Equal(info.Activated, want) {
		t.Errorf("activated: got %q, want %q", info.Activated, want)
	}

	info.Peer = "192.0.2.1:1" // it came from a caller of this host
	if _, err := NewClient(conn).GetTask(a2a.WithCallInfo(t.Context(), info), &a2a.GetTaskRequest{}); err != nil {
		t.Fatal(err)
	}
	if got.Caller.Subject != "" || got.Header.Get("X-More") != "" {
		t.Errorf("a caller's header was passed on: %v", got.Header)
	}
}

func TestStreamActivates(t *testing.T) {
	conn := connect(t, &fake{stream: func(ctx context.Context, _ op.Message) iter.Seq2[a2a.Entry, error] {
		a2a.CallInfoFrom(ctx).Activated = []string{"urn:a"}
		return entries(nil, &a2a.Task{ID: "1"})
	}}, HandlerOptions{})
	info := new(a2a.CallInfo)
	for _, err := range NewClient(conn).SubscribeToTask(a2a.WithCallInfo(t.Context(), info), &a2a.SubscribeToTaskRequest{}) {
		if err != nil || !slices.Equal(info.Activated, []string{"urn:a"}) {
			t.Errorf("at the first entry: got %q, %v", info.Activated, err)
		}
	}
}

// One who is not known learns that before the request is read, and before a stream begins.
func TestUnauthenticated(t *testing.T) {
	svc := &fake{
		call: func(context.Context, op.Message) (any, error) { panic("called") },
		stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
			panic("called")
		},
	}
	challenge := []string{`Bearer realm="a"`, `Basic realm="b"`}
	conn := connect(t, svc, HandlerOptions{Authenticate: func(context.Context, *a2a.CallInfo) error {
		return &a2a.Error{Code: a2a.ErrUnauthenticated, Challenge: challenge}
	}})
	for _, o := range op.All {
		_, err := call(t.Context(), NewClient(conn), &o, fillRequest(&o))
		if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Code != a2a.ErrUnauthenticated || !slices.Equal(e.Challenge, challenge) {
			t.Errorf("%s: got %v", o.Name, err)
		}
	}
	// The request never comes.
	s, err := conn.NewStream(versioned(t), &grpc.StreamDesc{ServerStreams: true}, fullMethod("SendMessage"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(pb.SendMessageResponse)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

var allErrors = []a2a.ErrorCode{
	a2a.ErrTaskNotFound, a2a.ErrTaskNotCancelable, a2a.ErrPushNotificationNotSupported, a2a.ErrUnsupportedOperation,
	a2a.ErrContentTypeNotSupported, a2a.ErrInvalidAgentResponse, a2a.ErrExtendedAgentCardNotConfigured,
	a2a.ErrExtensionSupportRequired, a2a.ErrVersionNotSupported,
	a2a.ErrParse, a2a.ErrInvalidRequest, a2a.ErrMethodNotFound, a2a.ErrInvalidParams, a2a.ErrInternal,
	a2a.ErrUnauthenticated, a2a.ErrPermissionDenied, a2a.ErrMethodNotAllowed, a2a.ErrRequestTimeout, a2a.ErrTooLarge,
	a2a.ErrUnsupportedMediaType, a2a.ErrResourceExhausted, a2a.ErrUnavailable, a2a.ErrCanceled,
}

// Case 36, on a unary call, before a stream and in one.
func TestErrorsBothWays(t *testing.T) {
	var fail *a2a.Error
	var events []a2a.Event
	conn := connect(t, &fake{
		call:   func(context.Context, op.Message) (any, error) { return nil, fail },
		stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] { return entries(fail, events...) },
	}, HandlerOptions{})
	check := func(t *testing.T, err error) {
		t.Helper()
		got, ok := errors.AsType[*a2a.Error](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		delete(got.Metadata, errorIDKey)
		if diff := cmp.Diff(fail, got.WithCause(nil), cmp.AllowUnexported(a2a.Error{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !errors.Is(err, fail.Code) {
			t.Errorf("%v is not %v", err, fail.Code)
		}
	}
	for _, code := range allErrors {
		t.Run(code.Name(), func(t *testing.T) {
			fail = &a2a.Error{
				Code: code, Message: "sentence with 漢字", Metadata: map[string]string{"taskId": "1"},
				Violations: []a2a.FieldViolation{{Field: "a.b", Description: "no"}, {Field: "c", Description: "yes"}},
				RetryAfter: 1500 * time.Millisecond, Challenge: []string{"Bearer"},
			}
			_, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{})
			check(t, err)
			for _, events = range [][]a2a.Event{nil, {&a2a.Task{ID: "1"}}} {
				n := 0
				for _, err := range NewClient(conn).SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{}) {
					if n++; n > len(events) {
						check(t, err)
					} else if err != nil {
						t.Fatal(err)
					}
				}
				if n != len(events)+1 {
					t.Errorf("%d yields, want %d", n, len(events)+1)
				}
			}
			_, err = pb.NewA2AServiceClient(conn).GetTask(versioned(t), &pb.GetTaskRequest{})
			st := status.Convert(err)
			if uint32(st.Code()) != uint32(code.Status()) || st.Message() != fail.Message || len(st.Details()) != 3 {
				t.Fatalf("got %v %v", st, st.Details())
			}
			info := st.Details()[0].(*errdetails.ErrorInfo)
			if info.GetReason() != code.Reason() || info.GetDomain() != "a2a-protocol.org" || info.GetMetadata()["taskId"] != "1" {
				t.Errorf("got %v", info)
			}
		})
	}
}

func TestReasonOfItsOwn(t *testing.T) {
	want := &a2a.Error{Code: a2a.ErrUnsupportedOperation, Reason: "QUOTA_SPENT", Message: "m"}
	conn := connect(t, &fake{call: func(context.Context, op.Message) (any, error) { return nil, want }}, HandlerOptions{})
	_, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{})
	if got, ok := errors.AsType[*a2a.Error](err); !ok || got.Code != want.Code || got.Reason != want.Reason {
		t.Errorf("got %#v", err)
	}
}

// A status must fit into a header block that every peer takes.
func TestLongErrorIsCut(t *testing.T) {
	e := &a2a.Error{Code: a2a.ErrInvalidParams, Message: strings.Repeat("é", 1<<20) + "\xff"}
	for range 1000 {
		e.Violations = append(e.Violations, a2a.FieldViolation{Field: "f", Description: "too long \xff"})
	}
	conn := connect(t, &fake{call: func(context.Context, op.Message) (any, error) { return nil, e }}, HandlerOptions{})
	_, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{})
	got, ok := errors.AsType[*a2a.Error](err)
	if !ok || got.Code != a2a.ErrInvalidParams || len(got.Violations) != maxViolations || len(got.Message) > maxMessage+3 {
		t.Errorf("got %.200v with %d violations", err, len(got.Violations))
	}
}

// What went wrong inside is in the log, under the id that the caller got, and nowhere else.
func TestInternalErrors(t *testing.T) {
	const canary = "canary-of-the-cause"
	fails := map[string]func() error{
		"plain":   func() error { return errors.New(canary) },
		"wrapped": func() error { return (&a2a.Error{Code: a2a.ErrInternal}).WithCause(errors.New(canary)) },
		"panic":   func() error { panic(canary) },
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			conn := connect(t, &fake{
				call: func(context.Context, op.Message) (any, error) { return nil, fail() },
				stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
					return func(yield func(a2a.Entry, error) bool) { yield(a2a.Entry{}, fail()) }
				},
			}, HandlerOptions{Log: slog.New(slog.NewJSONHandler(&log, nil))})
			for _, name := range []string{"GetTask", "SubscribeToTask"} {
				log.Reset()
				o := op.ByName(name)
				_, err := call(t.Context(), NewClient(conn), o, o.NewRequest())
				e, ok := errors.AsType[*a2a.Error](err)
				if !ok || e.Code != a2a.ErrInternal || e.Message != a2a.ErrInternal.Error() {
					t.Fatalf("got %v", err)
				}
				if strings.Contains(err.Error()+e.Cause().Error(), canary) {
					t.Errorf("the cause crossed the wire: %v", err)
				}
				var line struct{ ErrorID, Cause, Operation string }
				if err := json.Unmarshal(log.Bytes(), &line); err != nil {
					t.Fatal(err)
				}
				if line.ErrorID == "" || line.ErrorID != e.Metadata["errorId"] || !strings.Contains(line.Cause, canary) || line.Operation != name {
					t.Errorf("error has %q, the log %+v", e.Metadata["errorId"], line)
				}
			}
		})
	}
}

func TestServerWithoutOptions(t *testing.T) {
	var log bytes.Buffer
	h := NewHandler(&fake{}, HandlerOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	conn := dial(t, serve(t, h.Register))
	_, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{})
	if !errors.Is(err, a2a.ErrInternal) || !strings.Contains(log.String(), "ServerOptions") {
		t.Errorf("got %v and the log %s", err, &log)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }

func TestRequestsThatAreNone(t *testing.T) {
	conn := connect(t, &fake{call: func(context.Context, op.Message) (any, error) { panic("called") }}, HandlerOptions{})
	tests := map[string]struct {
		request []byte
		want    codes.Code
		reason  string
	}{
		"not protobuf": {[]byte("{}"), codes.InvalidArgument, "JSON_PARSE_ERROR"},
		"not UTF-8":    {[]byte("\x12\x01\xff"), codes.InvalidArgument, "JSON_PARSE_ERROR"},
		"unknown role": {[]byte("\x12\x02\x20\x07"), codes.InvalidArgument, "INVALID_PARAMS"},
	}
	for name, tt := range tests {
		method := fullMethod("GetTask")
		if name == "unknown role" {
			method = fullMethod("SendMessage")
		}
		err := conn.Invoke(versioned(t), method, tt.request, nil, grpc.ForceCodec(rawCodec{}))
		st := status.Convert(err)
		if st.Code() != tt.want || len(st.Details()) == 0 || st.Details()[0].(*errdetails.ErrorInfo).GetReason() != tt.reason {
			t.Errorf("%s: got %v %v", name, err, st.Details())
		}
		if name == "unknown role" {
			bad := st.Details()[1].(*errdetails.BadRequest)
			if got := bad.GetFieldViolations()[0].GetField(); got != "message.role" {
				t.Errorf("%s: the violation is of %q", name, got)
			}
		}
	}
	if err := conn.Invoke(versioned(t), fullMethod("Nothing"), &pb.Task{}, &pb.Task{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method: got %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	conn := connect(t, &fake{call: func(_ context.Context, req op.Message) (any, error) {
		return req.(*a2a.SendMessageRequest).Message, nil
	}}, HandlerOptions{})
	send := func(n int) (a2a.SendMessageResult, error) {
		return NewClient(conn).SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
			Parts: []*a2a.Part{{Content: a2a.Raw(make([]byte, n))}},
		}})
	}
	if _, err := send(MaxRequest); !errors.Is(err, a2a.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	const envelope = 100
	res, err := send(MaxRequest - envelope)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(res.(*a2a.Message).Parts[0].Content.(a2a.Raw)); got != MaxRequest-envelope {
		t.Errorf("%d bytes came back", got)
	}
}

// A request that comes too slowly is given up (threat B9).
func TestSlowRequest(t *testing.T) {
	conn := connect(t, &fake{}, HandlerOptions{ReadTimeout: 20 * time.Millisecond})
	header := make([]byte, 5)
	binary.BigEndian.PutUint32(header[1:], 100)
	body, out := io.Pipe()
	defer func() { _ = out.Close() }()
	go func() { _, _ = out.Write(header) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+conn.Target()[len("passthrough:///"):]+fullMethod("SendMessage"), body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("A2A-Version", "1.0")
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Grpc-Status"); got != strconv.Itoa(int(codes.DeadlineExceeded)) {
		t.Errorf("status %q", got)
	}
}

// Case 5: no header goes out before the first entry is there.
func TestEarlyErrorIsPlain(t *testing.T) {
	conn := connect(t, &fake{stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
		return entries(a2a.ErrTaskNotFound)
	}}, HandlerOptions{})
	s, err := pb.NewA2AServiceClient(conn).SubscribeToTask(versioned(t), &pb.SubscribeToTaskRequest{Id: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	if header, err := s.Header(); len(header) > 0 {
		t.Errorf("a header was sent: %v, %v", header, err)
	}
}

func TestStreamEndsWithoutTerminal(t *testing.T) {
	conn := connect(t, &fake{stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
		return entries(nil, &a2a.Task{ID: "1"})
	}}, HandlerOptions{})
	got, err := call(t.Context(), NewClient(conn), op.ByName("SubscribeToTask"), &a2a.SubscribeToTaskRequest{})
	if err != nil || len(got.([]a2a.Event)) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// endless yields one task for ever, and tells why it ended.
func endless(ended chan<- error, ev a2a.Event) func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
	return func(ctx context.Context, _ op.Message) iter.Seq2[a2a.Entry, error] {
		return func(yield func(a2a.Entry, error) bool) {
			defer func() { ended <- ctx.Err() }()
			for yield(a2a.NewEntry(1, ev), nil) {
			}
		}
	}
}

func TestClientLeaves(t *testing.T) {
	ended := make(chan error, 1)
	conn := connect(t, &fake{stream: endless(ended, &a2a.Task{ID: "1"})}, HandlerOptions{})
	for _, err := range NewClient(conn).SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the server's context says %v", err)
	}
}

// A reader that stops reading is dropped when a write has waited for the timeout, and holds nothing.
func TestReaderStops(t *testing.T) {
	ended := make(chan error, 1)
	big := &a2a.Task{History: []*a2a.Message{{Parts: []*a2a.Part{a2a.TextPart(strings.Repeat("x", 10_000))}}}}
	addr := serve(t, NewHandler(&fake{stream: endless(ended, big)}, HandlerOptions{WriteTimeout: 20 * time.Millisecond}).Register,
		ServerOptions()...)
	conn := dial(t, addr, grpc.WithInitialWindowSize(64<<10))
	s, err := pb.NewA2AServiceClient(conn).SubscribeToTask(versioned(t), &pb.SubscribeToTaskRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream's context says %v", err)
	}
	for err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("at last the reader got %v", err)
	}
}

// A slow agent is no slow reader.
func TestSilenceIsNotStopped(t *testing.T) {
	const timeout = 20 * time.Millisecond
	conn := connect(t, &fake{stream: func(ctx context.Context, _ op.Message) iter.Seq2[a2a.Entry, error] {
		return func(yield func(a2a.Entry, error) bool) {
			for range 3 {
				select {
				case <-time.After(3 * timeout):
				case <-ctx.Done():
					return
				}
				if !yield(a2a.NewEntry(1, &a2a.Task{ID: "1"}), nil) {
					return
				}
			}
		}
	}}, HandlerOptions{ReadTimeout: timeout, WriteTimeout: timeout})
	got, err := call(t.Context(), NewClient(conn), op.ByName("SubscribeToTask"), &a2a.SubscribeToTaskRequest{})
	if err != nil || len(got.([]a2a.Event)) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
}

// sentFrames notes the bytes that a server sends.
type sentFrames struct {
	mu     sync.Mutex
	first  map[*byte]int // by their address
	frames int
}

func (*sentFrames) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*sentFrames) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*sentFrames) HandleConn(context.Context, stats.ConnStats) {}

func (f *sentFrames) HandleRPC(_ context.Context, s stats.RPCStats) {
	if out, ok := s.(*stats.OutPayload); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.frames++
		f.first[&out.Payload.(frame)[0]]++
	}
}

func TestEncodedOnce(t *testing.T) {
	const subscribers, events = 100, 10
	var log []a2a.Entry
	for i := range events {
		log = append(log, a2a.NewEntry(int64(i+1), &a2a.Task{ID: strconv.Itoa(i)}))
	}
	sent := &sentFrames{first: map[*byte]int{}}
	conn := connect(t, &fake{stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] {
		return func(yield func(a2a.Entry, error) bool) {
			for _, e := range log {
				if !yield(e, nil) {
					return
				}
			}
		}
	}}, HandlerOptions{}, grpc.StatsHandler(sent))
	var wg sync.WaitGroup
	for range subscribers {
		wg.Go(func() {
			got, err := call(t.Context(), NewClient(conn), op.ByName("SubscribeToTask"), &a2a.SubscribeToTaskRequest{})
			if err != nil || len(got.([]a2a.Event)) != events {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if sent.frames != subscribers*events || len(sent.first) != events {
		t.Errorf("%d frames of %d encodings, want %d of %d", sent.frames, len(sent.first), subscribers*events, events)
	}
}

func TestCallerCancels(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	conn := connect(t, &fake{call: func(ctx context.Context, _ op.Message) (any, error) {
		close(started)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}, HandlerOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	_, err := NewClient(conn).GetTask(ctx, &a2a.GetTaskRequest{})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, a2a.ErrCanceled) {
		t.Errorf("the caller got %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the server's context says %v", err)
	}
}

func TestDeadline(t *testing.T) {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	conn := connect(t, &fake{
		call: func(ctx context.Context, _ op.Message) (any, error) { return nil, wait(ctx) },
		stream: func(ctx context.Context, _ op.Message) iter.Seq2[a2a.Entry, error] {
			return func(yield func(a2a.Entry, error) bool) { yield(a2a.Entry{}, wait(ctx)) }
		},
	}, HandlerOptions{})
	for _, name := range []string{"GetTask", "SubscribeToTask"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		o := op.ByName(name)
		if _, err := call(ctx, NewClient(conn), o, o.NewRequest()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
		cancel()
	}
}

// Cases 38, 39 and 2.
func TestContents(t *testing.T) {
	var events []a2a.Event
	conn := connect(t, &fake{
		call: func(_ context.Context, req op.Message) (any, error) {
			return req.(*a2a.SendMessageRequest).Message, nil
		},
		stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] { return entries(nil, events...) },
	}, HandlerOptions{})
	parts := []*a2a.Part{
		{Content: a2a.Raw{0x00, 0xff, 0xfe}},
		{Content: a2a.Raw(nil)},
		{Content: a2a.Text("<a&b> 😀")},
		{Content: a2a.Text("")},
		{Content: a2a.Data(`{"n":1,"big":9007199254740993,"z":null,"e":{},"l":[null,{}]}`)},
		{Content: a2a.Data(`null`)},
	}
	res, err := NewClient(conn).SendMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{Parts: parts}})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(parts)
	want[1] = &a2a.Part{Content: a2a.Raw{}}
	want[4] = &a2a.Part{Content: a2a.Data(`{"big":9007199254740992,"e":{},"l":[null,{}],"n":1,"z":null}`)}
	if diff := cmp.Diff(want, res.(*a2a.Message).Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for _, size := range []int{1 << 20, 9 << 20} {
		raw := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		events = []a2a.Event{&a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{Parts: []*a2a.Part{{Content: a2a.Raw(raw)}}}}}
		got, err := call(t.Context(), NewClient(conn), op.ByName("SubscribeToTask"), &a2a.SubscribeToTaskRequest{})
		if err != nil {
			t.Fatal(err)
		}
		part := got.([]a2a.Event)[0].(*a2a.TaskArtifactUpdateEvent).Artifact.Parts[0]
		if !bytes.Equal(part.Content.(a2a.Raw), raw) {
			t.Errorf("an event of %d bytes did not come back as it was", size)
		}
	}
}

// What an agent said that is not UTF-8 does not break the answer.
func TestAnswerThatIsNotUTF8(t *testing.T) {
	conn := connect(t, &fake{
		call: func(context.Context, op.Message) (any, error) { return &a2a.Task{ID: "\xff"}, nil },
	}, HandlerOptions{})
	task, err := NewClient(conn).GetTask(t.Context(), &a2a.GetTaskRequest{})
	if err != nil || task.ID != "\uFFFD" {
		t.Errorf("got %v, %v", task, err)
	}
}

func TestAnswerThatCannotBeSent(t *testing.T) {
	task := &a2a.Task{Metadata: a2a.Struct{"a": json.RawMessage("{")}}
	conn := connect(t, &fake{
		call:   func(context.Context, op.Message) (any, error) { return task, nil },
		stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] { return entries(nil, task) },
	}, HandlerOptions{})
	for _, name := range []string{"GetTask", "SubscribeToTask"} {
		o := op.ByName(name)
		if _, err := call(t.Context(), NewClient(conn), o, o.NewRequest()); !errors.Is(err, a2a.ErrInternal) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
