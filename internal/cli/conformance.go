package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/conformance"
	"github.com/parley-a2a/parley/rules"
)

// conformanceRun holds an agent to the A2A specification.
type conformanceRun struct {
	keyFlags
	only       []string
	level      string
	list       bool
	say        []string
	other      string
	otherKey   string
	reports    []string
	patience   time.Duration
	settle     time.Duration
	maxTasks   int
	hookListen string
	hookURL    string
	opts       conformance.Options
	writeTo    map[string]string // files of reports, by format
}

func (a *app) conformance() *cobra.Command {
	c := &conformanceRun{}
	cmd := a.client(&cobra.Command{
		Use:   "conformance [URL]",
		Short: "Hold any agent to the A2A specification",
		Long: `Hold any agent to the A2A specification, from outside, on every interface of its
card. It sends short messages, which make up to --max-tasks tasks on each
interface, cancels those that do not end and deletes its webhooks. What the agent
does not show is "not measured". Exit code 1: a rule is broken.`,
		Example: `  parley conformance https://agent.example.com --level must --report junit=report.xml
  parley conformance --only 'stream-*' --verbose
  parley conformance --say input="Book a flight" --report html=report.html`,
	}, c)
	c.register(cmd.Flags())
	return often(cmd, "only", "level", "list", "say", "other-bearer", "other-api-key", "report", "max-tasks", "webhook-listen", "webhook-url")
}

func (c *conformanceRun) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.only, "only", nil, "judge this `RULE`, or all that begin so with a * at the end; repeatable")
	fs.StringVar(&c.level, "level", "should", "`LEVEL` that is judged: must, or should, which is both")
	fs.BoolVar(&c.list, "list", false, "print the rules, and do nothing")
	fs.StringArrayVar(&c.say, "say", nil, "what makes this agent do something: KIND=TEXT, the kinds being "+kinds()+" (`SAY`); repeatable")
	fs.StringVar(&c.other, "other-bearer", "", "bearer `TOKEN` of a second caller, to see that tasks are kept apart; prefer $A2ACLI_OTHER_BEARER")
	fs.StringVar(&c.otherKey, "other-api-key", "", "API `KEY` of a second caller; prefer $A2ACLI_OTHER_API_KEY")
	fs.StringArrayVar(&c.reports, "report", nil, "write a report to a file: json=, junit=, html= or text= and its name (`FORMAT=FILE`); repeatable")
	fs.DurationVar(&c.patience, "patience", 30*time.Second, "how long one call may take (`TIME`)")
	fs.DurationVar(&c.settle, "settle", 2*time.Second, "how long what should happen at once may take (`TIME`)")
	fs.IntVar(&c.maxTasks, "max-tasks", 40, "make at most `N` tasks on each interface")
	fs.StringVar(&c.hookListen, "webhook-listen", "", "take notifications at this `ADDRESS` (default: a free port of 127.0.0.1, if the agent is on this machine)")
	fs.StringVar(&c.hookURL, "webhook-url", "", "where the agent finds --webhook-listen (`URL`)")
	c.keyFlags.register(fs)
}

func kinds() string {
	var names []string
	for _, k := range conformance.Kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func (c *conformanceRun) check(cmd *cobra.Command, f *clientFlags, args []string) error {
	if len(args) > 1 {
		return usage("%s takes one agent, got %q too", cmd.CommandPath(), args[1])
	}
	if len(args) == 1 {
		f.card = args[0]
	}
	c.opts = conformance.Options{
		Bindings: f.bindings, Only: c.only, Patience: c.patience, Settle: c.settle, MaxTasks: c.maxTasks, Say: map[string]string{},
	}
	switch c.level {
	case "must":
		c.opts.Level = rules.Must
	case "should":
		c.opts.Level = rules.Should
	default:
		return usage("--level %q: the levels are must and should", c.level)
	}
	if c.patience <= 0 || c.settle <= 0 || c.maxTasks <= 0 {
		return usage("--patience, --settle and --max-tasks must be more than nothing")
	}
	if c.hookURL != "" && c.hookListen == "" {
		return usage("--webhook-url: name the address to listen at too, with --webhook-listen")
	}
	if _, err := c.opts.Select(); err != nil {
		f := usage("--only: %s", strings.TrimPrefix(err.Error(), "conformance: "))
		f.hint = "parley conformance --list prints the rules"
		return f
	}
	if err := c.checkSay(); err != nil {
		return err
	}
	if !httpguts.ValidHeaderFieldValue(c.other) {
		return usage("--other-bearer: a token is one line of text")
	}
	f.secrets = append(f.secrets, c.other, c.otherKey)
	if err := c.checkReports(); err != nil {
		return err
	}
	return c.keyFlags.check()
}

func (c *conformanceRun) checkSay() error {
	for _, s := range c.say {
		name, text, ok := strings.Cut(s, "=")
		if !ok || text == "" || !slices.ContainsFunc(conformance.Kinds, func(k conformance.Kind) bool { return k.Name == name }) {
			return usage("--say %q: want KIND=TEXT, where KIND is one of %s", s, kinds())
		}
		c.opts.Say[name] = text
	}
	return nil
}

func (c *conformanceRun) checkReports() error {
	c.writeTo = map[string]string{}
	for _, r := range c.reports {
		format, file, ok := strings.Cut(r, "=")
		if !ok || file == "" || !slices.Contains([]string{"text", "json", "junit", "html"}, format) {
			return usage("--report %q: want FORMAT=FILE, where FORMAT is text, json, junit or html", r)
		}
		if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
			return usage("--report %q: there is no folder %s", r, filepath.Dir(file))
		}
		c.writeTo[format] = file
	}
	return nil
}

func (c *conformanceRun) run(ctx context.Context, s *session) error {
	if c.list {
		return c.printRules(s)
	}
	if err := c.prepare(ctx, s); err != nil {
		return err
	}
	if c.hookListen != "" {
		r, err := conformance.Receive(ctx, c.hookListen, c.hookURL)
		if err != nil {
			return fail(errInternal, "take another address with --webhook-listen", "%s", err.Error())
		}
		defer func() { _ = r.Close() }() // the run is over
		c.opts.Webhook = r
	}
	if s.person {
		c.opts.Progress = s.note
	}
	report, err := conformance.Run(ctx, s.flags.card, c.opts)
	if err != nil {
		return err
	}
	for format, file := range c.writeTo {
		if err := writeReport(report, format, file, s.verbose); err != nil {
			return fail(errInternal, "", "--report: %s", err.Error())
		}
	}
	write := func(w io.Writer) error { return report.Text(w, s.verbose) }
	if s.json {
		write = report.JSON
	}
	if err := write(s.w); err != nil {
		return err
	}
	if n := report.Count(conformance.Fail); n > 0 {
		f := fail(errInternal, "", "the agent breaks rules of the specification: %s", report.Summary())
		f.hint = "--verbose shows what was sent and what came back"
		f.told = true
		return f
	}
	return nil
}

// prepare attaches the credentials as the card says, to the interfaces that belong to the card.
func (c *conformanceRun) prepare(ctx context.Context, s *session) error {
	c.opts.HTTP, c.opts.GRPC = &http.Client{Transport: s.net}, s.net.grpcOptions()
	var err error
	if c.opts.Keys, err = c.enrollment(); err != nil {
		return err
	}
	c.opts.Header = s.flags.header.Clone()
	var card *client.Card
	first := s.flags.hasCredential() || len(s.flags.header) > 0
	if first {
		if _, err := s.connect(ctx); err != nil {
			return err
		}
		card, c.opts.Header = s.Card(), s.header
	} else if card, err = client.FetchCard(ctx, s.flags.card, s.options()); err != nil {
		return nil //nolint:nilerr // the run says what is the matter with the card
	} else if len(c.only) == 0 && s.flags.clientCert == "" && requiresCredential(card) {
		return fail(errCredentialsMissing, "give it as to any command, such as by $A2ACLI_BEARER; --only 'auth-*' judges what shows without",
			"the agent's card requires a credential, without which most rules cannot be judged")
	}
	if err := c.second(s, card); err != nil {
		return err
	}
	if first || c.opts.Other != nil {
		c.opts.Trusts = func(i *a2a.AgentInterface) bool { return belongs(card.URL, i) }
	}
	return nil
}

// second attaches the credential of the second caller, if there is one.
func (c *conformanceRun) second(s *session, card *client.Card) error {
	if c.other == "" && c.otherKey == "" {
		return nil
	}
	if err := s.flags.found(); err != nil {
		return err
	}
	c.opts.Other = http.Header{}
	if c.other != "" {
		c.opts.Other.Set("Authorization", "Bearer "+c.other)
	}
	if c.otherKey == "" {
		return nil
	}
	query, err := placeKey("--other-api-key", c.otherKey, card.AgentCard, c.opts.Other)
	if err == nil && query != nil {
		err = usage("--other-api-key: the card wants the key in the query, where a run has only one")
	}
	return err
}

// requiresCredential reports whether each of the card's alternatives wants one.
func requiresCredential(card *client.Card) bool {
	rs := card.SecurityRequirements
	return len(rs) > 0 && !slices.ContainsFunc(rs, func(r *a2a.SecurityRequirement) bool { return len(r.Schemes) == 0 })
}

func writeReport(r *conformance.Report, format, file string, verbose bool) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	switch format {
	case "json":
		err = r.JSON(f)
	case "junit":
		err = r.JUnit(f)
	case "html":
		err = r.HTML(f)
	default:
		err = r.Text(f, verbose)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// listedRule is a clause as JSON, under the names that it has in a report.
type listedRule struct {
	Rule    string      `json:"rule"`
	Section string      `json:"section"`
	Level   rules.Level `json:"level"`
	Says    string      `json:"says"`
}

// printRules prints the clauses that --only and --level let through.
func (c *conformanceRun) printRules(s *session) error {
	list, err := c.opts.Select()
	if err != nil {
		return err
	}
	if s.json {
		var out struct {
			Rules []listedRule `json:"rules"`
		}
		for _, r := range list {
			out.Rules = append(out.Rules, listedRule{r.ID, r.Section, r.Level, r.Says})
		}
		b, err := json.Marshal(out)
		if err != nil {
			return err
		}
		return s.line(b)
	}
	w := tabwriter.NewWriter(s.w, 0, 0, 2, ' ', 0)
	for _, r := range list {
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, r.Level, r.Section, r.Says); err != nil {
			return err
		}
	}
	return w.Flush()
}
