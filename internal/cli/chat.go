package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/approval"
)

// chatCommand is a session of turns: each line is a message, in the context of the one before, and to its task while that
// waits for an answer (specification 8.1).
type chatCommand struct {
	app       *app
	taskID    string
	contextID string
	login     loginFlags
}

func (a *app) chat() *cobra.Command {
	c := &chatCommand{app: a}
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to an agent, line by line",
		Long: `Talk to an agent, line by line: each line is a message in the same context, and an
answer while the task waits for one. /help shows what else a line can be. Ctrl-C
cancels the task of a turn, and leaves if nothing runs. Where stdin is no terminal
each of its lines is a turn, and the first error ends the session.`,
		Example: `  parley chat -a agent.example.com
  printf 'first\nsecond\n' | parley chat`,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&c.contextID, "context-id", "", "begin in this context (`ID`)")
	fs.StringVar(&c.taskID, "task-id", "", "begin with an answer to this task (`ID`)")
	fs.StringVar(&c.login.clientID, "client-id", "", "`ID` for /login, see parley auth login")
	return a.client(cmd, c)
}

func (c *chatCommand) check(cmd *cobra.Command, f *clientFlags, args []string) error {
	if err := noArgs(cmd, args); err != nil {
		return err
	}
	if f.output == "json" {
		return usage("chat speaks text; a program has the events as JSON from parley send -o json --stream")
	}
	if isTerminal(c.app.in) && !isTerminal(c.app.out) {
		return usage("chat asks at the terminal only if its output goes there, too: give the turns on stdin, one a line, or use parley send")
	}
	return nil
}

func (c *chatCommand) run(ctx context.Context, s *session) error {
	s.decides = true
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.flags.stream = true // events are printed as they come
	t := &chat{
		session: s, person: isTerminal(c.app.in), login: c.login, taskID: c.taskID, contextID: c.contextID,
		interrupts: make(chan os.Signal, 1), lines: readLines(c.app.in),
	}
	signal.Notify(t.interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(t.interrupts)
	if t.person {
		t.note("Talking to " + s.Card().Name + ". /help for help.")
	}
	return t.turns(context.WithoutCancel(ctx)) // Ctrl-C is for a turn
}

// chat is a session of turns.
type chat struct {
	*session
	person     bool // at stdin
	login      loginFlags
	interrupts chan os.Signal
	lines      <-chan line

	running atomic.Pointer[string] // id of the task of the turn, empty until it is known

	contextID string
	taskID    string    // of the task that waits; empty: none does
	task      *a2a.Task // the same, if it is known
	parts     []*a2a.Part
	leaving   bool
}

// line is what was read of stdin.
type line struct {
	text string
	err  error // io.EOF: there are no more
}

// maxLine is the longest line, in bytes.
const maxLine = 1 << 20

func readLines(r io.Reader) <-chan line {
	out := make(chan line)
	go func() {
		in := bufio.NewScanner(r)
		in.Buffer(nil, maxLine)
		for in.Scan() {
			out <- line{text: in.Text()}
		}
		out <- line{err: cmp.Or(in.Err(), io.EOF)}
	}()
	return out
}

var errLeft = errors.New("the person has left")

// turns reads line after line until there is no more.
func (t *chat) turns(ctx context.Context) error {
	warned := false
	for {
		t.prompt()
		select {
		case sig := <-t.interrupts:
			if warned || sig != os.Interrupt || !t.person {
				return t.leave()
			}
			warned = true
			t.note("Ctrl-C again, or /quit, leaves.")
			continue
		case l := <-t.lines:
			warned = false
			if l.err != nil {
				if !errors.Is(l.err, io.EOF) {
					return usage("stdin: %s", l.err.Error())
				}
				return t.leave()
			}
			err := t.line(ctx, l.text)
			switch {
			case errors.Is(err, errLeft):
				return t.leave()
			case err != nil && !t.person:
				return err
			case err != nil:
				t.complain(ctx, err)
			}
		}
	}
}

func (t *chat) prompt() {
	if t.person {
		_, _ = io.WriteString(t.err, "> ") // nobody sees it then
	}
}

// leave says how to come back to a task that waits.
func (t *chat) leave() error {
	if t.taskID != "" {
		t.note("Task " + t.taskID + " waits for an answer. Resume: " + t.command("chat", "--task-id", t.taskID))
	}
	return nil
}

// complain reports an error, after which the session goes on.
func (t *chat) complain(ctx context.Context, err error) {
	f := failureOf(t.explain(ctx, err))
	t.note("Error: " + f.message)
	if hint := f.advice(); hint != "" {
		t.note("Hint: " + hint)
	}
	if f.exit == 4 && canLogIn(t.Card().AgentCard) {
		t.note("/login gets a token here.")
	}
}

const chatHelp = `A line is a message to the agent. A line that begins with / is one of these:
/file PATH   attach a file to the next message; also an http(s) URL
/data JSON   attach data to the next message
/wait        follow the task that waits, until something happens
/cancel      cancel the task that waits
/new         begin a new context
/login       get a token for the agent
/quit        leave
A message that begins with / is written with //.`

// line does what a line says.
func (t *chat) line(ctx context.Context, s string) error {
	if !utf8.ValidString(s) {
		return usage("the line is not UTF-8; attach it with /file")
	}
	s = strings.TrimRight(s, "\r")
	word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case word == "" && len(t.parts) == 0:
		return nil
	case !strings.HasPrefix(word, "/") || strings.HasPrefix(word, "//"):
		return t.say(ctx, strings.Replace(s, "//", "/", map[bool]int{true: 1}[strings.HasPrefix(word, "//")]))
	}
	switch word {
	case "/file":
		return t.attach(filePart(rest))
	case "/data":
		return t.attach(dataPart("-", strings.NewReader(rest)))
	case "/wait":
		return t.wait(ctx)
	case "/cancel":
		return t.cancel(ctx)
	case "/new":
		t.contextID, t.taskID, t.task, t.parts = "", "", nil, nil
	case "/login":
		return t.logIn(ctx)
	case "/quit", "/exit":
		return errLeft
	case "/help":
		for l := range strings.SplitSeq(chatHelp, "\n") {
			t.note(l)
		}
	default:
		return usage("there is no %s: /help shows what there is, and // begins a message with /", word)
	}
	return nil
}

func (t *chat) attach(p *a2a.Part, err error) error {
	if err != nil {
		return err
	}
	t.parts = append(t.parts, p)
	t.note("Attached to the next message: " + cmp.Or(p.Filename, "data"))
	return nil
}

// say sends a message: to the task that waits, or as the next one of the context.
func (t *chat) say(ctx context.Context, s string) error {
	m := &a2a.Message{MessageID: uuid.NewString(), TaskID: t.taskID, ContextID: t.contextID, Role: a2a.RoleUser}
	request := &a2a.SendMessageRequest{Message: m}
	answer, err := t.answer(strings.TrimSpace(s))
	switch {
	case err != nil:
		return err
	case answer != nil:
		request = answer
	default:
		if s != "" {
			m.Parts = append(m.Parts, a2a.TextPart(s))
		}
		m.Parts = append(m.Parts, t.parts...)
	}
	err = t.turn(ctx, func(ctx context.Context) (a2a.SendMessageResult, error) {
		return t.follow(t.noted(t.Send(ctx, request)), request.Message.TaskID != "")
	})
	if err == nil {
		t.parts = nil // otherwise they are still to be sent
	}
	return err
}

// turn runs one exchange with the agent. Ctrl-C cancels its task, and a second one leaves it alone.
func (t *chat) turn(ctx context.Context, do func(context.Context) (a2a.SendMessageResult, error)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.running.Store(new(t.taskID))
	if t.flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.flags.timeout, errTimeLimit)
		defer cancel()
	}
	watched := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(ctx, done, stop)
	}()
	result, err := do(ctx)
	close(done)
	<-watched
	if err != nil {
		return t.outOfTurn(ctx, err)
	}
	if result != nil {
		t.settle(result)
	}
	return nil
}

// noted passes events on and notes whose they are, for Ctrl-C.
func (t *chat) noted(events iter.Seq2[a2a.Entry, error]) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		var task a2a.Task
		for e, err := range events {
			if err == nil && task.ID == "" {
				fold(&task, e.Event)
				t.running.Store(new(task.ID))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// watch hears Ctrl-C while a turn runs.
func (t *chat) watch(ctx context.Context, done <-chan struct{}, stop context.CancelCauseFunc) {
	for canceled := false; ; canceled = true {
		select {
		case <-done:
			return
		case sig := <-t.interrupts:
			id := *t.running.Load()
			if canceled || sig != os.Interrupt || id == "" {
				stop(errLeft)
				return
			}
			t.note("Canceling the task; Ctrl-C again leaves it alone.")
			go func() {
				if _, err := t.CancelTask(t.calling(ctx), &a2a.CancelTaskRequest{ID: id}); err != nil && ctx.Err() == nil {
					t.note("Error: the task is not canceled: " + failureOf(err).message)
				}
			}()
		}
	}
}

// outOfTurn is the error of a turn that did not come to its end.
func (t *chat) outOfTurn(ctx context.Context, err error) error {
	id := *t.running.Load()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLeft):
		if id != "" {
			t.note("Task " + id + " goes on: " + t.command("task get", "--wait", id))
		}
		if t.person {
			return nil
		}
		return fail(errInternal, "", "interrupted")
	case errors.Is(cause, errTimeLimit):
		f := fail(errTimeout, "", "no end within %v", t.flags.timeout)
		if id != "" {
			f.hint = t.command("task get", "--wait", id)
		}
		return f
	}
	return err
}

// settle remembers what the next turn belongs to, and asks for what the task waits for.
func (t *chat) settle(result a2a.SendMessageResult) {
	t.taskID, t.task = "", nil
	switch r := result.(type) {
	case *a2a.Message:
		t.contextID = cmp.Or(r.ContextID, t.contextID)
	case *a2a.Task:
		t.contextID = cmp.Or(r.ContextID, t.contextID)
		if r.Status.State.Interrupted() {
			t.taskID, t.task = r.ID, r
			t.ask(r)
		} else {
			t.warnOutcome(r)
		}
	}
}

// ask tells the person what the task waits for.
func (t *chat) ask(task *a2a.Task) {
	choices := choicesOf(task)
	switch {
	case choices != nil:
		for i, c := range choices.options {
			t.note(fmt.Sprintf("%d. %s", i+1, c.text))
		}
		t.note("Answer with a number or a word of these: " + choices.words())
	case task.Status.State == a2a.TaskStateAuthRequired:
		t.note("The agent needs an authorization: do what it says, then /wait, or answer it. /login gets a new token for the agent itself.")
	default:
		t.note("The agent waits for your answer.")
	}
}

// answer returns the message that a line stands for where the task asks for a choice, nil if the line is none of the
// choices: then it is a message as any other.
func (t *chat) answer(s string) (*a2a.SendMessageRequest, error) {
	if t.task == nil || len(t.parts) > 0 {
		return nil, nil
	}
	choices := choicesOf(t.task)
	if choices == nil {
		return nil, nil
	}
	for i, c := range choices.options {
		if s == strconv.Itoa(i+1) || s == c.id {
			return c.request()
		}
	}
	if n, err := strconv.Atoi(s); err == nil {
		return nil, usage("there is no choice %d: they are 1 to %d", n, len(choices.options))
	}
	return nil, nil
}

// wait follows the task that waits, past the state that it is in.
func (t *chat) wait(ctx context.Context) error {
	if t.taskID == "" {
		return usage("/wait: no task waits")
	}
	return t.turn(ctx, func(ctx context.Context) (a2a.SendMessageResult, error) {
		return t.follow(t.noted(t.Follow(ctx, t.taskID)), true)
	})
}

func (t *chat) cancel(ctx context.Context) error {
	if t.taskID == "" {
		return usage("/cancel: no task waits")
	}
	task, err := t.CancelTask(ctx, &a2a.CancelTaskRequest{ID: t.taskID})
	if err != nil {
		return err
	}
	t.settle(task)
	return t.showTask(task, false)
}

// logIn gets a token for the agent, which the next call takes.
func (t *chat) logIn(ctx context.Context) error {
	err := t.turn(ctx, func(ctx context.Context) (a2a.SendMessageResult, error) {
		l, err := t.login.logIn(ctx, t.session)
		if err != nil {
			return nil, err
		}
		return nil, t.showLogin(l)
	})
	if err != nil || t.flags.hasCredential() {
		return err
	}
	return t.attachLogin(ctx)
}

// choices are what a task gives its caller to choose from.
type choices struct{ options []choice }

type choice struct {
	id, text string
	request  func() (*a2a.SendMessageRequest, error)
}

func (c *choices) words() string {
	var out []string
	for _, o := range c.options {
		out = append(out, o.id)
	}
	return strings.Join(out, ", ")
}

// choicesOf returns the choices of a task: of a question for an approval, or of a permission that a bridged agent asks
// for. Nil if it gives none.
func choicesOf(task *a2a.Task) *choices {
	if q := approval.Pending(task); q != nil {
		what := strings.Join(q.Scopes, ", ") + " on " + q.Resource + " by " + q.Audience
		return &choices{[]choice{
			{"approve", "approve: " + what, func() (*a2a.SendMessageRequest, error) { return answered(approval.Approve(task)) }},
			{"deny", "deny", func() (*a2a.SendMessageRequest, error) { return answered(approval.Deny(task)) }},
		}}
	}
	if task.Status.Message == nil {
		return nil
	}
	for _, p := range task.Status.Message.Parts {
		var q struct {
			RequestID string `json:"requestId"`
			Options   []struct {
				OptionID string `json:"optionId"`
				Name     string `json:"name"`
			} `json:"options"`
		}
		data, ok := p.Content.(a2a.Data)
		if !ok || json.Unmarshal(data, &q) != nil || q.RequestID == "" || len(q.Options) == 0 {
			continue
		}
		out := new(choices)
		for _, o := range q.Options {
			out.options = append(out.options, choice{o.OptionID, o.OptionID + ": " + o.Name, func() (*a2a.SendMessageRequest, error) {
				return reply(task, a2a.DataPart(map[string]string{"requestId": q.RequestID, "optionId": o.OptionID})), nil
			}})
		}
		return out
	}
	return nil
}

// answered turns the reason why there is no answer into one for people.
func answered(r *a2a.SendMessageRequest, err error) (*a2a.SendMessageRequest, error) {
	if err != nil {
		return nil, usage("%s", strings.TrimPrefix(err.Error(), "approval: "))
	}
	return r, nil
}

// reply returns a message to a task.
func reply(task *a2a.Task, parts ...*a2a.Part) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: uuid.NewString(), TaskID: task.ID, ContextID: task.ContextID, Role: a2a.RoleUser, Parts: parts,
	}}
}
