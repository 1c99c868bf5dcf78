package httpx_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/httpx"
	"github.com/parley-a2a/parley/internal/op"
)

func ptr[T any](v T) *T { return &v }

// requests has one request for each operation, with every field that travels.
func requests() map[string]op.Message {
	const id = "id/with:odd %characters?&é"
	send := request("hello")
	send.Tenant = "tenant/1"
	send.Metadata = a2a.Struct{"n": []byte(`9007199254740993`)}
	send.Configuration = &a2a.SendMessageConfiguration{HistoryLength: ptr(int32(0)), ReturnImmediately: true}
	return map[string]op.Message{
		"SendMessage":          send,
		"SendStreamingMessage": send,
		"GetTask":              &a2a.GetTaskRequest{Tenant: "te:nant", ID: id, HistoryLength: ptr(int32(3))},
		"ListTasks": &a2a.ListTasksRequest{
			ContextID: "c&1=é", Status: a2a.TaskStateWorking, PageSize: ptr(int32(7)), PageToken: "p+/=",
			HistoryLength: ptr(int32(0)), IncludeArtifacts: ptr(true),
			StatusTimestampAfter: time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.UTC),
		},
		"CancelTask":                       &a2a.CancelTaskRequest{ID: id + ":cancel", Metadata: a2a.Struct{"why": []byte(`"x"`)}},
		"SubscribeToTask":                  &a2a.SubscribeToTaskRequest{Tenant: "t", ID: id},
		"CreateTaskPushNotificationConfig": &a2a.TaskPushNotificationConfig{TaskID: id, ID: "p1", URL: "https://x", Token: "tok"},
		"GetTaskPushNotificationConfig":    &a2a.GetTaskPushNotificationConfigRequest{TaskID: id, ID: "p:1"},
		"ListTaskPushNotificationConfigs": &a2a.ListTaskPushNotificationConfigsRequest{
			TaskID: id, PageSize: 5, PageToken: "next",
		},
		"GetExtendedAgentCard":             &a2a.GetExtendedAgentCardRequest{Tenant: "t"},
		"DeleteTaskPushNotificationConfig": &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: id, ID: "p/1"},
	}
}

// answer is what the fake answers to an operation.
func answer(name string) op.Message {
	config := &a2a.TaskPushNotificationConfig{TaskID: "t1", ID: "p1", URL: "https://x"}
	switch name {
	case "SendMessage":
		return &a2a.SendMessageResponse{Result: task("t1")}
	case "GetTask", "CancelTask":
		return task("t1")
	case "ListTasks":
		return &a2a.ListTasksResponse{Tasks: []*a2a.Task{task("t1")}, PageSize: 7, TotalSize: 1}
	case "ListTaskPushNotificationConfigs":
		return &a2a.ListTaskPushNotificationConfigsResponse{Configs: []*a2a.TaskPushNotificationConfig{config}}
	case "GetExtendedAgentCard":
		return &a2a.AgentCard{Name: "card", Version: "1"}
	case "DeleteTaskPushNotificationConfig":
		return new(a2a.Empty)
	}
	return config
}

func TestEveryOperation(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		for name, req := range requests() {
			t.Run(name, func(t *testing.T) {
				check := func(ctx context.Context, gotName string, got op.Message) {
					if gotName != name {
						t.Errorf("%s was called", gotName)
					}
					if diff := cmp.Diff(req, got, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("the request (-sent +received):\n%s", diff)
					}
					info := a2a.CallInfoFrom(ctx)
					info.Header, info.Peer = http.Header{"X": info.Header["X-Mine"]}, ""
					want := &a2a.CallInfo{
						Binding: b.name, Operation: name, Version: "1.0", Extensions: []string{"u1", "u2"},
						Header: http.Header{"X": {"yes"}},
					}
					if diff := cmp.Diff(want, info); diff != "" {
						t.Errorf("the CallInfo (-want +got):\n%s", diff)
					}
					info.Activated = []string{"u2"}
				}
				s, _ := b.serve(t, &fake{
					call: func(ctx context.Context, gotName string, got op.Message) (op.Message, error) {
						check(ctx, gotName, got)
						return answer(name), nil
					},
					stream: func(ctx context.Context, gotName string, got op.Message, yield func(a2a.Entry, error) bool) {
						check(ctx, gotName, got)
						_ = yield(a2a.NewEntry(41, task("t1")), nil) && yield(a2a.NewEntry(42, chunk("x")), nil)
					},
				}, httpx.Options{})
				info := &a2a.CallInfo{Extensions: []string{"u1", "u2"}, Header: http.Header{"x-mine": {"yes"}, "A2a-Version": {"9"}}}
				got, err := invoke(a2a.WithCallInfo(t.Context(), info), s, name, req)
				if err != nil {
					t.Fatal(err)
				}
				want := []string{string(a2a.NewEntry(0, task("t1")).JSON()), string(a2a.NewEntry(0, chunk("x")).JSON())}
				if op.ByName(name).Call != nil {
					want = []string{string(answer(name).AppendJSON(nil))}
				}
				if !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				if !slices.Equal(info.Activated, []string{"u2"}) {
					t.Errorf("activated: got %q", info.Activated)
				}
			})
		}
	})
}

// Every error arrives as it left, but for its cause: as an answer, before a stream and within one.
func TestErrors(t *testing.T) {
	codes := []a2a.ErrorCode{
		a2a.ErrTaskNotFound, a2a.ErrTaskNotCancelable, a2a.ErrPushNotificationNotSupported, a2a.ErrUnsupportedOperation,
		a2a.ErrContentTypeNotSupported, a2a.ErrInvalidAgentResponse, a2a.ErrExtendedAgentCardNotConfigured,
		a2a.ErrExtensionSupportRequired, a2a.ErrVersionNotSupported,
		a2a.ErrParse, a2a.ErrInvalidRequest, a2a.ErrMethodNotFound, a2a.ErrInvalidParams,
		a2a.ErrUnauthenticated, a2a.ErrPermissionDenied, a2a.ErrMethodNotAllowed, a2a.ErrRequestTimeout, a2a.ErrTooLarge,
		a2a.ErrUnsupportedMediaType, a2a.ErrResourceExhausted, a2a.ErrUnavailable, a2a.ErrCanceled,
	}
	errs := []*a2a.Error{
		{Code: a2a.ErrInternal, Message: "for people", Metadata: map[string]string{httpx.ErrorID: "id"}},
		{
			Code: a2a.ErrInvalidParams, Message: "two fields <é\n>",
			Violations: []a2a.FieldViolation{{Field: "a.b[0]", Description: "bad"}, {Field: "c", Description: "worse"}},
		},
		{Code: a2a.ErrUnsupportedOperation, Reason: "QUOTA_SPENT", Message: "m", Metadata: map[string]string{"b": "2", "a": "1"}},
	}
	for _, c := range codes {
		errs = append(errs, &a2a.Error{Code: c, Message: "message of " + c.Name(), Metadata: map[string]string{"k": "v"}})
	}
	headers := &a2a.Error{
		Code: a2a.ErrUnauthenticated, Message: "m", RetryAfter: 1500 * time.Millisecond,
		Challenge: []string{`Bearer realm="a"`, `Basic realm="b"`},
	}
	ignore := cmpopts.IgnoreUnexported(a2a.Error{})
	forEach(t, func(t *testing.T, b binding) {
		for _, e := range append(errs, headers) {
			early := &fake{
				call: func(context.Context, string, op.Message) (op.Message, error) {
					return nil, e.WithCause(errors.New("secret"))
				},
				stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
					yield(a2a.Entry{}, e)
				},
			}
			s, _ := b.serve(t, early, httpx.Options{})
			for _, name := range []string{"GetTask", "SendStreamingMessage"} {
				got, err := invoke(t.Context(), s, name, requests()[name])
				if diff := cmp.Diff(e, a2a.AsError(err), ignore, cmpopts.EquateEmpty()); diff != "" || got != nil {
					t.Errorf("%s (-sent +received):\n%s%q", name, diff, got)
				}
				if !errors.Is(err, e.Code) {
					t.Errorf("%v is not %v", err, e.Code)
				}
			}
			late := &fake{stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
				_ = yield(a2a.NewEntry(1, task("t1")), nil) && yield(a2a.Entry{}, e)
			}}
			s, _ = b.serve(t, late, httpx.Options{})
			got, err := invoke(t.Context(), s, "SubscribeToTask", &a2a.SubscribeToTaskRequest{ID: "t1"})
			want := *e
			want.Challenge = nil // a header, and it is too late for those
			if diff := cmp.Diff(&want, a2a.AsError(err), ignore, cmpopts.EquateEmpty()); diff != "" || len(got) != 1 {
				t.Errorf("late (-sent +received):\n%s%q", diff, got)
			}
		}
	})
}

func TestErrorHeaders(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{call: func(context.Context, string, op.Message) (op.Message, error) {
			return nil, &a2a.Error{Code: a2a.ErrResourceExhausted, RetryAfter: 1100 * time.Millisecond}
		}}
		_, srv := b.serve(t, f, httpx.Options{})
		res := b.send(t, srv.URL, false, message)
		if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "2" {
			t.Errorf("got %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
		if body := text(t, res); !strings.Contains(body, `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.1s"}`) {
			t.Errorf("got %s", body)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	})
}

func TestVersions(t *testing.T) {
	const (
		refused = false
		passes  = true
	)
	tests := []struct {
		header []string
		query  string
		want   bool
	}{
		{[]string{"1.0"}, "", passes},
		{[]string{"1.0.7"}, "", passes},
		{[]string{" 1.0 "}, "", passes},
		{nil, "A2A-Version=1.0", passes},
		{[]string{""}, "A2A-Version=1.0", passes},
		{nil, "a2a-version=1.0", passes},
		{[]string{"99.0"}, "", refused},
		{[]string{"1"}, "", refused},
		{[]string{"1.0.x"}, "", refused},
		{[]string{""}, "", refused},
		{nil, "", refused},
		{[]string{"0.3"}, "A2A-Version=1.0", refused},
		{[]string{"1.0", "0.3"}, "", refused},
		{nil, "A2A-Version=1.0&A2A-Version=0.3", refused},
	}
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{
			call: func(_ context.Context, name string, _ op.Message) (op.Message, error) { return answer(name), nil },
			stream: func(_ context.Context, _ string, _ op.Message, yield func(a2a.Entry, error) bool) {
				yield(a2a.NewEntry(1, task("t1")), nil)
			},
		}
		_, srv := b.serve(t, f, httpx.Options{})
		for name, req := range requests() {
			for _, tt := range tests {
				before := f.calls()
				// The client writes the request; the versions are put on it on its way.
				hc := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					delete(r.Header, "A2a-Version")
					if tt.header != nil {
						r.Header["A2a-Version"] = tt.header
					}
					r.URL.RawQuery = strings.Trim(r.URL.RawQuery+"&"+tt.query, "&")
					return http.DefaultTransport.RoundTrip(r)
				})}
				_, err := invoke(t.Context(), b.client(srv.URL, httpx.ClientOptions{HTTP: hc}), name, req)
				ran := f.calls() > before
				if ok := err == nil && ran; ok != tt.want {
					t.Errorf("%s, header %q, query %q: %v, ran %v", name, tt.header, tt.query, err, ran)
				}
				if !tt.want && (!errors.Is(err, a2a.ErrVersionNotSupported) || !strings.Contains(err.Error(), `"A2A-Version: 1.0"`)) {
					t.Errorf("%s: the error is %v", name, err)
				}
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A host that passes calls on to another must not pass on what its own callers sent it.
func TestChain(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		var got *a2a.CallInfo
		inner, _ := b.serve(t, &fake{call: func(ctx context.Context, _ string, _ op.Message) (op.Message, error) {
			got = a2a.CallInfoFrom(ctx)
			got.Activated = []string{"u"}
			return &a2a.SendMessageResponse{Result: task("t1")}, nil
		}}, httpx.Options{})
		outer := &fake{call: func(ctx context.Context, _ string, req op.Message) (op.Message, error) {
			res, err := inner.SendMessage(ctx, req.(*a2a.SendMessageRequest))
			return &a2a.SendMessageResponse{Result: res}, err
		}}
		s, _ := b.serve(t, outer, httpx.Options{})
		info := &a2a.CallInfo{Extensions: []string{"u"}, Header: http.Header{"Authorization": {"Bearer secret"}}}
		if _, err := s.SendMessage(a2a.WithCallInfo(t.Context(), info), request("x")); err != nil {
			t.Fatal(err)
		}
		if got.Header.Get("Authorization") != "" || !slices.Equal(got.Extensions, []string{"u"}) {
			t.Errorf("the inner host got %v", got)
		}
		if !slices.Equal(info.Activated, []string{"u"}) {
			t.Errorf("activated: got %q", info.Activated)
		}
	})
}

func TestAuthenticateBeforeBody(t *testing.T) {
	forEach(t, func(t *testing.T, b binding) {
		f := &fake{}
		_, srv := b.serve(t, f, httpx.Options{Authenticate: func(_ context.Context, info *a2a.CallInfo) error {
			if info.Header.Get("Authorization") != "Bearer good" {
				return &a2a.Error{Code: a2a.ErrUnauthenticated, Challenge: []string{"Bearer"}}
			}
			info.Caller.Subject = "alice"
			return nil
		}})
		// The body never comes.
		_, r := dial(t, srv, "POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("got %v", res)
		}
		f.call = func(ctx context.Context, _ string, _ op.Message) (op.Message, error) {
			if got := a2a.CallInfoFrom(ctx).Caller.Subject; got != "alice" {
				return nil, fmt.Errorf("the caller is %q", got)
			}
			return &a2a.SendMessageResponse{Result: task("t1")}, nil
		}
		s := b.client(srv.URL, httpx.ClientOptions{})
		ctx := a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Header: http.Header{"Authorization": {"Bearer good"}}})
		if _, err := s.SendMessage(ctx, request("x")); err != nil {
			t.Error(err)
		}
	})
}
