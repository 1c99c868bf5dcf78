package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/child"
)

// maxLast is how much of the output's end is kept, when the rest was handed on, since it may be a question.
const maxLast = 4 << 10

// text runs a program that reads text and writes text.
func (t *turn) text(ctx context.Context) error {
	in := t.input()
	in <- []byte(t.r.Text())
	close(in)
	var chunks *child.Text
	if t.cfg.Stream {
		chunks = child.NewText(t.u.Begin("output"))
	}
	output, err := t.read(chunks)
	if err != nil && ctx.Err() == nil {
		_ = t.deliver(chunks, output) // what came before is kept, where it can be
		return err
	}
	code, verdict := t.ended(ctx)
	if ctx.Err() != nil {
		return verdict
	}
	before, question := lastLine(output)
	if code != exitInput {
		before = output
	}
	if err := t.deliver(chunks, before); err != nil {
		return err
	}
	if err := t.files(); err != nil && verdict == nil {
		return err
	}
	if code == exitInput {
		if question == "" {
			question = "The program needs more input."
		}
		return t.u.Park(a2a.TextPart(question))
	}
	return verdict
}

// read reads the output to its end and returns it, or the end of it where the output is handed on in chunks. With an error it
// returns what came before.
func (t *turn) read(chunks *child.Text) (output []byte, err error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := t.p.Stdout.Read(buf)
		piece, over := t.spend(buf[:n])
		output = append(output, piece...)
		if over != nil { // maybe within a character
			output = child.Whole(output)
		}
		if chunks != nil {
			if err := chunks.Write(piece); err != nil {
				return output, err
			}
			if over != nil {
				chunks.Cut()
			}
			output = append(output[:0], output[max(0, len(output)-maxLast):]...)
		}
		switch {
		case over != nil:
			return output, over
		case errors.Is(err, io.EOF):
			return output, nil
		case err != nil:
			return output, err
		}
	}
}

// deliver hands on the output, or ends it where it was handed on.
func (t *turn) deliver(chunks *child.Text, output []byte) error {
	if chunks != nil {
		return chunks.Close()
	}
	if len(output) == 0 {
		return nil
	}
	p := a2a.TextPart(string(output))
	if !utf8.Valid(output) {
		p = &a2a.Part{Content: a2a.Raw(output), MediaType: http.DetectContentType(output)}
	}
	return t.u.Artifact(a2a.Artifact{Name: "output", Parts: []*a2a.Part{p}})
}

// lastLine splits off the last line, without its end and the empty lines after it.
func lastLine(b []byte) (before []byte, line string) {
	b = bytes.TrimRight(b, "\r\n")
	i := bytes.LastIndexByte(b, '\n') + 1
	return b[:i], strings.TrimSpace(string(b[i:]))
}
