package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
)

// text is the form of results for people (specification 11.2): fields, one "Label: value" a line, and blocks,
// which are a line "Label:", the content indented by two spaces, and a blank line.
type text struct {
	bytes.Buffer
	verbose bool // every part by itself, with ids, times and metadata
}

func (t *text) field(label, value string) {
	t.WriteString(label + ":")
	if value != "" {
		t.WriteString(" " + visible(value))
	}
	t.WriteByte('\n')
}

// optional writes a field unless its value is empty.
func (t *text) optional(label, value string) {
	if value != "" {
		t.field(label, value)
	}
}

func (t *text) block(label, content string) {
	t.WriteString(label + ":\n")
	content = strings.TrimSuffix(strings.ReplaceAll(content, "\r\n", "\n"), "\n")
	for line := range strings.SplitSeq(content, "\n") {
		t.WriteString("  " + visible(line) + "\n")
	}
	t.WriteByte('\n')
}

func (t *text) json(label string, raw []byte) {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	t.block(label, b.String())
}

func (t *text) metadata(m a2a.Struct) {
	if !t.verbose || len(m) == 0 {
		return
	}
	b := []byte{'{'}
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(k)
		b = append(append(append(b, name...), ':'), m[k]...)
	}
	t.json("Metadata", append(b, '}'))
}

// visible returns s on one line with everything escaped that could move the cursor, change the terminal or
// turn the order of what follows around: what an agent writes is not trusted.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case hidden(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether r is a control character other than a tab, a line separator, or a control of the
// direction of writing.
func hidden(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// visibleJSON returns JSON with what hidden finds in its strings escaped: it means the same.
func visibleJSON(b []byte) []byte {
	escaped := func(r rune) bool { return r >= 0x7f && hidden(r) } // less than that JSON escapes by itself
	if !bytes.ContainsFunc(b, escaped) {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if escaped(r) {
			out = fmt.Appendf(out, `\u%04x`, r) // all of them have four digits
		} else {
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	return out
}

// stateName returns the short name of a state, such as COMPLETED.
func stateName(s a2a.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

// parts writes parts in their order. Texts that follow each other are one block, joined with sep.
func (t *text) parts(label, sep string, parts []*a2a.Part) {
	var texts []string
	flush := func() {
		if texts != nil {
			t.block(label, strings.Join(texts, sep))
			texts = nil
		}
	}
	for _, p := range parts {
		if s, ok := p.Content.(a2a.Text); ok && !t.verbose {
			texts = append(texts, string(s))
			continue
		}
		flush()
		t.part(label, p)
	}
	flush()
}

func (t *text) part(label string, p *a2a.Part) {
	if t.verbose || p.Content == nil {
		t.field("Part", partKind(p)+inParentheses(p.MediaType))
	}
	switch c := p.Content.(type) {
	case a2a.Text:
		t.block(label, string(c))
	case a2a.Data:
		t.json("Data", c)
	case a2a.Raw:
		t.field("File", fileName(p)+inParentheses(p.MediaType, fmt.Sprintf("%d bytes", len(c))))
	case a2a.URL:
		t.field("File", fileName(p)+inParentheses(p.MediaType, "at "+string(c)))
	}
	t.metadata(p.Metadata)
}

func partKind(p *a2a.Part) string {
	switch p.Content.(type) {
	case a2a.Text:
		return "text"
	case a2a.Data:
		return "data"
	case a2a.Raw, a2a.URL:
		return "file"
	}
	return "empty"
}

func fileName(p *a2a.Part) string { return cmp.Or(p.Filename, "unnamed") }

// inParentheses returns what is there of the words, such as " (text/plain, 12 bytes)".
func inParentheses(words ...string) string {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// header writes what every command that touches a task reports (specification 8.2).
func (t *text) header(taskID, contextID string, s a2a.TaskStatus, resume string) {
	t.field("Task", taskID)
	t.field("Context", contextID)
	t.field("State", stateName(s.State))
	if t.verbose && !s.Timestamp.IsZero() {
		t.field("Updated", s.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	t.optional("Resume", resume)
}

// statusMessage writes what an agent said with a status.
func (t *text) statusMessage(m *a2a.Message) {
	if m != nil {
		t.message("Message", m)
	}
}

func (t *text) message(label string, m *a2a.Message) {
	if t.verbose {
		t.optional("Message-ID", m.MessageID)
	}
	t.parts(label, "\n", m.Parts)
	t.metadata(m.Metadata)
}

// task writes a task with its artifacts and, if wanted, its history.
func (t *text) task(task *a2a.Task, resume string, history bool) {
	t.header(task.ID, task.ContextID, task.Status, resume)
	t.metadata(task.Metadata)
	t.statusMessage(task.Status.Message)
	for _, a := range task.Artifacts {
		t.artifact(a)
	}
	if history || t.verbose {
		t.history(task.History)
	}
}

func (t *text) history(messages []*a2a.Message) {
	for _, m := range messages {
		label := "Agent"
		if m.Role == a2a.RoleUser {
			label = "User"
		}
		t.message(label, m)
	}
}

func (t *text) artifact(a *a2a.Artifact) {
	t.field("Artifact", cmp.Or(a.Name, a.ArtifactID))
	if t.verbose {
		t.optional("Artifact-ID", a.ArtifactID)
		t.optional("Description", a.Description)
	}
	t.parts("Text", "", a.Parts)
	t.metadata(a.Metadata)
}

// direct writes an answer that made no task.
func (t *text) direct(m *a2a.Message) {
	t.optional("Task", m.TaskID)
	t.optional("Context", m.ContextID)
	t.message("Message", m)
}

// output is where a command's result goes, and in what form.
type output struct {
	w             io.Writer
	json, verbose bool
	open          openText
}

// print writes what write makes.
func (o *output) print(write func(t *text)) error {
	t := &text{verbose: o.verbose}
	o.open.end(t)
	write(t)
	return o.write(t.Bytes())
}

// line writes a JSON value on a line of its own.
func (o *output) line(b []byte) error { return o.write(append(slices.Clip(visibleJSON(b)), '\n')) }

func (o *output) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := o.w.Write(b); err != nil {
		return fail(errInternal, "", "the result could not be written: %s", err.Error())
	}
	return nil
}

// openText is the block of a text that comes in chunks, while it is being written.
type openText struct {
	is       bool
	artifact string // its id
	held     string // the end of the text, a line's end, until it is known what follows
}

// begin begins the block of an artifact's text.
func (o *openText) begin(t *text, a *a2a.Artifact) {
	t.field("Artifact", cmp.Or(a.Name, a.ArtifactID))
	t.WriteString("Text:\n  ")
	*o = openText{is: true, artifact: a.ArtifactID}
}

// add writes what follows in the block.
func (o *openText) add(t *text, s string) {
	s, o.held = strings.ReplaceAll(o.held+s, "\r\n", "\n"), ""
	if n := len(s); n > 0 && (s[n-1] == '\n' || s[n-1] == '\r') {
		s, o.held = s[:n-1], s[n-1:]
	}
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			t.WriteString("\n  ")
		}
		t.WriteString(visible(line))
	}
}

// end ends the block, if there is one.
func (o *openText) end(t *text) {
	if !o.is {
		return
	}
	t.WriteString(visible(strings.TrimSuffix(o.held, "\n")) + "\n\n")
	*o = openText{}
}
