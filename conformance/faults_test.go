package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/rules"
)

// Small words for faults.

func onOp(name string, f func(*hop)) func(*hop) {
	return func(h *hop) {
		if h.op == name {
			f(h)
		}
	}
}

func taskOf(name string, f func(object)) func(*hop) {
	return onOp(name, func(h *hop) { h.task(f) })
}

func resultOf(name string, f func(object)) func(*hop) {
	return onOp(name, func(h *hop) { h.result(f) })
}

func paramsOf(name string, f func(object)) func(*hop) {
	return onOp(name, func(h *hop) { h.params(f) })
}

func without(op, field string) func(*hop) {
	return paramsOf(op, func(m object) { delete(m, field) })
}

func in(m object, path ...string) object {
	for _, name := range path {
		m, _ = m[name].(object)
	}
	if m == nil {
		return object{}
	}
	return m
}

// each calls f for every object in a list.
func each(list any, f func(object)) {
	l, _ := list.([]any)
	for _, e := range l {
		if m, ok := e.(object); ok {
			f(m)
		}
	}
}

func isKind(h *hop, name string) bool {
	return strings.HasPrefix(h.param("message.messageId"), kind(name).Prefix)
}

func isState(e object, state string) bool { return in(e, "statusUpdate", "status")["state"] == state }

func terminal(e object) bool {
	s, _ := in(e, "statusUpdate", "status")["state"].(string)
	return rules.Terminal(s)
}

// code makes the error of an operation another one, without details.
func code(op string, n int, when func(*hop) bool) func(*hop) {
	return onOp(op, func(h *hop) {
		if when == nil || when(h) {
			h.failure(func(e object) { e["code"] = n; delete(e, "data") })
		}
	})
}

func unknownID(h *hop) bool {
	return strings.HasPrefix(h.param("id")+h.param("taskId"), "00000000")
}

func top(f func(object)) func(*hop) {
	return func(h *hop) {
		if m := decode(h.answer); m != nil {
			f(m)
			h.answer = encode(m)
		}
	}
}

func frameOp(op string, f func(h *hop, n int, e object) []object) func(*hop, int, object) []object {
	return func(h *hop, n int, e object) []object {
		if h.op != op {
			return []object{e}
		}
		return f(h, n, e)
	}
}

const sending, subscribing = "SendStreamingMessage", "SubscribeToTask"

var faults = []fault{
	// JSON-RPC.
	{name: "another id", rule: "rpc-id", also: []string{"rpc-parse-error"}, tell: top(func(m object) { m["id"] = "x" })},
	{name: "the id as a string", rule: "rpc-id", also: []string{"rpc-parse-error"}, tell: top(func(m object) { m["id"] = fmt.Sprint(m["id"]) })},
	{name: "a rounded id", rule: "rpc-id", tell: top(func(m object) {
		if fmt.Sprint(m["id"]) == "9007199254740993" {
			m["id"] = 9007199254740992
		}
	})},
	{name: "no jsonrpc", rule: "rpc-envelope", tell: top(func(m object) { delete(m, "jsonrpc") })},
	{name: "result and error", rule: "rpc-envelope", also: []string{"error-*"}, tell: onOp("ListTasks", func(h *hop) {
		h.answer = []byte(strings.Replace(string(h.answer), `"error":`, `"result":{},"error":`, 1))
	})},
	{name: "text/plain", rule: "rpc-media-type", tell: func(h *hop) {
		if h.out.Get("Content-Type") == "application/json" {
			h.out.Set("Content-Type", "text/plain")
		}
	}},
	{name: "a parse error as an invalid request", rule: "rpc-parse-error", tell: top(func(m object) {
		if in(m, "error")["code"] != nil && fmt.Sprint(in(m, "error")["code"]) == "-32700" {
			in(m, "error")["code"] = -32600
		}
	})},
	{name: "a parse error with an id", rule: "rpc-parse-error", tell: top(func(m object) {
		if fmt.Sprint(in(m, "error")["code"]) == "-32700" {
			m["id"] = 1
		}
	})},
	{name: "no method, and no complaint", rule: "rpc-invalid-request", ask: func(h *hop) {
		if m := decode(h.body); m != nil && m["method"] == nil {
			h.reply(object{"result": object{}})
		}
	}},
	{name: "an unknown method as wrong parameters", rule: "rpc-unknown-method", tell: code("ConformanceUnknown", -32602, nil)},
	{name: "wrong parameters as an internal error", rule: "rpc-invalid-params", tell: onOp("GetTask", func(h *hop) {
		if _, list := decode(h.body)["params"].([]any); list {
			h.failure(func(e object) { e["code"] = -32603 })
		}
	})},
	{name: "a response to a notification", rule: "rpc-notification", ask: func(h *hop) {
		if m := decode(h.body); m != nil && m["id"] == nil {
			h.reply(object{"result": object{}})
		}
	}},
	{name: "error data that is no list", rule: "error-rpc-object", also: []string{"error-rpc-info"}, tell: func(h *hop) {
		h.failure(func(e object) { e["data"] = object{"reason": "because"} })
	}},
	{name: "error details without a type", rule: "error-rpc-object", also: []string{"error-rpc-info"}, tell: func(h *hop) {
		h.failure(func(e object) { each(e["data"], func(d object) { delete(d, "@type") }) })
	}},
	{name: "an error code as a string", rule: "error-rpc-object", also: []string{"error-rpc-code", "error-message", "rpc-*", "send-*", "get-*", "cancel-*", "subscribe-*", "push-*", "version-*", "validate-*", "extended-*", "scope-*", "extension-*", "same-*"}, tell: func(h *hop) {
		h.failure(func(e object) { e["code"] = fmt.Sprint("E", e["code"]) })
	}},
	{name: "the code of another error", rule: "error-rpc-code", also: []string{"error-rpc-info"}, tell: onOp("CancelTask", func(h *hop) {
		h.failure(func(e object) {
			if fmt.Sprint(e["code"]) == "-32002" {
				e["code"] = -32004
			}
		})
	})},
	{name: "no ErrorInfo", rule: "error-rpc-info", tell: func(h *hop) { h.failure(func(e object) { delete(e, "data") }) }},
	{name: "another domain", rule: "error-rpc-info", tell: func(h *hop) {
		h.failure(func(e object) { each(e["data"], func(d object) { d["domain"] = "example.com" }) })
	}},
	{name: "an error without words", rule: "error-message", also: []string{"scope-hidden"}, tell: func(h *hop) { h.failure(func(e object) { e["message"] = "" }) }},

	// Data.
	{name: "snake_case", rule: "data-names", also: []string{"list-page-size"}, tell: resultOf("GetTask", func(m object) {
		m["context_id"] = m["contextId"]
	})},
	{name: "a role of 0.3", rule: "data-enums", also: []string{"same-results"}, tell: taskOf("GetTask", func(m object) {
		each(m["history"], func(m object) { m["role"] = "user" })
	})},
	{name: "a state as a number", rule: "data-enums", also: []string{"get-task", "same-results", "cancel-idempotent", "stream-*", "auth-task"}, tell: taskOf("GetTask", func(m object) {
		in(m, "status")["state"] = 3
	})},
	{name: "a time with an offset", rule: "data-times", tell: taskOf("GetTask", func(m object) {
		s, _ := in(m, "status")["timestamp"].(string)
		in(m, "status")["timestamp"] = strings.Replace(s, "Z", "+00:00", 1)
	})},
	{name: "a time as a number", rule: "data-times", also: []string{"same-results"}, tell: taskOf("GetTask", func(m object) { in(m, "status")["timestamp"] = 1790000000 })},
	{name: "times in seconds", rule: "data-times-milliseconds", also: []string{"same-results"}, tell: taskOf("GetTask", func(m object) {
		s, _ := in(m, "status")["timestamp"].(string)
		in(m, "status")["timestamp"] = s[:19] + "Z"
	})},
	{name: "a part of two kinds", rule: "data-part", tell: taskOf("SendMessage", func(m object) {
		each(m["artifacts"], func(a object) { each(a["parts"], func(p object) { p["url"] = "https://example.com" }) })
	})},
	{name: "a part of no kind", rule: "data-part", tell: taskOf("SendMessage", func(m object) {
		each(m["artifacts"], func(a object) { each(a["parts"], func(p object) { delete(p, "text") }) })
	})},
	{name: "a message without its id", rule: "data-required", also: []string{"same-results"}, tell: taskOf("GetTask", func(m object) {
		each(m["history"], func(m object) { delete(m, "messageId") })
	})},
	{name: "an artifact without parts", rule: "data-required", tell: taskOf("SendMessage", func(m object) {
		each(m["artifacts"], func(a object) { a["parts"] = []any{} })
	})},
	{name: "a text that is a number", rule: "data-types", tell: taskOf("SendMessage", func(m object) {
		each(m["artifacts"], func(a object) { a["name"] = 5 })
	})},
	{name: "a task and a message", rule: "result-one", also: []string{"data-required"}, tell: resultOf("SendMessage", func(m object) {
		if m["task"] != nil {
			m["message"] = object{"messageId": "m", "role": "ROLE_AGENT", "parts": []any{object{"text": "x"}}}
		}
	})},

	// Versions and extensions.
	{name: "every version is taken", rule: "version-unsupported", ask: func(h *hop) {
		if h.header.Get("A2A-Version") == "99.0" {
			h.header.Set("A2A-Version", "1.0")
		}
	}},
	{name: "no version is 1.0", rule: "version-empty", ask: func(h *hop) {
		if h.header.Get("A2A-Version") == "" && h.query.Get("A2A-Version") == "" {
			h.header.Set("A2A-Version", "1.0")
		}
	}},
	{name: "the patch number matters", rule: "version-patch", ask: func(h *hop) {
		if h.header.Get("A2A-Version") == "1.0.7" {
			h.header.Set("A2A-Version", "9.9")
		}
	}},
	{name: "no version in the query", rule: "version-query", ask: func(h *hop) { h.query.Del("A2A-Version") }},
	{name: "the connection breaks", rule: "version-works", also: []string{"list-*"}, ask: onOp("ListTasks", func(h *hop) { h.broken = true })},
	{name: "an extension that is required, or not", rule: "extension-required", host: setup{require: "https://example.com/ext/v1"}, ask: func(h *hop) {
		h.header.Set("A2A-Extensions", "https://example.com/ext/v1")
	}},
	{name: "an extension that nobody knows", rule: "extension-unknown", ask: func(h *hop) {
		if strings.Contains(h.header.Get("A2A-Extensions"), "conformance.invalid") {
			h.refuse(-32603, "what is this extension?")
		}
	}},

	// Messages.
	{name: "the task before its end", rule: "send-blocking", tell: func(h *hop) {
		if isKind(h, "artifact") && h.op == "SendMessage" {
			h.task(func(m object) { in(m, "status")["state"] = "TASK_STATE_WORKING" })
		}
	}},
	{name: "waiting although it was told not to", rule: "send-immediate", ask: func(h *hop) {
		if isKind(h, "long") {
			h.params(func(m object) {
				in(m, "message")["messageId"] = "tck-complete-task-" + random()
				delete(m, "configuration")
			})
			wait(400 * time.Millisecond)
		}
	}},
	{name: "a new task for every message", rule: "send-terminal", also: []string{"send-unknown-task", "send-context-*", "validate-*", "auth-task-follow-up"}, ask: paramsOf("SendMessage", func(m object) {
		delete(in(m, "message"), "taskId")
	})},
	{name: "a new task for an unknown one", rule: "send-unknown-task", ask: func(h *hop) {
		if strings.HasPrefix(h.param("message.taskId"), "00000000") {
			h.params(func(m object) { delete(in(m, "message"), "taskId") })
		}
	}},
	{name: "no contextId in the answer", rule: "send-context-given", also: []string{"send-context-*", "get-task", "list-*"}, tell: taskOf("SendMessage", func(m object) { delete(m, "contextId") })},
	{name: "a context of its own", rule: "send-context-kept", ask: func(h *hop) {
		if h.param("message.taskId") == "" && strings.HasPrefix(h.param("message.contextId"), "conformance-") {
			h.params(func(m object) { delete(in(m, "message"), "contextId") })
		}
	}},
	{name: "a context that does not match", rule: "send-context-mismatch", ask: func(h *hop) {
		if h.param("message.taskId") != "" {
			h.params(func(m object) { delete(in(m, "message"), "contextId") })
		}
	}},
	{name: "an answer in another context", rule: "send-context-inferred", tell: func(h *hop) {
		if h.param("message.taskId") != "" {
			h.task(func(m object) { m["contextId"] = "other" })
		}
	}},
	{name: "an id for two tasks", rule: "send-task-ids", also: []string{"list-pages", "get-task", "scope-*", "same-results", "history-*"}, tell: func(h *hop) {
		if h.op != "SendMessage" || !isKind(h, "complete") || h.param("message.taskId") != "" {
			return
		}
		h.task(func(m object) {
			first, _ := h.p.counts.LoadOrStore("id", m["id"])
			m["id"] = first
		})
	}},
	{name: "history without end", rule: "send-history-length", ask: paramsOf("SendMessage", func(m object) { delete(in(m, "configuration"), "historyLength") })},
	{name: "any media type", rule: "send-content-type", tell: code("SendMessage", -32603, func(h *hop) bool {
		return strings.Contains(string(h.answer), "CONTENT_TYPE")
	})},
	{name: "a message without an id", rule: "validate-required", ask: paramsOf("SendMessage", func(m object) {
		if msg, ok := m["message"].(object); ok && msg["messageId"] == nil {
			msg["messageId"] = random()
		}
	})},
	{name: "wrong input as an internal error", rule: "validate-error", also: []string{"same-errors"}, tell: onOp("SendMessage", func(h *hop) {
		h.failure(func(e object) {
			if fmt.Sprint(e["code"]) == "-32602" {
				e["code"] = -32603
			}
		})
	})},
	{name: "wrong input, but which", rule: "validate-says-which", tell: onOp("SendMessage", func(h *hop) {
		h.failure(func(e object) {
			if fmt.Sprint(e["code"]) == "-32602" {
				e["message"] = "bad request"
				delete(e, "data")
			}
		})
	})},
	{name: "unknown fields are refused", rule: "unknown-fields", ask: func(h *hop) {
		if strings.Contains(string(h.body), "conformanceUnknown") {
			h.refuse(-32602, "unknown field")
		}
	}},

	// Streams.
	{name: "a stream as JSON", rule: "stream-media-type", also: []string{"stream-framing", "rpc-*"}, tell: func(h *hop) {
		if strings.HasPrefix(h.out.Get("Content-Type"), "text/event-stream") && h.op == sending && !isKind(h, "auth") {
			h.out.Set("Content-Type", "application/json")
		}
	}},
	{name: "lines that are no fields", rule: "stream-framing", lines: func(line string) string { return "hello\n" + line }},
	{name: "an event without its end", rule: "stream-framing", also: []string{"stream-*", "subscribe-*", "auth-*"}, lines: func(line string) string { return strings.TrimSuffix(line, "\n") }},
	{name: "no first task", rule: "stream-first", also: []string{"auth-*"}, frames: frameOp(sending, func(_ *hop, n int, e object) []object {
		if n == 1 && e["task"] != nil {
			return nil
		}
		return []object{e}
	})},
	{name: "a message, and one more", rule: "stream-message-only", frames: frameOp(sending, func(_ *hop, _ int, e object) []object {
		if e["message"] != nil {
			return []object{e, e}
		}
		return []object{e}
	})},
	{name: "a message in between", rule: "stream-lifecycle", frames: frameOp(sending, func(_ *hop, n int, e object) []object {
		if n == 1 && e["task"] != nil {
			return []object{e, {"message": object{"messageId": "m", "role": "ROLE_AGENT", "parts": []any{object{"text": "x"}}}}}
		}
		return []object{e}
	})},
	{name: "a stream that goes on", rule: "stream-closes", also: []string{"stream-message-only"}, hang: func(h *hop) bool { return h.op == sending }},
	{name: "an update after the end", rule: "stream-nothing-after-end", also: []string{"stream-order"}, frames: frameOp(sending, func(_ *hop, _ int, e object) []object {
		if terminal(e) {
			return []object{e, {"statusUpdate": object{
				"taskId": in(e, "statusUpdate")["taskId"], "contextId": in(e, "statusUpdate")["contextId"],
				"status": object{"state": "TASK_STATE_WORKING"},
			}}}
		}
		return []object{e}
	})},
	{name: "updates of another task", rule: "stream-one-task", frames: frameOp(sending, func(_ *hop, _ int, e object) []object {
		if a, ok := e["artifactUpdate"].(object); ok {
			a["taskId"] = "other"
		}
		return []object{e}
	})},
	{name: "an append to nothing", rule: "stream-append", also: []string{"stream-order"}, frames: frameOp(sending, func(_ *hop, _ int, e object) []object {
		if a, ok := e["artifactUpdate"].(object); ok {
			a["append"] = true
			in(a, "artifact")["artifactId"] = random()
		}
		return []object{e}
	})},
	{name: "a chunk is lost", rule: "stream-order", frames: frameOp(sending, func(h *hop, _ int, e object) []object {
		if in(e, "artifactUpdate")["append"] == true && h.p.count("chunk") == 1 {
			return nil
		}
		return []object{e}
	})},
	{name: "chunks in another order", rule: "stream-order", frames: frameOp(sending, func(h *hop, _ int, e object) []object {
		if in(e, "artifactUpdate")["append"] == true {
			switch h.p.count("chunk") {
			case 1:
				h.p.counts.Store("held", e)
				return nil
			case 2:
				held, _ := h.p.counts.Load("held")
				return []object{e, held.(object)}
			}
		}
		return []object{e}
	})},
	{name: "one stream gets more", rule: "stream-broadcast", frames: frameOp(subscribing, func(h *hop, _ int, e object) []object {
		if terminal(e) && h.p.count("end") == 1 {
			more := object{"taskId": in(e, "statusUpdate")["taskId"], "contextId": in(e, "statusUpdate")["contextId"], "status": object{"state": "TASK_STATE_WORKING"}}
			return []object{{"statusUpdate": more}, e}
		}
		return []object{e}
	})},
	{name: "a stream that is closed ends the task", rule: "stream-independent", also: []string{"push-*"}, left: func(h *hop) {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, h.p.host+"/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"`+h.param("id")+`"}}`))
		req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Authorization": {ann}}
		if res, err := h.p.hc.Do(req); err == nil {
			_ = res.Body.Close()
			h.p.counts.Store("canceled", true)
		}
	}, ask: onOp("GetTask", func(h *hop) {
		if h.p.count("get") > 0 {
			wait(30 * time.Millisecond) // for what a stream's end does
		}
	})},
	{name: "streams are not offered, and not refused", rule: "stream-refused", also: []string{"error-*"}, host: setup{plain: true}, tell: code(sending, -32603, nil)},

	// Tasks.
	{name: "another task", rule: "get-task", also: []string{"same-results"}, tell: taskOf("GetTask", func(m object) { m["contextId"] = "other" })},
	{name: "unknown as internal", rule: "get-unknown", tell: code("GetTask", -32603, unknownID)},
	{name: "history without end in GetTask", rule: "history-length", also: []string{"history-zero"}, ask: without("GetTask", "historyLength")},
	{name: "the oldest of the history", rule: "history-length", tell: func(h *hop) {
		if h.op == "GetTask" && strings.Contains(string(h.body), `"historyLength":1`) {
			h.task(func(m object) { each(m["history"], func(m object) { m["messageId"] = "first" }) })
		}
	}},
	{name: "0 means all", rule: "history-zero", ask: func(h *hop) {
		if strings.Contains(string(h.body), `"historyLength":0`) && h.op == "GetTask" {
			h.params(func(m object) { delete(m, "historyLength") })
		}
	}},
	{name: "a page without a token", rule: "list-fields", tell: resultOf("ListTasks", func(m object) {
		if m["nextPageToken"] == "" {
			delete(m, "nextPageToken")
		}
	})},
	{name: "the oldest first", rule: "list-order", tell: resultOf("ListTasks", func(m object) {
		if l, ok := m["tasks"].([]any); ok {
			slices.Reverse(l)
		}
	}), ask: paramsOf("SendMessage", func(object) { wait(2 * time.Millisecond) })},
	{name: "any page size", rule: "list-pages", also: []string{"list-page-size"}, ask: without("ListTasks", "pageSize")},
	{name: "the first page again", rule: "list-pages", also: []string{"list-bad-token"}, ask: without("ListTasks", "pageToken")},
	{name: "a task is left out", rule: "list-pages", tell: resultOf("ListTasks", func(m object) {
		if l, ok := m["tasks"].([]any); ok && len(l) == 1 && m["nextPageToken"] == "" {
			m["tasks"] = []any{}
		}
	})},
	{name: "all contexts", rule: "list-context", also: []string{"list-pages"}, ask: without("ListTasks", "contextId")},
	{name: "all states", rule: "list-status", ask: without("ListTasks", "status")},
	{name: "artifacts that nobody asked for", rule: "list-artifacts", ask: paramsOf("ListTasks", func(m object) { m["includeArtifacts"] = true })},
	{name: "an empty list of artifacts", rule: "list-artifacts", tell: resultOf("ListTasks", func(m object) {
		each(m["tasks"], func(t object) {
			if t["artifacts"] == nil {
				t["artifacts"] = []any{}
			}
		})
	})},
	{name: "no artifacts", rule: "list-artifacts-included", ask: without("ListTasks", "includeArtifacts")},
	{name: "history without end in lists", rule: "list-history", ask: without("ListTasks", "historyLength")},
	{name: "101 on a page", rule: "list-page-size", ask: paramsOf("ListTasks", func(m object) {
		if fmt.Sprint(m["pageSize"]) == "101" {
			m["pageSize"] = 100
		}
	}), tell: resultOf("ListTasks", func(m object) {
		if fmt.Sprint(m["pageSize"]) == "100" {
			m["pageSize"] = 101
		}
	})},
	{name: "any token", rule: "list-bad-token", ask: paramsOf("ListTasks", func(m object) {
		if s, _ := m["pageToken"].(string); strings.HasPrefix(s, "!conformance") {
			delete(m, "pageToken")
		}
	})},
	{name: "canceled, but how", rule: "cancel-state", tell: taskOf("CancelTask", func(m object) { in(m, "status")["state"] = "TASK_STATE_WORKING" })},
	{name: "canceled after its end", rule: "cancel-terminal", tell: onOp("CancelTask", func(h *hop) {
		if strings.Contains(string(h.answer), "-32002") {
			h.reply(object{"result": object{"id": h.param("id"), "status": object{"state": "TASK_STATE_CANCELED"}}})
		}
	})},
	{name: "cancel of nothing", rule: "cancel-unknown", tell: code("CancelTask", -32603, unknownID)},
	{name: "canceling twice", rule: "cancel-idempotent", also: []string{"scope-cancel"}, ask: onOp("CancelTask", func(h *hop) {
		if id := h.param("id"); len(id) == 36 && h.p.count(id) == 2 {
			h.refuse(-32603, "again?")
		}
	})},
	{name: "a subscription without the task", rule: "subscribe-first", also: []string{"subscribe-closes"}, frames: frameOp(subscribing, func(_ *hop, n int, e object) []object {
		if n == 1 {
			return nil
		}
		return []object{e}
	})},
	{name: "a subscription that goes on", rule: "subscribe-closes", hang: func(h *hop) bool { return h.op == subscribing }},
	{name: "a subscription after the end", rule: "subscribe-terminal", tell: code(subscribing, -32603, func(h *hop) bool { return !unknownID(h) })},
	{name: "a subscription to nothing", rule: "subscribe-unknown", tell: code(subscribing, -32603, unknownID)},

	// Webhooks.
	{name: "webhooks are not offered, and another error", rule: "push-refused", host: setup{plain: true}, tell: code("ListTaskPushNotificationConfigs", -32601, nil)},
	{name: "a webhook without an id", rule: "push-create", tell: resultOf("CreateTaskPushNotificationConfig", func(m object) { delete(m, "id") })},
	{name: "a webhook for nothing", rule: "push-unknown-task", tell: code("CreateTaskPushNotificationConfig", -32603, unknownID)},
	{name: "a webhook with another URL", rule: "push-get", tell: resultOf("GetTaskPushNotificationConfig", func(m object) { m["url"] = "https://example.com/" })},
	{name: "an unknown webhook", rule: "push-get-unknown", tell: code("GetTaskPushNotificationConfig", -32603, nil)},
	{name: "a webhook is not listed", rule: "push-list", tell: resultOf("ListTaskPushNotificationConfigs", func(m object) {
		if l, ok := m["configs"].([]any); ok {
			m["configs"] = l[:1]
		}
	})},
	{name: "a webhook that stays", rule: "push-delete", ask: onOp("DeleteTaskPushNotificationConfig", func(h *hop) { h.reply(object{"result": object{}}) })},
	{name: "a webhook that cannot be deleted twice", rule: "push-delete-again", ask: onOp("DeleteTaskPushNotificationConfig", func(h *hop) {
		if h.p.count(h.param("id")) == 2 {
			h.refuse(-32001, "no such webhook")
		}
	}), also: []string{"error-rpc-info"}},
	{
		name: "nothing is delivered", rule: "push-delivered", ask: paramsOf("CreateTaskPushNotificationConfig", func(m object) { m["url"] = "http://127.0.0.1:9/" }),
		tell: onOp("CreateTaskPushNotificationConfig", func(h *hop) { h.result(func(m object) { m["url"] = h.p.sentURL(h) }) }), also: []string{"push-create", "push-get"},
	},
	{name: "no credentials", rule: "push-credentials", ask: without("CreateTaskPushNotificationConfig", "authentication")},
	{
		name: "a notification that is an envelope", rule: "push-payload", also: []string{"result-one", "push-*"},
		ask: onOp("CreateTaskPushNotificationConfig", func(h *hop) {
			path := "/hook/" + random()
			h.p.hooks.Store(path, h.param("url"))
			h.params(func(m object) { m["url"] = h.p.url + path })
		}),
		hook: func(m object) object { return object{"jsonrpc": "2.0", "result": m} },
	},

	// Callers.
	{name: "the extended card is not offered, and another error", rule: "extended-refused", host: setup{plain: true}, tell: code("GetExtendedAgentCard", -32603, nil)},
	{name: "the extended card for everybody", rule: "extended-auth", ask: onOp("GetExtendedAgentCard", func(h *hop) { h.header.Set("Authorization", ann) })},
	{name: "half an extended card", rule: "extended-card", tell: resultOf("GetExtendedAgentCard", func(m object) { delete(m, "skills") })},
	{name: "calls without a credential", rule: "auth-required", also: []string{"extended-auth"}, ask: func(h *hop) {
		if h.header.Get("Authorization") == "" {
			h.header.Set("Authorization", ann)
		}
	}},
	{name: "any credential", rule: "auth-wrong", ask: func(h *hop) {
		if strings.Contains(h.header.Get("Authorization"), "conformance-") {
			h.header.Set("Authorization", ann)
		}
	}},
	{name: "no challenge", rule: "auth-challenge", tell: func(h *hop) { h.out.Del("Www-Authenticate") }},
	{name: "a task for others", rule: "scope-get", also: []string{"scope-hidden"}, ask: onOp("GetTask", asAnn)},
	{name: "a list for others", rule: "scope-list", ask: onOp("ListTasks", asAnn)},
	{name: "a cancel for others", rule: "scope-cancel", ask: onOp("CancelTask", asAnn)},
	{name: "foreign, but there", rule: "scope-hidden", tell: onOp("GetTask", func(h *hop) {
		if h.header.Get("Authorization") == bob && len(h.param("id")) == 36 {
			h.failure(func(e object) { e["message"] = "this task is not yours" })
		}
	})},
	{name: "an authorization for what", rule: "auth-task-message", tell: taskOf("GetTask", func(m object) {
		if in(m, "status")["state"] == "TASK_STATE_AUTH_REQUIRED" {
			delete(in(m, "status"), "message")
		}
	})},
	{name: "an authorization in another state", rule: "auth-task", tell: taskOf("GetTask", func(m object) {
		if in(m, "status")["state"] == "TASK_STATE_AUTH_REQUIRED" {
			in(m, "status")["state"] = "TASK_STATE_WORKING"
		}
	})},
	{name: "no word about an authorization", rule: "auth-task-follow-up", tell: func(h *hop) {
		if h.param("message.taskId") != "" && h.p.count("auth") > 0 && strings.Contains(string(h.body), "returnImmediately") {
			h.refuse(-32603, "not now")
		}
	}},
	{name: "a stream ends at an authorization", rule: "auth-task-stream", frames: frameOp(sending, func(_ *hop, _ int, e object) []object {
		if isState(e, "TASK_STATE_AUTH_REQUIRED") {
			return []object{e, nil}
		}
		return []object{e}
	})},

	// REST.
	{name: "an error that is no Status", rule: "error-rest-body", on: a2a.BindingREST, also: []string{"error-rest-*", "same-errors", "validate-says-which", "error-message", "scope-hidden"}, tell: func(h *hop) {
		if h.status >= 400 {
			h.answer = encode(object{"title": "no", "status": h.status})
		}
	}},
	{name: "another HTTP status", rule: "error-rest-status", on: a2a.BindingREST, tell: func(h *hop) {
		if h.op == "CancelTask" && h.status == 400 {
			h.status = 409
		}
	}},
	{name: "no ErrorInfo on REST", rule: "error-rest-info", on: a2a.BindingREST, tell: func(h *hop) { h.failure(func(e object) { delete(e, "details") }) }, also: []string{"scope-*", "same-errors"}},
	{name: "a page for people", rule: "rest-json", on: a2a.BindingREST, also: []string{"list-*", "rest-*"}, tell: onOp("ListTasks", func(h *hop) {
		h.out.Set("Content-Type", "text/html")
	})},
	{name: "application/json on REST", rule: "rest-media-type", on: a2a.BindingREST, tell: func(h *hop) {
		if strings.HasPrefix(h.out.Get("Content-Type"), "application/") {
			h.out.Set("Content-Type", "application/json")
		}
	}},
	{name: "500 for what is not JSON", rule: "rest-bad-json", on: a2a.BindingREST, also: []string{"error-rest-status"}, tell: func(h *hop) {
		if string(h.body) == `{"message":` {
			h.status = 500
		}
	}},
	{name: "no query", rule: "rest-query", on: a2a.BindingREST, also: []string{"history-*", "list-*"}, ask: func(h *hop) {
		h.query.Del("historyLength")
		h.query.Del("pageSize")
	}},

	// gRPC.
	{name: "a field that the proto has not", rule: "grpc-message", on: a2a.BindingGRPC, bytes: func(op string, b []byte) []byte {
		if op == "GetTask" {
			return append(bytes.Clone(b), 0xfa, 0x7f, 0x01, 'x')
		}
		return b
	}},
	{name: "bytes that are no message", rule: "grpc-message", on: a2a.BindingGRPC, also: []string{"list-*", "data-*"}, bytes: func(op string, b []byte) []byte {
		if op == "ListTasks" {
			return []byte{0xff, 0xff, 0xff}
		}
		return b
	}},
	{name: "another gRPC status", rule: "error-grpc-status", on: a2a.BindingGRPC, fails: func(op string, s *status.Status) *status.Status {
		if op != "CancelTask" || s.Code() != codes.FailedPrecondition {
			return s
		}
		p := s.Proto()
		p.Code = int32(codes.Unimplemented)
		return status.FromProto(p)
	}},
	{name: "no details on gRPC", rule: "error-grpc-info", on: a2a.BindingGRPC, fails: func(_ string, s *status.Status) *status.Status {
		return status.New(s.Code(), s.Message())
	}, also: []string{"same-errors", "validate-says-which"}},
	{name: "no first task on gRPC", rule: "stream-first", on: a2a.BindingGRPC, also: []string{"auth-*"}, msg: func(op string, n int, m proto.Message) bool {
		r, ok := m.(*pb.StreamResponse)
		return !ok || op != sending || n != 1 || r.GetTask() == nil
	}},
	{name: "an unknown state on gRPC", rule: "data-enums", on: a2a.BindingGRPC, also: []string{"get-task", "cancel-idempotent", "stream-*", "auth-task", "same-results"}, msg: func(op string, _ int, m proto.Message) bool {
		if t, ok := m.(*pb.Task); ok && op == "GetTask" {
			t.Status.State = 99
		}
		return true
	}},
	{name: "artifacts in a list on gRPC", rule: "list-artifacts", on: a2a.BindingGRPC, msg: func(_ string, _ int, m proto.Message) bool {
		if l, ok := m.(*pb.ListTasksResponse); ok {
			for _, t := range l.GetTasks() {
				t.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "x"}}}}}
			}
		}
		return true
	}},

	// All interfaces.
	{name: "an operation is missing on REST", rule: "same-operations", on: "all", also: []string{"list-*", "error-message", "rest-json"}, ask: onOp("ListTasks", func(h *hop) {
		if h.binding == a2a.BindingREST {
			h.handled, h.status, h.answer, h.out = true, http.StatusNotFound, []byte("not here"), http.Header{"Content-Type": {"text/plain"}}
		}
	})},
	{name: "another task on REST", rule: "same-results", on: "all", also: []string{"stream-order"}, tell: func(h *hop) {
		if h.binding == a2a.BindingREST {
			taskOf("GetTask", func(m object) {
				each(m["history"], func(m object) { each(m["parts"], func(p object) { p["text"] = "x" }) })
			})(h)
		}
	}},
	{name: "another error on REST", rule: "same-errors", on: "all", also: []string{"cancel-terminal", "error-rest-*"}, tell: func(h *hop) {
		if h.binding == a2a.BindingREST && h.op == "CancelTask" {
			h.failure(func(e object) {
				each(e["details"], func(d object) {
					if d["reason"] == "TASK_NOT_CANCELABLE" {
						d["reason"] = "UNSUPPORTED_OPERATION"
					}
				})
			})
		}
	}},
	{name: "another refusal on REST", rule: "same-auth", on: "all", also: []string{"error-rest-*"}, tell: func(h *hop) {
		if h.binding == a2a.BindingREST && h.status == http.StatusUnauthorized {
			h.status = http.StatusForbidden
			h.failure(func(e object) {
				e["code"] = 403
				each(e["details"], func(d object) { d["reason"] = "PERMISSION_DENIED" })
			})
		}
	}},

	// The card.
	{name: "a card without a description", rule: "card-required", card: func(_ http.Header, m object) { delete(m, "description") }},
	{name: "an interface without a URL", rule: "card-interfaces", card: func(_ http.Header, m object) {
		m["supportedInterfaces"] = append(m["supportedInterfaces"].([]any), object{"protocolBinding": "JSONRPC", "protocolVersion": "1.0"})
	}},
	{name: "a patch number", rule: "card-version", card: func(_ http.Header, m object) {
		each(m["supportedInterfaces"], func(i object) { i["protocolVersion"] = "1.0.1" })
	}},
	{name: "no Cache-Control", rule: "card-cache-control", card: func(h http.Header, _ object) { h.Del("Cache-Control") }},
	{name: "no ETag", rule: "card-etag", card: func(h http.Header, _ object) { h.Del("Etag") }},
	{name: "another ETag each time", rule: "card-revalidates", card: func(h http.Header, _ object) { h.Set("Etag", `"`+random()+`"`) }},
	{name: "a card that was changed", rule: "card-signature", host: setup{key: cardKey}, card: func(_ http.Header, m object) { m["description"] = "something else" }},
	{name: "a signature without a key id", rule: "card-signature-header", host: setup{key: cardKey}, also: []string{"card-signature"}, card: func(_ http.Header, m object) {
		each(m["signatures"], func(s object) { s["protected"] = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpPU0UifQ" })
	}},
}

func asAnn(h *hop) {
	if h.header.Get("Authorization") == bob {
		h.header.Set("Authorization", ann)
	}
}

// sentURL returns the URL that a caller asked for.
func (p *proxy) sentURL(*hop) string { return "http://127.0.0.1:9/" }

// unplanted are the rules without a fault, each with its reason.
var unplanted = map[string]string{
	"card-available": "without a card there is no run",
	"card-advice":    "package agentcard has the findings and their tests",
	"tls":            "it is about addresses beyond the own machine",
	"tls-modern":     "it is about addresses beyond the own machine",
}

// TestEveryRuleHasItsFault says which rules nobody has seen red.
func TestEveryRuleHasItsFault(t *testing.T) {
	for _, c := range rules.All {
		planted := slices.ContainsFunc(faults, func(f fault) bool { return f.rule == c.ID })
		if _, excused := unplanted[c.ID]; planted == excused {
			t.Errorf("%s: planted %v, excused %v", c.ID, planted, excused)
		}
	}
}

// TestPlantedFaults plants one fault at a time in a good host: the rule that names it finds it, and no unrelated one.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a run for each of the faults takes its time")
	}
	var found atomic.Int64
	t.Cleanup(func() { t.Logf("%d of %d planted faults were found", found.Load(), len(faults)) })
	for _, f := range faults {
		t.Run(f.rule+"/"+strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, f)
			o := quick()
			o.Settle = 250 * time.Millisecond
			if f.host.plain {
				o.Header, o.Other = nil, nil
			}
			if f.host.key != nil {
				set, err := agentcard.JWKS(f.host.key)
				if err != nil {
					t.Fatal(err)
				}
				o.Keys = agentcard.Enrollment{KeySet: set}
			}
			switch f.on {
			case "all":
			case "":
				o.Bindings = []string{a2a.BindingJSONRPC}
			default:
				o.Bindings = []string{f.on}
			}
			report, err := Run(t.Context(), p.url, o)
			if err != nil {
				t.Fatal(err)
			}
			hit := false
			for _, r := range report.Results {
				switch {
				case r.Outcome != Fail:
				case r.Rule == f.rule:
					hit = true
				case !matches(f.also, r.Rule):
					t.Errorf("%s on %s fails too: %+v", r.Rule, r.Interface, r.Evidence[0])
				}
			}
			if !hit {
				i := slices.IndexFunc(report.Results, func(r Result) bool { return r.Rule == f.rule })
				t.Errorf("%s did not find it: %+v", f.rule, report.Results[i])
				return
			}
			found.Add(1)
		})
	}
}
