package postgres

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

const (
	channel = "parley_hints"
	// gather is the time between two NOTIFY, which take a lock of the whole server: a hint may wait so long for others.
	gather = 5 * time.Millisecond
	// maxPayload is what a NOTIFY carries, in bytes (PostgreSQL allows 7,999).
	maxPayload = 7900
	// maxHints is how many tasks wait to be told of. The others are found by those who poll.
	maxHints = 10_000
	// relisten is the pause before listening anew.
	relisten = time.Second
)

// Hints carries lines of text between the processes that share a database. It may lose some: what they tell of is found
// by those who poll.
type Hints interface {
	// Tell sends a line of less than 8,000 bytes to the others; that the sender gets it too does no harm.
	Tell(line string) error
	// Hear calls f with the lines that come, until ctx ends or nothing more can come.
	Hear(ctx context.Context, f func(line string)) error
}

// hints are the tasks that other nodes are to be told of.
type hints struct {
	mu   sync.Mutex
	due  map[string]struct{}
	wake chan struct{} // holds one hint
}

// add has the other nodes told of a task. An id that a line of text cannot carry is left out.
func (h *hints) add(task string) {
	if !utf8.ValidString(task) || strings.ContainsFunc(task, unicode.IsControl) || len(task) > 256 {
		return
	}
	h.mu.Lock()
	if len(h.due) < maxHints {
		h.due[task] = struct{}{}
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// payloads takes what is due, as lines: from whom, then the tasks.
func (h *hints) payloads(from string) (out []string) {
	h.mu.Lock()
	due := h.due
	h.due = map[string]struct{}{}
	h.mu.Unlock()
	line := from
	for task := range due {
		if len(line)+1+len(task) > maxPayload {
			out = append(out, line)
			line = from
		}
		line += "\n" + task
	}
	return append(out, line)
}

// sendHints tells the other nodes. What fails is lost, as hints may be. The transaction waits for no disk.
func (s *Store) sendHints() {
	for {
		select {
		case <-s.hints.wake:
		case <-s.closing:
			return
		}
		s.send(s.hints.payloads(s.id))
		select {
		case <-time.After(gather):
		case <-s.closing:
			return
		}
	}
}

func (s *Store) send(lines []string) {
	if s.opts.Hints != nil {
		for _, line := range lines {
			_ = s.opts.Hints.Tell(line)
		}
		return
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SET LOCAL synchronous_commit = off")
	for _, line := range lines {
		b.Queue("SELECT pg_notify($1, $2)", channel, line)
	}
	b.Queue("COMMIT")
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	_ = s.pool.SendBatch(ctx, b).Close()
}

// listen hears the other nodes until the store is closed.
func (s *Store) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		if s.opts.Hints != nil {
			_ = s.opts.Hints.Hear(ctx, s.heard)
		} else {
			_ = s.hear(ctx)
		}
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
			return
		}
	}
}

// hear passes on hints, on a connection of its own, until that is lost. Those who follow a task miss none for long: they poll.
func (s *Store) hear(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		s.heard(n.Payload)
	}
}

// heard passes on a line of another node.
func (s *Store) heard(line string) {
	from, tasks, _ := strings.Cut(line, "\n")
	if from == s.id {
		return
	}
	for task := range strings.SplitSeq(tasks, "\n") {
		s.tell(task)
	}
}
