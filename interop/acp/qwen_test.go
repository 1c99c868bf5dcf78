package acp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

// TestQwen runs Qwen Code, a coding agent that people use, behind parley serve --acp, with a model that always says the
// same: "make qwen" installs it. Two turns share a session, and nothing of the agent is left at the end.
func TestQwen(t *testing.T) {
	qwen := os.Getenv("QWEN_BIN")
	if qwen == "" {
		t.Skip("a longer job, which has to install 100 MB: make qwen")
	}
	bin := os.Getenv("PARLEY_BIN")
	if bin == "" {
		bin = filepath.Join(t.TempDir(), "parley")
		run(t, "go", "build", "-o", bin, "github.com/parley-a2a/parley/cmd/parley")
	}
	var heard []string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct{ Content any }
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
			t.Errorf("%s: %v", r.URL, err)
			return
		}
		all, _ := json.Marshal(req.Messages)
		heard = append(heard, string(all))
		w.Header().Set("Content-Type", "text/event-stream")
		for _, frame := range []string{
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"stub","choices":[{"index":0,"delta":{"role":"assistant","content":"I am "},"finish_reason":null}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"stub","choices":[{"index":0,"delta":{"content":"a stub."},"finish_reason":null}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"stub","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}`,
			`[DONE]`,
		} {
			_, _ = w.Write([]byte("data: " + frame + "\n\n"))
		}
	}))
	defer model.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("OPENAI_BASE_URL", model.URL+"/v1")
	t.Setenv("OPENAI_API_KEY", "none")
	t.Setenv("OPENAI_MODEL", "stub")
	h := serve(t, bin, peer{"Qwen", []string{qwen, "--acp", "--auth-type", "openai"}, ""}, "memory:", "OPENAI_*")
	c := h.client(t)
	first := send(t, c, nil, "The word is Zanzibar.")
	wants(t, first, a2a.TaskStateCompleted, "I am a stub.")
	m := &a2a.Message{ContextID: first.ContextID, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("Which word?")}}
	if _, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m}); err != nil {
		t.Fatal(err)
	}
	if last := heard[len(heard)-1]; !strings.Contains(last, "Zanzibar") || !strings.Contains(last, "Which word?") {
		t.Errorf("the second turn was not in the session of the first: %s", last)
	}
	h.end(t)
}
