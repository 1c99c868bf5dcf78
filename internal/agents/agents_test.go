package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/examples/revisor/textstats"
)

// recorder is a host's side of an Updater: it notes in a line each what it is told, and applies it to the
// task. What it has no method for must not be called.
type recorder struct {
	agent.Sink
	log  []string
	task a2a.Task
}

func (s *recorder) Status(state a2a.TaskState, parts []*a2a.Part, _ bool) error {
	s.log = append(s.log, strings.TrimSuffix(fmt.Sprint(state, " ", (&a2a.Message{Parts: parts}).Text()), " "))
	return nil
}

func (s *recorder) Artifact(ev *a2a.TaskArtifactUpdateEvent) error {
	s.log = append(s.log, fmt.Sprintf("artifact append=%t last=%t", ev.Append, ev.LastChunk))
	s.task.Apply(ev)
	return nil
}

func (s *recorder) Park(state a2a.TaskState, parts []*a2a.Part) error {
	return s.Status(state, parts, true)
}

func send(t *testing.T, a agent.Agent, m *a2a.Message) *recorder {
	t.Helper()
	s := new(recorder)
	if err := a.Handle(t.Context(), &agent.Request{Message: m}, agent.NewUpdater(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestByName(t *testing.T) {
	if want := []string{"conformance", "demo", "echo", "revisor"}; !slices.Equal(Names(), want) {
		t.Errorf("Names() = %q, want %q", Names(), want)
	}
	for _, name := range Names() {
		a, err := ByName(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a.Agent == nil || a.Name == "" || a.Description == "" || a.Version == "" || len(a.InputModes) == 0 || len(a.OutputModes) == 0 {
			t.Errorf("%s: %+v lacks something that a card needs", name, a)
		}
		for _, s := range a.Skills {
			if s.ID == "" || s.Name == "" || s.Description == "" || len(s.Tags) == 0 {
				t.Errorf("%s: skill %+v lacks something that a card needs", name, s)
			}
		}
	}
	_, err := ByName("revisr", Options{})
	if err == nil || err.Error() != `there is no built-in agent "revisr": choose one of conformance, demo, echo, revisor` {
		t.Errorf("error %v", err)
	}
}

func TestRevisor(t *testing.T) {
	a, err := ByName("revisor", Options{Pace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if want := (textstats.Agent{Pace: time.Second}); a.Agent != want || a.Name != "Revisor" || a.Skills[0].ID != "text_stats" {
		t.Errorf("got %+v", a)
	}
}

func TestEcho(t *testing.T) {
	a, err := ByName("echo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts := []*a2a.Part{
		{Content: a2a.Text("Grüß Gott"), Metadata: a2a.Struct{"k": []byte(`[1]`)}, MediaType: "text/markdown"},
		{Content: a2a.Raw{0, 0xff, 0xfe}, Filename: "a.bin", MediaType: "application/octet-stream"},
		{Content: a2a.URL("https://example.com/x"), Filename: "x"},
		{Content: a2a.Data(`{"big": 9007199254740993, "z": null}`)},
		{Content: a2a.Text("")},
	}
	s := send(t, a.Agent, &a2a.Message{MessageID: "m", Parts: parts})
	if diff := cmp.Diff([]string{"artifact append=false last=true"}, s.log); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if got := s.task.Artifacts[0]; got.Name != "echo" || got.ArtifactID == "" {
		t.Errorf("artifact %q, id %q", got.Name, got.ArtifactID)
	}
	if diff := cmp.Diff(parts, s.task.Artifacts[0].Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestConformance(t *testing.T) {
	a, err := ByName("conformance", Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := []string{"artifact append=false last=true"}
	text := func(s string) []*a2a.Part { return []*a2a.Part{{Content: a2a.Text(s)}} }
	output := func(c a2a.Content) []*a2a.Part {
		return []*a2a.Part{{Content: c, Filename: "output.txt", MediaType: "text/plain"}}
	}
	for _, tt := range []struct {
		prefix string
		log    []string
		parts  []*a2a.Part
	}{
		{"tck-complete-task", []string{"TASK_STATE_COMPLETED Hello from TCK"}, nil},
		{"tck-input-required", []string{"TASK_STATE_INPUT_REQUIRED Input is required: send another message to this task."}, nil},
		{"tck-reject-task", []string{"TASK_STATE_REJECTED rejected"}, nil},
		{"tck-artifact-text", whole, text("Generated text content")},
		{"tck-artifact-file", whole, output(a2a.Raw("tck"))},
		{"tck-artifact-file-url", whole, output(a2a.URL("https://example.com/output.txt"))},
		{"tck-artifact-data", whole, []*a2a.Part{{Content: a2a.Data(`{"key":"value","count":42}`)}}},
		{"tck-stream-001", whole, text("Stream hello from TCK")},
		{"tck-stream-002", nil, nil},
		{"tck-stream-003", whole, text("Stream task lifecycle")},
		{"tck-stream-ordering-001", whole, text("Ordered output")},
		{"tck-stream-artifact-text", whole, text("Streamed text content")},
		{"tck-stream-artifact-file", whole, output(a2a.Raw("tck"))},
		{
			"tck-stream-artifact-chunked",
			[]string{"artifact append=false last=false", "artifact append=true last=true"},
			append(text("chunk-1 "), text("chunk-2")...),
		},
		{"something else", nil, nil},
	} {
		t.Run(tt.prefix, func(t *testing.T) {
			m := &a2a.Message{MessageID: tt.prefix + "-7f"}
			s := send(t, a.Agent, m)
			if diff := cmp.Diff(tt.log, s.log); diff != "" {
				t.Errorf("updates (-want +got):\n%s", diff)
			}
			var parts []*a2a.Part
			if len(s.task.Artifacts) > 0 {
				parts = s.task.Artifacts[0].Parts
			}
			if diff := cmp.Diff(tt.parts, parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if got, err := a.Agent.(agent.Accepter).Accept(t.Context(), &agent.Request{Message: m}); got != nil || err != nil {
				t.Errorf("Accept = %v, %v; want a task", got, err)
			}
		})
	}
}

func TestConformanceDirectMessage(t *testing.T) {
	a, err := ByName("conformance", Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &agent.Request{Message: &a2a.Message{MessageID: "tck-message-response-1"}}
	got, err := a.Agent.(agent.Accepter).Accept(t.Context(), r)
	if err != nil || got == nil {
		t.Fatalf("Accept = %v, %v", got, err)
	}
	if got.Text() != "Direct message response" {
		t.Errorf("got %q", got.Text())
	}
}

func TestConformanceResubscribe(t *testing.T) {
	t.Setenv("TCK_STREAMING_TIMEOUT", "1.5")
	a, err := ByName("conformance", Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &a2a.Message{MessageID: "test-resubscribe-message-id-1"}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if s := send(t, a.Agent, m); len(s.log) != 0 || time.Since(start) != 3*time.Second {
			t.Errorf("%q after %v", s.log, time.Since(start))
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := a.Agent.Handle(ctx, &agent.Request{Message: m}, agent.NewUpdater(new(recorder)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v when the context ended", err)
		}
	})
}

func TestStreamingTimeout(t *testing.T) {
	for env, want := range map[string]time.Duration{"": 2 * time.Second, "0": 0, "0.25": 250 * time.Millisecond, "10": 10 * time.Second} {
		if got, err := streamingTimeout(env); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", env, got, err, want)
		}
	}
	for _, env := range []string{"x", "-1", "2s", "NaN", "1e9", "Inf"} {
		if got, err := streamingTimeout(env); err == nil {
			t.Errorf("%q: %v, want an error", env, got)
		}
	}
	t.Setenv("TCK_STREAMING_TIMEOUT", "soon")
	if _, err := ByName("conformance", Options{}); err == nil || !strings.Contains(err.Error(), "TCK_STREAMING_TIMEOUT") {
		t.Errorf("error %v", err)
	}
}
