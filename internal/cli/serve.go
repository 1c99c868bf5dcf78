package cli

import (
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
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
	"github.com/parley-a2a/parley/internal/agents"
	"github.com/parley-a2a/parley/internal/natshints"
)

// serveCommand runs agents: the one that the flags describe, or those of parley.yaml.
type serveCommand struct {
	app        *app
	cfg        parley.Config // of the host
	one        agentConfig   // what the flags say
	exec       bool          // the program is after --
	cardKeys   []string
	agents     []agentConfig // that are served
	file       configFile
	config     string            // its name
	flags      *pflag.FlagSet    // those of the command
	variables  map[string]string // by flag, the variables of the environment that set it
	said       map[string]string // the values of the flags that are fixed
	check      bool
	store      string
	hints      string
	durability string
	retain     time.Duration
	private    bool
	audit      string
	apiKeys    []string
	methods    []auth.Method
	auth       *auth.Authenticator // nil: nobody asks who calls
	allowHook  func(caller a2a.Caller, origin string) bool
	certFile   string
	keyFile    string
	clientCA   string
	metrics    string
	console    consoleFlags
	log        string
	level      string
}

func (a *app) serve() *cobra.Command { return (&serveCommand{app: a}).command() }

func (c *serveCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run an agent, by default Revisor, which counts texts",
		Example: "  parley serve --agent echo --listen 127.0.0.1:0 --grpc-listen none",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.app.json = false
			return c.place(c.run(cmd, args))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	c.flags, c.variables = fs, map[string]string{}
	one := &c.one
	fs.StringVar(&one.Agent, "agent", "revisor", strings.Join(agents.Names(), ", ")+" (`AGENT`)")
	fs.BoolVar(&c.exec, "exec", false, "serve the program after --, which reads text and writes text")
	fs.BoolVar(&one.Events, "exec-events", false, "with --exec: the program writes events, one JSON object a line")
	fs.BoolVar(&one.Stream, "exec-stream", false, "with --exec: hand its output on as it comes")
	fs.StringVar(&one.ACP, "acp", "", "serve an ACP agent: claude, codex, gemini, opencode, or command, which is after -- (`AGENT`)")
	fs.StringVar(&one.Dir, "dir", "", "where the program runs (default: here) (`DIR`)")
	fs.StringArrayVar(&one.Env, "env", nil, "variable that the program may see, or NAME=VALUE; repeatable (`NAME`)")
	fs.StringVar(&one.Permissions, "permissions", "ask", "what becomes of an ACP agent's requests for permission: ask, allow or reject (`WORD`)")
	fs.StringVar(&one.Mode, "mode", "", "an ACP agent's mode; one that asks for no permission is allowed by this (`MODE`)")
	fs.StringVar(&one.Proxy.Card, "proxy", "", "serve an agent that is elsewhere (`CARD`)")
	fs.StringVar(&one.Proxy.Credential.File, "proxy-token", "", "with --proxy: this host's bearer token for it (`FILE`)")
	fs.StringArrayVar(&one.Proxy.Credential.Origins, "proxy-origin", nil, "with --proxy-token: where the token goes (default: the card's host); repeatable (`URL`)")
	fs.StringVar(&one.Proxy.Keys, "proxy-keys", "", "with --proxy: its card has to be signed with one of this JWK Set (`FILE`)")
	fs.StringVar(&one.Card.Name, "name", "", "on the card [AGENT_NAME] (`NAME`)")
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
	fs.StringVar(&c.store, "store", "", "sqlite:PATH, memory: or postgres://…, by default a file for each agent (`URL`)")
	fs.StringVar(&c.hints, "hints", "", "tell other hosts on the database by NATS, nats://… (`URL`)")
	fs.StringVar(&c.durability, "durability", "full", "full, or normal: a power failure may cost the last tasks (`WORD`)")
	fs.DurationVar(&c.retain, "retain", keptAge, "how long finished tasks are kept (`TIME`)")
	fs.BoolVar(&c.private, "allow-private-webhooks", false, "deliver to http and private addresses: development only")
	fs.StringArrayVar(&c.cardKeys, "card-key", nil, "sign the card with this key; repeatable (`FILE`)")
	fs.StringVar(&c.metrics, "metrics-listen", "", "Prometheus' /metrics; without a host on this machine only (`ADDR`)")
	fs.DurationVar(&c.cfg.Drain, "drain", 0, "how long /readyz says no before a stop begins, for load balancers (`TIME`)")
	fs.DurationVar(&c.cfg.Grace, "grace", 10*time.Second, "for tasks to finish at a stop (`TIME`)")
	fs.BoolVar(&c.cfg.NoStreaming, "no-streaming", false, "offer no streams")
	fs.DurationVar(&one.Pace, "pace", 0, "Revisor's pause at each tenth of a text (`TIME`)")
	fs.StringVar(&c.config, "config", "", "flags, agents, security and limits in YAML, see docs/configuration.md (`FILE`)")
	fs.BoolVar(&c.check, "check", false, "say whether the configuration is right, and serve nothing")
	c.console.register(fs)
	fs.StringVar(&c.log, "log", "text", "of the log on stderr: text or json (`FORMAT`)")
	fs.StringVar(&c.level, "log-level", "info", "debug, info, warn or error (`LEVEL`)")
	return often(cmd, "agent", "exec", "acp", "proxy", "name", "listen", "grpc-listen", "public-url", "anonymous", "api-key", "tls-cert",
		"tls-key", "store", "card-key", "allow-private-webhooks", "console", "config", "check")
}

func (c *serveCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.read(cmd, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	s, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	if c.check {
		_, err := fmt.Fprintln(c.app.out, "parley: the configuration is right")
		return errors.Join(err, s.end())
	}
	err = s.serve(ctx, func() (*serveCommand, error) { return c.again(cmd, args) })
	if cerr := s.end(); err == nil {
		err = cerr
	}
	return err
}

// read reads what the flags, the environment and the file say, and checks it as far as it can be without doing anything.
func (c *serveCommand) read(cmd *cobra.Command, args []string) error {
	if c.config != "" {
		if err := readConfig(c.config, cmd.Flags(), &c.file); err != nil {
			return err
		}
	}
	if err := c.fromEnvironment(cmd); err != nil {
		return err
	}
	if err := checkFlags(c.flags); err != nil {
		return err
	}
	if err := c.setLog(); err != nil {
		return err
	}
	if err := c.choose(cmd, args); err != nil {
		return err
	}
	c.said = map[string]string{}
	for _, name := range fixed {
		c.said[name] = cmd.Flags().Lookup(name).Value.String()
	}
	c.cfg.Grace = max(c.cfg.Grace, time.Nanosecond) // zero would mean the default
	if c.retain <= 0 {
		return wrong("retain", "%v: want a time such as 720h", c.retain)
	}
	if _, ok := durabilities[c.durability]; !ok {
		return wrong("durability", "%q: want full or normal", c.durability)
	}
	if err := natshints.Check(c.hints); c.hints != "" && err != nil {
		return wrong("hints", "%s", err.Error())
	}
	if err := c.secure(); err != nil {
		return err
	}
	return c.checkAddresses()
}

// checkAddresses returns what is wrong with what is listened at and called.
func (c *serveCommand) checkAddresses() error {
	if c.cfg.Listen == parley.NoListen && c.cfg.GRPCListen == parley.NoListen {
		return wrong("listen", "with grpc-listen, too, it says none, and there is nothing to serve")
	}
	for _, x := range []struct{ flag, listen, grpcListen, publicURL, publicGRPCURL string }{ // one by one, to say which
		{"listen", c.cfg.Listen, parley.NoListen, "", ""},
		{"grpc-listen", parley.NoListen, c.cfg.GRPCListen, "", ""},
		{"public-url", parley.NoListen, parley.NoListen, c.cfg.PublicURL, ""},
		{"public-grpc-url", parley.NoListen, parley.NoListen, "", c.cfg.PublicGRPCURL},
	} {
		cfg := c.cfg
		cfg.Listen, cfg.GRPCListen, cfg.PublicURL, cfg.PublicGRPCURL = x.listen, x.grpcListen, x.publicURL, x.publicGRPCURL
		if x.listen == parley.NoListen && x.grpcListen == parley.NoListen && x.publicURL == "" && x.publicGRPCURL == "" {
			continue
		}
		if err := cfg.Check(); err != nil {
			return refused(x.flag, err)
		}
	}
	if c.metrics != "" {
		if _, err := localAddress("metrics-listen", c.metrics); err != nil {
			return about("metrics-listen", err)
		}
	}
	if err := c.console.check(c.auth != nil, c.cfg.TLS != nil || c.cfg.BehindTLS); err != nil {
		return about("console", err)
	}
	return nil
}

// again reads everything anew, as the process that runs would have it if it were started now.
func (c *serveCommand) again(cmd *cobra.Command, args []string) (*serveCommand, error) {
	next := &serveCommand{app: c.app}
	other := next.command()
	if err := copyFlags(other.Flags(), cmd.Flags()); err != nil {
		return nil, err
	}
	return next, next.place(next.read(other, args))
}

// describes are the flags that describe the agent where there is only one.
var describes = []string{
	"agent", "exec", "exec-events", "exec-stream", "acp", "dir", "env", "permissions", "mode", "proxy", "proxy-token", "proxy-origin", "proxy-keys", "name", "pace",
}

// choose says which agents are served: those of the file, or the one of the flags.
func (c *serveCommand) choose(cmd *cobra.Command, args []string) error {
	changed := cmd.Flags().Changed
	one := &c.one
	if c.file.Agents != nil {
		for _, name := range describes {
			if changed(name) || c.file.keys[name] {
				return wrong(name, "this describes an agent, and the agents are in a list in %s: say it there", c.config)
			}
		}
		if len(args) > 0 {
			return noArgs(cmd, args)
		}
		c.agents = c.file.Agents
		return nil
	}
	bridges := 0
	for _, said := range []bool{c.exec, one.ACP != "", one.Proxy.Card != ""} {
		if said {
			bridges++
		}
	}
	switch {
	case bridges > 1:
		return usage("--exec, --acp and --proxy contradict each other")
	case bridges > 0 && changed("agent"):
		return usage("--agent does not go with --exec, --acp or --proxy")
	case c.exec && len(args) == 0:
		return wrong("exec", "which program? Give it and its arguments after --")
	case one.ACP == custom && len(args) == 0:
		return wrong("acp", "which command? Give it and its arguments after --")
	case one.ACP != "" && one.ACP != custom && len(args) > 0:
		return wrong("acp", "%s has its own command: for another, say --acp command -- COMMAND", one.ACP)
	case !c.exec && one.ACP == "" && len(args) > 0:
		return noArgs(cmd, args)
	}
	name := one.Card.Name
	one.Card = c.file.Card
	if name != "" {
		one.Card.Name = name
	}
	one.Limits = c.file.Limits
	if bridges > 0 {
		one.Agent = ""
	}
	if c.exec {
		one.Exec = args
	} else {
		one.Command = args
	}
	if len(args) == 0 {
		one.Command = nil
	}
	c.agents = []agentConfig{*one}
	return nil
}

// fromEnvironment fills in what the command line leaves open: HOST is where to listen, PORT the HTTP port.
func (c *serveCommand) fromEnvironment(cmd *cobra.Command) error {
	for flag, name := range map[string]string{"name": "AGENT_NAME", "public-url": "PUBLIC_URL", "public-grpc-url": "PUBLIC_GRPC_URL"} {
		if v := os.Getenv(name); v != "" && !cmd.Flags().Changed(flag) {
			_ = cmd.Flags().Lookup(flag).Value.Set(v) // they are strings
			c.variables[flag] = name
		}
	}
	host, port := os.Getenv("HOST"), os.Getenv("PORT")
	if port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return usage("PORT=%q: want a number from 0 to 65535", port)
		}
	}
	replace := func(flag, addr, port string) string {
		h, p, err := net.SplitHostPort(addr)
		if cmd.Flags().Changed(flag) || err != nil { // none, or what cannot be listened at
			return addr
		}
		var names []string
		if host != "" {
			h, names = strings.Trim(host, "[]"), append(names, "HOST")
		}
		if port != "" {
			p, names = port, append(names, "PORT")
		}
		c.variables[flag] = strings.Join(names, " and ")
		return net.JoinHostPort(h, p)
	}
	c.cfg.Listen = replace("listen", c.cfg.Listen, port)
	c.cfg.GRPCListen = replace("grpc-listen", c.cfg.GRPCListen, "")
	return nil
}

func (c *serveCommand) setLog() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.level)); err != nil {
		return wrong("log-level", "%q: the levels are debug, info, warn and error", c.level)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.log {
	case "text":
		c.cfg.Log = slog.New(slog.NewTextHandler(c.app.err, opts))
	case "json":
		c.cfg.Log = slog.New(slog.NewJSONHandler(c.app.err, opts))
	default:
		return wrong("log", "%q: the formats are text and json", c.log)
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
func (c *serveCommand) announce(name string, httpL, grpcL net.Listener) error {
	url, grpc := strings.TrimRight(c.cfg.PublicURL, "/"), c.cfg.PublicGRPCURL
	if url == "" && httpL != nil {
		url = c.scheme() + callable(httpL)
	}
	if grpc == "" && grpcL != nil {
		grpc = callable(grpcL)
	}
	line := "parley: " + visible(name)
	if url != "" {
		line += " at " + url + " (JSON-RPC, REST)"
	}
	if grpc != "" {
		line += ", grpc " + grpc
	}
	if _, err := fmt.Fprintln(c.app.out, line); err != nil {
		return err
	}
	if c.file.Agents != nil {
		for _, a := range c.agents {
			if _, err := fmt.Fprintln(c.app.out, "  "+a.Name+" at "+url+"/agents/"+a.Name+a2a.CardPath); err != nil {
				return err
			}
		}
		return nil
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
