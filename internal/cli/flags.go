package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/auth"
)

// defaultCard is the agent that is spoken to when none is named: the one that parley serve runs.
const defaultCard = "http://127.0.0.1:41241"

// clientFlags are the flags of every command that talks to an agent.
type clientFlags struct {
	card       string
	output     string
	stream     bool
	transports []string
	timeout    time.Duration
	poll       time.Duration
	bearer     string
	apiKey     string
	params     []string
	version    string
	config     string
	caCert     string
	clientCert string
	clientKey  string
	insecure   bool
	debug      bool
	verbose    bool

	clientSecret string // of an OAuth client, at a login and where it is renewed

	fs         *pflag.FlagSet
	tls        *tls.Config // nil: as usual
	bindings   []string    // transports in the protocol's words
	header     http.Header // of the service parameters
	extensions []string    // of the service parameters
	secrets    []string    // of the command's own flags
}

// common is the annotation of the flags that a command's own help leaves to "parley help options".
const common = "parley_common"

func (f *clientFlags) register(fs *pflag.FlagSet) {
	f.fs = fs
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	own.StringVarP(&f.card, "agent-card", "a", defaultCard, "the agent: a host, the URL of its card, or a file with it (`REF`)")
	own.StringVarP(&f.output, "output", "o", "text", "`FORMAT`: text, or json, the protocol's own types")
	own.BoolVar(&f.stream, "stream", false, "print events as they happen (json: one a line)")
	own.StringSliceVar(&f.transports, "transport", nil,
		"preferred `BINDING`, JSONRPC, GRPC or HTTP+JSON; repeatable, the best first (default: the card's order)")
	own.DurationVar(&f.timeout, "timeout", 0, "give up after `TIME`, such as 30s; the task goes on (default: never)")
	own.DurationVar(&f.poll, "poll-interval", 2*time.Second, "how often to look at a task where there is no stream (`TIME`)")
	own.StringVar(&f.bearer, "bearer", "", "bearer `TOKEN`; seen in the list of processes and the shell's history: prefer $A2ACLI_BEARER")
	own.StringVar(&f.apiKey, "api-key", "", "API `KEY`; seen like --bearer: prefer $A2ACLI_API_KEY")
	own.StringArrayVar(&f.params, "svc-param", nil, "service parameter `K:V`, an HTTP header or gRPC metadata; repeatable")
	own.StringVar(&f.version, "a2a-version", a2a.Version, "protocol `VERSION`: 1.0 or 1.0.x")
	own.StringVar(&f.config, "config", "", "`FILE` of settings in place of the first .env upwards from here; see parley config show")
	own.StringVar(&f.caCert, "ca-cert", "", "`FILE` with the authorities to trust, in place of the system's")
	own.StringVar(&f.clientCert, "client-cert", "", "`FILE` with the certificate that an agent with mutual TLS asks for")
	own.StringVar(&f.clientKey, "client-key", "", "`FILE` with its key")
	own.StringVar(&f.clientSecret, "client-secret", "", "the OAuth client's `SECRET`; seen like --bearer: prefer --client-secret-file, or $A2ACLI_CLIENT_SECRET")
	own.BoolVar(&f.insecure, "insecure", false, "do not verify TLS certificates, for development (default: verify)")
	own.BoolVar(&f.debug, "debug", false, "log each request on stderr: transport, status, time")
	own.BoolVar(&f.verbose, "verbose", false, "text with every part, id and metadata (default: concise)")
	_ = own.MarkHidden("client-secret") // parley auth login shows it; the others need it only from the environment
	own.VisitAll(func(flag *pflag.Flag) { flag.Annotations = map[string][]string{common: nil} })
	fs.SortFlags = false
	fs.AddFlagSet(own)
}

// check reads what the flags say, once they are all set.
func (f *clientFlags) check() error {
	if err := f.checkValues(); err != nil {
		return err
	}
	if err := f.checkTLS(); err != nil {
		return err
	}
	return f.checkParams()
}

// said returns the flag, after the variable, or the file and the line, where its value comes from one.
func (f *clientFlags) said(name string) string {
	if kind, where := from(f.fs.Lookup(name)); kind != "flag" && where != "" {
		return where + ": --" + name
	}
	return "--" + name
}

// checkValues checks what can be told from a value alone.
func (f *clientFlags) checkValues() error {
	if f.output != "text" && f.output != "json" {
		return usage("%s %q: the formats are text and json", f.said("output"), f.output)
	}
	if f.timeout < 0 {
		return usage("%s %v: a time cannot be negative", f.said("timeout"), f.timeout)
	}
	if f.poll <= 0 {
		return usage("%s %v: must be longer than nothing", f.said("poll-interval"), f.poll)
	}
	if f.card == "" {
		return usage("--agent-card is empty: name a host, the URL of a card, or a file")
	}
	if err := a2a.CheckVersion(f.version); err != nil {
		out := fail(a2a.ErrVersionNotSupported.Name(), "", "%s %q: parley speaks %s", f.said("a2a-version"), f.version, a2a.Version)
		out.a2aCode = a2a.ErrVersionNotSupported
		return out
	}
	for _, t := range f.transports {
		b, ok := bindingOf[strings.ToUpper(t)]
		if !ok {
			return usage("%s %q: the bindings are JSONRPC, GRPC and HTTP+JSON", f.said("transport"), t)
		}
		f.bindings = append(f.bindings, b)
	}
	return nil
}

// checkTLS reads the certificates.
func (f *clientFlags) checkTLS() (err error) {
	if (f.clientCert == "") != (f.clientKey == "") {
		return usage("--client-cert and --client-key belong together")
	}
	if f.caCert == "" && f.clientCert == "" && !f.insecure {
		return nil
	}
	f.tls, err = auth.ClientTLS(auth.ClientTLSOptions{CAFile: f.caCert, CertFile: f.clientCert, KeyFile: f.clientKey, TLS12: true})
	if err != nil {
		return usage("--ca-cert, --client-cert, --client-key: %s", strings.TrimPrefix(err.Error(), "auth: "))
	}
	f.tls.InsecureSkipVerify = f.insecure // there is a warning
	return nil
}

// secretOf returns the secret of an OAuth client: that of a file, which only its owner may read, or else the flag's.
func (f *clientFlags) secretOf(file string) (auth.Secret, error) {
	if file == "" || f.fs.Changed("client-secret") {
		return auth.NewSecret(f.clientSecret), nil
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return auth.Secret{}, usage("--client-secret-file: %s", err.Error())
	case othersRead(info):
		out := usage("--client-secret-file %s: others can read it (mode %04o)", file, info.Mode().Perm())
		out.hint = "chmod 600 " + quote(file)
		return auth.Secret{}, out
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return auth.Secret{}, usage("--client-secret-file: %s", err.Error())
	}
	return auth.NewSecret(strings.TrimSpace(string(b))), nil
}

var bindingOf = map[string]string{
	a2a.BindingJSONRPC: a2a.BindingJSONRPC, "JSON-RPC": a2a.BindingJSONRPC,
	a2a.BindingGRPC: a2a.BindingGRPC,
	a2a.BindingREST: a2a.BindingREST, "REST": a2a.BindingREST,
}

// connectionHeaders belong to the connection and are no service parameters.
var connectionHeaders = []string{"Connection", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func (f *clientFlags) checkParams() error {
	f.header = http.Header{}
	for _, p := range f.params {
		name, value, ok := strings.Cut(p, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return usage("--svc-param: want NAME:VALUE on one line, where NAME can be that of a header")
		case name == http.CanonicalHeaderKey(a2a.VersionHeader):
			return usage("--svc-param %s: say it with --a2a-version", name)
		case slices.Contains(connectionHeaders, name) || strings.HasPrefix(name, "Grpc-"):
			return usage("--svc-param %s: this name belongs to the connection", name)
		case name == http.CanonicalHeaderKey(a2a.ExtensionsHeader):
			f.extensions = append(f.extensions, a2a.ParseExtensions([]string{value})...)
		default:
			f.header.Add(name, value)
		}
	}
	return nil
}

// envName returns the environment variable of a flag (specification 7.2).
func envName(flag string) string {
	return "A2ACLI_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flagOnly are the flags that no environment variable sets: those that the specification excludes (7.2), and
// what one message or one webhook consists of.
var flagOnly = []string{"stream", "help", "version", "text", "file", "data", "media-type", "message-id", "url", "id", "approve", "deny"}

// optionsTopic is the help page of the flags that every client command has.
func optionsTopic() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "options",
		Short: "Flags of every command that talks to an agent",
		Long: `Flags of every command that talks to an agent. All but --stream can come from the
environment, A2ACLI_ and the name, such as A2ACLI_AGENT_CARD, or from a file of
such lines: see parley config show.`,
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(clientFlags).register(flags)
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = io.WriteString(cmd.OutOrStdout(), cmd.Long+"\n\n"+flagHelp(flags))
	})
	return cmd
}

// writeHelp writes what a command is for and how it is called, on one screen.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	var b strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	fmt.Fprintf(&b, "%s\n\nUsage: %s\n", strings.TrimSpace(about), useLine(cmd))
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	own, talks := pflag.NewFlagSet("", pflag.ContinueOnError), false
	own.SortFlags = false
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[common]; ok {
			talks = true
		} else if f.Name != "help" && f.Name != "version" && !leavesOut(cmd, f) { // every program has these
			own.AddFlag(f)
		}
	})
	if own.HasAvailableFlags() {
		b.WriteString("\nFlags:\n" + flagHelp(own))
	}
	if talks {
		b.WriteString("\n-a REF (default " + defaultCard + "), -o json, --stream, --timeout ...:\nsee parley help options\n")
	}
	_, _ = io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
}

func useLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	return cmd.UseLine()
}

// width is that of a screen.
const width = 80

// flagHelp returns a line or two for each flag, with its default unless that is none.
func flagHelp(fs *pflag.FlagSet) string {
	var names, about []string
	column := 0
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		text = strings.TrimSuffix(text, " ("+value+")") // a usage names its value so where no word of it does
		name := "  --" + f.Name
		if f.Shorthand != "" {
			name = "  -" + f.Shorthand + ", --" + f.Name
		}
		if value != "" {
			name += " " + value
		}
		if !slices.Contains([]string{"", "false", "0", "-1", "0s", "[]"}, f.DefValue) {
			text += " (default " + f.DefValue + ")"
		}
		names, about = append(names, name), append(about, text)
		column = max(column, len(name)+2)
	})
	var b strings.Builder
	for i, name := range names {
		line := fmt.Sprintf("%-*s", column, name)
		for word := range strings.FieldsSeq(about[i]) {
			if len(line)+len(word) > width-1 && len(line) > column {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
				line = strings.Repeat(" ", column)
			}
			line += word + " "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
