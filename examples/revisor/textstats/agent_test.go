package textstats

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// recorder is a host's side of an Updater that notes what it is told. What it has no method for must not be
// called.
type recorder struct {
	agent.Sink
	progress  []string
	artifacts []*a2a.Artifact
	question  []*a2a.Part
	alive     int
	onStatus  func()
}

func (s *recorder) Status(state a2a.TaskState, parts []*a2a.Part, keep bool) error {
	if state != a2a.TaskStateWorking || keep {
		return errors.New("not a progress")
	}
	s.progress = append(s.progress, (&a2a.Message{Parts: parts}).Text())
	if s.onStatus != nil {
		s.onStatus()
	}
	return nil
}

func (s *recorder) Artifact(ev *a2a.TaskArtifactUpdateEvent) error {
	s.artifacts = append(s.artifacts, ev.Artifact)
	return nil
}

func (s *recorder) Park(state a2a.TaskState, parts []*a2a.Part) error {
	if state != a2a.TaskStateInputRequired {
		return errors.New("not a question")
	}
	s.question = parts
	return nil
}

func (s *recorder) Alive() { s.alive++ }

func handle(ctx context.Context, a Agent, s *recorder, parts ...*a2a.Part) error {
	return a.Handle(ctx, &agent.Request{Message: &a2a.Message{Parts: parts}}, agent.NewUpdater(s))
}

func TestAgent(t *testing.T) {
	var s recorder
	err := handle(t.Context(), Agent{}, &s, a2a.TextPart("The cat."), a2a.DataPart(7), a2a.TextPart("It saw\n\nthe cat."))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.progress) != 0 || s.question != nil || len(s.artifacts) != 1 {
		t.Fatalf("progress %q, question %v, %d artifacts; want one artifact", s.progress, s.question, len(s.artifacts))
	}
	a := s.artifacts[0]
	if a.Name != "text_stats" || len(a.Parts) != 2 || a.Parts[0].MediaType != "text/plain" || a.Parts[1].MediaType != "application/json" {
		t.Fatalf("artifact %q with %d parts", a.Name, len(a.Parts))
	}
	wantText := "6 words in 3 sentences and 2 paragraphs\n" +
		"25 characters (25 bytes) on 4 lines\n" +
		"4 different words, the longest: The\n" +
		"About 2 seconds to read"
	if diff := cmp.Diff(wantText, a.Text()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	wantData := `{"characters":25,"bytes":25,"words":6,"sentences":3,"lines":4,"paragraphs":2,` +
		`"uniqueWords":4,"longestWord":"The","readingSeconds":2}`
	if diff := cmp.Diff(wantData, string(a.Parts[1].Content.(a2a.Data))); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestAgentAsksForText(t *testing.T) {
	for name, parts := range map[string][]*a2a.Part{
		"blank":    {a2a.TextPart(" \u00a0\r\n\t")},
		"no text":  {a2a.DataPart("text")},
		"two of a": {a2a.TextPart(""), a2a.TextPart("")},
	} {
		t.Run(name, func(t *testing.T) {
			var s recorder
			if err := handle(t.Context(), Agent{}, &s, parts...); err != nil {
				t.Fatal(err)
			}
			if len(s.artifacts) != 0 || len(s.question) != 1 || (&a2a.Message{Parts: s.question}).Text() == "" {
				t.Errorf("%d artifacts, question %v; want a question only", len(s.artifacts), s.question)
			}
		})
	}
}

func TestAgentReportsProgress(t *testing.T) {
	var s recorder
	text := strings.Repeat("Call it long. ", 3_200_000/14)
	if err := handle(t.Context(), Agent{}, &s, a2a.TextPart(text)); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, percent := range []string{"10", "20", "30", "40", "50", "60", "70", "80", "90"} {
		want = append(want, "Counted "+percent+"% of 3.2 MB")
	}
	if diff := cmp.Diff(want, s.progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if s.alive < len(text)/block {
		t.Errorf("%d signs of life for %d blocks", s.alive, len(text)/block)
	}
	var got Stats
	if err := json.Unmarshal(s.artifacts[0].Parts[1].Content.(a2a.Data), &got); err != nil || got != Count(text) {
		t.Errorf("data %+v, %v; want %+v", got, err, Count(text))
	}
}

func TestAgentKeepsQuietAboutShortTexts(t *testing.T) {
	var s recorder
	if err := handle(t.Context(), Agent{}, &s, a2a.TextPart(strings.Repeat("a ", longText/2))); err != nil || len(s.progress) != 0 {
		t.Errorf("progress %q, %v", s.progress, err)
	}
	if err := handle(t.Context(), Agent{}, &s, a2a.TextPart(strings.Repeat("a ", longText/2+1))); err != nil || len(s.progress) != 9 {
		t.Errorf("progress %q, %v", s.progress, err)
	}
}

func TestAgentPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s recorder
		start := time.Now()
		if err := handle(t.Context(), Agent{Pace: time.Second}, &s, a2a.TextPart("Hello, slow world!!!")); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 9*time.Second {
			t.Errorf("took %v, want a second at each tenth", d)
		}
		if len(s.progress) != 9 || !slices.Contains(s.progress, "Counted 40% of 20 bytes") {
			t.Errorf("progress %q", s.progress)
		}
	})
}

func TestAgentCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, a := range map[string]Agent{"in a pause": {Pace: time.Hour}, "between blocks": {}} {
			ctx, cancel := context.WithCancel(t.Context())
			s := recorder{onStatus: cancel}
			start := time.Now()
			err := handle(ctx, a, &s, a2a.TextPart(strings.Repeat("a ", longText)))
			if !errors.Is(err, context.Canceled) || len(s.progress) != 1 || len(s.artifacts) != 0 {
				t.Errorf("%s: %v after %q, %d artifacts", name, err, s.progress, len(s.artifacts))
			}
			if time.Since(start) != 0 {
				t.Errorf("%s: waited", name)
			}
		}
	})
}

func TestSummary(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    Stats
		want string
	}{
		{
			"one of each",
			Stats{Characters: 1, Bytes: 1, Words: 1, Sentences: 1, Lines: 1, Paragraphs: 1, UniqueWords: 1, LongestWord: "a", ReadingSeconds: 1},
			"1 word in 1 sentence and 1 paragraph\n1 character (1 byte) on 1 line\n1 different word, the longest: a\nAbout 1 second to read",
		},
		{
			"no words",
			Stats{Characters: 2, Bytes: 3, Lines: 1, Paragraphs: 1},
			"0 words in 0 sentences and 1 paragraph\n2 characters (3 bytes) on 1 line\nNothing to read",
		},
		{
			"thousands",
			Stats{
				Characters: 1_234_567, Bytes: 12_345_678, Words: 123_456, Sentences: 1000, Lines: 999, Paragraphs: 100,
				UniqueWords: 45_678, LongestWord: strings.Repeat("é", 61), ReadingSeconds: 37_037,
			},
			"123,456 words in 1,000 sentences and 100 paragraphs\n1,234,567 characters (12,345,678 bytes) on 999 lines\n" +
				"45,678 different words, the longest: " + strings.Repeat("é", 60) + "…\nAbout 617 minutes to read",
		},
		{
			"a minute",
			Stats{Characters: 400, Bytes: 400, Words: 200, Sentences: 1, Lines: 1, Paragraphs: 1, UniqueWords: 1, LongestWord: strings.Repeat("b", 60), ReadingSeconds: 60},
			"200 words in 1 sentence and 1 paragraph\n400 characters (400 bytes) on 1 line\n1 different word, the longest: " +
				strings.Repeat("b", 60) + "\nAbout 1 minute to read",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.s.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int]string{
		1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 65_536: "65.5 kB", 999_949: "999.9 kB", 999_999: "1.0 MB", 3_199_999: "3.2 MB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

// TestTextFile: a text file is counted like a text part.
func TestTextFile(t *testing.T) {
	m := &a2a.Message{Parts: []*a2a.Part{
		a2a.TextPart("one"),
		{Content: a2a.Raw("two three"), MediaType: "text/markdown"},
		{Content: a2a.Raw("\x00"), MediaType: "image/png"},
		a2a.DataPart(4),
	}}
	if got := text(m); got != "one\ntwo three" {
		t.Errorf("text = %q", got)
	}
}
