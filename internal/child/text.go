package child

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// How text is gathered into chunks.
const (
	chunkAfter = 50 * time.Millisecond
	chunkSize  = 4 << 10
	maxChunk   = 256 << 10 // a longer piece goes out in several
)

// Text writes an artifact of text from the pieces in which a program tells it. A chunk goes out when 4 KiB are there,
// or 50 ms after its first piece, and never ends within a character. One that is not UTF-8 goes out as bytes, a raw part.
// It is safe for use by several goroutines.
type Text struct {
	mu      sync.Mutex
	w       *agent.ArtifactWriter
	buf     []byte
	timer   *time.Timer
	written bool
	closed  bool
	err     error
}

// NewText returns a writer of the text of an artifact.
func NewText(w *agent.ArtifactWriter) *Text { return &Text{w: w} }

// Write takes a piece. The error may be that of an earlier one.
func (t *Text) Write(piece []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || len(piece) == 0 {
		return t.err
	}
	t.buf = append(t.buf, piece...)
	if len(t.buf) >= chunkSize {
		t.flush(false)
	} else if t.timer == nil {
		t.timer = time.AfterFunc(chunkAfter, t.tick)
	}
	return t.err
}

// Parts takes parts that are no text, after the text that came before.
func (t *Text) Parts(parts ...*a2a.Part) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush(true)
	if t.err == nil {
		t.err, t.written = t.w.Write(parts...), true
	}
	return t.err
}

// Flush sends what is there.
func (t *Text) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush(true)
	return t.err
}

// Cut drops the start of a character whose end is not to come.
func (t *Text) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = Whole(t.buf)
}

// Close sends what is there as the last chunk. An artifact without any content is not begun.
func (t *Text) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	if t.closed || t.err != nil || len(t.buf) == 0 && !t.written {
		return t.err
	}
	t.closed = true
	for len(t.buf) > maxChunk && t.err == nil {
		t.send(len(Whole(t.buf[:maxChunk])))
	}
	if t.err == nil {
		t.err = t.w.Last(part(t.buf))
	}
	return t.err
}

func (t *Text) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.flush(false)
	}
}

// flush sends what is there; without all, the start of a character waits for its end.
func (t *Text) flush(all bool) {
	t.stop()
	for t.err == nil && len(t.buf) > 0 {
		n := min(len(t.buf), maxChunk)
		if !all || n < len(t.buf) {
			n = len(Whole(t.buf[:n]))
		}
		if n == 0 {
			return
		}
		t.send(n)
	}
}

func (t *Text) stop() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

func (t *Text) send(n int) {
	t.err, t.written = t.w.Write(part(t.buf[:n])), true
	if t.buf = t.buf[n:]; len(t.buf) == 0 {
		t.buf = nil
	}
}

// part returns output as a text, or as bytes where it is none: as a text they would be lost.
func part(b []byte) *a2a.Part {
	if utf8.Valid(b) {
		return a2a.TextPart(string(b))
	}
	return &a2a.Part{Content: a2a.Raw(b), MediaType: "application/octet-stream"}
}

// Whole returns b without the start of a character at its end.
func Whole(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
