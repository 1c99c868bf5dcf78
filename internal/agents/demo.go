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

// demoAgent does what the first word of a message says, so that whoever learns a client sees every state a task can
// have, every kind of part and every kind of answer.
type demoAgent struct{}

// demoWords are the words that it knows, in the order in which its help names them.
var demoWords = []struct {
	word, about string
	run         func(ctx context.Context, words []string, u *agent.Updater) error
}{
	{"text", "an artifact of text", demoArtifact(a2a.TextPart("A line of text.\nAnd another one."))},
	{"data", "an artifact of JSON", demoArtifact(demoData())},
	{"file", "an artifact that is a file", demoArtifact(demoFile())},
	{"link", "a file that is elsewhere", demoArtifact(demoLink())},
	{"parts", "one artifact of all of these", demoArtifact(a2a.TextPart("A line of text."), demoData(), demoFile(), demoLink())},
	{"chunks", "text in N pieces (3)", demoChunks},
	{"long", "work for a TIME (30s), with news of it", demoLong},
	{"ask", "a question first: INPUT_REQUIRED", func(_ context.Context, _ []string, u *agent.Updater) error {
		return u.Park(a2a.TextPart("What shall the answer be?"))
	}},
	{"auth", "a permission first: AUTH_REQUIRED", func(_ context.Context, _ []string, u *agent.Updater) error {
		return u.ParkAuth(a2a.TextPart("May I? Any answer is a yes."))
	}},
	{"fail", "a task that FAILED", func(_ context.Context, words []string, u *agent.Updater) error {
		return u.Fail(a2a.TextPart(strings.TrimSpace("It failed, as you wished. " + strings.Join(words, " "))))
	}},
	{"reject", "a task that is REJECTED", func(_ context.Context, _ []string, u *agent.Updater) error {
		return u.Reject(a2a.TextPart("I will not do that."))
	}},
}

// Accept implements [agent.Accepter]: what needs no task is answered without one.
func (demoAgent) Accept(_ context.Context, r *agent.Request) (*a2a.Message, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(r.Text()), " ")
	switch strings.ToLower(word) {
	case "help":
		return &a2a.Message{Parts: []*a2a.Part{a2a.TextPart(demoHelp())}}, nil
	case "message":
		if rest == "" {
			rest = "A message, and no task."
		}
		return &a2a.Message{Parts: []*a2a.Part{a2a.TextPart(rest)}}, nil
	}
	return nil, nil
}

// Handle implements [agent.Agent].
func (demoAgent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	if r.Task != nil && len(r.Task.History) > 1 { // the answer to ask or auth
		return u.Artifact(a2a.Artifact{Name: "answer", Parts: r.Message.Parts})
	}
	words := strings.Fields(r.Text())
	for _, w := range demoWords {
		if len(words) > 0 && strings.EqualFold(words[0], w.word) {
			return w.run(ctx, words[1:], u)
		}
	}
	return u.Artifact(a2a.Artifact{Name: "echo", Parts: r.Message.Parts})
}

func demoHelp() string {
	var b strings.Builder
	b.WriteString("Begin a message with one of these words; any other comes back as it is.\n")
	for _, w := range demoWords {
		fmt.Fprintf(&b, "%-8s%s\n", w.word, w.about)
	}
	b.WriteString("message an answer without a task\nhelp    this list")
	return b.String()
}

func demoArtifact(parts ...*a2a.Part) func(context.Context, []string, *agent.Updater) error {
	return func(_ context.Context, _ []string, u *agent.Updater) error {
		return u.Artifact(a2a.Artifact{Name: "demo", Description: "What the message asked for", Parts: parts})
	}
}

func demoData() *a2a.Part {
	return &a2a.Part{Content: a2a.Data(`{"fruit":"plum","weights":[1,2.5]}`), MediaType: "application/json"}
}

func demoFile() *a2a.Part {
	return &a2a.Part{Content: a2a.Raw("fruit,weight\nplum,2.5\n"), Filename: "fruit.csv", MediaType: "text/csv"}
}

func demoLink() *a2a.Part {
	return &a2a.Part{Content: a2a.URL("https://example.com/fruit.csv"), Filename: "fruit.csv", MediaType: "text/csv"}
}

func demoChunks(_ context.Context, words []string, u *agent.Updater) error {
	n := 3
	if len(words) > 0 {
		var err error
		if n, err = strconv.Atoi(words[0]); err != nil || n < 1 || n > 1000 {
			return agent.Errorf("%q is no number of chunks from 1 to 1000", words[0])
		}
	}
	w := u.Begin("chunks")
	for i := range n - 1 {
		if err := w.WriteText(fmt.Sprintf("chunk %d, ", i+1)); err != nil {
			return err
		}
	}
	return w.Last(a2a.TextPart(fmt.Sprintf("chunk %d", n)))
}

func demoLong(ctx context.Context, words []string, u *agent.Updater) error {
	whole := 30 * time.Second
	if len(words) > 0 {
		var err error
		if whole, err = time.ParseDuration(words[0]); err != nil || whole < 0 || whole > time.Hour {
			return agent.Errorf("%q is no time up to 1h, such as 30s", words[0])
		}
	}
	for tenth := range 10 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(whole / 10):
		}
		if err := u.Progress(a2a.TextPart(fmt.Sprintf("%d%% done", (tenth+1)*10))); err != nil {
			return err
		}
	}
	return u.Artifact(a2a.Artifact{Name: "demo", Parts: []*a2a.Part{a2a.TextPart("It took " + whole.String() + ".")}})
}

func demo(Options) (Agent, error) {
	return Agent{
		Agent:       demoAgent{},
		Name:        "Demo",
		Description: "Shows every state of a task, every kind of part and every kind of answer, to learn a client with.",
		Version:     version,
		Skills: []*a2a.AgentSkill{{
			ID:          "demo",
			Name:        "Demonstration",
			Description: "Does what the first word of a message says; the message help lists the words.",
			Tags:        []string{"demo", "test"},
			Examples:    []string{"help", "ask", "long 5s", "parts"},
		}},
		InputModes:  []string{"*/*"},
		OutputModes: []string{"*/*"},
	}, nil
}
