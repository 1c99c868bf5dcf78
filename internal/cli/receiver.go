package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/push"
)

// webhookCommand receives a task's events as push notifications (specification 9.2).
type webhookCommand struct {
	id     string
	listen string
	url    string
	keys   []string
}

func (a *app) taskWebhook() *cobra.Command {
	c := new(webhookCommand)
	cmd := &cobra.Command{
		Use:   "webhook TASK_ID",
		Short: "Receive a task's events by webhook, as subscribe does by stream",
		Long: `Receive a task's events by webhook until it ends or needs something, and print
them as task subscribe does. It listens, registers itself with the agent under a
token that it makes, and removes the registration at its end. What does not
bring the token, or no signature by --key where that is given, is refused.`,
		Example: `  parley task webhook TASK_ID --stream
  parley task webhook TASK_ID --listen :8080 --url https://tunnel.example/hook --key whpk_...`,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&c.listen, "listen", "127.0.0.1:0", "HTTP; port 0: any; without a host on this machine only (`ADDR`)")
	fs.StringVar(&c.url, "url", "", "where the agent reaches it, such as a tunnel (default: http at --listen) (`URL`)")
	fs.StringArrayVar(&c.keys, "key", nil, "public `KEY` of the sender, whpk_..., as parley store stats shows it; repeatable")
	return a.client(cmd, c)
}

func (c *webhookCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) (err error) {
	if c.id, err = oneID(cmd, args); err != nil {
		return err
	}
	if c.url != "" && !webURL(c.url) {
		return usage("--url %q: want an http or https URL", c.url)
	}
	if c.listen, err = localAddress("listen", c.listen); err != nil {
		return err
	}
	if _, err := c.receiver(nil, "any"); err != nil {
		return usage("--key: %s", strings.TrimPrefix(err.Error(), "push: Keys: "))
	}
	return nil
}

// receiver returns what takes deliveries that bring the token.
func (c *webhookCommand) receiver(in *inbox, token string) (*push.Receiver, error) {
	return push.NewReceiver(in.take, push.ReceiverOptions{Keys: c.keys, Token: token})
}

func (c *webhookCommand) run(ctx context.Context, s *session) error {
	s.taskID = c.id
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	token := rand.Text()
	in, err := c.open(ctx, s, token)
	if err != nil {
		return err
	}
	defer in.close()
	made, err := s.CreateTaskPushNotificationConfig(ctx, &a2a.TaskPushNotificationConfig{TaskID: c.id, URL: in.url, Token: token})
	if err != nil {
		return c.explain(err, in.url)
	}
	defer func() {
		in.stop()
		c.remove(ctx, s, made.ID)
	}()
	s.note("Receiving at " + in.url)
	err = s.showFollowed(ctx, in.events(ctx, s))
	if err != nil && !in.got {
		s.warn("nothing has arrived at %s: the agent has to reach it", in.url)
	}
	return err
}

// explain says what an agent may dislike about the address.
func (c *webhookCommand) explain(err error, address string) error {
	f := failureOf(err)
	if u, _ := url.Parse(address); f.a2aCode == a2a.ErrInvalidParams && u.Scheme == "http" {
		f.hint = "name a public https address that leads here with --url; a host of yours on this machine takes others with parley serve --allow-private-webhooks"
	}
	return f
}

// remove removes the registration, also after the end of ctx.
func (c *webhookCommand) remove(ctx context.Context, s *session, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := s.DeleteTaskPushNotificationConfig(ctx, &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: c.id, ID: id})
	if err != nil {
		s.warn("the webhook could not be removed: %s; try %s", err.Error(), s.command("task push-config delete", c.id, id))
	}
}

// inbox is the webhook, as it stands: its server, and what it took and nobody has printed yet.
type inbox struct {
	task    string
	url     string
	server  *http.Server
	ready   chan a2a.Entry // unbuffered: what is taken is printed
	refused chan string    // gets why a delivery was refused, of the first one
	once    sync.Once      // for refused
	stopped chan struct{}
	failed  chan error // holds why the server ended
	got     bool       // an event came; of events alone
}

// open begins to listen.
func (c *webhookCommand) open(ctx context.Context, s *session, token string) (*inbox, error) {
	in := &inbox{
		task: c.id, url: c.url,
		ready: make(chan a2a.Entry), refused: make(chan string, 1), stopped: make(chan struct{}), failed: make(chan error, 1),
	}
	receiver, err := c.receiver(in, token)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fail(errInternal, "", "%s is in use: take another address with --listen (port 0: any free one)", c.listen)
	}
	if err != nil {
		return nil, err
	}
	if in.url == "" {
		in.url = "http://" + callable(l) + "/"
	}
	if u, err := url.Parse(in.url); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		s.warn("the task's events and the token come to %s without encryption", in.url)
	}
	in.server = &http.Server{
		Handler: in.watch(receiver), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	go func() { in.failed <- in.server.Serve(l) }()
	return in, nil
}

// take implements push.Handle. An event is taken when it is about to be printed.
func (in *inbox) take(ctx context.Context, task string, e a2a.Entry) error {
	if task != in.task {
		return push.ErrGone
	}
	select {
	case in.ready <- e:
		return nil
	case <-in.stopped:
		return push.ErrGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// events yields what arrives until ctx ends.
func (in *inbox) events(ctx context.Context, s *session) iter.Seq2[a2a.Entry, error] {
	return func(yield func(a2a.Entry, error) bool) {
		for {
			select {
			case e := <-in.ready:
				in.got = true
				if !yield(e, nil) {
					return
				}
			case why := <-in.refused:
				s.warn("a delivery was refused: %s", why)
			case err := <-in.failed:
				yield(a2a.Entry{}, err)
				return
			case <-ctx.Done():
				yield(a2a.Entry{}, ctx.Err())
				return
			}
		}
	}
}

// stop has deliveries refused from now on, for good.
func (in *inbox) stop() { close(in.stopped) }

// close ends the server, when the last delivery is answered.
func (in *inbox) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := in.server.Shutdown(ctx); err != nil {
		_ = in.server.Close() // nothing more can be done for those who wait
	}
}

// watch tells why h refuses a delivery, the first time: otherwise the sender alone would know.
func (in *inbox) watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w}
		h.ServeHTTP(a, r)
		if a.status >= 400 && a.status != http.StatusGone {
			in.once.Do(func() { in.refused <- fmt.Sprintf("%d, %s", a.status, strings.TrimSpace(a.text)) })
		}
	})
}

// answer keeps what is answered.
type answer struct {
	http.ResponseWriter
	status int
	text   string
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.text += string(b[:min(len(b), 200)])
	return a.ResponseWriter.Write(b)
}
