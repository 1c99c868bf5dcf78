package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setting is a value that a source has for a flag.
type setting struct {
	value string
	from  string // where exactly: the variable, or the file and the line
}

// source is where settings come from (specification 8.3), by the names of their variables.
type source struct {
	kind   string // environment, local or global
	path   string // of a file
	values map[string]setting
}

// settingFiles are the names of the files: of the local one, and of those in the folder of the user's configuration.
const (
	localFile  = ".env"
	globalFile = "a2a-cli/.env"
	agentFiles = "a2a-cli/agents" // HOST.env or HOST_PORT.env, for one agent
)

// sourceOf is the annotation of a flag that was set from a source: the kind, and where exactly.
const sourceOf = "parley_source"

// secretSettings have values that only their owner may read, and that are never shown.
var secretSettings = []string{
	"bearer", "api-key", "svc-param", "client-secret", "token", "authorization", "push-token", "push-authorization", "other-bearer", "other-api-key",
}

// fromEnvironment sets the flags that the command line does not from the environment and, where the command has --config,
// from the files (specification 7.2 and 8.3). They do not count as changed, so that explicit flags can be told apart.
func fromEnvironment(fs *pflag.FlagSet) error {
	env := environment(fs)
	config := fs.Lookup("config")
	if !isCommon(config) {
		return set(fs, env)
	}
	if err := setOne(config, env); err != nil {
		return err
	}
	local, err := localSource(config.Value.String())
	if err != nil {
		return err
	}
	global, err := globalSource(globalFile)
	if err != nil {
		return err
	}
	card := fs.Lookup("agent-card")
	for _, s := range []*source{env, local, global} {
		if err := setOne(card, s); err != nil {
			return err
		}
	}
	agent, err := agentSource(card.Value.String())
	if err != nil {
		return err
	}
	return set(fs, env, local, agent, global)
}

// isCommon reports whether a flag is one of those that every command has which talks to an agent.
func isCommon(flag *pflag.Flag) bool {
	if flag == nil {
		return false
	}
	_, ok := flag.Annotations[common]
	return ok
}

// set sets each flag that is not set from the first source that has a value for it.
func set(fs *pflag.FlagSet, sources ...*source) (err error) {
	fs.VisitAll(func(flag *pflag.Flag) {
		for _, s := range sources {
			if err == nil {
				err = setOne(flag, s)
			}
		}
	})
	return err
}

func setOne(flag *pflag.Flag, s *source) error {
	if s == nil || flag.Changed || flag.Annotations[sourceOf] != nil || slices.Contains(flagOnly, flag.Name) {
		return nil
	}
	v, ok := s.values[envName(flag.Name)]
	if !ok || v.value == "" {
		return nil
	}
	if err := flag.Value.Set(v.value); err != nil {
		if slices.Contains(secretSettings, flag.Name) {
			return usage("%s: this is no value for --%s", v.from, flag.Name)
		}
		f := usage("%s=%q: %s", v.from, v.value, err.Error())
		if isCommon(flag) {
			f.hint = "parley help options says what --" + flag.Name + " takes"
		}
		return f
	}
	if flag.Annotations == nil {
		flag.Annotations = map[string][]string{}
	}
	flag.Annotations[sourceOf] = []string{s.kind, v.from}
	return nil
}

// from returns where the value of a flag comes from: the kind of source, and where exactly.
func from(flag *pflag.Flag) (kind, where string) {
	switch a := flag.Annotations[sourceOf]; {
	case flag.Changed:
		return "flag", "--" + flag.Name
	case a != nil:
		return a[0], a[1]
	}
	return "built-in", ""
}

func environment(fs *pflag.FlagSet) *source {
	s := &source{kind: "environment", values: map[string]setting{}}
	fs.VisitAll(func(flag *pflag.Flag) {
		name := envName(flag.Name)
		s.values[name] = setting{os.Getenv(name), name}
	})
	return s
}

// localSource is the file of --config, or else the first .env from the working directory upwards.
func localSource(named string) (*source, error) {
	if named != "" {
		info, err := os.Stat(named)
		if err != nil {
			return nil, usage("--config: %s", err.Error())
		}
		if info.IsDir() {
			return nil, usage("--config %s: it is a directory, want a file with lines such as A2ACLI_TIMEOUT=30s", named)
		}
		return readSettings("local", named, info, false)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil //nolint:nilerr // a folder that is gone has no file
	}
	home, _ := globalPath(globalFile)
	for {
		path := filepath.Join(dir, localFile)
		info, err := os.Stat(path)
		switch {
		case err == nil && info.Mode().IsRegular() && path != home:
			s, err := readSettings("local", path, info, true)
			if err == nil && len(s.values) > 0 && ownedByOther(info) {
				return nil, usage("%s belongs to another user, and what it sets is not used: name it with --config if you trust it", path)
			}
			return s, err
		case filepath.Dir(dir) == dir:
			return nil, nil
		}
		dir = filepath.Dir(dir)
	}
}

func globalPath(name string) (string, error) {
	dir, err := configHome()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(name)), nil
}

// globalSource is a file in the folder of the user's configuration, nil if there is none.
func globalSource(name string) (*source, error) {
	path, err := globalPath(name)
	if err != nil {
		return nil, nil //nolint:nilerr // who has no home has no file there
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr // as above
	}
	return readSettings("global", path, info, false)
}

// agentSource is the global file for the agent that ref names, nil if there is none.
func agentSource(ref string) (*source, error) {
	name := hostOf(ref)
	if name == "" {
		return nil, nil
	}
	s, err := globalSource(agentFiles + "/" + name + ".env")
	if s == nil || err != nil {
		return nil, err
	}
	if v, ok := s.values[envName("agent-card")]; ok {
		return nil, usage("%s: this file is for the agent at %s, and cannot name another one", v.from, name)
	}
	return s, nil
}

// hostOf returns the host and port of a reference to a card as they are in the name of a file, "" for a file.
func hostOf(ref string) string {
	if !strings.Contains(ref, "://") {
		if _, err := os.Stat(ref); err == nil || strings.HasPrefix(ref, ".") || filepath.IsAbs(ref) {
			return ""
		}
		ref = "https://" + ref
	}
	u, err := url.Parse(ref)
	if err != nil || u.Scheme == "file" || net.ParseIP(u.Hostname()) == nil && strings.ContainsAny(u.Hostname(), `/\:`) {
		return ""
	}
	name := strings.ReplaceAll(strings.ToLower(u.Hostname()), ":", "_")
	if u.Port() != "" {
		name += "_" + u.Port()
	}
	return strings.TrimLeft(name, ".")
}

// maxSettings bounds a file of settings, in bytes.
const maxSettings = 1 << 20

// readSettings reads the A2ACLI_ lines of a file in dotenv form; variables of other names are somebody else's. A file that
// was only found may have any other lines, too. In one that was named for parley, or that is parley's by its place, they
// are mistakes.
func readSettings(kind, path string, info os.FileInfo, found bool) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("%s", err.Error())
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	switch {
	case err != nil:
		return nil, usage("%s", err.Error())
	case len(b) > maxSettings:
		return nil, usage("%s: more than %d bytes are no file of settings", path, maxSettings)
	}
	s := &source{kind: kind, path: path, values: map[string]setting{}}
	known := settingNames()
	for i, line := range strings.Split(strings.TrimPrefix(string(b), "\ufeff"), "\n") {
		where := path + ":" + strconv.Itoa(i+1)
		name, value, err := parseLine(line)
		switch {
		case err != nil:
			return nil, usage("%s: %s", where, err.Error())
		case name == "" && !found && !isVariable(line):
			return nil, usage("%s: this line is no setting: want NAME=value, such as A2ACLI_TIMEOUT=30s, or # before a comment", where)
		case name == "":
			continue
		case !known[name]:
			return nil, unknownSetting(where, name, known)
		case s.values[name].from != "":
			return nil, usage("%s: %s stands twice, first at %s", where, name, s.values[name].from)
		case slices.Contains(secretSettings, flagName(name)) && othersRead(info):
			f := usage("%s: %s is a secret, and others can read the file (mode %04o)", where, name, info.Mode().Perm())
			f.hint = "chmod 600 " + quote(path)
			return nil, f
		}
		s.values[name] = setting{value, where}
	}
	return s, nil
}

// parseLine reads NAME=value, 'value' or "value" with \" \\ \n in it; # begins a comment. The name is "" where the line
// sets nothing of parley's.
func parseLine(line string) (name, value string, err error) {
	line = strings.TrimSpace(line)
	if rest, ok := strings.CutPrefix(line, "export"); ok && strings.TrimLeft(rest, " \t") != rest {
		line = strings.TrimSpace(rest)
	}
	if !strings.HasPrefix(line, "A2ACLI_") {
		return "", "", nil
	}
	name, value, ok := strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || strings.ContainsAny(name, " \t\"'") {
		return "", "", errors.New("want NAME=value")
	}
	if value == "" || value[0] != '\'' && value[0] != '"' {
		for i := range value {
			if value[i] == '#' && (i == 0 || value[i-1] == ' ' || value[i-1] == '\t') {
				return name, strings.TrimSpace(value[:i]), nil
			}
		}
		return name, value, nil
	}
	value, rest, ok := unquote(value)
	if rest = strings.TrimSpace(rest); !ok || rest != "" && rest[0] != '#' {
		return "", "", fmt.Errorf("the quotes of %s do not end where the value does", name)
	}
	return name, value, nil
}

// isVariable reports whether a line of a file in dotenv form is empty, a comment, or sets a variable, whoever's it is.
func isVariable(line string) bool {
	line = strings.TrimSpace(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return true
	}
	name, _, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
	return ok && len(strings.Fields(name)) == 1
}

// unquote returns what stands between the quote that s begins with and the next one, and what follows that.
func unquote(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), s[i+1:], true
		case c == '\\' && s[0] == '"' && i+1 < len(s):
			i++
			if s[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

func unknownSetting(where, name string, known map[string]bool) error {
	f := usage("%s: there is no setting %s", where, name)
	if slices.Contains(flagOnly, flagName(name)) {
		f.message = where + ": " + name + " cannot be set in a file: give --" + flagName(name)
		return f
	}
	for _, k := range sortedKeys(known) {
		if strings.EqualFold(k, name) || strings.ReplaceAll(k, "_", "") == strings.ReplaceAll(name, "_", "") {
			f.hint = "did you mean " + k + "?"
			return f
		}
	}
	f.hint = "parley config show lists the settings"
	return f
}

// flagName returns the flag of a variable.
func flagName(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "A2ACLI_"), "_", "-"))
}

// allFlags returns one flag of each name that a command has which talks to an agent.
func allFlags() *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.SortFlags = false
	new(clientFlags).register(all)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if isCommon(cmd.Flags().Lookup("agent-card")) {
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if all.Lookup(f.Name) == nil {
					f.Shorthand = ""
					all.AddFlag(f)
				}
			})
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(new(app).root())
	return all
}

// settingNames are the variables that a file can set.
func settingNames() map[string]bool {
	names := map[string]bool{}
	allFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && !slices.Contains(flagOnly, f.Name) {
			names[envName(f.Name)] = true
		}
	})
	return names
}
