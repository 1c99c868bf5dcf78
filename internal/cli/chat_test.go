package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/approval"
	ext "github.com/parley-a2a/parley/extension"
)

// chatRun talks to an agent with the lines of stdin.
func chatRun(stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := Main(append([]string{"chat"}, args...), strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// clerk asks for a name, and knows how often it was asked in its context.
func clerk() agent.Func {
	var mu sync.Mutex
	turns := map[string]int{}
	return func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		mu.Lock()
		turns[r.Message.ContextID]++
		n := turns[r.Message.ContextID]
		mu.Unlock()
		switch text := r.Text(); text {
		case "form":
			m, err := u.Ask(ctx, a2a.TextPart("Your name?"))
			if err != nil {
				return err
			}
			return u.Complete(a2a.TextPart("Hello " + m.Text()))
		case "fail":
			return agent.Errorf("no paper")
		default:
			return u.Complete(a2a.TextPart("turn " + strings.Repeat("I", n) + ": " + text))
		}
	}
}

func TestChat(t *testing.T) {
	home(t)
	url := serveUntilEnd(t, parley.Config{Name: "Clerk"}, clerk())
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		got := chatRun("hello\nform\nAda\n\n//slash\n/new\nagain\n", "-a", url, "--transport", binding)
		got.wants(t, 0, "turn I: hello", "The agent waits for your answer.")
		got.wants(t, 0, "State: INPUT_REQUIRED", "")
		got.wants(t, 0, "Hello Ada", "")
		got.wants(t, 0, "turn III: /slash", "") // the same context
		got.wants(t, 0, "turn I: again", "")
		if strings.Contains(got.stdout, "> ") || strings.Contains(got.stderr, "> ") {
			t.Errorf("there is a prompt:\n%s\n%s", got.stdout, got.stderr)
		}
	}
	// What waits at the end is said with how to come back.
	got := chatRun("form\n", "-a", url)
	got.wants(t, 0, "State: INPUT_REQUIRED", "Resume: parley chat -a "+url+" --task-id ")
	id := taskIn(t, got.stdout)
	chatRun("Ada\n", "-a", url, "--task-id", id).wants(t, 0, "Hello Ada", "")
	got = chatRun("form\n/cancel\nhello\n", "-a", url)
	got.wants(t, 0, "State: CANCELED", "the task was canceled")
	got.wants(t, 0, "turn II: hello", "")
	// A task that fails is a turn as any other; an error ends a session without a person.
	got = chatRun("fail\nhello\n", "-a", url)
	got.wants(t, 0, "turn II: hello", "Warning: the task failed")
	chatRun("x\n", "-a", url, "--task-id", "none").wants(t, 1, "", "TaskNotFoundError")
	chatRun("/fly\nhello\n", "-a", url).wants(t, 2, "", "there is no /fly")
	chatRun("/help\n/quit\nhello\n", "-a", url).wants(t, 0, "", "/file PATH   attach")
	chatRun("", "-a", url, "-o", "json").wants(t, 2, "chat speaks text", "")
	chatRun("hello\n", "-a", "127.0.0.1:1").wants(t, 3, "", "Error: ")
	chatRun("hello\n", "-a", url, "--task-id", "x", "y").wants(t, 2, "", "takes no argument")
}

func taskIn(t *testing.T, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "Task: ")
	id, _, _ := strings.Cut(rest, "\n")
	if !ok || id == "" {
		t.Fatalf("no task in %q", text)
	}
	return id
}

func TestChatAttachments(t *testing.T) {
	home(t)
	url := serveUntilEnd(t, parley.Config{Name: "Parts", DefaultInputModes: []string{"*/*"}}, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		var kinds []string
		for _, p := range r.Message.Parts {
			switch c := p.Content.(type) {
			case a2a.Text:
				kinds = append(kinds, "text "+string(c))
			case a2a.Raw:
				kinds = append(kinds, "file "+p.Filename+" "+string(c))
			case a2a.Data:
				kinds = append(kinds, "data "+string(c))
			case a2a.URL:
				kinds = append(kinds, "url "+string(c))
			}
		}
		return u.Complete(a2a.TextPart(strings.Join(kinds, ", ")))
	}))
	file := filepath.Join(t.TempDir(), "a b.txt")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := chatRun("/file "+file+"\n/data {\"n\":1}\n/file https://x.example/y.png\nlook\nnext\n", "-a", url)
	got.wants(t, 0, `text look, file a b.txt content, data {"n":1}, url https://x.example/y.png`, "Attached to the next message: a b.txt")
	got.wants(t, 0, "  text next\n", "")
	chatRun("/data {\n", "-a", url).wants(t, 2, "", "no JSON that an agent takes")
	chatRun("/file "+file+".none\n", "-a", url).wants(t, 2, "", "no such file")
}

// deployer asks for an approval, and says what came of it.
var deployer = agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	a, err := approval.Ask(ctx, r, u, approval.Request{Resource: "db", Scopes: []string{"read", "write"}, Audience: "deployer"})
	if err != nil {
		return err
	}
	return u.Complete(a2a.TextPart(map[approval.Decision]string{
		approval.Approved: "approved", approval.Denied: "denied", approval.Undecided: "undecided",
	}[a.Decision] + " " + strings.Join(a.Scopes, " ")))
})

func TestApproval(t *testing.T) {
	home(t)
	url := serveUntilEnd(t, parley.Config{Name: "Deployer", Extensions: []*a2a.AgentExtension{ext.Declaration(ext.Approval)}}, deployer)
	for answer, want := range map[string]string{
		"1": "approved read write", "approve": "approved read write", "2": "denied", "deny": "denied", "yes, approved": "undecided",
	} {
		got := chatRun("deploy\n"+answer+"\n", "-a", url)
		got.wants(t, 0, "  "+want, "1. approve: read, write on db by deployer\n2. deny\n")
	}
	chatRun("deploy\n3\n", "-a", url).wants(t, 2, "", "there is no choice 3: they are 1 to 2")

	ask := func() (task, question string) {
		got := parleyRun("send", "-a", url, "deploy")
		got.wants(t, 0, "State: AUTH_REQUIRED\nResume: parley send -a "+url+" --task-id ", "")
		_, question, _ = strings.Cut(got.stdout, " --approve ")
		question, _, _ = strings.Cut(question, "\n")
		return taskIn(t, got.stdout), question
	}
	task, question := ask()
	parleyRun("send", "-a", url, "--task-id", task, "--approve", "other").wants(t, 1, "", "another request")
	parleyRun("send", "-a", url, "--task-id", task, "--approve", question, "--approve-scope", "read").wants(t, 0, "approved read\n", "")
	task, question = ask()
	parleyRun("send", "-a", url, "--task-id", task, "--deny", question, "too late").wants(t, 0, "denied", "")
	parleyRun("send", "-a", url, "--approve", question).wants(t, 2, "", "Give --task-id")
	parleyRun("send", "-a", url, "--task-id", task, "--approve", "a", "--deny", "b").wants(t, 2, "", "contradict")
}

// TestPermission: the options of a bridged agent are answered by number or id.
func TestPermission(t *testing.T) {
	home(t)
	url := serveUntilEnd(t, parley.Config{Name: "Bridge"}, agent.Func(func(ctx context.Context, _ *agent.Request, u *agent.Updater) error {
		m, err := u.Ask(ctx, a2a.TextPart("May I?"), a2a.DataPart(map[string]any{
			"requestId": "r1", "options": []map[string]string{{"optionId": "once", "name": "Allow once"}, {"optionId": "no", "name": "Reject"}},
		}))
		if err != nil {
			return err
		}
		for _, p := range m.Parts {
			if d, ok := p.Content.(a2a.Data); ok {
				return u.Complete(a2a.TextPart("data " + string(d)))
			}
		}
		return u.Complete(a2a.TextPart("text " + m.Text()))
	}))
	for answer, want := range map[string]string{
		"1": `data {"optionId":"once","requestId":"r1"}`, "no": `data {"optionId":"no","requestId":"r1"}`, "why?": "text why?",
	} {
		chatRun("go\n"+answer+"\n", "-a", url).wants(t, 0, want, "1. once: Allow once\n2. no: Reject\n")
	}
}

// TestChatInterrupt: Ctrl-C cancels the turn's task.
func TestChatInterrupt(t *testing.T) {
	home(t)
	began := make(chan struct{}, 1)
	url := serveUntilEnd(t, parley.Config{Name: "Slow"}, agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		if r.Text() != "slow" {
			return u.Complete(a2a.TextPart("hi"))
		}
		if err := u.Progress(a2a.TextPart("at it")); err != nil {
			return err
		}
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}))
	cmd := exec.CommandContext(t.Context(), "parley", "chat", "-a", url)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, "slow\n"); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	until := func(want string) {
		t.Helper()
		for {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("no %q: %v\n%s", want, err, stderr.String())
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	<-began
	until("at it")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	until("State: CANCELED")
	if _, err := io.WriteString(stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	until("State: COMPLETED")
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}

// TestChatLogin: /login gets a token, and the session goes on with it.
func TestChatLogin(t *testing.T) {
	home(t)
	is := newIssuer(t)
	url := guardedHost(t, is)
	t.Setenv("A2ACLI_CLIENT_SECRET", clientSecret)
	got := chatRun("/login\nhello\n", "-a", url, "--ca-cert", is.caFile, "--client-id", clientName)
	got.wants(t, 0, "State: COMPLETED", "")
	chatRun("hello\n/login\n", "-a", url, "--ca-cert", is.caFile).wants(t, 2, "State: COMPLETED", "--client-id: under which name")
}
