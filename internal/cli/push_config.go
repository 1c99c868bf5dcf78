package cli

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
)

// pushFlags are what a webhook is registered with.
type pushFlags struct {
	prefix string // of the flags' names
	url    string
	id     string
	token  string
	auth   string // as in the header Authorization
}

func (p *pushFlags) register(fs *pflag.FlagSet, prefix string) {
	p.prefix = prefix
	fs.StringVar(&p.url, prefix+"url", "", "where the agent is to send the task's events (`URL`)")
	fs.StringVar(&p.id, prefix+"id", "", "`ID` of the webhook, to name or replace it by (default: the agent's)")
	fs.StringVar(&p.token, prefix+"token", "", "`TOKEN` that it sends along; seen like --bearer: prefer $"+envName(prefix+"token"))
	fs.StringVar(&p.auth, prefix+"authorization", "", "its Authorization, 'Bearer ...'; prefer $"+envName(prefix+"authorization")+" (`WORDS`)")
}

// config returns the configuration for a task; empty: the one of the message that it goes with.
func (p *pushFlags) config(f *clientFlags, task string) (*a2a.TaskPushNotificationConfig, error) {
	if !webURL(p.url) {
		return nil, usage("--%surl: want the http or https URL of a receiver", p.prefix)
	}
	c := &a2a.TaskPushNotificationConfig{ID: p.id, TaskID: task, URL: p.url, Token: p.token}
	f.secrets = append(f.secrets, p.token)
	if p.auth != "" {
		scheme, credentials, _ := strings.Cut(p.auth, " ")
		credentials = strings.TrimSpace(credentials)
		if scheme == "" || credentials == "" {
			return nil, usage("--%sauthorization: want a scheme and a credential, such as 'Bearer abc'", p.prefix)
		}
		c.Authentication = &a2a.AuthenticationInfo{Scheme: scheme, Credentials: credentials}
		f.secrets = append(f.secrets, credentials)
	}
	return c, nil
}

// inline returns the configuration that goes with a message, nil if none is wanted.
func (p *pushFlags) inline(fs *pflag.FlagSet, f *clientFlags) (*a2a.TaskPushNotificationConfig, error) {
	if p.url != "" || fs.Changed(p.prefix+"url") {
		return p.config(f, "")
	}
	for _, name := range []string{"id", "token", "authorization"} {
		if fs.Changed(p.prefix + name) {
			return nil, usage("--%s%s: give --%surl too, or register the webhook with parley task push-config create", p.prefix, name, p.prefix)
		}
	}
	return nil, nil
}

func webURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

func (a *app) taskPushConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push-config",
		Short: "Register, show and remove a task's webhooks",
		Long: `Register, show and remove the webhooks of a task (push notification
configurations), to which the agent sends the task's events.`,
		Example: `  parley task push-config create TASK_ID --url https://example.com/hook
  parley task push-config list TASK_ID`,
	}
	cmd.AddCommand(a.createPushConfig(), a.deletePushConfig(), a.getPushConfig(), a.listPushConfigs())
	return group(cmd)
}

// createConfig registers a webhook (A2A specification 3.1.7).
type createConfig struct {
	flags   pushFlags
	request *a2a.TaskPushNotificationConfig
}

func (a *app) createPushConfig() *cobra.Command {
	c := new(createConfig)
	cmd := &cobra.Command{
		Use:     "create TASK_ID --url URL",
		Short:   "Register a webhook for a task, or replace the one with its id",
		Example: "  A2ACLI_TOKEN=secret parley task push-config create TASK_ID --url https://example.com/hook",
	}
	cmd.Flags().SortFlags = false
	c.flags.register(cmd.Flags(), "")
	return a.client(cmd, c)
}

func (c *createConfig) check(cmd *cobra.Command, f *clientFlags, args []string) error {
	id, err := oneID(cmd, args)
	if err != nil {
		return err
	}
	c.request, err = c.flags.config(f, id)
	return err
}

func (c *createConfig) run(ctx context.Context, s *session) error {
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	made, err := s.CreateTaskPushNotificationConfig(ctx, c.request)
	if err != nil {
		return explainPush(err, c.request.TaskID)
	}
	return s.showConfig(made)
}

// explainPush says where to look for what an agent does not know: a task, or a webhook of it.
func explainPush(err error, task string) error {
	f := failureOf(err)
	if f.a2aCode == a2a.ErrTaskNotFound {
		f.hint += "; parley task push-config list " + quote(task) + " shows the webhooks of a task"
	}
	return f
}

func (s *session) showConfig(c *a2a.TaskPushNotificationConfig) error {
	if s.json {
		return s.line(c.AppendJSON(nil))
	}
	return s.print(func(t *text) { t.config(c) })
}

// config writes a webhook, without secrets.
func (t *text) config(c *a2a.TaskPushNotificationConfig) {
	t.field("Task", c.TaskID)
	t.field("Webhook", c.ID)
	t.field("URL", c.URL)
	if c.Authentication != nil {
		t.field("Authorization", c.Authentication.Scheme)
	}
}

// configID names a webhook of a task.
type configID struct{ task, id string }

func (c *configID) check(cmd *cobra.Command, _ *clientFlags, args []string) error {
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return usage("%s: which webhook? Give the task's id and its own", cmd.CommandPath())
	}
	c.task, c.id = args[0], args[1]
	return nil
}

// getConfig shows a webhook (A2A specification 3.1.8).
type getConfig struct{ configID }

func (a *app) getPushConfig() *cobra.Command {
	return a.client(&cobra.Command{
		Use:     "get TASK_ID ID",
		Short:   "Show a webhook of a task",
		Example: "  parley task push-config get TASK_ID ID -o json",
	}, new(getConfig))
}

func (c *getConfig) run(ctx context.Context, s *session) error {
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	got, err := s.GetTaskPushNotificationConfig(ctx, &a2a.GetTaskPushNotificationConfigRequest{TaskID: c.task, ID: c.id})
	if err != nil {
		return explainPush(err, c.task)
	}
	return s.showConfig(got)
}

// deleteConfig removes a webhook (A2A specification 3.1.10).
type deleteConfig struct{ configID }

func (a *app) deletePushConfig() *cobra.Command {
	return a.client(&cobra.Command{
		Use:     "delete TASK_ID ID",
		Short:   "Remove a webhook of a task; that there is none is no error",
		Example: "  parley task push-config delete TASK_ID ID",
	}, new(deleteConfig))
}

func (c *deleteConfig) run(ctx context.Context, s *session) error {
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := s.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: c.task, ID: c.id}); err != nil {
		return err
	}
	if s.json {
		return s.line([]byte("{}")) // google.protobuf.Empty
	}
	return s.print(func(t *text) {
		t.field("Task", c.task)
		t.field("Deleted", c.id)
	})
}

// listConfigs lists the webhooks of a task (A2A specification 3.1.9).
type listConfigs struct {
	request a2a.ListTaskPushNotificationConfigsRequest
}

func (a *app) listPushConfigs() *cobra.Command {
	c := new(listConfigs)
	cmd := &cobra.Command{
		Use:     "list TASK_ID",
		Short:   "List the webhooks of a task",
		Example: "  parley task push-config list TASK_ID",
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Int32Var(&c.request.PageSize, "page-size", 0, "at most `N` of them (default: the agent's, of parley all)")
	fs.StringVar(&c.request.PageToken, "page-token", "", "the page that the `TOKEN` at the end of another stands for")
	return a.client(cmd, c)
}

func (c *listConfigs) check(cmd *cobra.Command, _ *clientFlags, args []string) (err error) {
	if c.request.PageSize < 0 {
		return usage("--page-size cannot be negative")
	}
	c.request.TaskID, err = oneID(cmd, args)
	return err
}

func (c *listConfigs) run(ctx context.Context, s *session) error {
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	page, err := s.ListTaskPushNotificationConfigs(ctx, &c.request)
	switch {
	case err != nil:
		return err
	case s.json && s.flags.stream:
		for _, config := range page.Configs {
			if err := s.line(config.AppendJSON(nil)); err != nil {
				return err
			}
		}
		return nil
	case s.json:
		return s.line(page.AppendJSON(nil))
	}
	return s.print(func(t *text) {
		for _, config := range page.Configs {
			t.config(config)
			t.WriteByte('\n')
		}
		if len(page.Configs) == 0 {
			t.field("Webhooks", "none")
		}
		t.optional("Next", page.NextPageToken)
	})
}
