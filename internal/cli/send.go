package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
)

// sendCommand starts or continues an interaction (specification 10.2).
type sendCommand struct {
	app       *app
	specs     partSpecs
	taskID    string
	contextID string
	messageID string
	metadata  string
	async     bool
	wait      bool
	push      pushFlags
	decision  decisionFlags

	request *a2a.SendMessageRequest
}

func (a *app) send() *cobra.Command {
	c := &sendCommand{app: a}
	cmd := &cobra.Command{
		Use:   "send [TEXT]",
		Short: "Send a message to an agent and wait for what comes of it",
		Example: `  parley send "A text to count. It has two sentences."
  parley send --text "Check this:" --file report.pdf --data - < numbers.json`,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	c.specs.register(fs)
	fs.StringVar(&c.taskID, "task-id", "", "continue a task, such as one that waits for input (`ID`)")
	fs.StringVar(&c.contextID, "context-id", "", "start a new task in this context (`ID`)")
	fs.StringVar(&c.messageID, "message-id", "", "to send a message again: its `ID` of the first time; an agent with safe-retry takes it once")
	fs.StringVar(&c.metadata, "metadata", "", "metadata of the request (`JSON` object)")
	fs.BoolVar(&c.async, "async", false, "print the task's id and do not wait for its end")
	fs.BoolVar(&c.wait, "wait", false, "wait until it ends or needs something (the default)")
	c.decision.register(fs)
	c.push.register(fs, "push-")
	return a.client(cmd, c)
}

func (c *sendCommand) check(cmd *cobra.Command, f *clientFlags, args []string) error {
	if err := c.checkWaiting(cmd.Flags(), f); err != nil {
		return err
	}
	if len(args) > 1 {
		return usage("one TEXT is taken, got %q too: put quotes around words that belong together", args[1])
	}
	specs := c.specs
	if len(args) == 1 {
		specs = append(partSpecs{{flag: "text", value: args[0]}}, specs...)
	}
	if len(specs) == 0 && c.decision.approve == "" && c.decision.deny == "" {
		return usage("nothing to send: give a TEXT, --text, --file or --data")
	}
	metadata, err := parseMetadata(c.metadata)
	if err != nil {
		return err
	}
	hook, err := c.push.inline(cmd.Flags(), f)
	if err != nil {
		return err
	}
	parts, err := specs.build(c.app.in)
	if err != nil {
		return err
	}
	if c.messageID == "" {
		c.messageID = uuid.NewString()
	}
	c.request = &a2a.SendMessageRequest{
		Message: &a2a.Message{
			MessageID: c.messageID, TaskID: c.taskID, ContextID: c.contextID, Role: a2a.RoleUser, Parts: parts,
		},
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: c.async, TaskPushNotificationConfig: hook},
		Metadata:      metadata,
	}
	return c.decision.add(c.request.Message)
}

// checkWaiting decides whether to wait: an explicit flag wins over the environment.
func (c *sendCommand) checkWaiting(fs *pflag.FlagSet, f *clientFlags) error {
	async, wait := c.async && fs.Changed("async"), c.wait && fs.Changed("wait")
	switch {
	case async && f.stream:
		return usage("--async and --stream contradict each other: a stream is a way to wait")
	case async && wait:
		return usage("--async and --wait contradict each other")
	case f.stream || wait:
		c.async = false
	case c.async && c.wait && !async:
		return usage("%s and %s contradict each other", envName("async"), envName("wait"))
	}
	return nil
}

func parseMetadata(s string) (a2a.Struct, error) {
	if s == "" {
		return nil, nil
	}
	var m a2a.Struct
	if err := json.Unmarshal([]byte(s), &m); err != nil || m == nil || !utf8.ValidString(s) {
		return nil, usage(`--metadata: want a JSON object, such as '{"k":"v"}'`)
	}
	return m, nil
}

func (c *sendCommand) run(ctx context.Context, s *session) error {
	s.taskID, s.decides = c.taskID, true
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if s.verbose && !s.json {
		if err := s.print(func(t *text) { t.message("Sent", c.request.Message) }); err != nil {
			return err
		}
	}
	if c.async {
		result, err := s.SendMessage(ctx, c.request)
		if err != nil {
			return c.explain(err)
		}
		return s.showSent(result)
	}
	result, err := s.follow(s.Send(ctx, c.request), c.taskID != "")
	if err != nil {
		return c.explain(err)
	}
	if task, ok := result.(*a2a.Task); ok {
		s.warnOutcome(task)
		if !s.flags.stream {
			result = s.final(ctx, task)
		}
	}
	if s.flags.stream {
		return nil // every event was printed
	}
	return s.showSent(result)
}

// explain points at --debug where the agent refused the task that was to be continued (specification 8.1).
func (c *sendCommand) explain(err error) error {
	f := failureOf(err)
	if c.taskID == "" || f.exit != 1 || f.a2aCode == 0 {
		return err
	}
	const again = "nothing was started; run it again with --debug to see the exchange"
	if f.hint == "" && strings.Contains(f.advice(), "--debug") {
		f.hint = again
		return f
	}
	return f.also(again)
}

// follow reads the events of a task until it ends or waits for its caller, and returns what they add up to: a
// message, or a task. Under --stream they are printed as they come, but for what a stream that was taken up again says once
// more. Where the message resumes a task, the first event may still show it waiting.
func (s *session) follow(events iter.Seq2[a2a.Entry, error], resumes bool) (result a2a.SendMessageResult, err error) {
	defer func() {
		if e := s.endText(); err == nil {
			err = e
		}
	}()
	var task a2a.Task
	first, again := true, false // again: what comes may have been here before
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if m, ok := e.Event.(*a2a.Message); ok {
			return m, s.showEvent(e, nil, true)
		}
		if _, whole := e.Event.(*a2a.Task); whole && !first {
			again = true // a stream was lost, and the next one begins with the Task
		}
		if !again {
			fold(&task, e.Event)
		} else if again = !changes(&task, e.Event); again && !settled(task.Status.State) {
			continue
		}
		over := settled(task.Status.State) && !(first && resumes && task.Status.State.Interrupted())
		if err := s.showEvent(e, &task, over); err != nil {
			return nil, err
		}
		if over {
			break
		}
		if first && !s.flags.stream {
			s.note("Waiting for task " + task.ID)
		}
		first, s.taskID = false, task.ID
	}
	if !settled(task.Status.State) {
		return nil, a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent's stream ended before the task did")
	}
	return &task, nil
}

// fold applies an event to a task, also where a stream does not begin with the task.
func fold(task *a2a.Task, ev a2a.Event) {
	task.Apply(ev)
	switch ev := ev.(type) {
	case *a2a.TaskStatusUpdateEvent:
		task.ID, task.ContextID = ev.TaskID, ev.ContextID
	case *a2a.TaskArtifactUpdateEvent:
		task.ID, task.ContextID = ev.TaskID, ev.ContextID
	default:
	}
}

// changes applies an event to a task and reports whether it says anything new of it.
func changes(task *a2a.Task, ev a2a.Event) bool {
	before := task.AppendJSON(nil)
	fold(task, ev)
	return !bytes.Equal(before, task.AppendJSON(nil))
}

// settled reports whether waiting for a task is over (specification 9.1).
func settled(s a2a.TaskState) bool { return s.Terminal() || s.Interrupted() }

// final returns a task as the agent has it at the end: with its history, and with the artifacts whole.
func (s *session) final(ctx context.Context, task *a2a.Task) *a2a.Task {
	got, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
	if err != nil {
		s.warn("the task could not be read at its end: this is what its events say (%s)", err.Error())
		return task
	}
	return got
}
