package agents

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/server"
	"github.com/parley-a2a/parley/taskstore"
)

// serve returns a host's engine over a built-in agent.
func serve(t *testing.T, name string, o Options) *server.Server {
	t.Helper()
	a, err := ByName(name, o)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	card := &a2a.AgentCard{
		Name: a.Name, Description: a.Description, Version: a.Version, Skills: a.Skills,
		DefaultInputModes: a.InputModes, DefaultOutputModes: a.OutputModes,
		Capabilities: a2a.AgentCapabilities{Streaming: &yes},
	}
	s, err := server.New(server.Config{
		Agent: a.Agent, Name: name, Store: taskstore.NewMemory(taskstore.MemoryOptions{}),
		Card: func() *a2a.AgentCard { return card },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(t.Context()) })
	return s
}

func message(id, task, text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: id, TaskID: task, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)},
	}}
}

func ask(t *testing.T, s a2a.Service, req *a2a.SendMessageRequest) *a2a.Task {
	t.Helper()
	res, err := s.SendMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := res.(*a2a.Task)
	if !ok {
		t.Fatalf("got %+v, want a task", res)
	}
	return task
}

func TestServedRevisor(t *testing.T) {
	s := serve(t, "revisor", Options{})
	task := ask(t, s, message("m1", "", " "))
	if task.Status.State != a2a.TaskStateInputRequired || task.Status.Message == nil {
		t.Fatalf("a blank text: %+v", task.Status)
	}
	task = ask(t, s, message("m2", task.ID, "Now it has text."))
	if task.Status.State != a2a.TaskStateCompleted || len(task.Artifacts) != 1 {
		t.Fatalf("%+v, %d artifacts", task.Status, len(task.Artifacts))
	}
	if got := task.Artifacts[0].Text(); !strings.HasPrefix(got, "4 words in 1 sentence") {
		t.Errorf("only the answer is counted: %q", got)
	}
}

func TestServedRevisorCanceled(t *testing.T) {
	s := serve(t, "revisor", Options{Pace: time.Hour})
	var states []string
	for e, err := range s.SendStreamingMessage(t.Context(), message("m", "", "Take your time.")) {
		if err != nil {
			t.Fatal(err)
		}
		ev, ok := e.Event.(*a2a.TaskStatusUpdateEvent)
		if !ok {
			continue
		}
		states = append(states, ev.Status.State.String())
		if ev.Status.State == a2a.TaskStateWorking && ev.Status.Message != nil {
			if _, err := s.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: ev.TaskID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last := states[len(states)-1]; last != "TASK_STATE_CANCELED" {
		t.Errorf("states %q", states)
	}
}

func TestServedEchoTakesEverything(t *testing.T) {
	s := serve(t, "echo", Options{})
	req := message("m", "", "")
	req.Message.Parts = []*a2a.Part{
		{Content: a2a.Raw{0}, MediaType: "application/x-unheard-of"},
		{Content: a2a.Data(`{"n":1}`)},
	}
	task := ask(t, s, req)
	if diff := cmp.Diff(req.Message.Parts, task.Artifacts[0].Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServedConformance(t *testing.T) {
	s := serve(t, "conformance", Options{})

	res, err := s.SendMessage(t.Context(), message("tck-message-response-1", "", "x"))
	if m, ok := res.(*a2a.Message); err != nil || !ok || m.Text() != "Direct message response" || m.Role != a2a.RoleAgent {
		t.Errorf("direct message: %+v, %v", res, err)
	}

	task := ask(t, s, message("tck-input-required-1", "", "x"))
	for _, id := range []string{"tck-input-required-2", "tck-input-required-3"} {
		if task = ask(t, s, message(id, task.ID, "x")); task.Status.State != a2a.TaskStateInputRequired {
			t.Fatalf("%s: %v", id, task.Status.State)
		}
	}
	task = ask(t, s, message("tck-complete-task-4", task.ID, "x"))
	if task.Status.State != a2a.TaskStateCompleted || task.Status.Message.Text() != "Hello from TCK" {
		t.Errorf("follow-up: %+v", task.Status)
	}

	var got []string
	for e, err := range s.SendStreamingMessage(t.Context(), message("tck-stream-001-5", "", "x")) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := e.Event.(type) {
		case *a2a.Task:
			got = append(got, "task")
		case *a2a.TaskStatusUpdateEvent:
			got = append(got, ev.Status.State.String())
		case *a2a.TaskArtifactUpdateEvent:
			got = append(got, ev.Artifact.Text())
		case *a2a.Message:
			got = append(got, "message")
		}
	}
	want := []string{"task", "TASK_STATE_WORKING", "Stream hello from TCK", "TASK_STATE_COMPLETED"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}
