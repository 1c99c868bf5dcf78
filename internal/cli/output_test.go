package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain",
		"Grüße 👩\u200d🚀 漢字\tتجربة": "Grüße 👩\u200d🚀 漢字\tتجربة",
		"\x1b[31mred\x1b[0m":       `\x1b[31mred\x1b[0m`,
		"a\rb\nc\x00\x7f":          `a\rb\nc\x00\x7f`,
		"\u009b1m \u0085":          `\u009b1m \u0085`,
		"\u202eabc\u2066\u2028":    `\u202eabc\u2066\u2028`,
		"bad \xff\xc3( \ufffd end": `bad \xff\xc3( ` + "\ufffd end",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestVisibleJSON(t *testing.T) {
	for in, want := range map[string]string{
		"{\n  \"k\": \"Grüße 漢字 \U0001f469\u200d\U0001f680\"\n}": "{\n  \"k\": \"Grüße 漢字 \U0001f469\u200d\U0001f680\"\n}",
		"[\"\u009b31m\u0085\x7f\"]":                              `["\u009b31m\u0085\u007f"]`,
		"{\"\u202ek\":\"\u2066\u061c\u2028\"}":                   `{"\u202ek":"\u2066\u061c\u2028"}`,
		`"\\` + "\u202e\"":                                       `"\\\u202e"`,
	} {
		got := visibleJSON([]byte(in))
		if string(got) != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		var before, after any
		if err := errors.Join(json.Unmarshal([]byte(in), &before), json.Unmarshal(got, &after)); err != nil || !cmp.Equal(before, after) {
			t.Errorf("%q means another thing as %s: %v", in, got, err)
		}
	}
}

// TestChunks: the chunks of a text are one block, which looks as the whole text does, wherever it was cut.
func TestChunks(t *testing.T) {
	chunk := func(more, last bool, id string, texts ...string) a2a.Event {
		ev := &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ArtifactID: id}, Append: more, LastChunk: last}
		for _, s := range texts {
			ev.Artifact.Parts = append(ev.Artifact.Parts, a2a.TextPart(s))
		}
		return ev
	}
	working := &a2a.TaskStatusUpdateEvent{Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}
	data := &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ArtifactID: "a", Parts: []*a2a.Part{{Content: a2a.Data("1")}}}, Append: true}
	for name, tt := range map[string]struct {
		events []a2a.Event
		want   string
	}{
		"one":            {[]a2a.Event{chunk(false, true, "a", "x\n")}, "Artifact: a\nText:\n  x\n\n"},
		"three":          {[]a2a.Event{chunk(false, false, "a", "on"), chunk(true, false, "a", "e ", "two\nth"), chunk(true, true, "a", "ree")}, "Artifact: a\nText:\n  one two\n  three\n\n"},
		"no last":        {[]a2a.Event{chunk(false, false, "a", "x"), chunk(true, false, "a", "y")}, "Artifact: a\nText:\n  xy\n\n"},
		"after the last": {[]a2a.Event{chunk(false, true, "a", "x"), chunk(true, false, "a", "y")}, "Artifact: a\nText:\n  x\n\nArtifact: a\nText:\n  y\n\n"},
		"empty last":     {[]a2a.Event{chunk(false, false, "a", "x"), chunk(true, true, "a")}, "Artifact: a\nText:\n  x\n\n"},
		"empty":          {[]a2a.Event{chunk(false, true, "a")}, "Artifact: a\n"},
		"line ends":      {[]a2a.Event{chunk(false, false, "a", "x\r"), chunk(true, false, "a", "\ny\n"), chunk(true, true, "a", "\n")}, "Artifact: a\nText:\n  x\n  y\n  \n\n"},
		"a bare CR":      {[]a2a.Event{chunk(false, false, "a", "x\r"), chunk(true, true, "a", "\x1b\r")}, "Artifact: a\nText:\n  x\\r\\x1b\\r\n\n"},
		"status":         {[]a2a.Event{chunk(false, false, "a", "x"), working, chunk(true, true, "a", "y")}, "Artifact: a\nText:\n  x\n\nState: WORKING\nArtifact: a\nText:\n  y\n\n"},
		"two":            {[]a2a.Event{chunk(false, false, "a", "x"), chunk(false, false, "b", "y"), chunk(true, false, "b", "z")}, "Artifact: a\nText:\n  x\n\nArtifact: b\nText:\n  yz\n\n"},
		"replaced":       {[]a2a.Event{chunk(false, false, "a", "x"), chunk(false, false, "a", "y")}, "Artifact: a\nText:\n  x\n\nArtifact: a\nText:\n  y\n\n"},
		"another kind":   {[]a2a.Event{chunk(false, false, "a", "x"), data, chunk(true, true, "a", "y")}, "Artifact: a\nText:\n  x\n\nArtifact: a\nData:\n  1\n\nArtifact: a\nText:\n  y\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			o := &output{w: &b}
			for _, ev := range tt.events {
				if err := o.printEvent(ev); err != nil {
					t.Fatal(err)
				}
			}
			if err := o.endText(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	const whole = "a\r\n\nb\rü\u202e\n"
	var want text
	want.artifact(&a2a.Artifact{ArtifactID: "a", Parts: []*a2a.Part{a2a.TextPart(whole)}})
	var b strings.Builder
	o := &output{w: &b}
	for i, r := range whole {
		if err := o.printEvent(chunk(i > 0, false, "a", string(r))); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.endText(); err != nil || b.String() != want.String() {
		t.Errorf("%q, want %q; %v", b.String(), want.String(), err)
	}
}

func TestTaskText(t *testing.T) {
	task := &a2a.Task{
		ID: "t1", ContextID: "c1",
		Status: a2a.TaskStatus{
			State: a2a.TaskStateWorking, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
			Message: &a2a.Message{MessageID: "m2", Parts: []*a2a.Part{a2a.TextPart("one"), a2a.TextPart("two\n\nthree")}},
		},
		Artifacts: []*a2a.Artifact{
			{ArtifactID: "a1", Parts: []*a2a.Part{
				a2a.TextPart("chunk "), a2a.TextPart("chunk\n"),
				{Content: a2a.Data(`{"b":[],"a":{"k":"\u001b"}}`), MediaType: "application/json"},
				{Content: a2a.Raw("abc")},
				a2a.TextPart("end"),
				{Content: a2a.URL("https://example.com/x"), Filename: "x", MediaType: "image/png"},
				{},
			}},
			{ArtifactID: "a2", Name: "empty"},
		},
		History:  []*a2a.Message{{MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hi")}}},
		Metadata: a2a.Struct{"z": []byte("1"), "k": []byte(`"v"`)},
	}
	const concise = `Task: t1
Context: c1
State: WORKING
Message:
  one
  two
  
  three

Artifact: a1
Text:
  chunk chunk

Data:
  {
    "b": [],
    "a": {
      "k": "\u001b"
    }
  }

File: unnamed (3 bytes)
Text:
  end

File: x (image/png, at https://example.com/x)
Part: empty
Artifact: empty
`
	show := func(verbose, history bool) string {
		text := &text{verbose: verbose}
		text.task(task, "", history)
		return text.String()
	}
	if diff := cmp.Diff(concise, show(false, false)); diff != "" {
		t.Errorf("concise (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(concise+"User:\n  hi\n\n", show(false, true)); diff != "" {
		t.Errorf("with history (-want +got):\n%s", diff)
	}
	const verbose = `Task: t1
Context: c1
State: WORKING
Updated: 2026-01-02T03:04:05.006Z
Metadata:
  {
    "k": "v",
    "z": 1
  }

Message-ID: m2
Part: text
Message:
  one

Part: text
Message:
  two
  
  three

Artifact: a1
Artifact-ID: a1
Part: text
Text:
  chunk 

Part: text
Text:
  chunk

Part: data (application/json)
Data:
  {
    "b": [],
    "a": {
      "k": "\u001b"
    }
  }

Part: file
File: unnamed (3 bytes)
Part: text
Text:
  end

Part: file (image/png)
File: x (image/png, at https://example.com/x)
Part: empty
Artifact: empty
Artifact-ID: a2
Message-ID: m1
Part: text
User:
  hi

`
	if diff := cmp.Diff(verbose, show(true, false)); diff != "" {
		t.Errorf("verbose (-want +got):\n%s", diff)
	}
}

func TestPartOrder(t *testing.T) {
	var ps partSpecs
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	ps.register(fs)
	err := fs.Parse([]string{"--text", "1", "--file", "2", "--text", "3", "--media-type", "text/x", "--data", "-", "--text=4"})
	if err != nil {
		t.Fatal(err)
	}
	want := partSpecs{{"text", "1", ""}, {"file", "2", ""}, {"text", "3", "text/x"}, {"data", "-", ""}, {"text", "4", ""}}
	if diff := cmp.Diff(want, ps, cmp.AllowUnexported(partSpec{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMediaTypes(t *testing.T) {
	for content, want := range map[string]string{
		"":                        "text/plain",
		"plain":                   "text/plain",
		"Grüße":                   "text/plain",
		"\x00\x01\xff":            "application/octet-stream",
		"\x89PNG\x0d\x0a\x1a\x0a": "image/png",
		"%PDF-1.7":                "application/pdf",
		"<html><body>":            "text/html",
	} {
		if got := typeByContent([]byte(content)); got != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
	if got := typeByName("a/b.JSON"); got != "application/json" {
		t.Errorf("b.JSON: %s", got)
	}
}

func TestProgress(t *testing.T) {
	var stdout, stderr strings.Builder
	f := &clientFlags{bearer: "t0ken"}
	s := &session{output: output{w: &stdout}, flags: f, person: true, err: newRedactor(&stderr, f)}
	working := a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{Parts: []*a2a.Part{a2a.TextPart("t0ken\x1b[2J 10%")}}}
	for _, status := range []a2a.TaskStatus{{State: a2a.TaskStateWorking}, working, {State: a2a.TaskStateCompleted}} {
		ev := &a2a.TaskStatusUpdateEvent{TaskID: "t1", Status: status}
		task := &a2a.Task{ID: "t1", Status: status}
		if err := s.showEvent(a2a.NewEntry(0, ev), task, settled(status.State)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "WORKING\nWORKING: [redacted]\\x1b[2J 10%\n"; stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("stderr %q, want %q; stdout %q", stderr.String(), want, stdout.String())
	}
}
