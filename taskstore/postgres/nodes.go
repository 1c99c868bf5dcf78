package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/taskstore"
)

// A node that does not beat for ttl, by the database's clock, is gone: others may seize what it holds. It knows so
// itself by its own clock, margin earlier, so that its runs end before others take over.
const (
	ttl    = 10 * time.Second
	beat   = 3 * time.Second
	margin = 2 * time.Second
	// forgotten is how long the rows of a process that is gone stay.
	forgotten = time.Hour
)

// member is a node of this process.
type member struct {
	name  string
	lost  chan struct{}
	left  chan struct{} // closed when it leaves
	until time.Time     // then it is lost, unless it beats before
}

func (m *member) gone() bool {
	select {
	case <-m.lost:
		return true
	default:
		return false
	}
}

// Join implements [taskstore.Nodes]. The channel is closed when the database could not be reached for 8 seconds; 2
// seconds later another node may seize what this one holds.
//
// Leases can be claimed for names that never joined. They count as those of a process that is gone.
func (s *Store) Join(ctx context.Context, node string) (lost <-chan struct{}, err error) {
	m := &member{name: node, lost: make(chan struct{}), left: make(chan struct{})}
	err = s.try(ctx, false, func(ctx context.Context) error {
		m.until = time.Now().Add(ttl - margin)
		for _, sql := range []string{
			"DELETE FROM nodes WHERE expires_at < clock_timestamp() - $1::interval",
			"DELETE FROM writers WHERE used_at < clock_timestamp() - $1::interval",
		} {
			if _, err := s.pool.Exec(ctx, sql, forgotten); err != nil {
				return err
			}
		}
		tag, err := s.pool.Exec(ctx, `INSERT INTO nodes (node, expires_at) VALUES ($1, clock_timestamp() + $2::interval)
			ON CONFLICT (node) DO NOTHING`, node, ttl)
		if err == nil && tag.RowsAffected() == 0 {
			err = &trouble{s.where, nil, fmt.Errorf("there is, or was, a node %s: join under a new name", node)}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.members[node] = m
	s.mu.Unlock()
	s.others.Go(func() { s.keepAlive(m) })
	return m.lost, nil
}

// keepAlive beats for a node, on a connection of its own that waits for no other work.
func (s *Store) keepAlive(m *member) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			closeConn(conn)
		}
	}()
	pause := beat
	for {
		select {
		case <-s.closing:
			return
		case <-m.left:
			return
		case <-time.After(min(pause, time.Until(m.until))):
		}
		begun := time.Now()
		ctx, cancel := context.WithDeadline(context.Background(), m.until)
		alive, err := s.beatOnce(ctx, &conn, m.name)
		cancel()
		switch {
		case err == nil && alive:
			m.until, pause = begun.Add(ttl-margin), beat
			continue
		case err == nil:
			s.opts.Log.Error("this node is gone, as the database says", "node", m.name, "database", s.where)
		case time.Now().Before(m.until):
			pause = beat / 6
			continue
		default:
			s.opts.Log.Error("this node has lost the database", "node", m.name, "err", s.fault(err))
		}
		close(m.lost)
		return
	}
}

// beatOnce renews a node's time and reports whether it was not over.
func (s *Store) beatOnce(ctx context.Context, conn **pgx.Conn, node string) (bool, error) {
	if *conn == nil || (*conn).IsClosed() {
		var err error
		if *conn, err = pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig); err != nil {
			return false, err
		}
	}
	tag, err := (*conn).Exec(ctx, `UPDATE nodes SET expires_at = clock_timestamp() + $2::interval
		WHERE node = $1 AND expires_at > clock_timestamp()`, node, ttl)
	return tag.RowsAffected() == 1, err
}

// Leave implements [taskstore.Nodes].
func (s *Store) Leave(ctx context.Context, node string) error { return s.leave(ctx, node) }

// leave takes nodes of this process out of the database.
func (s *Store) leave(ctx context.Context, nodes ...string) error {
	var names []string
	s.mu.Lock()
	for _, name := range nodes {
		if m := s.members[name]; m != nil {
			delete(s.members, name)
			close(m.left)
			if !m.gone() {
				names = append(names, name)
			}
		}
	}
	s.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := s.pool.Exec(ctx, "UPDATE nodes SET expires_at = clock_timestamp() WHERE node = ANY($1)", names)
	return s.fault(err)
}

// Latched implements [taskstore.Nodes].
func (s *Store) Latched(ctx context.Context, node string) ([]taskstore.Key, error) {
	return s.keys(ctx, `SELECT c.agent, c.tenant, c.owner, t.id FROM tasks t JOIN scopes c ON c.id = t.scope
		WHERE t.node = $1 AND t.latched`, node)
}

// TakeWebhooks implements [taskstore.Nodes]. Several nodes that take at once take different ones.
func (s *Store) TakeWebhooks(ctx context.Context, agent, node string, limit int) (out []taskstore.Webhook, err error) {
	err = s.query(ctx, func() { out = nil }, func(rows pgx.Rows) error {
		var h taskstore.Webhook
		_, err := scanWebhook(rows, &h, scanKey(&h.Key)...)
		out = append(out, h)
		return err
	}, `WITH free AS (
			SELECT w.task, w.id, c.agent, c.tenant, c.owner FROM webhooks w
				JOIN tasks t ON t.id = w.task JOIN scopes c ON c.id = t.scope
			WHERE NOT w.done AND c.agent = $1
				AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.node = w.node AND n.expires_at > clock_timestamp())
			ORDER BY w.task, w.id LIMIT $3 FOR UPDATE OF w SKIP LOCKED)
		UPDATE webhooks w SET node = $2 FROM free f WHERE w.task = f.task AND w.id = f.id
		RETURNING f.agent, f.tenant, f.owner, w.task, `+webhookColumns, []byte(agent), node, limit)
	return out, err
}

// lostHere reports whether a node is one of this process's that is lost.
func (s *Store) lostHere(node string) bool {
	s.mu.RLock()
	m := s.members[node]
	s.mu.RUnlock()
	return m != nil && m.gone()
}

// closeConn ends a connection without waiting long.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
