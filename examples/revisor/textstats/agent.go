// Package textstats is the Revisor agent: it counts what a text consists of, for any language.
package textstats

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// What Revisor's card says.
const (
	Name        = "Revisor"
	Description = "Counts characters, words, sentences, lines and paragraphs of a text in any language."
	Version     = "1.0.0"
)

// InputModes returns the media types that Revisor reads.
func InputModes() []string { return []string{"text/plain"} }

// OutputModes returns the media types that Revisor answers with.
func OutputModes() []string { return []string{"text/plain", "application/json"} }

// Skills returns Revisor's one skill.
func Skills() []*a2a.AgentSkill {
	return []*a2a.AgentSkill{{
		ID:   "text_stats",
		Name: "Text statistics",
		Description: "Counts characters, bytes, words, different words, sentences, lines and paragraphs, and finds " +
			"the longest word and the reading time. Answers with a summary and the same as JSON.",
		Tags:        []string{"text", "statistics", "unicode"},
		Examples:    []string{"A short text. It has two sentences.", "Ein kurzer Text.", "これは短い文です。"},
		InputModes:  InputModes(),
		OutputModes: OutputModes(),
	}}
}

const (
	// longText is the length in bytes from which a text is worth a word about progress.
	longText = 64 << 10
	// block is how many bytes are counted between two looks at the context.
	block = 64 << 10
)

// Agent counts the text of a message and answers with the artifact text_stats. A message without text is
// answered with a question.
type Agent struct {
	// Pace is a pause at each tenth of a text, for those who want to watch: with it a short text reports
	// progress too.
	Pace time.Duration
}

// Restartable implements [agent.Restartable]: to count again does no harm.
func (a Agent) Restartable() bool { return true }

// Handle implements [agent.Agent].
func (a Agent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	text := text(r.Message)
	if strings.TrimSpace(text) == "" {
		return u.Park(a2a.TextPart("Which text shall I count? Send it as a text part, in one message."))
	}
	stats, err := a.count(ctx, text, u)
	if err != nil {
		return err
	}
	summary := a2a.TextPart(stats.String())
	summary.MediaType = "text/plain"
	data := a2a.DataPart(stats)
	data.MediaType = "application/json"
	return u.Artifact(a2a.Artifact{
		Name:        "text_stats",
		Description: "What the text consists of",
		Parts:       []*a2a.Part{summary, data},
	})
}

// count counts text, and says so at each tenth if it takes its time.
func (a Agent) count(ctx context.Context, text string, u *agent.Updater) (Stats, error) {
	c := NewCounter(text)
	step := min(block, (len(text)+9)/10)
	tenths := 0
	for c.Step(step) {
		if err := ctx.Err(); err != nil {
			return Stats{}, err
		}
		u.Alive()
		done := c.Percent() / 10
		if done == tenths || a.Pace == 0 && len(text) <= longText {
			continue
		}
		tenths = done
		if err := u.Progress(a2a.TextPart(fmt.Sprintf("Counted %d%% of %s", done*10, size(len(text))))); err != nil {
			return Stats{}, err
		}
		if err := pause(ctx, a.Pace); err != nil {
			return Stats{}, err
		}
	}
	return c.Stats(), nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// String returns the counts in words, in several lines.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s and %s\n",
		number(s.Words, "word"), number(s.Sentences, "sentence"), number(s.Paragraphs, "paragraph"))
	fmt.Fprintf(&b, "%s (%s) on %s\n", number(s.Characters, "character"), number(s.Bytes, "byte"), number(s.Lines, "line"))
	if s.Words == 0 {
		b.WriteString("Nothing to read")
		return b.String()
	}
	fmt.Fprintf(&b, "%s, the longest: %s\n", number(s.UniqueWords, "different word"), shorten(s.LongestWord))
	fmt.Fprintf(&b, "About %s to read", readingTime(s.ReadingSeconds))
	return b.String()
}

// number returns n with its unit, such as "1 word" and "1,234 words".
func number(n int, unit string) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n != 1 {
		unit += "s"
	}
	return digits + " " + unit
}

func readingTime(seconds int) string {
	if seconds < 60 {
		return number(seconds, "second")
	}
	return number((seconds+30)/60, "minute")
}

// size returns a number of bytes in the unit that suits it.
func size(n int) string {
	switch {
	case n < 1000:
		return number(n, "byte")
	case n < 999_950:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}

// shorten returns the beginning of a word that would fill the screen.
func shorten(word string) string {
	const most = 60
	g := graphemes.FromString(word)
	for range most {
		if !g.Next() {
			return word
		}
	}
	if end := g.End(); end < len(word) {
		return word[:end] + "…"
	}
	return word
}

// text returns what a message brings to be counted: its text parts and its text files, one after the other.
func text(m *a2a.Message) string {
	var texts []string
	for _, p := range m.Parts {
		switch c := p.Content.(type) {
		case a2a.Text:
			texts = append(texts, string(c))
		case a2a.Raw:
			if strings.HasPrefix(p.MediaType, "text/") {
				texts = append(texts, strings.ToValidUTF8(string(c), "\uFFFD"))
			}
		case a2a.URL, a2a.Data:
		}
	}
	return strings.Join(texts, "\n")
}
