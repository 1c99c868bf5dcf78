package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// Unsettled implements [taskstore.Store]. The file is this process's alone: whatever another node holds, its
// process is gone.
func (s *Store) Unsettled(ctx context.Context, agent, node, after string, limit int) ([]taskstore.Key, error) {
	var out []taskstore.Key
	err := s.read(ctx, func(c *conn) error {
		return c.unsettled.query(func(row []driver.Value) error {
			out = append(out, taskstore.Key{Scope: scopeKey(row), Task: text(row[3])})
			return nil
		}, after, node, agent, int64(limit))
	})
	return out, err
}

// Sent implements [taskstore.Store].
func (s *Store) Sent(ctx context.Context, scope taskstore.Scope, messageID string) (out *taskstore.Sent, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = c.wasSent(scope, messageID)
		return err
	})
	return out, err
}

// wasSent returns the message that was taken, nil if none was.
func (c *conn) wasSent(scope taskstore.Scope, messageID string) (out *taskstore.Sent, err error) {
	err = c.sent.query(func(row []driver.Value) error {
		out = &taskstore.Sent{
			MessageID: messageID, Reply: blob(row[1]), Expires: time.UnixMilli(integer(row[2])).UTC(),
			Task: text(row[3]), Generation: integer(row[4]),
		}
		if n := copy(out.Hash[:], blob(row[0])); n != len(out.Hash) {
			return unreadable{fmt.Errorf("message %s: its hash has %d bytes", messageID, n)}
		}
		return nil
	}, scope.Agent, scope.Tenant, scope.Owner, messageID, time.Now().UnixMilli())
	return out, err
}

// taken returns ErrSent if the change's message was taken before.
func (b *batch) taken(c *taskstore.Change) (verdict, err error) {
	if c.Sent == nil {
		return nil, nil
	}
	before, err := b.w.wasSent(c.Key.Scope, c.Sent.MessageID)
	if before != nil {
		verdict = taskstore.ErrSent
	}
	return verdict, err
}

// send records that the change's message was taken.
func (b *batch) send(c *taskstore.Change, generation int64) error {
	if c.Sent == nil {
		return nil
	}
	if err := b.begin(); err != nil {
		return err
	}
	sc, err := b.scope(c.Key.Scope)
	if err != nil {
		return err
	}
	m := c.Sent
	_, err = b.w.addSent.exec(sc.id, m.MessageID, m.Hash[:], null(m.Reply), c.Key.Task, generation, m.Expires.UnixMilli())
	return err
}

// Webhooks implements [taskstore.Store].
func (s *Store) Webhooks(ctx context.Context, key taskstore.Key) ([]taskstore.Webhook, error) {
	var out []taskstore.Webhook
	err := s.read(ctx, func(c *conn) error {
		t, err := c.load(key.Task)
		if err != nil {
			return err
		}
		if t == nil || t.key.Scope != key.Scope {
			return taskstore.ErrNotFound
		}
		return c.webhooks.query(func(row []driver.Value) error {
			h, err := decodeWebhook(key, row)
			out = append(out, h)
			return err
		}, key.Task)
	})
	return out, err
}

// Outbox implements [taskstore.Store].
func (s *Store) Outbox(ctx context.Context, agent, task, id string, limit int) ([]taskstore.Webhook, error) {
	var out []taskstore.Webhook
	err := s.read(ctx, func(c *conn) error {
		return c.outbox.query(func(row []driver.Value) error {
			h, err := decodeWebhook(taskstore.Key{Scope: scopeKey(row), Task: text(row[3])}, row[4:])
			out = append(out, h)
			return err
		}, task, id, agent, int64(limit))
	})
	return out, err
}

// decodeWebhook reads a row of webhookColumns.
func decodeWebhook(key taskstore.Key, row []driver.Value) (taskstore.Webhook, error) {
	h := taskstore.Webhook{
		Key: key, Config: new(a2a.TaskPushNotificationConfig), Registration: text(row[1]),
		Delivered: integer(row[2]), Begun: integer(row[3]) != 0, Attempts: int(integer(row[4])),
		Done: integer(row[6]) != 0, Failure: text(row[7]),
	}
	if row[5] != nil {
		h.Due = time.UnixMilli(integer(row[5])).UTC()
	}
	if err := h.Config.UnmarshalJSON(blob(row[0])); err != nil {
		return h, unreadable{fmt.Errorf("a webhook of task %s: %w", key.Task, err)}
	}
	return h, nil
}

// registered returns ErrConflict if the change is about the delivery of a registration that is gone.
func (b *batch) registered(c *taskstore.Change) (verdict, err error) {
	if c.Delivered == nil {
		return nil, nil
	}
	var n int64
	err = b.w.registration.query(readInt(&n), c.Key.Task, c.Delivered.Config.ID, c.Delivered.Registration)
	if n == 0 {
		verdict = taskstore.ErrConflict
	}
	return verdict, err
}

// hook carries out what a change says of webhooks: how far one has come, that one goes, that there is one. config
// is that of the last as JSON.
func (b *batch) hook(c *taskstore.Change, generation int64, config []byte) error {
	if h := c.Delivered; h != nil {
		if _, err := b.w.setDelivery.exec(append(delivery(h), c.Key.Task, h.Config.ID)...); err != nil {
			return err
		}
	}
	if c.Unhook != "" {
		if _, err := b.w.dropWebhook.exec(c.Key.Task, c.Unhook); err != nil {
			return err
		}
	}
	if h := c.Hook(generation); h != nil {
		_, err := b.w.setWebhook.exec(append(delivery(h), c.Key.Task, h.Config.ID, h.Registration, config)...)
		return err
	}
	return nil
}

// delivery returns the columns that say how far a webhook has come.
func delivery(h *taskstore.Webhook) []any {
	var due any
	if !h.Due.IsZero() {
		due = h.Due.UnixMilli()
	}
	return []any{h.Delivered, flag(h.Begun), int64(h.Attempts), due, flag(h.Done), h.Failure}
}
