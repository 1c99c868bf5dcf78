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
		b := &pgx.Batch{}
		b.Queue("BEGIN")
		b.Queue("SET LOCAL synchronous_commit = off")
		for _, p := range s.hints.payloads(s.id) {
			b.Queue("SELECT pg_notify($1, $2)", channel, p)
		}
		b.Queue("COMMIT")
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		_ = s.pool.SendBatch(ctx, b).Close()
		cancel()
		select {
		case <-time.After(gather):
		case <-s.closing:
			return
		}
	}
}

// listen hears the other nodes, on a connection of its own, until the store is closed.
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
		_ = s.hear(ctx)
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
			return
		}
	}
}

// hear passes on hints until the connection is lost. Those who follow a task miss none for long: they poll.
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
		from, tasks, _ := strings.Cut(n.Payload, "\n")
		if from == s.id {
			continue
		}
		for task := range strings.SplitSeq(tasks, "\n") {
			s.tell(task)
		}
	}
}
