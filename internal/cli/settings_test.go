package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

func TestParseLine(t *testing.T) {
	for in, want := range map[string]string{
		"A2ACLI_TIMEOUT=30s":                    "A2ACLI_TIMEOUT=30s",
		"  export  A2ACLI_TIMEOUT = 30s \r":     "A2ACLI_TIMEOUT=30s",
		"A2ACLI_X=a b # comment":                "A2ACLI_X=a b",
		"A2ACLI_X=a#b":                          "A2ACLI_X=a#b",
		"A2ACLI_X='a # \\n b' # comment":        `A2ACLI_X=a # \n b`,
		`A2ACLI_X="a \" \\ \n b"`:               "A2ACLI_X=a \" \\ \n b",
		"A2ACLI_X=":                             "A2ACLI_X=",
		"A2ACLI_X=''":                           "A2ACLI_X=",
		"# A2ACLI_X=1":                          "=",
		"":                                      "=",
		"DATABASE_URL=\"half a":                 "=",
		"exportA2ACLI_X=1":                      "=",
		"A2ACLI_X":                              "error",
		"A2ACLI_X 1=2":                          "error",
		"A2ACLI_X='a":                           "error",
		"A2ACLI_X='a'b":                         "error",
		"A2ACLI_X=" + strings.Repeat("=", 1000): "A2ACLI_X=" + strings.Repeat("=", 1000),
	} {
		name, value, err := parseLine(in)
		got := name + "=" + value
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// shown returns what config show says of a setting: its value, the kind of source, and where.
func shown(t *testing.T, name string, args ...string) string {
	t.Helper()
	got := parleyRun(append([]string{"config", "show", "-o", "json"}, args...)...)
	var out struct{ Settings []shownSetting }
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	for _, s := range out.Settings {
		if s.Name == name {
			return s.Value + " " + s.Source + " " + s.From
		}
	}
	return "none"
}

// A password in the agent's address is refused where it is used, and not shown either.
func TestShownWithoutPassword(t *testing.T) {
	home(t)
	if got := shown(t, "agent-card", "-a", "https://me:s3cret@agent.example/x"); strings.Contains(got, "s3cret") || !strings.Contains(got, "agent.example/x") {
		t.Errorf("shown is %q", got)
	}
}

// TestPrecedence: flag, environment, local file, the agent's global file, global file, built-in.
func TestPrecedence(t *testing.T) {
	home(t)
	config := os.Getenv("XDG_CONFIG_HOME")
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	check := func(want string, args ...string) {
		t.Helper()
		if got := shown(t, "timeout", append(args, "-a", "Agent.example:8443")...); strings.TrimSpace(got) != want {
			t.Errorf("the timeout is %q, want %q", got, want)
		}
	}
	check("0s built-in")
	global := write(t, filepath.Join(config, "a2a-cli", ".env"), "# mine\nA2ACLI_TIMEOUT=1s\n", 0o644)
	check("1s global " + global + ":2")
	agent := write(t, filepath.Join(config, "a2a-cli", "agents", "agent.example_8443.env"), "A2ACLI_TIMEOUT=2s\n", 0o644)
	check("2s global " + agent + ":1")
	write(t, filepath.Join(config, "a2a-cli", ".env"), "A2ACLI_AGENT_CARD=agent.example:8443\n", 0o644) // which names the agent
	if got := shown(t, "timeout"); got != "2s global "+agent+":1" {
		t.Errorf("the timeout is %q", got)
	}
	local := write(t, filepath.Join(root, ".env"), "DATABASE='x\ny\nA2ACLI_TIMEOUT=3s\n", 0o644)
	check("3s local " + local + ":3")
	if err := os.Mkdir(filepath.Join(deep, ".env"), 0o700); err != nil { // a folder of that name is none
		t.Fatal(err)
	}
	check("3s local " + local + ":3")
	named := write(t, filepath.Join(root, "named"), "A2ACLI_TIMEOUT=4s\nA2ACLI_BEARER=t\n", 0o600)
	check("4s local "+named+":1", "--config", named)
	t.Setenv("A2ACLI_CONFIG", named)
	check("4s local " + named + ":1")
	t.Setenv("A2ACLI_TIMEOUT", "5s")
	check("5s environment A2ACLI_TIMEOUT")
	check("6s flag --timeout", "--timeout", "6s")

	if got := shown(t, "bearer"); got != "[redacted] local "+named+":2" {
		t.Errorf("the token is %q", got)
	}
	t.Setenv("A2ACLI_TRANSPORT", "GRPC,JSONRPC")
	t.Setenv("A2ACLI_TASK_ID", "t1") // of one command
	parleyRun("config", "show").wants(t, 0, "Transport: GRPC,JSONRPC (environment A2ACLI_TRANSPORT)\n", "")
	parleyRun("config", "show").wants(t, 0, "Task-Id: t1 (environment A2ACLI_TASK_ID)\n", "")
	parleyRun("config", "show").wants(t, 0, "Insecure: false (built-in)\n", "")
	parleyRun("config", "show", "x").wants(t, 2, "", "takes no argument")
}

// TestBadSettings: what is wrong in a file is said with its line.
func TestBadSettings(t *testing.T) {
	home(t)
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, ".env")
	for content, want := range map[string]string{
		"\nA2ACLI_TIMEOUT=soon\n":                   path + `:2="soon": `,
		"A2ACLI_TIME_OUT=1s\n":                      path + ":1: there is no setting A2ACLI_TIME_OUT\nHint: did you mean A2ACLI_TIMEOUT?",
		"A2ACLI_NONE=1\n":                           path + ":1: there is no setting A2ACLI_NONE\nHint: parley config show lists the settings",
		"A2ACLI_STREAM=true\n":                      path + ":1: A2ACLI_STREAM cannot be set in a file: give --stream",
		"A2ACLI_CONFIG=x\n":                         path + ":1: there is no setting A2ACLI_CONFIG",
		"A2ACLI_POLL_INTERVAL='1s\n":                path + ":1: the quotes of A2ACLI_POLL_INTERVAL do not end",
		"A2ACLI_TIMEOUT=1s\nA2ACLI_TIMEOUT=2s":      path + ":2: A2ACLI_TIMEOUT stands twice, first at " + path + ":1",
		"A2ACLI_API_KEY=s3cret-key\n":               path + ":1: A2ACLI_API_KEY is a secret, and others can read the file (mode 0644)\nHint: chmod 600 " + path,
		"A2ACLI_OUTPUT=xml\n":                       `--output "xml": the formats are text and json`,
		strings.Repeat("# much\n", maxSettings/7+1): path + ": more than 1048576 bytes",
	} {
		write(t, path, content, 0o644)
		got := parleyRun("send", "x")
		got.wants(t, 2, "", want)
		if strings.Contains(got.stderr, "s3cret") {
			t.Error("the secret was printed")
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	parleyRun("send", "x", "--config", dir).wants(t, 2, "", "it is a directory")
	parleyRun("send", "x", "--config", path).wants(t, 2, "", "--config: ")
	agent := write(t, filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "a2a-cli/agents/a.example.env"), "A2ACLI_AGENT_CARD=b.example\n", 0o600)
	parleyRun("send", "x", "-a", "a.example").wants(t, 2, "", agent+":1: this file is for the agent at a.example")
	t.Setenv("A2ACLI_CLIENT_SECRET", "x")
	parleyRun("config", "show").wants(t, 0, "Client-Secret: [redacted] (environment A2ACLI_CLIENT_SECRET)", "")
}

// TestFoundFile: a file that was only found does not lead a credential of the person's own to an agent of its choice.
func TestFoundFile(t *testing.T) {
	home(t)
	p := newPeer(t, says("hi"), nil, map[string]a2a.SecurityScheme{"web": &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}})
	dir := t.TempDir()
	t.Chdir(dir)
	path := write(t, filepath.Join(dir, ".env"), "A2ACLI_AGENT_CARD="+p.URL+"\n", 0o600)
	t.Setenv("A2ACLI_BEARER", "t0ken")
	got := parleyRun("send", "x")
	got.wants(t, 4, "", "the credential of A2ACLI_BEARER is not sent to "+p.URL+": only "+path+":1 names that agent")
	if calls, _ := p.received(); len(calls) > 0 {
		t.Error("a request was made")
	}
	parleyRun("send", "x", "-a", p.URL).wants(t, 0, "State: COMPLETED", "")
	parleyRun("send", "x", "--config", path).wants(t, 0, "State: COMPLETED", "")
	parleyRun("send", "x", "--bearer", "t0ken").wants(t, 0, "State: COMPLETED", "")
	t.Setenv("A2ACLI_BEARER", "")
	write(t, path, "A2ACLI_AGENT_CARD="+p.URL+"\nA2ACLI_BEARER=t0ken\n", 0o600)
	parleyRun("send", "x").wants(t, 0, "State: COMPLETED", "")
	if os.Getuid() == 0 {
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Fatal(err)
		}
		parleyRun("send", "x").wants(t, 2, "", path+" belongs to another user")
	}
}

func TestHostOf(t *testing.T) {
	for in, want := range map[string]string{
		"a.example": "a.example", "https://A.example:8443/card.json": "a.example_8443", "[::1]:80": "__1_80", "http://127.0.0.1:41241": "127.0.0.1_41241",
		"./card.json": "", "/tmp": "", "file:///card.json": "", "a.example/../../x": "a.example", "..": "",
	} {
		if got := hostOf(in); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", in, got, want)
		}
	}
}
