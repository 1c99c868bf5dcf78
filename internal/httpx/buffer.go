package httpx

import (
	"io"
	"sync"
)

const (
	firstRead = 4 << 10   // a buffer grows with what arrives, not with what was announced
	maxPooled = 256 << 10 // larger buffers are left to the collector
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) } //nolint:forcetypeassert // the pool holds nothing else

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// appendAll appends all that r has to b.
func appendAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
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
