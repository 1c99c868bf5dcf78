package httpx

import (
	"io"
	"slices"
	"sync"
)

const (
	firstRead = 4 << 10 // a buffer grows with what arrives, not with what was announced
	maxPooled = 1 << 20 // larger buffers are left to the collector
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) } //nolint:forcetypeassert // the pool holds nothing else

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// appendAll appends all that r has to b. size is how much that is, or -1. The buffer doubles as the bytes arrive, up to
// size.
func appendAll(b []byte, r io.Reader, size int64) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			more := cap(b)
			if left := int(size) - len(b); left > 0 {
				more = min(more, left)
			}
			b = slices.Grow(b, more)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}
