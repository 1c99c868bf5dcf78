package jsonrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

// The handler beside a bare net/http handler that does the same work with encoding/json. Only the ratio of two
// lines of one run says something.

const benchRequest = `{"jsonrpc":"2.0","id":1,"method":"%s","params":{"message":{"messageId":"0b9d6d0a-6d4f-4a53-9d0f-1f6d1f6e2c11",` +
	`"role":"ROLE_USER","parts":[{"text":"0123456789012345678901234567890123456789012345678901234567890123456789"}]}}}`

// bench is a service that answers at once with what it keeps.
type bench struct {
	a2a.Service
	log []a2a.Entry
}

func newBench() *bench {
	b := new(bench)
	for i := range 100 {
		b.log = append(b.log, a2a.NewEntry(int64(i+1), &a2a.TaskArtifactUpdateEvent{
			TaskID: "0b9d6d0a-6d4f-4a53-9d0f-1f6d1f6e2c11", ContextID: "0b9d6d0a-6d4f-4a53-9d0f-1f6d1f6e2c11", Append: true,
			Artifact: &a2a.Artifact{ArtifactID: "a", Parts: []*a2a.Part{a2a.TextPart("01234567890123456789012345678901")}},
		}))
	}
	return b
}

func (b *bench) SendMessage(_ context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return &a2a.Task{
		ID: "0b9d6d0a-6d4f-4a53-9d0f-1f6d1f6e2c11", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted},
		Artifacts: []*a2a.Artifact{{ArtifactID: "a", Parts: req.Message.Parts}}, History: []*a2a.Message{req.Message},
	}, nil
}

func (b *bench) SendStreamingMessage(context.Context, *a2a.SendMessageRequest) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		for i, e := range b.log {
			e.More = i < len(b.log)-1
			if !yield(e, nil) {
				return
			}
		}
	}
}

type (
	plainPart    struct{ Text string }
	plainMessage struct {
		MessageID string      `json:"messageId"`
		Role      string      `json:"role"`
		Parts     []plainPart `json:"parts"`
	}
	plainRequest struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Message *plainMessage `json:"message"`
		} `json:"params"`
	}
	plainArtifact struct {
		ID    string      `json:"artifactId"`
		Parts []plainPart `json:"parts"`
	}
	plainTask struct {
		ID        string            `json:"id"`
		Status    map[string]string `json:"status"`
		Artifacts []plainArtifact   `json:"artifacts"`
		History   []*plainMessage   `json:"history"`
	}
	plainUpdate struct {
		TaskID    string        `json:"taskId"`
		ContextID string        `json:"contextId"`
		Artifact  plainArtifact `json:"artifact"`
		Append    bool          `json:"append"`
	}
)

func bare(w http.ResponseWriter, r *http.Request) {
	var q plainRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const id = "0b9d6d0a-6d4f-4a53-9d0f-1f6d1f6e2c11"
	if q.Method == "SendMessage" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": map[string]any{"task": plainTask{
			ID: id, Status: map[string]string{"state": "TASK_STATE_COMPLETED"},
			Artifacts: []plainArtifact{{ID: "a", Parts: q.Params.Message.Parts}}, History: []*plainMessage{q.Params.Message},
		}}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 100 {
		b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": map[string]any{"artifactUpdate": plainUpdate{
			TaskID: id, ContextID: id, Append: true,
			Artifact: plainArtifact{ID: "a", Parts: []plainPart{{Text: "01234567890123456789012345678901"}}},
		}}})
		_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i+1, b)
		_ = http.NewResponseController(w).Flush()
	}
}

func BenchmarkSendMessage(b *testing.B) { benchmark(b, "SendMessage") }

// Each operation is a stream of 100 events.
func BenchmarkStream100(b *testing.B) { benchmark(b, "SendStreamingMessage") }

func benchmark(b *testing.B, method string) {
	for name, h := range map[string]http.Handler{
		"bare": http.HandlerFunc(bare), "handler": jsonrpc.NewHandler(newBench(), jsonrpc.Options{}),
	} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			body := fmt.Appendf(nil, benchRequest, method)
			hc := srv.Client()
			b.ReportAllocs()
			for b.Loop() {
				req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL, bytes.NewReader(body))
				req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
				res, err := hc.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err != nil || n < 100 || res.StatusCode != http.StatusOK {
					b.Fatal(n, err, res.Status)
				}
			}
		})
	}
}

// BenchmarkServeHTTP is the handler alone, without sockets and a client.
func BenchmarkServeHTTP(b *testing.B) {
	for name, h := range map[string]http.Handler{
		"bare": http.HandlerFunc(bare), "handler": jsonrpc.NewHandler(newBench(), jsonrpc.Options{}),
	} {
		b.Run(name, func(b *testing.B) {
			body := fmt.Appendf(nil, benchRequest, "SendMessage")
			req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", nil)
			req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
			req.ContentLength = int64(len(body))
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				req.Body = io.NopCloser(bytes.NewReader(body))
				h.ServeHTTP(w, req)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
