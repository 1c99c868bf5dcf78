package auth

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// watched is what files say. They are read again when a value is asked for and was read more than fileAge ago. While
// they cannot be read or understood the last good value stays, and the log says so once for each content.
type watched[T any] struct {
	paths []string
	parse func([][]byte) (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu         sync.Mutex
	value      T
	sum        [sha256.Size]byte // of the files that value was made of
	checked    time.Time
	complained string
}

// watch reads the files. The first time they must be good.
func watch[T any](log *slog.Logger, parse func([][]byte) (T, error), paths ...string) (*watched[T], error) {
	if log == nil {
		log = slog.Default()
	}
	w := &watched[T]{paths: paths, parse: parse, log: log, now: time.Now}
	if err := w.load(); err != nil {
		return nil, err
	}
	w.checked = w.now()
	return w, nil
}

// get returns what the files say.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Sub(w.checked) < fileAge {
		return w.value
	}
	w.checked = now
	err := w.load()
	switch {
	case err == nil:
		w.complained = ""
	case err.Error() != w.complained:
		w.complained = err.Error()
		w.log.Error("a changed file is not used, what it said before stays in effect", "file", w.paths[0], "err", err)
	}
	return w.value
}

func (w *watched[T]) load() error {
	contents := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		contents[i] = b
	}
	sum := sha256.Sum256(bytes.Join(contents, []byte{0}))
	if sum == w.sum {
		return nil
	}
	value, err := w.parse(contents)
	if err != nil {
		return fmt.Errorf("auth: %s: %w", w.paths[0], err)
	}
	w.value, w.sum = value, sum
	return nil
}
