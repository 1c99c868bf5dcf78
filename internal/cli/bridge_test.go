package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestBridgeFlags(t *testing.T) {
	t.Setenv("PATH", "/bin:/usr/bin")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	prepare := func(line string) (*serving, error) {
		c := &serveCommand{app: &app{err: io.Discard}}
		cmd := c.command()
		if err := cmd.ParseFlags(withCommand(strings.Fields(line))); err != nil {
			t.Fatal(err)
		}
		if err := c.read(cmd, cmd.Flags().Args()); err != nil {
			return nil, err
		}
		return c.prepare(t.Context())
	}
	for want, line := range map[string]string{
		"contradict":    "--exec --acp claude",
		"which program": "--exec",
		`program "no-such-program" is not on PATH: install it, or give its path`: "--exec -- no-such-program",
		`there is no program "./no-such-program"`:                                "--exec -- ./no-such-program",
		"which command":                      "--acp command",
		"has its own command":                "--acp claude -- x",
		"claude, codex, gemini, opencode":    "--acp cloud",
		"ask, allow or reject":               "--acp claude --permissions maybe",
		"npm install -g @google/gemini-cli":  "--acp gemini",
		`"no-such-program" is not on PATH: `: "--acp command -- no-such-program",
		`"no-such-dir" is not a directory`:   "--acp command --dir no-such-dir -- sh",
		`"nor-this-one" is not a directory`:  "--exec --dir nor-this-one -- sh",
	} {
		if _, err := prepare(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for line, want := range map[string][2]string{
		"--exec -- tr a-z A-Z":   {"tr", "tr"},
		"--acp command -- cat":   {"cat (via ACP)", "acp-command"},
		"--acp -- cat":           {"cat (via ACP)", "acp-command"},
		"--exec --name X -- cat": {"X", "cat"},
	} {
		s, err := prepare(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{s.agents[0].title(), s.agents[0].name}; got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}
}

func TestACPCommand(t *testing.T) {
	p := newPeer(t, says("hi"), nil, nil)
	var out, errs bytes.Buffer
	in, w := io.Pipe()
	a := &app{in: in, out: &out, err: &errs}
	go func() {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`+"\n")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"none"}}`+"\n")
		w.Close()
	}()
	cmd := a.acp()
	cmd.SetArgs([]string{"-a", p.URL})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := (&acpCommand{a}).check(cmd, &clientFlags{output: "json"}, nil); err == nil {
		t.Error("--output json was taken")
	}
}
