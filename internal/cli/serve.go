package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/audit"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/internal/agents"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/telemetry"
)

// serveCommand runs one of the built-in agents.
type serveCommand struct {
	app        *app
	cfg        parley.Config
	agent      string
	bridge     bridgeFlags
	store      string
	durability string
	private    bool
	cardKeys   []string
	config     string
	file       configFile
	check      bool
	audit      string
	apiKeys    []string
	auth       *auth.Authenticator // nil: nobody asks who calls
	certFile   string
	keyFile    string
	clientCA   string
	webhookKey string // public half of the key that signs webhooks
	metrics    string
	pace       time.Duration
	log        string
	level      string
}

func (a *app) serve() *cobra.Command { return (&serveCommand{app: a}).command() }

func (c *serveCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run an agent: Revisor, which counts texts, unless you say otherwise",
		Example: "  parley serve --agent echo --listen 127.0.0.1:0 --grpc-listen none",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.app.json = false
			err := c.run(cmd, args)
			var f *failure
			if errors.As(err, &f) {
				return f.seeHelp(cmd)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&c.agent, "agent", "revisor", strings.Join(agents.Names(), ", ")+" (`AGENT`)")
	c.bridge.register(fs)
	fs.StringVar(&c.cfg.Name, "name", "", "on the card [AGENT_NAME] (`NAME`)")
	fs.StringVar(&c.cfg.Listen, "listen", parley.DefaultListen, "HTTP, port 0: any, or none [HOST, PORT] (`ADDR`)")
	fs.StringVar(&c.cfg.GRPCListen, "grpc-listen", parley.DefaultGRPCListen, "gRPC [HOST] (`ADDR`)")
	fs.StringVar(&c.cfg.PublicURL, "public-url", "", "`URL` on the card, before a proxy [PUBLIC_URL]")
	fs.StringVar(&c.cfg.PublicGRPCURL, "public-grpc-url", "", "the same for gRPC, host:port [PUBLIC_GRPC_URL] (`ADDR`)")
	fs.BoolVar(&c.cfg.Public, "anonymous", false, "let strangers on other machines in, who cannot list")
	fs.StringArrayVar(&c.apiKeys, "api-key", nil, "who may call: NAME=SECRET, or @FILE of such lines; repeatable (`KEY`)")
	fs.StringVar(&c.certFile, "tls-cert", "", "serve TLS with this certificate, read anew when it changes (`FILE`)")
	fs.StringVar(&c.keyFile, "tls-key", "", "its key (`FILE`)")
	fs.StringVar(&c.clientCA, "client-ca", "", "ask clients for a certificate of these authorities (`FILE`)")
	fs.BoolVar(&c.cfg.BehindTLS, "behind-tls", false, "TLS ends before this host: serve other machines without it")
	fs.StringVar(&c.audit, "audit-log", "", "append refusals, webhooks and cancels to this (`FILE`)")
	fs.StringVar(&c.store, "store", "", "sqlite:PATH or memory:, by default a file for each agent (`URL`)")
	fs.StringVar(&c.durability, "durability", "full", "full, or normal: a power failure may cost the last tasks (`WORD`)")
	fs.DurationVar(&c.cfg.Retain, "retain", keptAge, "how long finished tasks are kept (`TIME`)")
	fs.BoolVar(&c.private, "allow-private-webhooks", false, "deliver to http and private addresses: development only")
	fs.StringArrayVar(&c.cardKeys, "card-key", nil, "sign the card with this key; repeatable (`FILE`)")
	fs.StringVar(&c.metrics, "metrics-listen", "", "Prometheus' /metrics; without a host on this machine only (`ADDR`)")
	fs.DurationVar(&c.cfg.Grace, "grace", 10*time.Second, "for tasks to finish at a stop (`TIME`)")
	fs.BoolVar(&c.cfg.NoStreaming, "no-streaming", false, "offer no streams")
	fs.DurationVar(&c.pace, "pace", 0, "Revisor's pause at each tenth of a text (`TIME`)")
	fs.StringVar(&c.config, "config", "", "flags, security and limits in YAML, see docs/configuration.md (`FILE`)")
	fs.BoolVar(&c.check, "check", false, "say whether the configuration is right, and serve nothing")
	fs.StringVar(&c.log, "log", "text", "of the log on stderr: text or json (`FORMAT`)")
	fs.StringVar(&c.level, "log-level", "info", "debug, info, warn or error (`LEVEL`)")
	return cmd
}

func (c *serveCommand) run(cmd *cobra.Command, args []string) error {
	if c.config != "" {
		if err := readConfig(c.config, cmd.Flags(), &c.file); err != nil {
			return err
		}
	}
	if err := c.fromEnvironment(cmd); err != nil {
		return err
	}
	if err := c.setLog(); err != nil {
		return err
	}
	built, end, err := c.build(cmd, args)
	if err != nil {
		return err
	}
	defer end()
	c.describe(built)
	c.cfg.Grace = max(c.cfg.Grace, time.Nanosecond) // zero would mean the default
	if c.cfg.Retain <= 0 {
		return usage("--retain %v: want a time such as 720h", c.cfg.Retain)
	}
	durability, ok := durabilities[c.durability]
	if !ok {
		return usage("--durability %q: want full or normal", c.durability)
	}
	if c.cfg.CardKeys, err = readKeys("--card-key", c.cardKeys); err != nil {
		return err
	}
	if err := c.secure(); err != nil {
		return err
	}
	ref, err := parseStore(c.store, c.cfg.AgentName)
	if err != nil {
		return err
	}
	if err := c.cfg.Check(); err != nil {
		return err
	}
	if c.check {
		_, err := fmt.Fprintln(c.app.out, "parley: the configuration is right")
		return err
	}
	ctx := cmd.Context()
	store, err := ref.open(ctx, durability, c.cfg.Log)
	if err != nil {
		return err
	}
	err = c.serveOn(ctx, ref, store, built)
	if cerr := store.Close(); err == nil && cerr != nil {
		err = explainStore(cerr)
	}
	return err
}

// serveOn serves the agent with its tasks in the store, until ctx ends.
func (c *serveCommand) serveOn(ctx context.Context, ref storeRef, store taskstore.Store, a agents.Agent) error {
	o, err := observe(ctx, observeConfig{name: c.cfg.Name, version: a.Version, listen: c.metrics, log: c.cfg.Log})
	if err != nil {
		return err
	}
	defer o.close()
	c.cfg.Store = telemetry.Store(store, o.Options)
	c.cfg.Wrap = func(s a2a.Service) a2a.Service { return telemetry.Service(s, o.Options) }
	if c.auth != nil {
		c.cfg.Wrap = func(s a2a.Service) a2a.Service { return telemetry.Service(c.auth.Service(s), o.Options) }
		c.cfg.Authenticate = telemetry.Authenticate(c.auth.Authenticate, o.Options)
	}
	if c.audit != "" {
		log, file, err := audit.Open(c.audit)
		if err != nil {
			return usage("--audit-log: %s", err.Error())
		}
		defer func() { _ = file.Close() }() // each line is written when it is logged
		wrap := c.cfg.Wrap
		c.cfg.Wrap = func(s a2a.Service) a2a.Service { return log.Service(wrap(s)) }
		if c.cfg.Authenticate != nil {
			c.cfg.Authenticate = log.Authenticate(c.cfg.Authenticate)
		}
	}
	hooks, err := c.webhooks(ref, o)
	if err != nil {
		return err
	}
	c.cfg.Push = hooks
	host, err := parley.New(c.cfg, telemetry.Agent(a.Agent, o.Options))
	if err != nil {
		return err
	}
	httpL, grpcL, err := host.Listeners(ctx)
	if err != nil {
		return explainListen(err)
	}
	c.cfg.Log.Info("tasks are kept", "store", ref.url)
	if c.webhookKey != "" {
		c.cfg.Log.Info("webhooks are signed", "publicKey", c.webhookKey)
	}
	if err := c.announce(httpL, grpcL); err != nil {
		return err
	}
	return host.Serve(ctx, httpL, grpcL)
}

// webhooks makes what delivers to webhooks. Its key is kept beside the tasks.
func (c *serveCommand) webhooks(ref storeRef, o *observer) (*push.Push, error) {
	opts := push.Options{
		Store: c.cfg.Store, Agent: c.cfg.AgentName, AllowPrivate: c.private, Log: c.cfg.Log,
		Meter: o.MeterProvider.Meter("github.com/parley-a2a/parley/push"),
	}
	if path := ref.beside(".webhook-key"); path != "" {
		key, err := push.KeyFile(path)
		if err != nil {
			return nil, err
		}
		opts.Key, c.webhookKey = key, push.PublicKey(key)
	}
	return push.New(opts)
}

// build makes the agent: a built-in one, or a bridge to a program. end ends what it started.
func (c *serveCommand) build(cmd *cobra.Command, args []string) (a agents.Agent, end func(), err error) {
	switch {
	case c.bridge.used() && cmd.Flags().Changed("agent"):
		return a, nil, usage("--agent does not go with --exec or --acp")
	case c.bridge.used():
		a, c.agent, end, err = c.bridge.agent(args, c.cfg.Log)
		return a, end, err
	case len(args) > 0:
		return a, nil, noArgs(cmd, args)
	}
	if a, err = agents.ByName(c.agent, agents.Options{Pace: c.pace}); err != nil {
		return a, nil, usage("--agent: %s", err.Error())
	}
	return a, func() {}, nil
}

// fromEnvironment fills in what the command line leaves open: HOST is where to listen, PORT the HTTP port.
func (c *serveCommand) fromEnvironment(cmd *cobra.Command) error {
	for flag, name := range map[string]string{"name": "AGENT_NAME", "public-url": "PUBLIC_URL", "public-grpc-url": "PUBLIC_GRPC_URL"} {
		if v := os.Getenv(name); v != "" && !cmd.Flags().Changed(flag) {
			_ = cmd.Flags().Lookup(flag).Value.Set(v) // they are strings
		}
	}
	host, port := os.Getenv("HOST"), os.Getenv("PORT")
	if port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return usage("PORT=%q: want a number from 0 to 65535", port)
		}
	}
	replace := func(flag, addr, port string) string {
		if cmd.Flags().Changed(flag) {
			return addr
		}
		h, p, _ := net.SplitHostPort(addr)
		if host != "" {
			h = strings.Trim(host, "[]")
		}
		if port != "" {
			p = port
		}
		return net.JoinHostPort(h, p)
	}
	c.cfg.Listen = replace("listen", c.cfg.Listen, port)
	c.cfg.GRPCListen = replace("grpc-listen", c.cfg.GRPCListen, "")
	return nil
}

// describe makes the card that of the built-in agent.
func (c *serveCommand) describe(a agents.Agent) {
	if c.cfg.Name == "" {
		c.cfg.Name = a.Name
	}
	c.cfg.AgentName = c.agent
	c.cfg.Description, c.cfg.Version, c.cfg.Skills = a.Description, a.Version, a.Skills
	c.cfg.DefaultInputModes, c.cfg.DefaultOutputModes = a.InputModes, a.OutputModes
}

func (c *serveCommand) setLog() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.level)); err != nil {
		return usage("--log-level %q: the levels are debug, info, warn and error", c.level)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.log {
	case "text":
		c.cfg.Log = slog.New(slog.NewTextHandler(c.app.err, opts))
	case "json":
		c.cfg.Log = slog.New(slog.NewJSONHandler(c.app.err, opts))
	default:
		return usage("--log %q: the formats are text and json", c.log)
	}
	return nil
}

// explainListen says what to do about an address that is taken.
func explainListen(err error) error {
	var op *net.OpError
	if errors.Is(err, syscall.EADDRINUSE) && errors.As(err, &op) && op.Addr != nil {
		return fail(errInternal, "", "%s is in use: stop the program that listens there, or take another address with --listen and --grpc-listen (port 0: any free one)", op.Addr)
	}
	return err
}

// announce writes the line that says that the agent can be called, and to a person what to try.
func (c *serveCommand) announce(httpL, grpcL net.Listener) error {
	url, grpc := strings.TrimRight(c.cfg.PublicURL, "/"), c.cfg.PublicGRPCURL
	if url == "" && httpL != nil {
		url = c.scheme() + callable(httpL)
	}
	if grpc == "" && grpcL != nil {
		grpc = callable(grpcL)
	}
	line := "parley: " + visible(c.cfg.Name)
	if url != "" {
		line += " at " + url + " (JSON-RPC, REST)"
	}
	if grpc != "" {
		line += ", grpc " + grpc
	}
	if _, err := fmt.Fprintln(c.app.out, line); err != nil {
		return err
	}
	if url != "" && isTerminal(c.app.err) {
		fmt.Fprintf(c.app.err, "Try in another terminal:  parley send -a %s \"How long is this text?\"\nCtrl-C ends it.\n", quote(url)) //nolint:errcheck // a hint
	}
	return nil
}

func (c *serveCommand) scheme() string {
	if c.cfg.TLS != nil {
		return "https://"
	}
	return "http://"
}

// callable returns the address of a listener for a caller on this machine.
func callable(l net.Listener) string {
	addr, ok := l.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
	}
	return l.Addr().String()
}
