// Package script is an agent for tests that does what its message says, so that one agent serves every
// conversation.
//
// The script is the first data part of the message that is a list: each element is an object that names one
// step, see [Step]. A message without a script is echoed.
package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// Step is one thing to do. One of its fields is set; Until and As belong to the fields that they name.
type Step struct {
	Progress *string `json:"progress"` // a transient status text
	Message  *string `json:"message"`  // a status text that is kept

	Artifact   *Text   `json:"artifact"`   // a whole artifact
	Chunks     *Chunks `json:"chunks"`     // an artifact in chunks
	Append     *Text   `json:"append"`     // a chunk for the artifact with that id
	Echo       bool    `json:"echo"`       // the other parts of the message, or of the last answer, as an artifact
	References bool    `json:"references"` // the texts of the tasks that the message refers to, as an artifact
	Remember   *string `json:"remember"`   // a note for later tasks of the context
	Recall     bool    `json:"recall"`     // that note as an artifact

	Ask      *string `json:"ask"`      // wait for an answer
	AskAuth  *string `json:"askAuth"`  // wait for an authorization
	Until    string  `json:"until"`    // of ask and askAuth: withdraw when this gate opens
	Park     *string `json:"park"`     // give the task out of hand
	ParkAuth *string `json:"parkAuth"` // the same, for an authorization

	Wait      string `json:"wait"`      // for this gate
	Cleanup   string `json:"cleanup"`   // wait for a cancel, then say this
	Committed bool   `json:"committed"` // pass the point of no return

	Complete *string `json:"complete"` // end the task with this message
	Fail     *string `json:"fail"`
	Reject   *string `json:"reject"`
	Error    *string `json:"error"`  // return an error that the caller may read
	Secret   *string `json:"secret"` // return one that it may not
	Panic    *string `json:"panic"`

	Reply  *string `json:"reply"`  // instead of a task, a message; with "" one without parts
	Refuse *string `json:"refuse"` // instead of a task, an error; with "" one that is only a code
	As     string  `json:"as"`     // of refuse: the error's reason, such as CONTENT_TYPE_NOT_SUPPORTED
}

// Text is an artifact of one text. An empty ID is made by the host.
type Text struct{ ID, Name, Text string }

// Chunks is an artifact in chunks: the Texts, Times times over.
type Chunks struct {
	ID, Name string
	Texts    []string
	Times    int  // default 1
	Last     bool // mark the last chunk
	Close    bool // say nothing about the last chunk, and write one more
}

// Agent plays scripts. The zero value is ready.
type Agent struct {
	mu    sync.Mutex
	gates map[string]*gate
}

var (
	_ agent.Agent    = (*Agent)(nil)
	_ agent.Accepter = (*Agent)(nil)
)

// gate is where runs wait for the test and the test for runs.
type gate struct {
	reached, open   chan struct{}
	arrived, opened sync.Once
}

func (a *Agent) gate(name string) *gate {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[name]
	if g == nil {
		if a.gates == nil {
			a.gates = map[string]*gate{}
		}
		g = &gate{reached: make(chan struct{}), open: make(chan struct{})}
		a.gates[name] = g
	}
	return g
}

// Open opens a gate, for those who wait and who will.
func (a *Agent) Open(name string) {
	g := a.gate(name)
	g.opened.Do(func() { close(g.open) })
}

// Reached is closed once a run waits, or has waited, for the gate.
func (a *Agent) Reached(name string) <-chan struct{} { return a.gate(name).reached }

func (g *gate) arrive() { g.arrived.Do(func() { close(g.reached) }) }

func (a *Agent) wait(ctx context.Context, name string) error {
	g := a.gate(name)
	g.arrive()
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// parse returns the steps of a message and its other parts.
func parse(m *a2a.Message) (steps []Step, rest []*a2a.Part, err error) {
	for i, p := range m.Parts {
		data, ok := p.Content.(a2a.Data)
		if !ok || len(data) == 0 || data[0] != '[' {
			continue
		}
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.DisallowUnknownFields()
		if err := d.Decode(&steps); err != nil {
			return nil, nil, a2a.InvalidField(fmt.Sprintf("message.parts[%d].data", i), "not a script: %s", err.Error())
		}
		return steps, slices.Delete(slices.Clone(m.Parts), i, i+1), nil
	}
	return []Step{{Echo: true}}, m.Parts, nil
}

// Accept implements agent.Accepter: a script may begin with reply or refuse.
func (a *Agent) Accept(_ context.Context, r *agent.Request) (*a2a.Message, error) {
	steps, _, err := parse(r.Message)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	switch s := steps[0]; {
	case s.Reply != nil:
		return &a2a.Message{Parts: text(s.Reply)}, nil
	case s.Refuse != nil:
		code, ok := a2a.CodeOfReason(s.As)
		if !ok {
			return nil, fmt.Errorf("no reason %q", s.As)
		}
		if *s.Refuse == "" {
			return nil, code
		}
		return nil, a2a.Errorf(code, "%s", *s.Refuse)
	}
	return nil, nil
}

// Handle implements agent.Agent.
func (a *Agent) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	steps, rest, err := parse(r.Message)
	if err != nil {
		return err
	}
	p := player{Agent: a, ctx: ctx, r: r, u: u, rest: rest}
	for _, s := range steps {
		if err := p.do(s); err != nil {
			return err
		}
	}
	return nil
}

type player struct {
	*Agent

	ctx  context.Context
	r    *agent.Request
	u    *agent.Updater
	rest []*a2a.Part
}

func (p *player) do(s Step) error {
	switch {
	case s.Progress != nil:
		return p.u.Progress(text(s.Progress)...)
	case s.Message != nil:
		return p.u.Message(text(s.Message)...)
	case s.Artifact != nil, s.Chunks != nil, s.Append != nil, s.Echo, s.References, s.Recall:
		return p.write(s)
	case s.Remember != nil:
		return p.r.Values.Set("note", *s.Remember)
	case s.Ask != nil, s.AskAuth != nil, s.Park != nil, s.ParkAuth != nil:
		return p.interrupt(s)
	case s.Wait != "":
		return p.wait(p.ctx, s.Wait)
	case s.Cleanup != "":
		<-p.ctx.Done()
		return p.u.Message(text(&s.Cleanup)...)
	case s.Committed:
		return p.u.Committed()
	}
	return p.end(s)
}

func (p *player) end(s Step) error {
	switch {
	case s.Complete != nil:
		return p.u.Complete(text(s.Complete)...)
	case s.Fail != nil:
		return p.u.Fail(text(s.Fail)...)
	case s.Reject != nil:
		return p.u.Reject(text(s.Reject)...)
	case s.Error != nil:
		return agent.Errorf("%s", *s.Error)
	case s.Secret != nil:
		return errors.New(*s.Secret)
	case s.Panic != nil:
		panic(*s.Panic)
	}
	return agent.Errorf("a step that says nothing")
}

func (p *player) write(s Step) error {
	switch {
	case s.Artifact != nil:
		return p.u.Artifact(a2a.Artifact{ArtifactID: s.Artifact.ID, Name: s.Artifact.Name, Parts: text(&s.Artifact.Text)})
	case s.Chunks != nil:
		return p.chunks(s.Chunks)
	case s.Append != nil:
		return p.told(p.u.Open(s.Append.ID).WriteText(s.Append.Text))
	case s.Echo:
		return p.u.Artifact(a2a.Artifact{Name: "echo", Parts: p.rest})
	case s.References:
		return p.list("references", p.references())
	}
	return p.list("note", p.r.Values.Get("note"))
}

// told says what the author of the agent is told.
func (p *player) told(err error) error {
	if err == nil {
		return nil
	}
	words := err.Error()
	return p.u.Message(text(&words)...)
}

func (p *player) list(name, words string) error {
	if words == "" {
		words = "none"
	}
	return p.u.Artifact(a2a.Artifact{Name: name, Parts: text(&words)})
}

func (p *player) references() string {
	var words []string
	for _, t := range p.r.References {
		for _, m := range t.History {
			words = append(words, m.Text())
		}
	}
	return strings.Join(words, "; ")
}

func (p *player) chunks(c *Chunks) error {
	w := p.u.BeginArtifact(a2a.Artifact{ArtifactID: c.ID, Name: c.Name})
	total := len(c.Texts) * max(1, c.Times)
	for i := range total {
		part := a2a.TextPart(c.Texts[i%len(c.Texts)])
		write := w.Write
		if c.Last && i == total-1 {
			write = w.Last
		}
		if err := write(part); err != nil {
			return err
		}
	}
	if c.Close {
		if err := w.Close(); err != nil {
			return err
		}
		return p.told(w.WriteText("one more"))
	}
	return nil
}

func (p *player) interrupt(s Step) error {
	switch {
	case s.Park != nil:
		return p.u.Park(text(s.Park)...)
	case s.ParkAuth != nil:
		return p.u.ParkAuth(text(s.ParkAuth)...)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if s.Until != "" {
		go func() {
			_ = p.wait(ctx, s.Until)
			cancel()
		}()
	}
	ask, question := p.u.Ask, s.Ask
	if s.AskAuth != nil {
		ask, question = p.u.AskAuth, s.AskAuth
	}
	answer, err := ask(ctx, text(question)...)
	if err != nil && ctx.Err() != nil && p.ctx.Err() == nil {
		return nil // the gate opened: the question is withdrawn
	}
	if err != nil {
		return err
	}
	p.rest = answer.Parts
	return nil
}

// text returns a text part; none for an empty text.
func text(s *string) []*a2a.Part {
	if *s == "" {
		return nil
	}
	return []*a2a.Part{a2a.TextPart(*s)}
}
