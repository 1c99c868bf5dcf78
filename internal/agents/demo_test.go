package agents

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

func TestDemo(t *testing.T) {
	for _, tt := range []struct {
		text, log string // the log up to its first line's end, lines joined by " | "
	}{
		{"text", "artifact append=false last=true"},
		{"parts", "artifact append=false last=true"},
		{"Anything else", "artifact append=false last=true"},
		{"", "artifact append=false last=true"},
		{"chunks", "artifact append=false last=false | artifact append=true last=false | artifact append=true last=true"},
		{"chunks 1", "artifact append=false last=true"},
		{"ask", "TASK_STATE_INPUT_REQUIRED What shall the answer be?"},
		{"AUTH", "TASK_STATE_AUTH_REQUIRED May I? Any answer is a yes."},
		{"fail badly", "TASK_STATE_FAILED It failed, as you wished. badly"},
		{"reject", "TASK_STATE_REJECTED I will not do that."},
	} {
		s := send(t, demoAgent{}, &a2a.Message{Parts: []*a2a.Part{a2a.TextPart(tt.text)}})
		if got := strings.Join(s.log, " | "); got != tt.log {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.log)
		}
	}
	s := send(t, demoAgent{}, &a2a.Message{Parts: []*a2a.Part{a2a.TextPart("parts")}})
	if n := len(s.task.Artifacts[0].Parts); n != 4 {
		t.Errorf("%d parts, want 4", n)
	}
}

func TestDemoWrongWords(t *testing.T) {
	for _, text := range []string{"chunks many", "chunks 0", "long ago", "long -1s"} {
		r := &agent.Request{Message: &a2a.Message{Parts: []*a2a.Part{a2a.TextPart(text)}}}
		if err := (demoAgent{}).Handle(t.Context(), r, agent.NewUpdater(new(recorder))); !errors.Is(err, a2a.ErrInternal) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDemoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := send(t, demoAgent{}, &a2a.Message{Parts: []*a2a.Part{a2a.TextPart("long 5s")}})
		if len(s.log) != 11 || s.log[9] != "TASK_STATE_WORKING 100% done" {
			t.Errorf("log %q", s.log)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := &agent.Request{Message: &a2a.Message{Parts: []*a2a.Part{a2a.TextPart("long")}}}
		if err := (demoAgent{}).Handle(ctx, r, agent.NewUpdater(new(recorder))); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
}

func TestDemoMessages(t *testing.T) {
	for text, want := range map[string]string{
		"message": "A message, and no task.", "message in words": "in words", "help": "INPUT_REQUIRED", "text": "",
	} {
		m, err := demoAgent{}.Accept(t.Context(), &agent.Request{Message: &a2a.Message{Parts: []*a2a.Part{a2a.TextPart(text)}}})
		if err != nil || (m == nil) != (want == "") || m != nil && !strings.Contains(m.Text(), want) {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
}
