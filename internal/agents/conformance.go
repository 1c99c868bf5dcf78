package agents

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// conformanceAgent does what the messageId begins with, as the protocol's compatibility kit (A2A TCK)
// expects it of the agent it tests. Each message is judged by itself, whatever its task did before.
type conformanceAgent struct {
	streamingTimeout time.Duration // of the kit
}

// behaviours are tried by the longest prefix. A task whose message begins with none of them is completed.
// WORKING, which some of them begin with, is recorded by the host.
var behaviours = []struct {
	prefix string
	run    func(conformanceAgent, context.Context, *agent.Updater) error
}{
	{"tck-complete-task", func(_ conformanceAgent, _ context.Context, u *agent.Updater) error {
		return u.Complete(a2a.TextPart("Hello from TCK"))
	}},
	{"tck-input-required", func(_ conformanceAgent, _ context.Context, u *agent.Updater) error {
		return u.Park(a2a.TextPart("Input is required: send another message to this task."))
	}},
	{"tck-reject-task", func(_ conformanceAgent, _ context.Context, u *agent.Updater) error {
		return u.Reject(a2a.TextPart("rejected"))
	}},
	{"tck-artifact-text", artifact(a2a.TextPart("Generated text content"))},
	{"tck-artifact-file", artifact(file(a2a.Raw("tck")))},
	{"tck-artifact-file-url", artifact(file(a2a.URL("https://example.com/output.txt")))},
	{"tck-artifact-data", artifact(&a2a.Part{Content: a2a.Data(`{"key":"value","count":42}`)})},
	{"tck-stream-001", artifact(a2a.TextPart("Stream hello from TCK"))},
	{"tck-stream-003", artifact(a2a.TextPart("Stream task lifecycle"))},
	{"tck-stream-ordering-001", artifact(a2a.TextPart("Ordered output"))},
	{"tck-stream-artifact-text", artifact(a2a.TextPart("Streamed text content"))},
	{"tck-stream-artifact-file", artifact(file(a2a.Raw("tck")))},
	{"tck-stream-artifact-chunked", func(_ conformanceAgent, _ context.Context, u *agent.Updater) error {
		w := u.Begin("chunked")
		if err := w.WriteText("chunk-1 "); err != nil {
			return err
		}
		return w.Last(a2a.TextPart("chunk-2"))
	}},
	{"test-resubscribe-message-id", func(c conformanceAgent, ctx context.Context, _ *agent.Updater) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * c.streamingTimeout):
			return nil
		}
	}},
}

// Accept implements [agent.Accepter]: one kind of message is answered without a task.
func (conformanceAgent) Accept(_ context.Context, r *agent.Request) (*a2a.Message, error) {
	if !strings.HasPrefix(r.Message.MessageID, "tck-message-response") {
		return nil, nil
	}
	return &a2a.Message{Parts: []*a2a.Part{a2a.TextPart("Direct message response")}}, nil // the host fills in the rest
}

// Handle implements [agent.Agent].
func (c conformanceAgent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	best := -1
	for i, b := range behaviours {
		if strings.HasPrefix(r.Message.MessageID, b.prefix) && (best < 0 || len(b.prefix) > len(behaviours[best].prefix)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return behaviours[best].run(c, ctx, u)
}

func artifact(part *a2a.Part) func(conformanceAgent, context.Context, *agent.Updater) error {
	return func(_ conformanceAgent, _ context.Context, u *agent.Updater) error {
		return u.Artifact(a2a.Artifact{Name: "output", Parts: []*a2a.Part{part}})
	}
}

func file(content a2a.Content) *a2a.Part {
	return &a2a.Part{Content: content, Filename: "output.txt", MediaType: "text/plain"}
}

// streamingTimeout reads the kit's TCK_STREAMING_TIMEOUT: seconds, 2 when it is not set.
func streamingTimeout(env string) (time.Duration, error) {
	if env == "" {
		return 2 * time.Second, nil
	}
	s, err := strconv.ParseFloat(env, 64)
	if err != nil || !(s >= 0 && s <= 3600) {
		return 0, fmt.Errorf("TCK_STREAMING_TIMEOUT is %q: set it to a number of seconds up to 3600", env)
	}
	return time.Duration(s * float64(time.Second)), nil
}
