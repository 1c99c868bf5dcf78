package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// progress is the line on which a person at a terminal sees how far the work is. It is the last one on the screen, is
// written over and over, and is gone before anything else is written. Nil: nobody is there to see it.
type progress struct {
	w io.Writer

	mu    sync.Mutex
	wide  int       // how many columns it has now
	drawn time.Time // when it was written last
}

// progressPause is the least time from one line to the next.
const progressPause = 250 * time.Millisecond

// progress returns the line for a command whose result and whose words about it both go to a terminal.
func (a *app) progress() *progress {
	if !a.person() {
		return nil
	}
	return &progress{w: a.err}
}

// person reports whether somebody watches: a result that goes elsewhere is for a program.
func (a *app) person() bool { return isTerminal(a.out) && isTerminal(a.err) }

// show writes the line, unless it was written just now. The last word of a transfer is always said.
func (p *progress) show(line string, last bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !last && time.Since(p.drawn) < progressPause {
		return
	}
	p.wipe()
	runes := []rune(visible(line))
	runes = runes[:min(len(runes), width-1)] // a line that is broken could not be written over
	p.wide, p.drawn = len(runes), time.Now()
	_, _ = io.WriteString(p.w, string(runes)) // nobody sees it then
}

// wipe clears the line with blanks: there are no control sequences in what parley writes.
func (p *progress) wipe() {
	if p.wide > 0 {
		_, _ = io.WriteString(p.w, "\r"+strings.Repeat(" ", p.wide)+"\r") // nobody sees it then
		p.wide = 0
	}
}

// end wipes the line.
func (p *progress) end() {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wipe()
	}
}

// before returns w so that the line is wiped before anything is written.
func (p *progress) before(w io.Writer) io.Writer {
	if p == nil {
		return w
	}
	return afterWiping{w, p}
}

type afterWiping struct {
	io.Writer
	p *progress
}

// Write implements io.Writer.
func (w afterWiping) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.wipe()
	return w.Writer.Write(b)
}

// shownFrom is how many bytes of a transfer have to be there before it is shown: less is there before one could read it.
const shownFrom = 64 << 10

// transfer counts the bytes of a message on their way.
type transfer struct {
	progress *progress
	verb     string
	total    int64 // 0 or less: not known
	n        int64
}

func (t *transfer) add(n int) {
	t.n += int64(n)
	if n == 0 || t.n < shownFrom {
		return
	}
	line := t.verb + " " + size(t.n)
	if t.total > 0 {
		line += " of " + size(t.total)
	}
	t.progress.show(line, t.n == t.total)
}

// size returns a number of bytes for people.
func size(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d kB", n/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// countedBody counts a body as it is read.
type countedBody struct {
	io.ReadCloser
	t transfer
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.t.add(n)
	return n, err
}

// counted returns r so that the person sees how much of it was sent.
func (n *network) counted(r *http.Request) *http.Request {
	if n.progress == nil || r.Body == nil || r.Body == http.NoBody {
		return r
	}
	out := r.WithContext(r.Context())
	out.Body = &countedBody{r.Body, n.transfer("Sending", r.ContentLength)}
	return out
}

// countAnswer has the person see how much of an answer, or of a stream, has arrived.
func (n *network) countAnswer(answer *http.Response) {
	if n.progress != nil {
		answer.Body = &countedBody{answer.Body, n.transfer("Receiving", answer.ContentLength)}
	}
}

func (n *network) transfer(verb string, total int64) transfer {
	return transfer{n.progress, verb, total, 0}
}
