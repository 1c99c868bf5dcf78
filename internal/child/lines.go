package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrPartial is the end of an output in the middle of a line.
var ErrPartial = errors.New("the output ends in the middle of a line")

// LineTooLongError says that a line has more than Limit bytes.
type LineTooLongError struct{ Limit int }

// Error implements error.
func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("a line of the output has more than %d bytes", e.Limit)
}

// Lines reads lines of at most limit bytes.
type Lines struct {
	r     *bufio.Reader
	limit int
	line  []byte
}

// NewLines returns a reader of the lines of r.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Next returns the next line, without its end; it is valid until the next call. The error is io.EOF at the end,
// ErrPartial after the start of a line, or a *LineTooLongError, after which there is no next line.
func (l *Lines) Next() ([]byte, error) {
	if cap(l.line) > 1<<20 { // one long line should not be paid for ever
		l.line = nil
	}
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.line)+len(part) > l.limit+1 {
			return nil, &LineTooLongError{l.limit}
		}
		l.line = append(l.line, part...)
		switch {
		case err == nil:
			return trimEnd(l.line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.line) > 0:
			return l.line, ErrPartial
		default:
			return nil, err
		}
	}
}

func trimEnd(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
