package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// ForClients are the clauses that bind whoever calls an agent. [All] has none of them: a run against an agent is itself
// the client.
var ForClients = []Clause{
	{"client-version", "3.6.1", Must, "Every request says which version of the protocol it is for, as Major.Minor.", "A2A-Version in the headers, the query or the metadata.", nil},
	{"client-method", "9.1", Must, "Methods have the protocol's names, in PascalCase.", "The method of every request.", []string{a2a.BindingJSONRPC, a2a.BindingGRPC}},
	{"client-envelope", "9.3", Must, "A request says jsonrpc 2.0, its method, an id, and parameters by name.", "The body of every request.", overRPC},
	{"client-media-type", "9.1", Must, "Requests are application/json.", "The Content-Type of every request.", overRPC},
	{"client-rest-media-type", "11.1", Should, "Requests are application/a2a+json.", "The Content-Type of every request with a body.", overREST},
	{"client-path", "11.3", Must, "Calls have the methods and paths of the protocol.", "The first line of every request.", overREST},
	{"client-params", "5.7", Must, "Parameters have the names and types of the proto, and what is required is there.", "The body of every request.", nil},
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?$`)

// CheckRequest holds the request of an exchange to the clauses of [ForClients]. The answer is not looked at.
func CheckRequest(x *Exchange) Verdict {
	var v Verdict
	version := x.Sent.Get(a2a.VersionHeader)
	if u, err := url.Parse(x.URL); version == "" && err == nil {
		version = u.Query().Get(a2a.VersionHeader)
	}
	v.hold(versionForm.MatchString(version), "client-version", "", fmt.Sprintf("%q", version), "A2A-Version: "+a2a.Version)
	known := op.ByName(x.Op) != nil
	switch x.Binding {
	case a2a.BindingJSONRPC:
		v.rpcRequest(x, known)
	case a2a.BindingREST:
		v.hold(known, "client-path", "", x.Method+" "+path(x.URL), "one of the protocol's")
		if len(x.Body) > 0 || x.Partial {
			v.hold(mediaType(x.Sent) == "application/a2a+json", "client-rest-media-type", "", mediaType(x.Sent), "Content-Type: application/a2a+json")
		}
		if !x.Partial && (x.Op == "SendMessage" || x.Op == "SendStreamingMessage") { // the others have some of their fields in the path
			v.params(x, x.Body)
		}
	case a2a.BindingGRPC:
		v.hold(known, "client-method", "", x.Op, "one of the proto's")
		if x.Partial {
			break
		}
		if m := NewMessage(x.Op, false); m != nil && proto.Unmarshal(x.Body, m) != nil {
			v.fail("client-params", "", fmt.Sprintf("% x", x.Body[:min(len(x.Body), 40)]), "the bytes of "+string(m.ProtoReflect().Descriptor().FullName()))
		} else if m != nil {
			raw, _ := renderMessage(m)
			v.params(x, raw)
		}
	}
	return v
}

func path(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Path
}

func (v *Verdict) rpcRequest(x *Exchange, known bool) {
	v.hold(mediaType(x.Sent) == "application/json", "client-media-type", "", mediaType(x.Sent), "Content-Type: application/json")
	if x.Partial {
		return
	}
	var r struct {
		JSONRPC, ID, Method, Params json.RawMessage
	}
	if err := json.Unmarshal(x.Body, &r); err != nil {
		v.fail("client-envelope", "", string(x.Body), "a JSON-RPC request")
		return
	}
	v.hold(string(r.JSONRPC) == `"2.0"`, "client-envelope", "jsonrpc", orAbsent(r.JSONRPC), `"2.0"`)
	v.hold(r.ID == nil || plainID(r.ID), "client-envelope", "id", orAbsent(r.ID), "a string or a number")
	v.hold(len(r.Method) > 0 && r.Method[0] == '"', "client-envelope", "method", orAbsent(r.Method), "a string")
	params := bytes.TrimSpace(r.Params)
	byName := len(params) == 0 || params[0] == '{'
	v.hold(byName, "client-envelope", "params", string(params), "an object")
	want := "one of the protocol's"
	if name := successor[x.Op]; name != "" {
		want = name + ", the name since 1.0"
	}
	v.hold(known, "client-method", "method", orAbsent(r.Method), want)
	if known && byName && len(params) > 0 {
		v.params(x, params)
	}
}

// successor are the methods of 0.3, and what they are called now.
var successor = map[string]string{
	"message/send": "SendMessage", "message/stream": "SendStreamingMessage", "tasks/get": "GetTask", "tasks/list": "ListTasks",
	"tasks/cancel": "CancelTask", "tasks/resubscribe": "SubscribeToTask",
	"tasks/pushNotificationConfig/set":    "CreateTaskPushNotificationConfig",
	"tasks/pushNotificationConfig/get":    "GetTaskPushNotificationConfig",
	"tasks/pushNotificationConfig/list":   "ListTaskPushNotificationConfigs",
	"tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
	"agent/getAuthenticatedExtendedCard":  "GetExtendedAgentCard",
}

// params checks a request's parameters against the proto. Advice about the form of values is for agents.
func (v *Verdict) params(x *Exchange, raw []byte) {
	var found Verdict
	d := dataCheck{v: &found, overGRPC: x.Binding == a2a.BindingGRPC}
	d.check(method(x.Op).Input(), raw, "params")
	v.see("client-params")
	for _, f := range found.Findings {
		if c := ByID(f.Rule); c != nil && c.Level == Must {
			v.fail("client-params", strings.TrimPrefix(f.Path, "params."), f.Got, f.Want)
		}
	}
}

// OfClients reports whether the clause with the given id is one of [ForClients].
func OfClients(id string) bool {
	return slices.ContainsFunc(ForClients, func(c Clause) bool { return c.ID == id })
}
