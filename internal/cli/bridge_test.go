package cli

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestBridgeFlags(t *testing.T) {
	t.Setenv("PATH", "/bin:/usr/bin")
	log := slog.New(slog.DiscardHandler)
	for want, c := range map[string]struct {
		flags bridgeFlags
		args  []string
	}{
		"contradict":                        {bridgeFlags{exec: true, acp: "claude"}, nil},
		"which program":                     {bridgeFlags{exec: true}, nil},
		"cannot be run":                     {bridgeFlags{exec: true}, []string{"no-such-program"}},
		"which command":                     {bridgeFlags{acp: custom, policy: "ask"}, nil},
		"has its own command":               {bridgeFlags{acp: "claude", policy: "ask"}, []string{"x"}},
		"claude, codex, gemini, opencode":   {bridgeFlags{acp: "cloud", policy: "ask"}, nil},
		"ask, allow or reject":              {bridgeFlags{acp: "claude", policy: "maybe"}, nil},
		"npm install -g @google/gemini-cli": {bridgeFlags{acp: "gemini", policy: "ask"}, nil},
		`"no-such-program" cannot be run: `: {bridgeFlags{acp: custom, policy: "ask"}, []string{"no-such-program"}},
		"is not a directory":                {bridgeFlags{acp: custom, policy: "ask", dir: "no-such-dir"}, []string{"sh"}},
	} {
		if _, _, _, err := c.flags.agent(c.args, log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v %q: %v, want %q", c.flags, c.args, err, want)
		}
	}
	built, word, end, err := (&bridgeFlags{exec: true}).agent([]string{"tr", "a-z", "A-Z"}, log)
	if err != nil || built.Name != "tr" || word != "exec" {
		t.Fatalf("%+v %q %v", built, word, err)
	}
	end()
	built, word, end, err = (&bridgeFlags{acp: custom, policy: "ask"}).agent([]string{"cat"}, log)
	if err != nil || built.Name != "cat (via ACP)" || word != "acp-command" {
		t.Fatalf("%+v %q %v", built, word, err)
	}
	end()
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
