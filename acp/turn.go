package acp

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/child"
)

// event is what the agent says during a turn: one of an update, a request, and the end.
type event struct {
	update  json.RawMessage
	request *message
	end     *end
}

// end is the answer to the prompt, or why there is none.
type end struct {
	m   *message
	err error
}

// turn is one prompt and what comes of it. It is at work in one Handle after the other, or parked between two; whoever
// has it, has it alone, but for its channels.
type turn struct {
	a      *Agent
	sl     *slot
	s      *session
	task   string
	files  prompter
	events chan event
	ended  chan struct{} // closed when nobody takes events any more

	u        *agent.Updater // of the Handle at work; nil: nobody is told
	think    bool           // the caller wants thoughts
	text     *child.Text    // the response
	thoughts *child.Text
	begun    map[string]bool // artifacts that are written in chunks
	tools    map[string]tool
	diffs    map[string]string // the last of each
	step     string            // of the plan
	about    a2a.Struct        // what the last status says
	question *question         // open
	finished bool              // the prompt was answered, or never will be
}

// begin begins a turn: the prompt is sent. Where the task was asked something by an agent that is gone, that is its
// first message again.
func (a *Agent) begin(ctx context.Context, sl *slot, r *agent.Request, u *agent.Updater) (*turn, error) {
	var notices []string
	first, asked := past(r.Task)
	if asked {
		notices = append(notices, "The agent that asked is gone. The request is made again, and the answer was not used.")
	}
	if sl.s == nil || sl.s.ended() {
		s, lost, err := a.open(ctx, r)
		if err != nil {
			return nil, err
		}
		if sl.s = s; lost {
			notices = append(notices, "The agent's session could not be taken up again: it knows nothing of what was said before.")
		}
	}
	for _, text := range notices {
		if err := u.Message(a2a.TextPart(text)); err != nil {
			return nil, err
		}
	}
	t := &turn{
		a: a, sl: sl, s: sl.s, task: r.Task.ID, events: make(chan event, 64), ended: make(chan struct{}),
		files: prompter{can: sl.s.info.Capabilities.Prompt, dir: a.cfg.Dir, name: path.Join(".parley", r.Task.ID)},
		begun: map[string]bool{}, tools: map[string]tool{}, diffs: map[string]string{},
	}
	t.attach(r, u)
	blocks, err := t.files.blocks(first.Parts)
	if err != nil {
		t.files.clean()
		return nil, err
	}
	t.s.setTurn(t)
	err = t.s.c.start(ctx, methodPrompt, promptParams{t.s.id, blocks}, func(m *message, err error) {
		t.s.push(t.s.id, event{end: &end{m, err}})
	})
	if err != nil {
		t.end()
		return nil, t.s.explain(err)
	}
	return t, nil
}

// past returns the message that began the task, and whether an agent asked for a decision since.
func past(task *a2a.Task) (first *a2a.Message, asked bool) {
	for _, m := range task.History {
		switch {
		case m.Role == a2a.RoleAgent:
			asked = slices.ContainsFunc(m.Parts, isQuestion)
		case first == nil:
			first = m
		}
	}
	return first, asked
}

// attach makes the turn that of a Handle.
func (t *turn) attach(r *agent.Request, u *agent.Updater) {
	t.u, t.think = u, slices.Contains(r.Extensions, ThoughtsExtension)
	t.text, t.thoughts = t.writer("response"), t.writer("thoughts")
}

// writer returns the writer of an artifact, which goes on where the turn began it in an earlier Handle.
func (t *turn) writer(name string) *child.Text {
	if t.begun[name] {
		return child.NewText(t.u.Open(name))
	}
	return child.NewText(t.u.BeginArtifact(a2a.Artifact{ArtifactID: name, Name: name}))
}

// end lets nothing more of the agent in.
func (t *turn) end() {
	t.s.setTurn(nil)
	close(t.ended)
	t.files.clean()
}

// work does what the agent says until the turn is over or waits for the caller.
func (t *turn) work(ctx context.Context) error {
	beat := time.NewTicker(time.Minute)
	defer beat.Stop()
	for {
		select {
		case ev := <-t.events:
			if err := t.take(ctx, ev); err != nil || t.finished || t.question != nil {
				return err
			}
		case <-beat.C:
			t.u.Alive()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *turn) take(ctx context.Context, ev event) error {
	switch {
	case ev.update != nil:
		return t.update(ev.update)
	case ev.request != nil:
		return t.request(ctx, ev.request)
	}
	t.finished = true
	return t.finish(ev.end)
}

// flush sends the text that is there, so that what follows comes after it.
func (t *turn) flush() error {
	err := t.text.Flush()
	if terr := t.thoughts.Flush(); err == nil {
		err = terr
	}
	return err
}

// resume goes on with a turn that waited for the message.
func (t *turn) resume(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	t.attach(r, u)
	q := t.question
	result := q.answer(r.Message)
	if result == nil {
		return u.Park(q.parts("That is none of the answers.")...)
	}
	t.question = nil
	if err := t.s.c.reply(ctx, q.id, result); err != nil {
		return t.s.explain(err)
	}
	return t.work(ctx)
}

// cancel asks the agent to end the turn, as it wants to be asked, and ends the program when it does not.
func (t *turn) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), t.a.cfg.Cancel)
	defer stop()
	if t.u != nil {
		_ = t.flush() // the caller may have no use for it
	}
	err := t.s.c.notify(ctx, methodCancel, map[string]string{"sessionId": t.s.id})
	if q := t.question; q != nil && err == nil {
		t.question = nil
		err = t.s.c.reply(ctx, q.id, refusal(q.method))
	}
	for err == nil && !t.finished {
		select {
		case ev := <-t.events:
			switch {
			case ev.end != nil:
				t.finished = true
				err = ev.end.err
			case ev.request != nil:
				err = t.s.c.reply(ctx, ev.request.ID, refusal(ev.request.Method))
			case t.u != nil:
				_ = t.update(ev.update)
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if t.u != nil {
		_ = t.flush()
	}
	if err != nil {
		t.s.close()
	}
}

// finish ends the task as the answer to the prompt says.
func (t *turn) finish(e *end) error {
	err := t.text.Close()
	if terr := t.thoughts.Close(); err == nil {
		err = terr
	}
	switch {
	case errors.Is(err, agent.ErrEnded):
		return err
	case e.err != nil:
		return t.s.explain(e.err)
	case e.m.Error != nil:
		return t.s.explain(e.m.Error)
	case err != nil:
		return err
	}
	var result promptResult
	if err := json.Unmarshal(e.m.Result, &result); err != nil {
		return agent.Errorf("the agent's answer to the prompt cannot be read: %w", err)
	}
	if len(result.Usage) > 0 {
		t.note("usage", result.Usage)
	}
	return t.stopped(result.StopReason)
}

// stopped ends the task as a stop reason says.
func (t *turn) stopped(reason string) error {
	if reason != stopEndTurn || len(t.about) > 0 {
		t.about = t.about.With("stopReason", clip(reason, 100))
	}
	switch reason {
	case stopEndTurn:
		return t.u.Complete(t.last("")...)
	case stopRefusal:
		return t.u.Reject(t.last("The agent refused to go on.")...)
	case stopCancelled:
		return agent.Errorf("the agent canceled the turn: %w", agent.ErrCanceled)
	case "max_tokens":
		return t.u.Fail(t.last("The agent has used up its tokens. What it has done so far is kept, and a new task of this context goes on from there.")...)
	case "max_turn_requests":
		return t.u.Fail(t.last("The agent has used up its requests for one turn. What it has done so far is kept, and a new task of this context goes on from there.")...)
	}
	return t.u.Fail(t.last("The agent ended the turn for a reason that is not known: " + clip(reason, 100) + ".")...)
}

// last are the parts of the last status: what there is to say, and what is known about the turn.
func (t *turn) last(text string) []*a2a.Part {
	var parts []*a2a.Part
	if text != "" {
		parts = append(parts, a2a.TextPart(text))
	}
	if len(t.about) > 0 {
		parts = append(parts, a2a.DataPart(t.about))
	}
	return parts
}
