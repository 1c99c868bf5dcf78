package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/rules"
	"github.com/parley-a2a/parley/tap"
)

// tapCommand records what passes between an agent and its clients.
type tapCommand struct {
	listen    string
	publicURL string
	certFile  string
	keyFile   string
	record    string
	rotate    int64
	redact    []string
	keys      []string
	webhooks  bool
	failOn    string
	har       string
	format    string
	console   consoleFlags

	cardKeys []*agentcard.Key
	tls      *tls.Config
	status   tap.Status // at the end
	err      error      // of what is done at the end
}

func (a *app) tap() *cobra.Command {
	c := new(tapCommand)
	cmd := a.client(&cobra.Command{
		Use:   "tap [CARD]",
		Short: "Record what passes between an agent and its clients",
		Long: `Record what passes between an agent and its clients: a proxy on every interface of
its card that forwards bytes as they come and changes the card only. Clients are
given the tap's URL for the agent's. Exchanges are logged, judged by the
specification's clauses, and recorded without their secrets.`,
		Example: `  parley tap https://agent.example.com
  parley tap --listen :8080 --record tap.jsonl --fail-on must`,
	}, c)
	fs := cmd.Flags()
	fs.StringVar(&c.listen, "listen", tap.DefaultListen, "HTTP and gRPC; port 0: any; without a host on this machine only (`ADDR`)")
	fs.StringVar(&c.publicURL, "public-url", "", "where clients reach it, if not at --listen (`URL`)")
	fs.StringVar(&c.certFile, "tls-cert", "", "serve TLS with this certificate (`FILE`)")
	fs.StringVar(&c.keyFile, "tls-key", "", "its key (`FILE`)")
	fs.StringVar(&c.record, "record", "", "record into this new file, or none (default: parley-tap-TIME.jsonl here) (`FILE`)")
	fs.Int64Var(&c.rotate, "rotate", tap.DefaultRotate>>20, "begin another file after so many `MIB`")
	fs.StringArrayVar(&c.redact, "redact", nil, "headers, members and parameters of this `NAME` are secret too")
	fs.StringArrayVar(&c.keys, "key", nil, "sign the changed card with this key; repeatable (`FILE`)")
	fs.BoolVar(&c.webhooks, "webhooks", false, "route webhooks through the tap as well")
	fs.StringVar(&c.failOn, "fail-on", "never", "exit code 1 if a clause of this `LEVEL` was broken: must, should")
	fs.StringVar(&c.har, "har", "", "write an HTTP archive at the end, of what is in memory (`FILE`)")
	fs.StringVar(&c.format, "log", "text", "`FORMAT` of the log on stderr: text, json or none")
	c.console.register(fs)
	cmd.AddCommand(a.tapReplay(), a.tapHAR())
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return err
		}
		return c.verdict()
	}
	return cmd
}

func (c *tapCommand) check(cmd *cobra.Command, f *clientFlags, args []string) (err error) {
	if len(args) > 1 {
		return usage("%s takes one agent, got %q too", cmd.CommandPath(), args[1])
	}
	if len(args) == 1 {
		f.card = args[0]
	}
	switch c.failOn {
	case "must", "should", "never":
	default:
		return usage("--fail-on %q: the levels are must, should and never", c.failOn)
	}
	if c.format != "text" && c.format != "json" && c.format != "none" {
		return usage("--log %q: the formats are text, json and none", c.format)
	}
	if c.rotate <= 0 {
		return usage("--rotate %d: must be more than nothing", c.rotate)
	}
	if c.publicURL != "" && !webURL(c.publicURL) {
		return usage("--public-url %q: want an http or https URL", c.publicURL)
	}
	if c.listen, err = localAddress("listen", c.listen); err != nil {
		return err
	}
	if err := c.console.checkHere("a tap"); err != nil {
		return err
	}
	switch c.record {
	case "":
		c.record = "parley-tap-" + time.Now().UTC().Format("20060102T150405.000Z") + ".jsonl"
	case "none":
		c.record = ""
	}
	if c.cardKeys, err = readKeys("--key", c.keys); err != nil {
		return err
	}
	if (c.certFile == "") != (c.keyFile == "") {
		return usage("--tls-cert and --tls-key belong together")
	}
	return nil
}

func (c *tapCommand) run(ctx context.Context, s *session) error {
	log := c.log(s.err)
	if c.certFile != "" {
		var err error
		if c.tls, err = auth.ServerTLS(auth.ServerTLSOptions{CertFile: c.certFile, KeyFile: c.keyFile, Log: log}); err != nil {
			return usage("TLS: %s", err.Error())
		}
	}
	if host, _, _ := net.SplitHostPort(c.listen); !loopback(host) {
		s.warn("the tap listens beyond this machine: whoever reaches %s reaches the agent through it, under the tap's own address", c.listen)
	}
	card, err := client.FetchCard(ctx, s.flags.card, s.options())
	if err != nil {
		return err
	}
	t, err := tap.New(tap.Config{
		Card: card.Raw, CardURL: card.URL, Listen: c.listen, PublicURL: c.publicURL, TLS: c.tls, Upstream: s.flags.tls, Keys: c.cardKeys, Webhooks: c.webhooks,
		Recording: tap.Options{File: c.record, Rotate: c.rotate << 20, Redact: c.redact}, Log: log,
	})
	if err != nil {
		return c.explainFile(err)
	}
	if len(card.Signatures) > 0 && len(c.cardKeys) == 0 {
		s.note("The card is signed, and its addresses have to be changed: the tap serves it without a signature (--key signs it anew).")
	}
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	var said error
	stop := func() {}
	err = t.Serve(serving, func(base string) {
		if said = c.announce(s, card.Name, base); said == nil {
			stop, said = c.console.startTap(serving, s, t.Recorder(), base, log)
		}
		if said != nil {
			cancel()
		}
	})
	stop()
	if err = errors.Join(err, said); err != nil && ctx.Err() == nil {
		return explainTap(err)
	}
	c.err = errors.Join(err, c.archive(t))
	c.status = t.Recorder().Status()
	s.note(fmt.Sprintf("%d exchanges, broken clauses: %d %s, %d %s", c.status.Exchanges, c.status.Must, rules.Must, c.status.Should, rules.Should))
	return nil
}

// explainFile says what is wrong with --record where the recording could not be begun.
func (c *tapCommand) explainFile(err error) error {
	var file *fs.PathError
	switch {
	case errors.Is(err, fs.ErrExist):
		return usage("--record %s: the file is there already, and is not written over", c.record)
	case errors.As(err, &file):
		return fail(errUsage, "name a new file in a folder that is there and may be written to, or none", "--record %s: %s", c.record, file.Err)
	}
	return err
}

func (c *tapCommand) log(w io.Writer) *slog.Logger {
	switch c.format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil))
	case "text":
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// announce writes the line that says that the tap can be called.
func (c *tapCommand) announce(s *session, name, base string) error {
	line := "parley: tap at " + base + " for " + visible(name)
	if c.record != "" {
		line += ", recorded in " + c.record
	}
	_, err := fmt.Fprintln(s.w, line)
	return err
}

func explainTap(err error) error {
	var op *net.OpError
	if errors.Is(err, syscall.EADDRINUSE) && errors.As(err, &op) && op.Addr != nil {
		return fail(errInternal, "take another address with --listen (port 0: any free one)", "%s is in use", op.Addr)
	}
	return err
}

// archive writes the HTTP archive.
func (c *tapCommand) archive(t *tap.Tap) error {
	if c.har == "" {
		return nil
	}
	f, err := os.OpenFile(c.har, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(tap.WriteHAR(f, t.Recorder().Exchanges(0, 0)), f.Close())
}

// verdict returns what went wrong at the end, or fails as --fail-on says. It comes after run, whose every error after the
// signal that ends the tap would be told as an interruption.
func (c *tapCommand) verdict() error {
	if c.err != nil {
		return fail(errInternal, "", "%s", strings.TrimPrefix(c.err.Error(), "tap: "))
	}
	if c.failOn == "never" || c.status.Must == 0 && (c.failOn == "must" || c.status.Should == 0) {
		return nil
	}
	return fail(errInternal, "the log and the recording have them, each with its clause", "clauses of the specification were broken (--fail-on %s)", c.failOn)
}

// tapReplayCommand plays a recording again.
type tapReplayCommand struct {
	file     string
	patience time.Duration
	webhooks bool
}

// playedCall is what a replay says of one call.
type playedCall struct {
	ID             int64    `json:"id"` // in the recording
	Operation      string   `json:"operation"`
	Binding        string   `json:"binding"`
	Outcome        string   `json:"outcome"`
	WithoutWebhook bool     `json:"withoutWebhook,omitempty"` // that the message registered
	Differences    []string `json:"differences,omitempty"`
}

// What came of a call that was played again.
const (
	playedSame    = "same"
	playedDiffers = "differs"
	playedNot     = "left out" // it is about webhooks
)

// played is what a replay says as JSON.
type played struct {
	Calls   []playedCall `json:"calls"`
	Same    int          `json:"same"`
	Differ  int          `json:"differ"`
	LeftOut int          `json:"leftOut"`
	hooks   int          // webhooks that were left out of calls
}

func (p *played) add(r *tap.Replay) {
	c := playedCall{ID: r.Recorded.ID, Operation: r.Recorded.Operation, Binding: r.Recorded.Binding, Differences: r.Differences}
	switch {
	case len(r.Differences) > 0:
		c.Outcome = playedDiffers
		p.Differ++
	case r.Again == nil && r.LeftOut:
		c.Outcome = playedNot
		p.LeftOut++
	default:
		c.Outcome = playedSame
		p.Same++
	}
	c.WithoutWebhook = r.LeftOut && c.Outcome != playedNot
	if r.LeftOut {
		p.hooks++
	}
	p.Calls = append(p.Calls, c)
}

// text returns the lines for a person.
func (p *playedCall) text(t *text) {
	outcome := p.Outcome
	if p.WithoutWebhook {
		outcome += ", without its webhook"
	}
	t.WriteString(visible(fmt.Sprintf("%d %s %s: %s", p.ID, p.Operation, p.Binding, outcome)) + "\n")
	for _, d := range p.Differences {
		t.WriteString("  " + visible(d) + "\n")
	}
}

func (a *app) tapReplay() *cobra.Command {
	c := new(tapReplayCommand)
	cmd := a.client(&cobra.Command{
		Use:   "replay FILE [CARD]",
		Short: "Play the calls of a recording again and compare the answers",
		Long: `Play the calls of a recording again, to the agent that is named, and compare the
answers, but for ids that an agent makes and times. Recordings have no secrets:
give the credential as with any other command. What registers webhooks is left out,
so that nobody else hears of it. Exit code 1: answers differ.`,
		Example: `  parley tap replay tap.jsonl
  parley tap replay tap.jsonl https://next.example.com --bearer TOKEN`,
	}, c)
	cmd.Flags().DurationVar(&c.patience, "patience", 30*time.Second, "how long one call may take (`TIME`)")
	cmd.Flags().BoolVar(&c.webhooks, "webhooks", false, "register the recorded webhooks again, without the credentials for them")
	return cmd
}

func (c *tapReplayCommand) check(cmd *cobra.Command, f *clientFlags, args []string) error {
	switch len(args) {
	case 2:
		f.card = args[1]
	case 1:
	default:
		return usage("%s takes a recording and an agent, got %d arguments", cmd.CommandPath(), len(args))
	}
	if c.patience <= 0 {
		return usage("--patience %v: must be more than nothing", c.patience)
	}
	c.file = args[0]
	return nil
}

func (c *tapReplayCommand) run(ctx context.Context, s *session) error {
	recorded, err := tap.Read(c.file)
	if err != nil {
		return usage("%s", strings.TrimPrefix(err.Error(), "tap: "))
	}
	if _, err := s.connect(ctx); err != nil {
		return err
	}
	calls, err := tap.Play(ctx, recorded, s.Card().Raw, s.Card().URL, tap.ReplayOptions{
		Header: s.header, Upstream: s.flags.tls, Patience: c.patience, Webhooks: c.webhooks,
	})
	if err != nil {
		return err
	}
	var result played
	for _, r := range calls {
		result.add(r)
	}
	if len(calls) == result.LeftOut {
		f := usage("%s: the recording has no call that could be played again", c.file)
		if len(calls) > 0 {
			f.hint = "--webhooks plays those about webhooks too"
		}
		return f
	}
	if err := c.show(s, &result); err != nil {
		return err
	}
	if result.Differ > 0 {
		f := fail(errInternal, "", "%d of %d answers differ", result.Differ, result.Differ+result.Same)
		f.told = true
		return f
	}
	return nil
}

func (c *tapReplayCommand) show(s *session, result *played) error {
	if result.hooks > 0 {
		s.note(fmt.Sprintf("Webhooks were left out (%d of %d calls); --webhooks registers them again", result.hooks, len(result.Calls)))
	}
	if s.json {
		b, err := json.Marshal(result)
		if err != nil {
			return err
		}
		return s.line(b)
	}
	return s.print(func(t *text) {
		for i := range result.Calls {
			result.Calls[i].text(t)
		}
	})
}

// tapHAR exports a recording.
func (a *app) tapHAR() *cobra.Command {
	return &cobra.Command{
		Use:     "har FILE",
		Short:   "Print a recording as an HTTP archive",
		Example: "  parley tap har tap.jsonl > tap.har",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s takes one recording, got %d arguments", cmd.CommandPath(), len(args))
			}
			recorded, err := tap.Read(args[0])
			if err != nil {
				return usage("%s", strings.TrimPrefix(err.Error(), "tap: "))
			}
			return tap.WriteHAR(a.out, recorded)
		},
	}
}
