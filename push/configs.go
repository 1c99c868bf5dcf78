package push

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/netguard"
	"github.com/parley-a2a/parley/taskstore"
)

// Limits of what a configuration may hold, in bytes.
const (
	maxID          = 128
	maxScheme      = 64
	maxCredentials = 8 << 10
	maxToken       = 4 << 10
)

// Prepare checks a configuration that comes with a message, and returns the record that puts it into the change that
// takes the message: of the task of this key, which need not exist yet. An id is made if there is none. An error is
// an a2a.Error with the path of the field within the configuration.
func (p *Push) Prepare(ctx context.Context, key taskstore.Key, c *a2a.TaskPushNotificationConfig) (*taskstore.Webhook, error) {
	h, err := p.prepare(ctx, key, c)
	if err != nil {
		return nil, err
	}
	if err := p.checkNumber(ctx, key, h.Config.ID); err != nil && !errors.Is(err, taskstore.ErrNotFound) {
		return nil, err
	}
	p.expect(key.Task, h.Registration)
	return h, nil
}

// checkNumber checks that the task can have a webhook of this id besides those that it has.
func (p *Push) checkNumber(ctx context.Context, key taskstore.Key, id string) error {
	hooks, err := p.store.Webhooks(ctx, key)
	if err != nil {
		return err
	}
	others := 0
	for i := range hooks {
		if hooks[i].Config.ID != id {
			others++
		}
	}
	if others < p.opts.PerTask {
		return nil
	}
	return a2a.Errorf(a2a.ErrResourceExhausted, "a task can have at most %d push notification configurations: delete one, or replace one by giving its id", p.opts.PerTask)
}

func (p *Push) prepare(ctx context.Context, key taskstore.Key, c *a2a.TaskPushNotificationConfig) (*taskstore.Webhook, error) {
	if c.TaskID != "" && c.TaskID != key.Task {
		return nil, a2a.InvalidField("taskId", "must be the task's own id, or left out")
	}
	if err := checkText("id", c.ID, maxID); err != nil {
		return nil, err
	}
	if err := checkText("token", c.Token, maxToken); err != nil {
		return nil, err
	}
	if err := checkAuthentication(c.Authentication); err != nil {
		return nil, err
	}
	if c.URL == "" {
		return nil, a2a.InvalidField("url", "required: where the notifications are to be sent")
	}
	u, err := p.guard.Check(ctx, c.URL)
	if err != nil {
		return nil, a2a.InvalidField("url", "%v", err)
	}
	if origin := netguard.Origin(u); p.opts.Allow != nil && !p.opts.Allow(key.Caller(), origin) {
		return nil, a2a.InvalidField("url", "this caller may have no webhook at %s: use a receiver that the agent's operator has allowed", origin)
	}
	kept := *c
	kept.TaskID = key.Task
	if kept.ID == "" {
		kept.ID = newID()
	}
	return &taskstore.Webhook{Config: &kept, Registration: newID(), Node: p.nodeName()}, nil
}

// newID returns an id that is higher than those made before.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func checkText(field, s string, limit int) error {
	if len(s) > limit {
		return a2a.InvalidField(field, "at most %d bytes are taken, got %d", limit, len(s))
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return a2a.InvalidField(field, "control characters are not taken")
	}
	return nil
}

func checkAuthentication(a *a2a.AuthenticationInfo) error {
	if a == nil {
		return nil
	}
	switch {
	case a.Scheme == "":
		return a2a.InvalidField("authentication.scheme", "required with credentials: such as Bearer")
	case len(a.Scheme) > maxScheme || strings.ContainsFunc(a.Scheme, notToken):
		return a2a.InvalidField("authentication.scheme", "must be one word, the name of an HTTP authentication scheme such as Bearer")
	case a.Credentials == "":
		return a2a.InvalidField("authentication.credentials", "required with a scheme: what is to follow it in the header Authorization")
	case strings.TrimSpace(a.Credentials) != a.Credentials:
		return a2a.InvalidField("authentication.credentials", "must not begin or end with a space")
	}
	return checkText("authentication.credentials", a.Credentials, maxCredentials)
}

// notToken reports whether r cannot stand in a token of HTTP (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// public returns a configuration without its secrets.
func public(c *a2a.TaskPushNotificationConfig) *a2a.TaskPushNotificationConfig {
	out := *c
	out.Token = ""
	if c.Authentication != nil {
		out.Authentication = &a2a.AuthenticationInfo{Scheme: c.Authentication.Scheme}
	}
	return &out
}

func noTask(err error) error {
	if errors.Is(err, taskstore.ErrNotFound) {
		return a2a.Errorf(a2a.ErrTaskNotFound, "no such task: %w", err)
	}
	return err
}

// Create registers a webhook, or replaces the one with the same id, and returns it without its secrets
// (specification 3.1.7). The receiver first gets the Task as it is now.
func (p *Push) Create(ctx context.Context, key taskstore.Key, c *a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	h, err := p.prepare(ctx, key, c)
	if err != nil {
		return nil, err
	}
	p.regs.RLock()
	defer p.regs.RUnlock()
	if err := p.checkNumber(ctx, key, h.Config.ID); err != nil {
		return nil, noTask(err)
	}
	change := taskstore.Change{Key: key, Webhook: h}
	r, err := p.store.Commit(ctx, change)
	if err != nil {
		return nil, noTask(err)
	}
	p.add(*change.Hook(r.Generation))
	return public(h.Config), nil
}

// Get returns a webhook without its secrets (specification 3.1.8); an unknown one is a2a.ErrTaskNotFound.
func (p *Push) Get(ctx context.Context, key taskstore.Key, id string) (*a2a.TaskPushNotificationConfig, error) {
	hooks, err := p.store.Webhooks(ctx, key)
	if err != nil {
		return nil, noTask(err)
	}
	for i := range hooks {
		if hooks[i].Config.ID == id {
			return public(hooks[i].Config), nil
		}
	}
	return nil, a2a.Errorf(a2a.ErrTaskNotFound, "the task has no push notification configuration with this id")
}

// List returns a page of a task's webhooks in the order of their ids, without their secrets (specification
// 3.1.9). A size of 0 means all of them.
func (p *Push) List(ctx context.Context, key taskstore.Key, size int, token string) (*a2a.ListTaskPushNotificationConfigsResponse, error) {
	after, ok := parsePage(key, token)
	if !ok {
		return nil, a2a.InvalidField("pageToken", "not a token of this list: begin again without one")
	}
	hooks, err := p.store.Webhooks(ctx, key)
	if err != nil {
		return nil, noTask(err)
	}
	out := &a2a.ListTaskPushNotificationConfigsResponse{}
	for i := range hooks {
		c := hooks[i].Config
		if c.ID <= after {
			continue
		}
		if size > 0 && len(out.Configs) == size {
			out.NextPageToken = pageToken(key, out.Configs[size-1].ID)
			break
		}
		out.Configs = append(out.Configs, public(c))
	}
	return out, nil
}

// pageToken returns the place after an id in a task's list. It holds a mark of the task, so that it continues
// no other list.
func pageToken(key taskstore.Key, id string) string {
	return base64.RawURLEncoding.EncodeToString(append(pageMark(key), id...))
}

func pageMark(key taskstore.Key) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.Task))
	return binary.BigEndian.AppendUint32(nil, h.Sum32())
}

func parsePage(key taskstore.Key, token string) (after string, ok bool) {
	if token == "" {
		return "", true
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), string(pageMark(key)))
}

// Delete removes a webhook, if there is one (specification 3.1.10). When it returns, no further attempt is begun.
func (p *Push) Delete(ctx context.Context, key taskstore.Key, id string) error {
	p.regs.RLock()
	defer p.regs.RUnlock()
	if _, err := p.store.Commit(ctx, taskstore.Change{Key: key, Unhook: id}); err != nil {
		return noTask(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.tasks[key.Task] {
		if d.id == id && d.key == key {
			p.remove(d)
			break
		}
	}
	return nil
}
