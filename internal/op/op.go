// Package op is the table of the eleven operations: every name, method, path and parameter stands here once
// and is read by the bindings, the command line and the tools.
package op

import (
	"context"
	"iter"

	"github.com/parley-a2a/parley/a2a"
)

// Message is a request or a response: a pointer to one of package a2a's types that knows its JSON.
type Message interface {
	AppendJSON(b []byte) []byte
	UnmarshalJSON(b []byte) error
}

// Op is one operation of the protocol (specification 5.3).
type Op struct {
	Name   string // the JSON-RPC and gRPC method
	Method string // HTTP method on REST
	Path   string // REST path below the interface's URL; {id} and {taskId} are fields of the request
	// Query names the request's fields that travel in the query of a REST call without a body.
	Query []string
	// NewRequest returns an empty request.
	NewRequest func() Message
	// NewResponse returns an empty answer, for a client to decode into; nil for a streaming operation.
	NewResponse func() Message
	// Call is set for a unary operation. Its answer is what the wire carries: for SendMessage a
	// SendMessageResponse.
	Call func(context.Context, a2a.Service, Message) (Message, error)
	// Stream is set for a streaming operation.
	Stream func(context.Context, a2a.Service, Message) iter.Seq2[a2a.Entry, error]
}

type message[T any] interface {
	*T
	Message
}

func unary[Req, Res any, PReq message[Req], PRes message[Res]](name, method, path string, query []string,
	call func(a2a.Service, context.Context, PReq) (PRes, error),
) Op {
	return Op{
		Name: name, Method: method, Path: path, Query: query,
		NewRequest:  func() Message { return PReq(new(Req)) },
		NewResponse: func() Message { return PRes(new(Res)) },
		Call: func(ctx context.Context, s a2a.Service, m Message) (Message, error) {
			res, err := call(s, ctx, m.(PReq))
			if err != nil {
				return nil, err
			}
			return res, nil
		},
	}
}

func stream[Req any, PReq message[Req]](name, method, path string,
	call func(a2a.Service, context.Context, PReq) iter.Seq2[a2a.Entry, error],
) Op {
	return Op{
		Name: name, Method: method, Path: path,
		NewRequest: func() Message { return PReq(new(Req)) },
		Stream: func(ctx context.Context, s a2a.Service, m Message) iter.Seq2[a2a.Entry, error] {
			return call(s, ctx, m.(PReq))
		},
	}
}

func sendMessage(s a2a.Service, ctx context.Context, req *a2a.SendMessageRequest) (*a2a.SendMessageResponse, error) {
	res, err := s.SendMessage(ctx, req)
	if err != nil {
		return nil, err
	}
	return &a2a.SendMessageResponse{Result: res}, nil
}

// All is the table, in the order of the specification. SubscribeToTask is POST in the specification's prose
// and GET in its proto: both are served, POST is sent.
var All = []Op{
	unary("SendMessage", "POST", "/message:send", nil, sendMessage),
	stream("SendStreamingMessage", "POST", "/message:stream", a2a.Service.SendStreamingMessage),
	unary("GetTask", "GET", "/tasks/{id}", []string{"historyLength"}, a2a.Service.GetTask),
	unary("ListTasks", "GET", "/tasks",
		[]string{"contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts"},
		a2a.Service.ListTasks),
	unary("CancelTask", "POST", "/tasks/{id}:cancel", nil, a2a.Service.CancelTask),
	stream("SubscribeToTask", "POST", "/tasks/{id}:subscribe", a2a.Service.SubscribeToTask),
	unary("CreateTaskPushNotificationConfig", "POST", "/tasks/{taskId}/pushNotificationConfigs", nil,
		a2a.Service.CreateTaskPushNotificationConfig),
	unary("GetTaskPushNotificationConfig", "GET", "/tasks/{taskId}/pushNotificationConfigs/{id}", nil,
		a2a.Service.GetTaskPushNotificationConfig),
	unary("ListTaskPushNotificationConfigs", "GET", "/tasks/{taskId}/pushNotificationConfigs", []string{"pageSize", "pageToken"},
		a2a.Service.ListTaskPushNotificationConfigs),
	unary("GetExtendedAgentCard", "GET", "/extendedAgentCard", nil, a2a.Service.GetExtendedAgentCard),
	unary("DeleteTaskPushNotificationConfig", "DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}", nil,
		a2a.Service.DeleteTaskPushNotificationConfig),
}

var byName = func() map[string]*Op {
	m := make(map[string]*Op, len(All))
	for i := range All {
		m[All[i].Name] = &All[i]
	}
	return m
}()

// ByName returns the operation with the given name, or nil.
func ByName(name string) *Op { return byName[name] }

// Field returns where a request keeps the named part of a REST path: tenant, id or taskId. It is nil where
// the request has none.
func Field(m Message, name string) *string {
	var tenant, id, task *string
	switch m := m.(type) {
	case *a2a.SendMessageRequest:
		tenant = &m.Tenant
	case *a2a.GetTaskRequest:
		tenant, id = &m.Tenant, &m.ID
	case *a2a.ListTasksRequest:
		tenant = &m.Tenant
	case *a2a.CancelTaskRequest:
		tenant, id = &m.Tenant, &m.ID
	case *a2a.SubscribeToTaskRequest:
		tenant, id = &m.Tenant, &m.ID
	case *a2a.TaskPushNotificationConfig:
		tenant, id, task = &m.Tenant, &m.ID, &m.TaskID
	case *a2a.GetTaskPushNotificationConfigRequest:
		tenant, id, task = &m.Tenant, &m.ID, &m.TaskID
	case *a2a.ListTaskPushNotificationConfigsRequest:
		tenant, task = &m.Tenant, &m.TaskID
	case *a2a.GetExtendedAgentCardRequest:
		tenant = &m.Tenant
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		tenant, id, task = &m.Tenant, &m.ID, &m.TaskID
	}
	switch name {
	case "tenant":
		return tenant
	case "id":
		return id
	case "taskId":
		return task
	}
	return nil
}
