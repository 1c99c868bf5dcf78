package cli

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) configCommands() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show the settings and where they come from"}
	cmd.AddCommand(a.configShow())
	return group(cmd)
}

// configShow prints the settings of the commands that talk to an agent (specification 8.3). It changes nothing.
func (a *app) configShow() *cobra.Command {
	f := new(clientFlags)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show each setting, where it comes from, and the logins",
		Long: `Show each setting of the commands that talk to an agent, and where it comes from:
a flag, the environment, the local file (--config, or the first .env upwards from
here), the global files (~/.config/a2a-cli/agents/HOST.env, for one agent, and
~/.config/a2a-cli/.env), or what is built in; the first that has it wins. Then the
logins. Secrets are not shown.`,
		Example: `  parley config show
  parley config show -a agent.example.com -o json`,
		Args: noArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fs := cmd.Flags()
		allFlags().VisitAll(func(flag *pflag.Flag) {
			if fs.Lookup(flag.Name) == nil {
				fs.AddFlag(flag)
			}
		})
		if err := fromEnvironment(fs); err != nil {
			return err
		}
		if err := f.checkValues(); err != nil { // no command would take them: they are not in force
			return err
		}
		a.json = f.output == "json"
		logins, err := shownLogins()
		if err != nil {
			return err
		}
		o := &output{w: a.out, json: a.json}
		return o.showSettings(shownSettings(fs), logins)
	}
	return cmd
}

// shownSetting is a setting as config show prints it.
type shownSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // flag, environment, local, global or built-in
	From   string `json:"from,omitempty"`
}

// shownSettings are those that every command has, and of the others those that a source sets.
func shownSettings(fs *pflag.FlagSet) []shownSetting {
	var out []shownSetting
	fs.VisitAll(func(f *pflag.Flag) {
		kind, where := from(f)
		if slices.Contains(flagOnly, f.Name) || kind == "built-in" && (!isCommon(f) || f.Hidden) {
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if value != "" && slices.Contains(secretSettings, f.Name) {
			value = redacted
		} else if u, err := url.Parse(value); err == nil && u.User != nil { // a reference to an agent, which is refused where it is used
			value = u.Redacted()
		}
		out = append(out, shownSetting{f.Name, value, kind, where})
	})
	return out
}

// shownLogin is a login without its tokens.
type shownLogin struct {
	Origin  string    `json:"origin,omitempty"`
	Scheme  string    `json:"scheme,omitempty"`
	Issuer  string    `json:"issuer,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"`
	Renewed bool      `json:"renewed"` // by itself, when it has expired
	File    string    `json:"file"`
	Problem string    `json:"problem,omitempty"`
}

func shownLogins() ([]shownLogin, error) {
	dir, err := loginDir()
	if err != nil {
		return nil, nil //nolint:nilerr // who has no home has no logins
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	var out []shownLogin
	for _, entry := range files {
		path := filepath.Join(dir, entry.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		file, err := readLoginFile(path)
		if err != nil {
			out = append(out, shownLogin{File: path, Problem: failureOf(err).message})
			continue
		}
		for _, l := range file.Logins {
			out = append(out, shownLogin{file.Origin, l.Scheme, l.Issuer, l.Scopes, l.Expiry, l.renews(), path, ""})
		}
	}
	return out, nil
}

func (o *output) showSettings(settings []shownSetting, logins []shownLogin) error {
	if o.json {
		b, err := json.Marshal(map[string]any{"settings": settings, "logins": append([]shownLogin{}, logins...)})
		if err != nil {
			return err
		}
		return o.line(b)
	}
	return o.print(func(t *text) {
		for _, s := range settings {
			source := s.Source
			if s.From != "" && s.Source != "flag" {
				source += " " + s.From
			}
			t.field(label(s.Name), strings.TrimSpace(s.Value+" ("+source+")"))
		}
		for _, l := range logins {
			t.WriteByte('\n')
			t.login(l)
		}
	})
}

func (t *text) login(l shownLogin) {
	t.optional("Login", l.Origin)
	t.optional("Scheme", l.Scheme)
	t.optional("Issuer", l.Issuer)
	t.optional("Scopes", strings.Join(l.Scopes, " "))
	if l.Problem == "" {
		t.field("Expires", expiry(l.Expiry, l.Renewed))
	}
	t.field("File", l.File)
	t.optional("Problem", l.Problem)
}

// label returns the name of a flag as a label: Agent-Card for agent-card.
func label(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "-")
}

func expiry(t time.Time, renewed bool) string {
	out := "not known"
	if !t.IsZero() {
		out = t.UTC().Format(time.RFC3339)
	}
	if renewed {
		out += ", then renewed"
	}
	return out
}
