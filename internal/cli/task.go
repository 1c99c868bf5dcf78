package cli

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley/a2a"
)

func (a *app) task() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Read, list, follow, save and cancel tasks, and their webhooks",
		Example: `  parley task list --status WORKING
  parley task get --wait TASK_ID`,
	}
	cmd.AddCommand(a.taskGet(), a.taskList(), a.taskCancel(), a.taskSubscribe(), a.taskDownload(), a.taskPushConfig(), a.taskWebhook())
	return group(cmd)
}

// allHistory in place of a number of messages is no limit.
const allHistory = -1

// getCommand reads a task (specification 10.3).
type getCommand struct {
	id      string
	history int32
	wait    bool
	request *a2a.GetTaskRequest
}

func (a *app) taskGet() *cobra.Command {
	c := new(getCommand)
	cmd := &cobra.Command{
		Use:   "get TASK_ID",
		Short: "Show a task: its state, its artifacts and, if wanted, its history",
		Example: `  parley task get TASK_ID --history 10
  parley task get TASK_ID --wait --timeout 5m -o json`,
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Int32Var(&c.history, "history", allHistory, "at most `N` messages of the history (default: text none, json all)")
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until the task ends or needs something")
	return a.client(cmd, c)
}

func (c *getCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) (err error) {
	if c.id, err = oneID(cmd, args); err != nil {
		return err
	}
	if c.history < allHistory {
		return usage("--history %d: a number of messages cannot be negative", c.history)
	}
	c.request = &a2a.GetTaskRequest{ID: c.id}
	if c.history != allHistory {
		c.request.HistoryLength = &c.history
	}
	return nil
}

func (c *getCommand) run(ctx context.Context, s *session) error {
	s.taskID = c.id
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if c.wait {
		if _, err := s.Wait(ctx, c.id); err != nil {
			return err
		}
	}
	task, err := s.GetTask(ctx, c.request)
	if err != nil {
		return err
	}
	if c.wait {
		s.warnOutcome(task)
	}
	return s.showTask(task, c.request.HistoryLength != nil)
}

// cancelCommand cancels a task (specification 10.4).
type cancelCommand struct {
	metadata string
	request  a2a.CancelTaskRequest
}

func (a *app) taskCancel() *cobra.Command {
	c := new(cancelCommand)
	cmd := &cobra.Command{
		Use:     "cancel TASK_ID",
		Short:   "Cancel a task that has not ended",
		Example: "  parley task cancel TASK_ID",
	}
	cmd.Flags().StringVar(&c.metadata, "metadata", "", "JSON `OBJECT` to send as metadata of the request")
	return a.client(cmd, c)
}

func (c *cancelCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) (err error) {
	if c.request.ID, err = oneID(cmd, args); err != nil {
		return err
	}
	c.request.Metadata, err = parseMetadata(c.metadata)
	return err
}

func (c *cancelCommand) run(ctx context.Context, s *session) error {
	s.taskID = c.request.ID
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	task, err := s.CancelTask(ctx, &c.request)
	if err != nil {
		return err
	}
	return s.showTask(task, false)
}

// subscribeCommand follows a task that exists (specification 9.4).
type subscribeCommand struct{ id string }

func (a *app) taskSubscribe() *cobra.Command {
	return a.client(&cobra.Command{
		Use:   "subscribe TASK_ID",
		Short: "Follow a task until it ends or needs something",
		Example: `  parley task subscribe TASK_ID --stream
  parley task subscribe TASK_ID -o json --stream | jq -c .statusUpdate.status`,
	}, new(subscribeCommand))
}

func (c *subscribeCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) (err error) {
	c.id, err = oneID(cmd, args)
	return err
}

func (c *subscribeCommand) run(ctx context.Context, s *session) error {
	s.taskID = c.id
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return s.showFollowed(ctx, s.Follow(ctx, c.id))
}

// showFollowed prints the events of a task, or the task that they add up to, until it ends or waits for its caller.
func (s *session) showFollowed(ctx context.Context, events iter.Seq2[a2a.Entry, error]) error {
	result, err := s.follow(events, false)
	if err != nil {
		return err
	}
	task, ok := result.(*a2a.Task)
	if !ok {
		return a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent says of a task that it is a message")
	}
	s.warnOutcome(task)
	if s.flags.stream {
		return nil // every event was printed
	}
	return s.showTask(s.final(ctx, task), false)
}

// listCommand lists tasks.
type listCommand struct {
	status    string
	since     string
	contextID string
	pageSize  int32
	pageToken string
	history   int32
	artifacts bool
	all       bool

	request a2a.ListTasksRequest
}

func (a *app) taskList() *cobra.Command {
	c := new(listCommand)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your tasks, those that changed last first",
		Example: `  parley task list --status INPUT_REQUIRED
  parley task list --all --since 24h -o json`,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&c.status, "status", "", "only tasks in this `STATE`, such as WORKING")
	fs.StringVar(&c.contextID, "context-id", "", "only tasks of this context (`ID`)")
	fs.StringVar(&c.since, "since", "", "only what changed since `TIME`: RFC 3339, or an age such as 2h")
	fs.Int32Var(&c.pageSize, "page-size", 0, "at most `N` tasks a page (default: the agent's, mostly 50)")
	fs.StringVar(&c.pageToken, "page-token", "", "the page that the `TOKEN` at the end of another stands for")
	fs.BoolVar(&c.all, "all", false, "all pages, as one result")
	fs.Int32Var(&c.history, "history", 0, "at most `N` messages of each history (default: none)")
	fs.BoolVar(&c.artifacts, "include-artifacts", false, "with the artifacts")
	return a.client(cmd, c)
}

func (c *listCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	if err := noArgs(cmd, args); err != nil {
		return err
	}
	if c.all && c.pageToken != "" {
		return usage("--all and --page-token contradict each other")
	}
	if c.history < 0 || c.pageSize < 0 {
		return usage("--history and --page-size cannot be negative")
	}
	c.request = a2a.ListTasksRequest{
		ContextID: c.contextID, PageToken: c.pageToken, HistoryLength: &c.history, IncludeArtifacts: &c.artifacts,
	}
	if c.pageSize > 0 {
		c.request.PageSize = &c.pageSize
	}
	if c.status != "" {
		name := strings.ReplaceAll(strings.ToUpper(c.status), "-", "_")
		state, ok := a2a.ParseTaskState("TASK_STATE_" + strings.TrimPrefix(name, "TASK_STATE_"))
		if !ok || state == a2a.TaskStateUnspecified {
			return usage("--status %q: the states are %s", c.status, stateNames())
		}
		c.request.Status = state
	}
	return c.checkSince()
}

func stateNames() string {
	var names []string
	for s := a2a.TaskStateSubmitted; s <= a2a.TaskStateAuthRequired; s++ {
		names = append(names, stateName(s))
	}
	return strings.Join(names, ", ")
}

func (c *listCommand) checkSince() error {
	if c.since == "" {
		return nil
	}
	if age, err := time.ParseDuration(c.since); err == nil && age >= 0 {
		c.request.StatusTimestampAfter = time.Now().Add(-age)
		return nil
	}
	t, err := time.Parse(time.RFC3339, c.since)
	if err != nil {
		return usage("--since %q: want a time such as 2006-01-02T15:04:05Z, or an age such as 2h", c.since)
	}
	c.request.StatusTimestampAfter = t
	return nil
}

func (c *listCommand) run(ctx context.Context, s *session) error {
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	var page *a2a.ListTasksResponse
	if c.all {
		page, err = c.everything(ctx, s)
	} else {
		page, err = s.ListTasks(ctx, &c.request)
	}
	if err != nil {
		return err
	}
	return c.show(s, page)
}

// Bounds of the pages that are read for --all, so that it ends whatever an agent answers.
const (
	maxIdlePages = 20 // in a row that bring no task that was not there before
	maxTasks     = 1_000_000
)

// everything returns all pages as one, the last. A task that moved to a later page meanwhile is there once.
func (c *listCommand) everything(ctx context.Context, s *session) (*a2a.ListTasksResponse, error) {
	all := &a2a.ListTasksResponse{WithArtifacts: c.artifacts}
	tasks, tokens := map[string]bool{}, map[string]bool{}
	request := c.request
	for idle := 0; ; {
		page, err := s.ListTasks(ctx, &request)
		if err != nil {
			return nil, err
		}
		idle++
		for _, task := range page.Tasks {
			if !tasks[task.ID] {
				tasks[task.ID], idle = true, 0
				all.Tasks = append(all.Tasks, task)
			}
		}
		request.PageToken = page.NextPageToken
		switch {
		case request.PageToken == "":
			n := int32(min(len(all.Tasks), math.MaxInt32))
			all.PageSize, all.TotalSize = n, n
			return all, nil
		case tokens[request.PageToken]:
			return nil, a2a.Errorf(a2a.ErrInvalidAgentResponse, "the agent's pages of tasks go round in a circle: a token came twice")
		case idle == maxIdlePages:
			return nil, a2a.Errorf(a2a.ErrInvalidAgentResponse, "%d pages of tasks in a row brought none, and the agent has more of them", idle)
		case len(all.Tasks) >= maxTasks:
			return nil, fail(errInternal, "list them page by page, or fewer with --since or --status", "the agent has more than %d tasks", maxTasks)
		}
		tokens[request.PageToken] = true
	}
}

func (c *listCommand) show(s *session, page *a2a.ListTasksResponse) error {
	switch {
	case s.json && s.flags.stream:
		for _, task := range page.Tasks {
			if err := s.line(task.AppendJSON(nil)); err != nil {
				return err
			}
		}
		return nil
	case s.json:
		return s.line(page.AppendJSON(nil))
	}
	return s.print(func(t *text) {
		for _, task := range page.Tasks {
			t.task(task, "", c.history > 0)
			if !strings.HasSuffix(t.String(), "\n\n") {
				t.WriteByte('\n')
			}
		}
		t.field("Total", fmt.Sprint(page.TotalSize))
		t.optional("Next", page.NextPageToken)
	})
}
