package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/child"
)

// event is a line of a program that writes events.
type event struct {
	Text      *string       `json:"text"`
	Status    parts         `json:"status"`
	Artifact  *a2a.Artifact `json:"artifact"`
	Append    bool          `json:"append"`
	LastChunk *bool         `json:"lastChunk"`
	Ask       parts         `json:"ask"`
}

// parts are given as a text, or as an array of A2A parts.
type parts []*a2a.Part

// UnmarshalJSON implements json.Unmarshaler.
func (p *parts) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*p = parts{a2a.TextPart(text)}
		return nil
	}
	return json.Unmarshal(b, (*[]*a2a.Part)(p))
}

// errAsking ends a question whose program has ended.
var errAsking = errors.New("command: the program ended while its question was open")

// events runs a program that writes events.
func (t *turn) events(ctx context.Context) error {
	in := t.input()
	defer close(in)
	in <- line("message", t.r.Message)
	text := child.NewText(t.u.Begin("output"))
	lines := child.NewLines(t.p.Stdout, t.cfg.MaxLine)
	var err error
	for n := 1; err == nil; n++ {
		var b []byte
		if b, err = lines.Next(); err == nil {
			_, err = t.spend(b)
		}
		if err == nil {
			err = explain(t.event(ctx, b, text, in), n)
		}
	}
	var tooLong *child.LineTooLongError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &tooLong):
		err = agent.Errorf("%s, and the program was ended: split the event, a long text into several events, an artifact into chunks (append)", tooLong.Error())
		fallthrough
	case !errors.Is(err, io.EOF) && !errors.Is(err, child.ErrPartial) && !errors.Is(err, errAsking):
		_ = text.Close() // what came before is kept, where it can be
		return err
	}
	_, verdict := t.ended(ctx)
	if ctx.Err() != nil {
		return verdict
	}
	if cerr := text.Close(); cerr != nil {
		return cerr
	}
	ferr := t.files()
	switch {
	case verdict != nil:
		return verdict
	case errors.Is(err, child.ErrPartial):
		return t.failed("half an event: every event, the last one too, is a line that ends with a newline")
	case errors.Is(err, errAsking):
		return t.failed("its question unanswered")
	}
	return ferr
}

// explain says of an error that is about line n where it is.
func explain(err error, n int) error {
	var e *a2a.Error
	switch {
	case err == nil, errors.Is(err, errAsking), errors.Is(err, agent.ErrEnded), errors.Is(err, agent.ErrCanceled), errors.As(err, &e) && e.Code == a2a.ErrInternal:
		return err
	}
	return agent.Errorf("line %d of the program's output is not an event that can be taken: %s: %w", n, strings.TrimPrefix(err.Error(), "command: "), err)
}

// event does what a line says.
func (t *turn) event(ctx context.Context, b []byte, text *child.Text, in chan<- []byte) error {
	if len(b) == 0 {
		return nil
	}
	if !utf8.Valid(b) {
		return errors.New("command: it is not UTF-8: give bytes as an artifact with a raw part, in base64")
	}
	var e event
	if err := json.Unmarshal(b, &e); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	switch {
	case e.Text != nil:
		return text.Write([]byte(*e.Text))
	case e.Status != nil:
		if err := text.Flush(); err != nil {
			return err
		}
		return t.u.Progress(e.Status...)
	case e.Artifact != nil:
		return t.artifact(&e)
	case e.Ask != nil:
		if err := text.Flush(); err != nil {
			return err
		}
		answer, err := t.ask(ctx, e.Ask)
		if err != nil {
			return err
		}
		in <- line("answer", answer)
	default:
		t.r.Log.Debug("an event of the program that is not known was ignored")
	}
	return nil
}

func (t *turn) artifact(e *event) error {
	switch last := e.LastChunk; {
	case e.Append && last != nil && *last:
		return t.u.Open(e.Artifact.ArtifactID).Last(e.Artifact.Parts...)
	case e.Append:
		return t.u.Open(e.Artifact.ArtifactID).Write(e.Artifact.Parts...)
	case last != nil && !*last:
		return t.u.BeginArtifact(*e.Artifact).Write()
	}
	return t.u.Artifact(*e.Artifact)
}

// ask asks for as long as the program lives.
func (t *turn) ask(ctx context.Context, question parts) (*a2a.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-t.p.Done():
			cancel(errAsking)
		case <-ctx.Done():
		}
	}()
	answer, err := t.u.Ask(ctx, question...)
	if err != nil && errors.Is(context.Cause(ctx), errAsking) {
		err = errAsking
	}
	return answer, err
}

// line is a message for the program.
func line(name string, m *a2a.Message) []byte {
	b := append([]byte(`{"`), name...)
	return append(m.AppendJSON(append(b, `":`...)), "}\n"...)
}
