package sse

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	gatherLimit = 64 << 10  // bytes of gathered frames that go out even if more are ready
	copyLimit   = 16 << 10  // data from this size on is written from where it lies
	pieceSize   = 256 << 10 // bytes that one write deadline covers
)

// Options are the times of a [Writer].
type Options struct {
	// KeepAlive is the silence after which a comment is sent, so that proxies keep the connection; zero:
	// never.
	KeepAlive time.Duration
	// WriteTimeout is how long the reader may take for a piece of 256 KiB before it is dropped; zero: for
	// ever.
	WriteTimeout time.Duration
}

// Writer answers a request with an event stream. Nothing is sent before the first frame, or the first
// comment where that comes earlier, so that an early error can still be an ordinary answer (see
// [Writer.Cancel]). It starts no goroutine. Its methods may be called from one goroutine at a time, and
// Close or Cancel must be called before the handler returns.
//
// After an error of Write the stream is over: the connection is broken, or its reader took too long.
type Writer struct {
	rw   http.ResponseWriter
	rc   *http.ResponseController
	opts Options

	mu      sync.Mutex // the handler and the timer
	buf     *[]byte    // frames not yet sent; nil: none
	timer   *time.Timer
	last    time.Time // of the last flush, or of the beginning
	started bool
	closed  bool
	err     error
}

// NewWriter returns a Writer that answers through w. From here on the response headers belong to it.
func NewWriter(w http.ResponseWriter, opts Options) *Writer {
	s := &Writer{rw: w, rc: http.NewResponseController(w), opts: opts, last: time.Now()}
	if opts.KeepAlive > 0 {
		s.mu.Lock() // the timer may fire before it is assigned
		s.timer = time.AfterFunc(opts.KeepAlive, s.keepAlive)
		s.mu.Unlock()
	}
	return s
}

// SetHeader sets a response header unless the stream has begun.
func (s *Writer) SetHeader(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.rw.Header().Set(name, value)
	}
}

// Write sends an event whose data are the parts, one after the other. An id of 0 is left out. With more the
// caller says that the next Write follows at once: frames gather and go out together. The parts are not
// kept after Write returns.
func (s *Writer) Write(id int64, more bool, parts ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.closed {
		return errClosed
	}
	s.frame(id, parts)
	if more && (s.buf == nil || len(*s.buf) < gatherLimit) {
		return s.err
	}
	s.flush()
	return s.err
}

// Cancel gives the response back if nothing was sent of the stream, and reports whether that is so: the
// caller then answers by itself.
func (s *Writer) Cancel() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return false
	}
	s.close()
	return true
}

// Close ends the stream. A stream that had no event is an empty one.
func (s *Writer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.err
	}
	if !s.started || s.buf != nil {
		s.flush()
	}
	s.close()
	return s.err
}

var errClosed = errors.New("sse: the stream was closed")

func (s *Writer) close() {
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.release()
}

// keepAlive runs on the timer. Writes do not reset the timer: it finds out by itself how long it was silent.
func (s *Writer) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil {
		return
	}
	rest := s.opts.KeepAlive - time.Since(s.last)
	if rest <= 0 {
		b := s.buffer()
		*b = append(*b, ":\n\n"...)
		s.flush()
		rest = s.opts.KeepAlive
	}
	if s.err == nil {
		s.timer.Reset(rest)
	}
}

// frame puts an event into the buffer, or sends it when it is a big one.
func (s *Writer) frame(id int64, parts [][]byte) {
	b := s.buffer()
	if id != 0 {
		*b = append(*b, "id: "...)
		*b = strconv.AppendInt(*b, id, 10)
		*b = append(*b, '\n')
	}
	*b = append(*b, "data: "...)
	for _, p := range parts {
		s.data(p)
	}
	b = s.buffer()
	*b = append(*b, "\n\n"...)
}

// data adds a part of an event's data. A line break in it, which JSON has only between tokens, begins
// another data line.
func (s *Writer) data(p []byte) {
	for {
		n, next := cutLine(p)
		s.add(p[:n])
		if next < 0 {
			return
		}
		b := s.buffer()
		*b = append(*b, "\ndata: "...)
		p = p[next:]
	}
}

// cutLine returns the length of the first line of p and where the next begins, or -1.
func cutLine(p []byte) (n, next int) {
	n = indexEOL(p)
	switch {
	case n < 0:
		return len(p), -1
	case p[n] == '\r' && n+1 < len(p) && p[n+1] == '\n':
		return n, n + 2
	}
	return n, n + 1
}

// indexEOL returns where the first line break of p is, or -1.
func indexEOL(p []byte) int {
	n := bytes.IndexByte(p, '\n')
	line := p
	if n >= 0 {
		line = p[:n]
	}
	if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
		return cr
	}
	return n
}

func (s *Writer) add(p []byte) {
	b := s.buffer()
	if len(p) < copyLimit {
		*b = append(*b, p...)
		return
	}
	s.send(*b)
	*b = (*b)[:0]
	s.send(p)
}

func (s *Writer) flush() {
	if s.buf != nil {
		s.send(*s.buf)
		s.release()
	} else {
		s.start()
	}
	if s.err == nil {
		s.err = s.rc.Flush()
	}
	s.last = time.Now()
}

func (s *Writer) send(p []byte) {
	s.start()
	if s.err == nil {
		s.err = Send(s.rw, s.rc, s.opts.WriteTimeout, p)
	}
}

// Header values of every stream, shared: net/http does not change them.
var (
	contentType = []string{MediaType}
	noCache     = []string{"no-cache, no-store"}
	noBuffering = []string{"no"} // for nginx, which would gather the frames
)

func (s *Writer) start() {
	if s.started {
		return
	}
	s.started = true
	h := s.rw.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	s.rw.WriteHeader(http.StatusOK)
}

// buffers keeps what streams gather in, so that a stream at rest holds none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (s *Writer) buffer() *[]byte {
	if s.buf == nil {
		s.buf = buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	}
	return s.buf
}

func (s *Writer) release() {
	if s.buf != nil && cap(*s.buf) <= 2*gatherLimit {
		*s.buf = (*s.buf)[:0]
		buffers.Put(s.buf)
	}
	s.buf = nil
}

// Send writes p to w, whose controller rc is, in pieces of at most 256 KiB, and gives the other end timeout
// for each of them: a slow reader is served, one that has stopped is dropped. A timeout of zero waits for
// ever.
func Send(w http.ResponseWriter, rc *http.ResponseController, timeout time.Duration, p []byte) error {
	for {
		if timeout > 0 {
			err := rc.SetWriteDeadline(time.Now().Add(timeout))
			if err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
		}
		n := min(len(p), pieceSize)
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}
