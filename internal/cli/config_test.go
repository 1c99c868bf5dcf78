package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// serveIn runs parley serve in a folder with a parley.yaml, and returns its exit code and what it wrote on stderr.
func serveIn(t *testing.T, yaml string, args ...string) (exit int, stderr string) {
	t.Helper()
	if yaml != "" {
		file := filepath.Join(t.TempDir(), "parley.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(filepath.Dir(file))
		args = append([]string{"--config", "parley.yaml"}, args...)
	}
	var out, problems bytes.Buffer
	exit = Main(append([]string{"serve"}, args...), strings.NewReader(""), &out, &problems)
	if exit == 0 && !strings.Contains(out.String(), "the configuration is right") {
		t.Errorf("stdout: %s", &out)
	}
	return exit, problems.String()
}

// mistakes are files and flags with a mistake each, and what is said about it. Whatever is in the place of a secret is not.
var mistakes = map[string]struct {
	yaml string
	args []string
	want string
}{
	// Control characters.
	"CR LF in an address":       {yaml: `public-grpc-url: "a.example\r\nparley: FAKE LINE:443"`, want: `parley\.yaml:1: public-grpc-url: has a control character in it, U\+000D at place 10`},
	"CR LF in a name":           {yaml: "\nname: \"Ev\\r\\nSet-Cookie: x\"", want: `parley\.yaml:2: name: has a control character`},
	"escape in a name":          {yaml: `name: "\u001b[2J"`, want: `parley\.yaml:1: name: has a control character in it, U\+001B`},
	"nul in a name":             {yaml: `name: "\0"`, want: `name: has a control character in it, U\+0000`},
	"a direction of writing":    {yaml: `name: "a\u202eb"`, want: `name: has a control character in it, U\+202E`},
	"tab in a flag":             {args: []string{"--name", "a\tb"}, want: `--name: has a control character`},
	"line break in a flag":      {args: []string{"--env", "A=1\nB=2"}, want: `--env: has a control character`},
	"line break in a secret":    {yaml: "api-key: [\"a=s3cret-s3cret-s3cret\\n\"]", want: `parley\.yaml:1: api-key: has a control character`},
	"line break in a card":      {yaml: "card:\n  description: |\n    one\n    two\n", want: `parley\.yaml:2: card\.description: has a control character`},
	"line break in a list":      {yaml: "security:\n  jwt:\n    - issuer: https://a\n      audience: [a, \"b\\n\"]", want: `parley\.yaml:4: security\.jwt\[0\]\.audience\[1\]: has a control`},
	"line break in a key":       {yaml: "security:\n  rules:\n    operations:\n      \"Send\\n\": []", want: `parley\.yaml:4: security\.rules\.operations\.Send\\n: its name has a control`},
	"line break of an agent":    {yaml: "agents:\n  - name: a\n    exec: [cat]\n    env: [\"A=\\n\"]", want: `parley\.yaml:4: agents\[0\]\.env\[0\]: has a control`},
	"line break in a directory": {yaml: "agents:\n  - {name: a, exec: [cat], dir: \"x\\n\"}", want: `agents\[0\]\.dir: has a control`},

	// Public URLs.
	"a password in a URL":     {args: []string{"--public-url", "https://me:s3cret@a.example"}, want: `--public-url: the public URL has a user name or a password`},
	"a password for gRPC":     {yaml: "public-grpc-url: me:s3cret@a.example:443", want: `parley\.yaml:1: public-grpc-url: the public URL has a user name`},
	"a query":                 {args: []string{"--public-url", "https://a.example?token=s3cret"}, want: `--public-url: .*query`},
	"a fragment":              {args: []string{"--public-url", "https://a.example#s3cret"}, want: `--public-url: .*fragment`},
	"no URL":                  {yaml: "public-url: foo", want: `parley\.yaml:1: public-url: the public URL "foo" is not an absolute http or https URL`},
	"a URL that is not ended": {args: []string{"--public-url", "https://me:s3cret@a.example:port"}, want: `--public-url: .*password`},

	// What serve refuses before it opens anything.
	"no folder for the log":    {yaml: "\naudit-log: /nosuch/x", want: `parley\.yaml:2: audit-log: /nosuch/x cannot be made: .*no such file`},
	"a folder as the log":      {args: []string{"--audit-log", "/"}, want: `--audit-log: .*directory`},
	"no key":                   {yaml: "\n\ncard-key: nosuch", want: `parley\.yaml:3: card-key: open nosuch: no such file`},
	"no key of an agent":       {yaml: "agents:\n  - name: a\n    agent: echo\n    card: {keys: [nosuch]}", want: `parley\.yaml:4: agents\[0\]\.card\.keys: open nosuch`},
	"a port that is none":      {yaml: "listen: 127.0.0.1:99999", want: `parley\.yaml:1: listen: "127\.0\.0\.1:99999" is not an address`},
	"a gRPC port":              {args: []string{"--grpc-listen", "127.0.0.1:99999"}, want: `--grpc-listen: `},
	"metrics nowhere":          {yaml: "metrics-listen: garbage", want: `parley\.yaml:1: metrics-listen: "garbage": want HOST:PORT`},
	"metrics at no port":       {yaml: "metrics-listen: :99999", want: `metrics-listen: ":99999": want HOST:PORT`},
	"a console at no port":     {args: []string{"--console=127.0.0.1:99999"}, want: `--console: 127\.0\.0\.1:99999: want an address`},
	"nothing to serve":         {args: []string{"--listen", "none", "--grpc-listen", "none"}, want: `--listen: .*nothing to serve`},
	"a store":                  {yaml: "store: tasks.db", want: `parley\.yaml:1: store: "tasks\.db": want sqlite:PATH`},
	"a store of an agent":      {yaml: "agents:\n  - name: a\n    agent: echo\n    store: tasks.db", want: `parley\.yaml:4: agents\[0\]\.store: "tasks\.db"`},
	"beyond this machine":      {yaml: "listen: 0.0.0.0:0", want: `parley\.yaml:1: listen: 0\.0\.0\.0:0 is reachable from other machines`},
	"rules about nobody":       {yaml: "agents:\n  - name: a\n    agent: echo\n    security:\n      rules: {operations: {ListTasks: [read]}}", want: `parley\.yaml:5: agents\[0\]\.security\.rules: `},
	"a rule of an agent":       {yaml: "api-key: [a=0123456789abcdef]\nagents:\n  - name: a\n    agent: echo\n    security:\n      rules:\n        operations:\n          Nope: []", want: `parley\.yaml:8: agents\[0\]\.security\.rules\.operations\.Nope: "Nope" is not an operation`},
	"a flag from the file":     {yaml: "\nretain: 0s", want: `parley\.yaml:2: retain: 0s: want a time`},
	"a level from the file":    {yaml: "\nlog-level: loud", want: `parley\.yaml:2: log-level: "loud"`},
	"an agent of the file":     {yaml: "\nagent: nobody", want: `parley\.yaml:2: agent: .*conformance, demo`},
	"a program that is none":   {yaml: "agents:\n  - name: a\n    exec: [no-such-program]", want: `parley\.yaml:3: agents\[0\]\.exec: the program "no-such-program" is not on PATH`},
	"exec without a program":   {yaml: "agents:\n  - name: a\n    exec: []", want: `parley\.yaml:3: agents\[0\]\.exec: which program`},
	"a certificate and no key": {yaml: "tls-cert: c", want: `parley\.yaml:1: tls-cert: tls-cert and tls-key belong together`},

	// Documents.
	"a second document":             {yaml: "name: a\n---\nname: b\n", want: `parley\.yaml:3: a second document`},
	"a key twice":                   {yaml: "name: a\nname: b\n", want: `parley\.yaml:2: .*already defined`},
	"a key twice in a section":      {yaml: "limits:\n  rate: 1\n  rate: 2\n", want: `parley\.yaml:3: .*already defined`},
	"no YAML":                       {yaml: "name: a\nstore: [x", want: `parley\.yaml:2: `},
	"a list in place of keys":       {yaml: "- name", want: `parley\.yaml:1: want keys with their values`},
	"a merge":                       {yaml: "limits: &l {rate: 1}\nagents:\n  - name: a\n    agent: echo\n    limits: {<<: *l}", want: `parley\.yaml:5: agents\[0\]\.limits: <<`},
	"a tag":                         {yaml: "name: !!binary czNjcmV0", want: `parley\.yaml:1: name: want a value, not something with a tag`},
	"an alias of nothing":           {yaml: "limits: *nobody", want: `parley\.yaml:1: `},
	"an alias of itself":            {yaml: "limits: &a *a", want: `parley\.yaml:1: `},
	"a flag that is a mapping":      {yaml: "name: {a: b}", want: `parley\.yaml:1: name: want a value, not keys with their values`},
	"a list for one value":          {yaml: "name: [a]", want: `parley\.yaml:1: name: it has one value, not a list`},
	"a flag that is no truth value": {yaml: "anonymous: maybe", want: `parley\.yaml:1: anonymous: want true or false, not text`},

	// Numbers and times.
	"not a number":           {yaml: "limits: {rate: .nan}", want: `parley\.yaml:1: limits\.rate: want a number, not \.nan`},
	"infinite":               {yaml: "limits: {rate: .inf}", want: `parley\.yaml:1: limits\.rate: want a number, not \.inf`},
	"infinite below zero":    {yaml: "limits: {rate: -.inf}", want: `parley\.yaml:1: limits\.rate: want a number, not -\.inf`},
	"beyond the range":       {yaml: "limits: {rate: 1e400}", want: `parley\.yaml:1: limits\.rate: `},
	"a whole number too big": {yaml: "limits: {parts: 18446744073709551615}", want: `limits\.parts: this number is too large`},
	"half a task":            {yaml: "limits: {running: 0.5}", want: `limits\.running: want a whole number, not a number`},
	"a negative grace":       {yaml: "\ngrace: -1s", want: `parley\.yaml:2: grace: -1s: a time cannot be negative`},
	"a negative drain":       {args: []string{"--drain", "-1s"}, want: `--drain: -1s: a time cannot be negative`},
	"a negative bound":       {yaml: "limits:\n  running: -1", want: `parley\.yaml:2: limits\.running: must not be negative`},
	"a negative answer":      {yaml: "limits:\n  answer: -1h", want: `parley\.yaml:2: limits\.answer: -1h: a time cannot be negative`},
	"a negative refresh":     {yaml: "agents:\n  - name: a\n    proxy: {card: x, refresh: -1s}", want: `agents\[0\]\.proxy\.refresh: -1s: a time`},
	"days":                   {yaml: "limits:\n  rate: 1\n  answer: 7d", want: `parley\.yaml:3: limits\.answer: "7d" is not a time such as 90s or 168h`},
	"a time without unit":    {yaml: "limits: {answer: 5}", want: `parley\.yaml:1: limits\.answer: "5" is not a time`},
	"a bound of an agent":    {yaml: "agents:\n  - name: a\n    agent: echo\n    limits:\n      parts: -1", want: `parley\.yaml:5: agents\[0\]\.limits\.parts: must not`},

	// Kinds of values, and meaning.
	"text for a number":      {yaml: "limits:\n  rate: fast", want: `parley\.yaml:2: limits\.rate: want a number, not text`},
	"text for a truth value": {yaml: "security:\n  webhooks:\n    challenge: maybe", want: `parley\.yaml:3: security\.webhooks\.challenge: want true or false, not text`},
	"a truth value for keys": {yaml: "security:\n  webhooks: true", want: `parley\.yaml:2: security\.webhooks: want keys with their values, not true or false`},
	"text for a list":        {yaml: "security:\n  jwt:\n    - audience: a", want: `parley\.yaml:3: security\.jwt\[0\]\.audience: want a list`},
	"no such key":            {yaml: "security:\n  apikeys: {}", want: `parley\.yaml:2: security\.apikeys: there is no such key; the keys are api-keys, `},
	"no audience":            {yaml: "security:\n  jwt:\n    - issuer: https://a.example", want: `parley\.yaml:3: security\.jwt\[0\]\.audience: is required`},
	"no issuer":              {yaml: "security:\n  jwt:\n    - audience: [a]", want: `parley\.yaml:3: security\.jwt\[0\]\.issuer: is required`},
	"keys by two ways":       {yaml: "security:\n  jwt:\n    - issuer: https://a.example\n      audience: [a]\n      keys-url: https://a\n      keys-file: b", want: `parley\.yaml:6: security\.jwt\[0\]\.keys-file: keys-url or keys-file`},
	"a token URL":            {yaml: "security:\n  jwt:\n    - issuer: https://a.example\n      audience: [a]\n      token-url: http://a.example", want: `parley\.yaml:5: security\.jwt\[0\]\.token-url: is not encrypted`},
	"no secret of a client":  {yaml: "security:\n  introspection:\n    - endpoint: https://a.example", want: `parley\.yaml:3: security\.introspection\[0\]\.client-secret-file: `},
	"no operation":           {yaml: "api-key: [a=0123456789abcdef]\nsecurity:\n  rules:\n    operations:\n      ListTasks: []\n      Nope: []", want: `parley\.yaml:6: security\.rules\.operations\.Nope: "Nope" is not an operation`},
	"no keys":                {yaml: "security:\n  api-keys: {}", want: `parley\.yaml:2: security\.api-keys: there are no keys: name a file`},
	"no file of keys":        {yaml: "security:\n  api-keys:\n    file: nosuch", want: `parley\.yaml:2: security\.api-keys: .*nosuch`},
	"no file of a flag":      {args: []string{"--api-key", "@nosuch"}, want: `--api-key: .*nosuch`},
	"a file of a list":       {yaml: "\napi-key: [\"@nosuch\"]", want: `parley\.yaml:2: api-key: .*nosuch`},
	"a short key":            {yaml: "api-key: [a=s3cret]", want: `parley\.yaml:1: api-key: the secret of an API key needs`},
	"a skill without a name": {yaml: "agents:\n  - name: a\n    agent: echo\n    card:\n      skills:\n        - {id: a}", want: `parley\.yaml:6: agents\[0\]\.card\.skills\[0\]: a skill has`},

	"no scope": {yaml: "api-key: [a=0123456789abcdef]\nsecurity:\n  rules:\n    operations:\n      ListTasks: [\"a b\"]", want: `parley\.yaml:5: security\.rules\.operations\.ListTasks: "a b" is not a scope`},

	// Hints.
	"hints of another kind": {args: []string{"--hints", "http://x"}, want: `--hints: .*nats://HOST:PORT`},
	"hints of no kind":      {yaml: "\nhints: foo", want: `parley\.yaml:2: hints: .*nats://HOST:PORT`},
	"hints from nowhere":    {args: []string{"--hints", "nats://", "--store", "postgres://127.0.0.1:1/x"}, want: `--hints: .*nats://HOST:PORT`},
	"hints with a password": {args: []string{"--hints", "http://me:s3cret@x"}, want: `--hints: .*nats://HOST:PORT`},
}

// goNames are what nobody who writes a file has to know.
var goNames = regexp.MustCompile(`Options|Config\b|struct|unmarshal|strconv|Go value|goroutine`)

// TestConfigMistakes: every mistake is found by serve and by serve --check alike, before anything is opened, and the error
// says where it is.
func TestConfigMistakes(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			want := regexp.MustCompile(`^Error: (parley\.yaml:\d+: )?` + c.want)
			exit, checked := serveIn(t, c.yaml, append(c.args, "--check")...)
			if exit == 0 || !want.MatchString(checked) {
				t.Errorf("--check: exit %d, %s\nwant %s", exit, checked, c.want)
			}
			if strings.Contains(checked, "s3cret") || goNames.MatchString(checked) {
				t.Errorf("this says too much: %s", checked)
			}
			if exit == 0 {
				return // it would serve
			}
			if served, said := serveIn(t, c.yaml, c.args...); served != exit || said != checked {
				t.Errorf("serve: exit %d, %s\n--check: exit %d, %s", served, said, exit, checked)
			}
		})
	}
}

// TestConfigVariables: an error about a value of the environment names the variable.
func TestConfigVariables(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, c := range []struct{ name, value, want string }{
		{"PUBLIC_URL", "https://me:s3cret@a.example", "Error: PUBLIC_URL: the public URL has"},
		{"PUBLIC_GRPC_URL", "a.example\r\nb:443", "Error: PUBLIC_GRPC_URL: has a control character"},
		{"AGENT_NAME", "a\nb", "Error: AGENT_NAME: has a control character"},
		{"HOST", "0.0.0.0", "Error: HOST: 0.0.0.0:41241 is reachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			if exit, stderr := serveIn(t, "listen: 127.0.0.1:41241\nname: x", "--check"); exit != 2 || !strings.HasPrefix(stderr, c.want) {
				t.Errorf("exit %d, %s\nwant %s", exit, stderr, c.want)
			}
		})
	}
}

// TestConfigRight: what looks like some of the mistakes is none.
func TestConfigRight(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for name, c := range map[string]struct {
		yaml string
		args []string
	}{
		"one document with its marks": {yaml: "%YAML 1.2\n---\nname: a\n...\n"},
		"an empty file":               {yaml: "# nothing\n"},
		"empty sections":              {yaml: "security:\nlimits:\nname:\n"},
		"limits that are off":         {yaml: "limits: {rate: -1, streams: -1}"},
		"failures that are off":       {yaml: "security: {failures: -1}", args: []string{"--api-key", "alice=a-secret-of-16-or-more"}},
		"a program of several lines":  {yaml: "agents:\n  - name: a\n    exec:\n      - sh\n      - -c\n      - |\n        read x\n        \techo $x\n"},
		"a log that is new":           {args: []string{"--audit-log", "new.jsonl"}},
		"a text in several lines":     {yaml: "card:\n  description: >-\n    one\n    two\n"},
		"a limit that has an anchor":  {yaml: "limits: &l {rate: 1.5}\nagents:\n  - name: a\n    agent: echo\n    limits: *l\n"},
		"a version that is a number":  {yaml: "card: {version: 1.0}"},
		"tags":                        {yaml: "name: !!str 5\nlimits: !!map {rate: !!int 1}"},
		"a time of nothing":           {yaml: "grace: 0s\nlimits: {answer: 0}"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.yaml == "" {
				t.Chdir(t.TempDir())
			}
			if exit, stderr := serveIn(t, c.yaml, append(c.args, "--check")...); exit != 0 {
				t.Errorf("exit %d, %s", exit, stderr)
			}
			if _, err := os.Stat("new.jsonl"); err == nil {
				t.Error("--check made the log")
			}
		})
	}
}

// TestConfigRead reads every kind of value.
func TestConfigRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.yaml")
	err := os.WriteFile(file, []byte(`
agents:
  - name: a
    exec: [cat]
    retain: 1m
    exec-events: true
    env: [A, "B=2"]
    card: {version: 1.10, provider: {organization: Us}, skills: [{id: a, name: b, description: c, tags: []}]}
    limits: {burst: 0x10}
security:
  rules: {operations: {"*": [a, b]}}
limits: {rate: 2, artifacts: 9007199254740993}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var cfg configFile
	if err := readConfig(file, pflag.NewFlagSet("", pflag.ContinueOnError), &cfg); err != nil {
		t.Fatal(err)
	}
	a := cfg.Agents[0]
	if a.Retain != time.Minute || !a.Events || len(a.Env) != 2 || a.Card.Version != "1.10" || a.Card.Provider.Organization != "Us" ||
		a.Card.Skills[0].Tags == nil || a.Limits != (limitsConfig{Rate: 2, Burst: 16, Artifacts: 9007199254740993}) || cfg.Limits.Burst != 0 ||
		len(cfg.Security.Rules.Operations["*"]) != 2 {
		t.Errorf("%+v\n%+v", a, cfg)
	}
}
