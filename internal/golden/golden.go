// Package golden plays recorded conversations to a host, through every binding, and compares what crosses the
// wire. It is for tests.
//
// A conversation is a txtar file. Its comment says what it shows. Its sections are played in order:
//
//	-- host --               JSON for whoever starts the host, first
//	-- 1 SendMessage --      step 1: the operation's request as JSON
//	-- 1 result --           what comes back: result, error, or frames, one a line
//	-- 2 GetTask as bob --   a step of another caller (header Test-Caller)
//	-- 3 SubscribeToTask & --  a step in the background: a stream goes on after its first frame
//	-- 3 frames --           waits for the end of step 3
//	-- await 3 after 4 --    waits for four frames of step 3
//	-- cut 3 after 4 --      waits for four frames of step 3 and drops the connection
//	-- open gate --          any other words are for the host
//	-- 4 GetTask not GRPC -- a step that is left out where it cannot be said
//	-- 4 result GRPC --      what comes back where it must differ
//	-- 5 request --          a raw HTTP request; such a file is played once, over a bare connection
//	-- 5 response --         its status line, headers and body
//
// A request may begin with header lines and an empty line. Ids and times that the host makes are masked by the
// order in which they appear, as TASK-1, CONTEXT-1, ID-1, TOKEN-1 and TIME; a later request says {TASK-1}.
package golden

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long a step may take.
const patience = 20 * time.Second

// Host is what a conversation is played to.
type Host interface {
	// Addresses returns where the host is now: its HTTP URL, and its gRPC address.
	Addresses() (url, grpc string)
	// Do carries out the words of a section, such as: open gate.
	Do(ctx context.Context, words []string) error
}

// Run plays the conversations that match the pattern, each in its own subtest and through each binding on a
// host of its own. With update the files are written anew from what the first binding says; the others must say
// the same, save where the file has a section of theirs.
func Run(t *testing.T, pattern string, update bool, start func(t *testing.T, options []byte) Host) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations at %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			c := load(t, file)
			bindings := Bindings
			if c.raw {
				bindings = []string{rawHTTP}
			}
			for i, b := range bindings {
				t.Run(b, func(t *testing.T) {
					host := start(t, c.options)
					p := &player{T: t, c: c, host: host, binding: b, update: update, first: i == 0, calls: map[string]*call{}}
					p.play()
				})
			}
			if update && !t.Failed() {
				if err := os.WriteFile(file, []byte(format(c.comment, c.sections)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// conversation is a file.
type conversation struct {
	comment  string
	options  []byte
	sections []*section
	raw      bool
}

// section is one section of a file, its name cut into words.
type section struct {
	words []string
	data  string
}

// kinds are the words for what comes back.
var kinds = []string{"result", "error", "frames", "response"}

// step returns the number of the step that the section belongs to; answer says that it is what comes back.
func (s *section) step() (n string, answer, ok bool) {
	if _, err := strconv.Atoi(s.words[0]); err != nil || len(s.words) < 2 {
		return "", false, false
	}
	return s.words[0], slices.Contains(kinds, s.words[1]), true
}

// of returns the binding whose answer it is, or "".
func (s *section) of() string {
	if len(s.words) > 2 {
		return s.words[2]
	}
	return ""
}

func load(t *testing.T, file string) *conversation {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := new(conversation)
	c.comment, c.sections = parse(string(text))
	for _, s := range c.sections {
		switch {
		case s.words[0] == "host":
			c.options = []byte(s.data)
		case len(s.words) > 1 && s.words[1] == opRequest:
			c.raw = true
		}
	}
	return c
}

// player plays a conversation through one binding.
type player struct {
	*testing.T

	c       *conversation
	host    Host
	binding string
	update  bool
	first   bool // the binding that fills in what all say
	names   names
	calls   map[string]*call // not yet collected, by number

	conn Conn
	at   [2]string // the addresses that conn was made for
}

// call is a step that was sent.
type call struct {
	op     string
	cancel context.CancelFunc
	events chan event
	got    []event
	cut    bool
}

type event struct {
	json json.RawMessage
	err  error
}

func (p *player) play() {
	defer func() {
		if p.conn != nil {
			p.conn.Close()
		}
	}()
	for i := 0; i < len(p.c.sections); i++ {
		s := p.c.sections[i]
		n, answer, ok := s.step()
		switch {
		case !ok:
			p.direct(s)
		case answer:
			if p.calls[n] != nil { // of several sections for the step this is the first
				p.settle(n, p.answerSection(n))
			}
		default:
			p.send(n, s)
			if p.update && p.calls[n] != nil && p.answerSection(n) == nil {
				p.c.sections = slices.Insert(p.c.sections, i+1, &section{words: []string{n, "result"}})
			}
		}
	}
	for n := range p.calls {
		p.Errorf("step %s has no section for what comes back", n)
	}
}

// answerSection returns the section for what comes back to a step here.
func (p *player) answerSection(n string) *section {
	var common *section
	for _, s := range p.c.sections {
		switch at, answer, ok := s.step(); {
		case !ok || !answer || at != n:
		case s.of() == p.binding:
			return s
		case s.of() == "":
			common = s
		}
	}
	return common
}

// direct carries out a section that is not a step.
func (p *player) direct(s *section) {
	p.Helper()
	if s.words[0] == "host" {
		return
	}
	if len(s.words) == 4 && s.words[2] == "after" {
		p.after(s)
		return
	}
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if err := p.host.Do(ctx, s.words); err != nil {
		p.Fatalf("%s: %v", strings.Join(s.words, " "), err)
	}
}

// after waits for frames of a step, and drops its connection if the section says so.
func (p *player) after(s *section) {
	p.Helper()
	n := s.words[1]
	frames, err := strconv.Atoi(s.words[3])
	c := p.calls[n]
	if err != nil || c == nil || s.words[0] != "await" && s.words[0] != "cut" {
		p.Fatalf("section %s: want await or cut STEP after FRAMES, of a step that goes on", strings.Join(s.words, " "))
	}
	for len(c.got) < frames {
		if !p.next(n, c) {
			p.Fatalf("step %s ended after %d frames", n, len(c.got))
		}
	}
	if s.words[0] == "cut" {
		c.got, c.cut = c.got[:frames], true
		c.cancel()
	}
}

// send sends a step. A foreground step is collected at its answer's section, which follows.
func (p *player) send(n string, s *section) {
	p.Helper()
	r, background, skip := p.request(s)
	if skip {
		return
	}
	url, grpc := p.host.Addresses()
	if at := [2]string{url, grpc}; p.conn == nil || p.at != at {
		conn, err := Dial(p.binding, url, grpc)
		if err != nil {
			p.Fatal(err)
		}
		p.conn, p.at = conn, at
	}
	ctx, cancel := context.WithCancel(p.Context())
	c := &call{op: r.Op, cancel: cancel, events: make(chan event, 1)}
	p.calls[n] = c
	conn := p.conn
	go func() {
		defer close(c.events)
		for raw, err := range conn.Do(ctx, r) {
			select {
			case c.events <- event{raw, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if background && isStream(r.Op) {
		p.next(n, c)
	}
}

// request reads a step's section.
func (p *player) request(s *section) (r Request, background, skip bool) {
	p.Helper()
	r = Request{Op: s.words[1], Header: http.Header{}}
	for words := s.words[2:]; len(words) > 0; {
		arg := ""
		if len(words) > 1 {
			arg = words[1]
		}
		switch words[0] {
		case "&":
			background, words = true, words[1:]
		case "as":
			r.Header.Set(CallerHeader, arg)
			words = words[2:]
		case "not":
			skip = skip || arg == p.binding
			words = words[2:]
		default:
			p.Fatalf("section %s: what is %q?", strings.Join(s.words, " "), words[0])
		}
	}
	r.JSON = p.names.fill(s.data)
	if head, body, ok := strings.Cut(r.JSON, "\n\n"); ok && r.Op != opRequest && !strings.HasPrefix(head, "{") {
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(line, ":")
			r.Header.Add(name, strings.TrimSpace(value))
		}
		r.JSON = body
	}
	return r, background, skip
}

// next waits for the next event of a call; it is false at the end.
func (p *player) next(n string, c *call) bool {
	p.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e, ok := <-c.events:
		if ok {
			c.got = append(c.got, e)
		}
		return ok
	case <-timer.C:
		p.Fatalf("step %s: no end within %v, after:\n%s", n, patience, p.text(c))
		return false
	}
}

// settle waits for the end of a step and compares what came back.
func (p *player) settle(n string, want *section) {
	p.Helper()
	c := p.calls[n]
	delete(p.calls, n)
	for !c.cut && p.next(n, c) {
		continue
	}
	c.cancel()
	kind, text := c.kind(), p.text(c)
	if want == nil {
		p.Fatalf("step %s has no section for what comes back", n)
	}
	if p.update && (p.first || want.of() != "") {
		want.words[1], want.data = kind, text
		return
	}
	if want.words[1] != kind {
		p.Errorf("%s, step %s (%s): got %s, want %s:\n%s", p.binding, n, c.op, kind, want.words[1], text)
		return
	}
	if d := diff(want.data, text); d != "" {
		p.Errorf("%s, step %s (%s), -want +got:\n%s", p.binding, n, c.op, d)
	}
}

// kind returns the word for what came back.
func (c *call) kind() string {
	var e *Error
	failed := len(c.got) > 0 && errors.As(c.got[0].err, &e) && !e.InStream
	switch {
	case c.op == opRequest:
		return "response"
	case failed:
		return "error"
	case isStream(c.op):
		return "frames"
	}
	return "result"
}

// text returns what came back as a section has it.
func (p *player) text(c *call) string {
	p.Helper()
	var b strings.Builder
	for _, e := range c.got {
		var failure *Error
		switch {
		case errors.As(e.err, &failure):
			b.WriteString(p.names.mask(failure.Error()))
		case e.err != nil:
			p.Errorf("%s, %s: %v", p.binding, c.op, e.err)
			continue
		case c.op == opRequest:
			b.WriteString(p.names.mask(string(e.json)))
			continue
		case isStream(c.op):
			b.WriteString(p.names.mask(compact(e.json)))
		default:
			b.WriteString(pretty(p.names.mask(compact(e.json))))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
