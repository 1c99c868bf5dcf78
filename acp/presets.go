package acp

import (
	"fmt"
	"os/exec"
	"strings"
)

// Preset is an agent that is known by a word.
type Preset struct {
	Word    string   // such as claude
	Title   string   // such as Claude
	Args    []string // the command
	Package string   // of npm, which has the command
	Env     []string // variables that it may need, see [Config.Env]
}

// Presets are the agents that are known by a word.
func Presets() []Preset {
	return []Preset{
		{"claude", "Claude", []string{"claude-agent-acp"}, "@agentclientprotocol/claude-agent-acp", []string{"ANTHROPIC_*", "CLAUDE_*"}},
		{"codex", "Codex", []string{"codex-acp"}, "@agentclientprotocol/codex-acp", []string{"OPENAI_*", "CODEX_*"}},
		{"gemini", "Gemini", []string{"gemini", "--acp"}, "@google/gemini-cli", []string{"GEMINI_*", "GOOGLE_*"}},
		{"opencode", "OpenCode", []string{"opencode", "acp"}, "opencode-ai", []string{"OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"}},
	}
}

// PresetByWord returns the preset of a word, and the words that there are in an error.
func PresetByWord(word string) (Preset, error) {
	var words []string
	for _, p := range Presets() {
		if p.Word == word {
			return p, nil
		}
		words = append(words, p.Word)
	}
	return Preset{}, fmt.Errorf("acp: no agent is known as %q: choose one of %s, or name a command", word, strings.Join(words, ", "))
}

// Missing says what is missing on this machine to run the agent, and how to install it; nil: nothing. Nothing is
// installed.
func (p Preset) Missing() error {
	if _, err := exec.LookPath(p.Args[0]); err == nil {
		return nil
	}
	how := "install it with: npm install -g " + p.Package
	if _, err := exec.LookPath("npm"); err != nil {
		how = "npm is not there either: install Node.js (20 or newer), then run: npm install -g " + p.Package
	}
	return fmt.Errorf("acp: %s needs the program %s, which is not on PATH: %s", p.Title, p.Args[0], how)
}

// Name is what the card calls the agent.
func (p Preset) Name() string { return viaACP(p.Title) }

func viaACP(name string) string { return name + " (via ACP)" }
