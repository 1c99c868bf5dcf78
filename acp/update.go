package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// Bounds of what an agent tells besides its response.
const (
	maxTools  = 4096     // tool calls that are remembered
	maxMember = 32 << 10 // bytes of a member of a tool call that are handed on
	maxNote   = 8 << 10  // bytes of what the last status says about one thing
)

// update does what an update of the session says. Kinds that are not known are ignored.
func (t *turn) update(raw json.RawMessage) error {
	var up struct {
		Kind    string          `json:"sessionUpdate"`
		Content json.RawMessage `json:"content"`
		Entries json.RawMessage `json:"entries"`
		Title   *string         `json:"title"`
		ModeID  string          `json:"currentModeId"`
		Options json.RawMessage `json:"configOptions"`
	}
	if err := json.Unmarshal(raw, &up); err != nil {
		return nil
	}
	switch up.Kind {
	case "agent_message_chunk":
		return t.chunk("response", up.Content)
	case "agent_thought_chunk":
		if t.think {
			return t.chunk("thoughts", up.Content)
		}
	case "tool_call", "tool_call_update":
		return t.toolCall(raw)
	case "plan":
		return t.plan(up.Entries)
	case "usage_update":
		t.note("usage", raw)
	case "session_info_update":
		if up.Title != nil {
			t.about = t.about.With("title", clip(*up.Title, 500))
		}
	case "current_mode_update":
		t.about = t.about.With("mode", clip(up.ModeID, 200))
		return t.a.guarded(up.ModeID)
	case "config_option_update":
		t.note("configuration", up.Options)
	}
	return nil
}

// note keeps something for the last status, if it is JSON of reasonable size.
func (t *turn) note(name string, value json.RawMessage) {
	if len(value) <= maxNote && jsonx.Valid(value) == nil {
		t.about = t.about.With(name, value)
	}
}

// chunk adds a piece to the response or the thoughts.
func (t *turn) chunk(name string, content json.RawMessage) error {
	var b block
	if err := json.Unmarshal(content, &b); err != nil {
		return nil
	}
	w := t.text
	if name == "thoughts" {
		w = t.thoughts
	}
	part := b.part()
	if part == nil || part.Content == a2a.Text("") {
		return nil
	}
	t.begun[name] = true
	if text, ok := part.Content.(a2a.Text); ok && b.Type == "text" {
		return w.Write([]byte(text))
	}
	return w.Parts(part)
}

// tool is a tool call as its updates add up to it.
type tool map[string]json.RawMessage

// merge adds an update to its tool call and returns that. It is false for what is no tool call.
func (t *turn) merge(raw json.RawMessage) (tool, bool) {
	var up tool
	if err := json.Unmarshal(raw, &up); err != nil {
		return tool{}, false
	}
	delete(up, "sessionUpdate")
	id := up.text("toolCallId")
	if id == "" {
		return up, false
	}
	known := t.tools[id]
	if known == nil {
		if known = (tool{}); len(t.tools) < maxTools {
			t.tools[id] = known
		}
	}
	for name, value := range up {
		if string(value) != "null" {
			known[name] = value
		}
	}
	return known, true
}

func (c tool) text(name string) string {
	var s string
	_ = json.Unmarshal(c[name], &s) // what is no text is none
	return s
}

func (c tool) title() string {
	for _, name := range []string{"title", "kind", "toolCallId"} {
		if s := c.text(name); s != "" {
			return clip(strings.Join(strings.Fields(s), " "), 200)
		}
	}
	return "a tool"
}

// shown is what is handed on of a tool call: its members without those that are too large or not JSON for every reader.
func (c tool) shown() tool {
	out := maps.Clone(c)
	var left []string
	for name, value := range c {
		if len(value) > maxMember || jsonx.Valid(value) != nil {
			delete(out, name)
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		out["omitted"] = a2a.Struct{}.With("omitted", left)["omitted"]
	}
	return out
}

func (t *turn) toolCall(raw json.RawMessage) error {
	call, ok := t.merge(raw)
	if !ok {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	line := call.title()
	if status := call.text("status"); status != "" {
		line += ": " + clip(status, 100)
	}
	if err := t.u.Progress(a2a.TextPart(line), a2a.DataPart(call.shown())); err != nil {
		return err
	}
	return t.changes(call)
}

// changes makes an artifact of each file that a tool call changes.
func (t *turn) changes(call tool) error {
	var content []struct {
		Type    string  `json:"type"`
		Path    string  `json:"path"`
		OldText *string `json:"oldText"`
		NewText string  `json:"newText"`
	}
	if err := json.Unmarshal(call["content"], &content); err != nil {
		return nil
	}
	for _, c := range content {
		if c.Type != "diff" {
			continue
		}
		name := c.Path
		if rel, err := filepath.Rel(t.a.cfg.Dir, c.Path); err == nil && filepath.IsLocal(rel) {
			name = filepath.ToSlash(rel)
		}
		name = clip(name, 500)
		id := fmt.Sprintf("diff %s %s", clip(call.text("toolCallId"), 200), name)
		text := unified(name, c.OldText, c.NewText)
		if text == t.diffs[id] || len(t.diffs) >= maxTools {
			continue
		}
		t.diffs[id] = text
		part := &a2a.Part{Content: a2a.Text(text), MediaType: "text/x-diff", Filename: name}
		if err := t.u.Artifact(a2a.Artifact{ArtifactID: id, Name: name, Parts: []*a2a.Part{part}}); err != nil {
			return err
		}
	}
	return nil
}

// plan replaces the plan, and tells when another step of it is at work.
func (t *turn) plan(raw json.RawMessage) error {
	var entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	}
	if err := json.Unmarshal(raw, &entries); err != nil || jsonx.Valid(raw) != nil {
		return nil
	}
	part := a2a.DataPart(map[string]json.RawMessage{"entries": raw})
	if err := t.u.Artifact(a2a.Artifact{ArtifactID: "plan", Name: "plan", Parts: []*a2a.Part{part}}); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Status == "in_progress" {
			if e.Content == t.step {
				return nil
			}
			t.step = e.Content
			return t.u.Progress(a2a.TextPart(clip(e.Content, 500)))
		}
	}
	return nil
}

// unified returns the change of a file as a unified diff of one hunk: the lines that differ, with three before and after
// them. A nil old text is that of a file that was not there.
func unified(name string, oldText *string, newText string) string {
	from, before := "a/"+name, []string(nil)
	if oldText == nil {
		from = "/dev/null"
	} else {
		before = lines(*oldText)
	}
	after := lines(newText)
	start := 0
	for start < min(len(before), len(after)) && before[start] == after[start] {
		start++
	}
	same := 0
	for same < min(len(before), len(after))-start && before[len(before)-1-same] == after[len(after)-1-same] {
		same++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ b/%s\n", from, name)
	if start == len(before) && start == len(after) {
		return b.String()
	}
	top, bottom := max(0, start-3), max(0, same-3)
	fmt.Fprintf(&b, "@@ -%s +%s @@\n", hunk(top, len(before)-bottom), hunk(top, len(after)-bottom))
	write := func(sign string, lines []string) {
		for _, l := range lines {
			b.WriteString(sign + l)
			if !strings.HasSuffix(l, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(" ", before[top:start])
	write("-", before[start:len(before)-same])
	write("+", after[start:len(after)-same])
	write(" ", before[len(before)-same:len(before)-bottom])
	return b.String()
}

// lines splits a text into lines with their ends.
func lines(s string) []string {
	all := strings.SplitAfter(s, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// hunk is a range of lines, from 0 and without its end.
func hunk(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}
