package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Unsettled implements [taskstore.Store]. A node that joined and beats is at work on what it holds; any other is gone.
// What never started and nobody holds is returned to all nodes, also while the one that recorded it is about to
// start it: Claim decides.
func (s *Store) Unsettled(ctx context.Context, agent, node, after string, limit int) ([]taskstore.Key, error) {
	return s.keys(ctx, `SELECT c.agent, c.tenant, c.owner, t.id FROM tasks t JOIN scopes c ON c.id = t.scope
		WHERE (t.node <> '' OR t.state = 1) AND t.id > $1 AND t.node <> $2 AND c.agent = $3
			AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.node = t.node AND n.expires_at > clock_timestamp())
		ORDER BY t.id LIMIT $4`, []byte(after), node, []byte(agent), limit)
}

// Sent implements [taskstore.Store].
func (s *Store) Sent(ctx context.Context, key taskstore.Scope, messageID string) (out *taskstore.Sent, err error) {
	scope, err := s.scopeID(ctx, key)
	if err != nil || scope == 0 {
		return nil, err
	}
	err = s.query(ctx, func() { out = nil }, func(rows pgx.Rows) error {
		var hash []byte
		var expires int64
		m := &taskstore.Sent{MessageID: messageID}
		if err := rows.Scan(&hash, &m.Reply, &expires, (*text)(&m.Task), &m.Generation); err != nil {
			return err
		}
		if n := copy(m.Hash[:], hash); n != len(m.Hash) {
			return unreadable{fmt.Errorf("message %s: its hash has %d bytes", messageID, n)}
		}
		m.Expires = time.UnixMilli(expires).UTC()
		out = m
		return nil
	}, `SELECT hash, reply, expires_ms, task, generation FROM sent WHERE scope = $1 AND message_id = $2 AND expires_ms > $3
		AND (task = '' OR EXISTS (SELECT 1 FROM tasks WHERE tasks.id = sent.task))`, scope, []byte(messageID), time.Now().UnixMilli())
	return out, err
}

const webhookColumns = "w.config, w.registration, w.node, w.delivered, w.begun, w.attempts, w.due_ms, w.done, w.failure"

// scanWebhook reads webhookColumns, after what stands before them, and returns the configuration's JSON too.
func scanWebhook(rows pgx.Rows, h *taskstore.Webhook, before ...any) (config []byte, err error) {
	var due *int64
	h.Config = new(a2a.TaskPushNotificationConfig)
	err = rows.Scan(append(before, &config, (*text)(&h.Registration), &h.Node, &h.Delivered, &h.Begun, &h.Attempts, &due, &h.Done, (*text)(&h.Failure))...)
	if err != nil {
		return nil, err
	}
	if due != nil {
		h.Due = time.UnixMilli(*due).UTC()
	}
	if err := h.Config.UnmarshalJSON(config); err != nil {
		return nil, unreadable{fmt.Errorf("a webhook: %w", err)}
	}
	return config, nil
}

// Webhooks implements [taskstore.Store].
func (s *Store) Webhooks(ctx context.Context, key taskstore.Key) ([]taskstore.Webhook, error) {
	scope, err := s.scopeID(ctx, key.Scope)
	if err != nil {
		return nil, err
	}
	var found *[]row
	var out []taskstore.Webhook
	err = s.read(ctx, func(q *pgx.Batch) {
		out = nil
		found = queueRow(q, scope, key.Task)
		q.Queue("SELECT "+webhookColumns+" FROM webhooks w WHERE w.task = $1 ORDER BY w.id", []byte(key.Task)).Query(func(rows pgx.Rows) error {
			return each(rows, func() error {
				h := taskstore.Webhook{Key: key}
				_, err := scanWebhook(rows, &h)
				out = append(out, h)
				return err
			})
		})
	})
	switch {
	case err != nil:
		return nil, err
	case len(*found) == 0:
		return nil, taskstore.ErrNotFound
	}
	return out, nil
}

// Outbox implements [taskstore.Store].
func (s *Store) Outbox(ctx context.Context, agent, task, id string, limit int) (out []taskstore.Webhook, err error) {
	err = s.query(ctx, func() { out = nil }, func(rows pgx.Rows) error {
		var h taskstore.Webhook
		_, err := scanWebhook(rows, &h, scanKey(&h.Key)...)
		out = append(out, h)
		return err
	}, "SELECT c.agent, c.tenant, c.owner, w.task, "+webhookColumns+`
		FROM webhooks w JOIN tasks t ON t.id = w.task JOIN scopes c ON c.id = t.scope
		WHERE NOT w.done AND (w.task, w.id) > ($1, $2) AND c.agent = $3 ORDER BY w.task, w.id LIMIT $4`,
		[]byte(task), []byte(id), []byte(agent), limit)
	return out, err
}
