package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
	"github.com/parley-a2a/parley/binding/rest"
	"github.com/parley-a2a/parley/taskstore"
)

// serveAgents says what there is to see for whoever asks.
func (c *Console) serveAgents(w http.ResponseWriter, r *http.Request) {
	type agent struct {
		Name     string `json:"name"`
		Log      bool   `json:"log"`      // tasks have their log
		Webhooks bool   `json:"webhooks"` // there is something to see of webhooks
	}
	operator := sessionOf(r.Context()).caller == nil
	wire := operator && c.opts.Wire != nil
	agents := []agent{}
	for _, a := range c.opts.Agents() {
		agents = append(agents, agent{a.Name, a.Store != nil, a.Store != nil || wire})
	}
	reply(w, map[string]any{"agents": agents, "operator": operator, "wire": wire})
}

// agent lets requests with a session through, with the agent that the path names.
func (c *Console) agent(next func(http.ResponseWriter, *http.Request, *Agent)) http.Handler {
	return c.known(func(w http.ResponseWriter, r *http.Request) {
		for _, a := range c.opts.Agents() {
			if a.Name == r.PathValue("agent") {
				next(w, r, &a)
				return
			}
		}
		refuse(w, http.StatusNotFound, "there is no such agent any more: load the page anew")
	})
}

// serveProtocol serves the agent's operations, for the session's caller; on the tasks of another only those that read.
func (c *Console) serveProtocol(w http.ResponseWriter, r *http.Request, a *Agent) {
	svc := a.Service
	if sessionOf(r.Context()).other != nil {
		if a.Store == nil {
			refuse(w, http.StatusNotFound, "the tasks of this agent are elsewhere")
			return
		}
		svc = &reader{a.Store, a.scope(a.caller(r.Context()))}
	}
	rest.NewHandler(svc, rest.Options{
		Prefix: Path + "api/agents/" + a.Name + "/a2a", Authenticate: a.authenticate, Log: c.opts.Log, MaxBody: maxMessage,
	}).ServeHTTP(w, r)
}

// maxMessage is the size in bytes of a message from the page: files go as base64. The agent has a limit of its own.
const maxMessage = 64 << 20

// serveCard answers with the card as it is, what is wrong with it, and what its signatures are worth.
func serveCard(w http.ResponseWriter, r *http.Request, a *Agent) {
	card, err := a.Card(r.Context())
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	type finding struct {
		Path   string          `json:"path"`
		Level  agentcard.Level `json:"level"`
		Clause string          `json:"clause"`
		Text   string          `json:"text"`
		Fix    string          `json:"fix"`
	}
	findings := []finding{}
	for _, f := range agentcard.Validate(card.Raw) {
		findings = append(findings, finding(f))
	}
	s := card.Signed
	reply(w, map[string]any{
		"card": string(card.Raw), "url": card.URL, "note": card.Note, "findings": findings,
		"signature": map[string]any{
			"outcome": s.Outcome.String(), "keyId": s.KeyID, "algorithm": s.Algorithm, "origin": s.Origin, "why": s.Why,
			"digest": s.Digest, "drift": s.Drift,
		},
	})
}

// logPage is how many records of a log one answer has at most.
const logPage = 500

// record is one record of a task's log as the page gets it.
type record struct {
	Generation int64           `json:"generation"`
	Event      json.RawMessage `json:"event"`          // a StreamResponse
	Size       int             `json:"size"`           // bytes of the event
	Turn       *a2a.Message    `json:"turn,omitempty"` // the user's message that resumed the task
	Cut        bool            `json:"cut,omitempty"`  // the event is too large for a timeline, and is left out
}

// maxEvent is the size in bytes above which an event is left out of a timeline: the task has what it brought.
const maxEvent = 256 << 10

// serveLog answers with the records of a task's log after the given generation.
func serveLog(w http.ResponseWriter, r *http.Request, a *Agent) {
	if a.Store == nil {
		refuse(w, http.StatusNotFound, "the log of this agent's tasks is elsewhere")
		return
	}
	after, err := number(r, "after")
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	records, err := a.Store.Entries(r.Context(), a.key(r.Context(), r.PathValue("task")), after, logPage)
	switch {
	case errors.Is(err, taskstore.ErrNotFound):
		refuse(w, http.StatusNotFound, "there is no such task")
		return
	case errors.Is(err, taskstore.ErrTrimmed):
		refuse(w, http.StatusGone, "the log of this task is no longer kept")
		return
	case err != nil:
		refuse(w, http.StatusInternalServerError, "the log cannot be read: "+err.Error())
		return
	}
	out := make([]record, len(records))
	for i, rec := range records {
		event := rec.JSON()
		out[i] = record{Generation: rec.Generation, Event: event, Size: len(event), Turn: rec.Turn}
		if len(event) > maxEvent {
			out[i].Event, out[i].Cut = json.RawMessage("{}"), true
		}
	}
	reply(w, map[string]any{"records": out, "more": len(records) == logPage})
}

func (a *Agent) key(ctx context.Context, task string) taskstore.Key {
	return taskstore.Key{Scope: a.scope(a.caller(ctx)), Task: task}
}

// number reads a number, 0 or more, from the query; absent is 0.
func number(r *http.Request, name string) (int64, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New(name + ": want a number, 0 or more")
	}
	return n, nil
}

// keptDeliveries is how many attempts are remembered.
const keptDeliveries = 1000

// Deliveries are the latest attempts to deliver to webhooks, as a store hears of them: each attempt that failed, and of
// those that went well how far they came. The zero value is ready. It is safe for concurrent use.
type Deliveries struct {
	mu   sync.Mutex
	last []delivery
}

// delivery is one attempt, or several that went well.
type delivery struct {
	Time      time.Time `json:"time"`
	Task      string    `json:"task"`
	Config    string    `json:"config"`
	URL       string    `json:"url"`
	Delivered int64     `json:"delivered"` // the generation that the receiver has
	Attempts  int       `json:"attempts"`  // that failed in a row
	Failure   string    `json:"failure"`   // empty: it went well
	Done      bool      `json:"done"`
	Exchange  int64     `json:"exchange,omitempty"` // on the wire
	Caller    string    `json:"caller,omitempty"`   // for callerHeader, whose task it is; empty: it needs none

	key taskstore.Key
}

// Watch returns next as a store that remembers the attempts. What delivers has to use it.
func (d *Deliveries) Watch(next taskstore.Store) taskstore.Store { return &watched{next, d} }

type watched struct {
	taskstore.Store
	deliveries *Deliveries
}

// Unwrap returns the store that is watched, for taskstore.As.
func (s *watched) Unwrap() taskstore.Store { return s.Store }

// Commit implements taskstore.Store.
func (s *watched) Commit(ctx context.Context, c taskstore.Change) (taskstore.Receipt, error) {
	rec, err := s.Store.Commit(ctx, c)
	if h := c.Delivered; h != nil && err == nil {
		s.deliveries.add(delivery{
			Time: time.Now(), Task: c.Key.Task, Config: h.Config.ID, URL: withoutQuery(h.Config.URL), Delivered: h.Delivered,
			Attempts: h.Attempts, Failure: h.Failure, Done: h.Done, key: c.Key,
		})
	}
	return rec, err
}

func (d *Deliveries) add(v delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.last) >= keptDeliveries {
		d.last = append(d.last[:0:0], d.last[keptDeliveries/10:]...)
	}
	d.last = append(d.last, v)
}

// of returns the attempts that keep lets through, the latest first.
func (d *Deliveries) of(keep func(taskstore.Key) bool) []delivery {
	out := []delivery{}
	if d == nil {
		return out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.last) - 1; i >= 0; i-- {
		if keep(d.last[i].key) {
			out = append(out, d.last[i])
		}
	}
	return out
}

// withoutQuery returns a webhook's URL without what receivers put into it as a secret.
func withoutQuery(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "a URL that cannot be read"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	if u.User != nil {
		u.User = url.User("redacted")
	}
	u.Fragment = ""
	return u.String()
}

// webhook is a registration as the page gets it, without its secrets.
type webhook struct {
	Task      string     `json:"task"`
	Caller    string     `json:"caller,omitempty"` // for callerHeader, whose task it is; empty: it needs none
	ID        string     `json:"id"`
	URL       string     `json:"url"`
	Delivered int64      `json:"delivered"`
	Attempts  int        `json:"attempts"`
	Due       *time.Time `json:"due,omitempty"`
	Failure   string     `json:"failure"`
	Done      bool       `json:"done"`
	Scheme    string     `json:"scheme"` // of the credential that it was registered with
	Token     bool       `json:"token"`  // it was registered with a token
}

// webhookPage is how many webhooks with something to deliver are shown, and of how many tasks all of them are.
const webhookPage = 100

// serveWebhooks answers with the webhooks of one task, or with those of the latest tasks and, to the operator who looks at
// nobody else, all that have something to deliver; and with the attempts.
func (c *Console) serveWebhooks(w http.ResponseWriter, r *http.Request, a *Agent) {
	s := sessionOf(r.Context())
	operator := s.caller == nil && s.other == nil
	task := r.URL.Query().Get("task")
	mine := a.key(r.Context(), task)
	deliveries := a.Deliveries.of(func(k taskstore.Key) bool {
		return (task == "" || k.Task == task) && k.Agent == a.Name && (operator || k.Scope == mine.Scope)
	})
	for i := range deliveries {
		deliveries[i].Caller = a.from(r.Context(), deliveries[i].key.Scope)
	}
	hooks, err := a.webhooks(r.Context(), mine, operator)
	if errors.Is(err, taskstore.ErrNotFound) {
		refuse(w, http.StatusNotFound, "there is no such task")
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the webhooks cannot be read: "+err.Error())
		return
	}
	if operator && a.Store == nil && c.opts.Wire != nil {
		deliveries = wireDeliveries(c.opts.Wire, task)
	}
	reply(w, map[string]any{"webhooks": hooks, "deliveries": deliveries})
}

func (a *Agent) webhooks(ctx context.Context, key taskstore.Key, operator bool) ([]webhook, error) {
	out := []webhook{}
	if a.Store == nil {
		return out, nil
	}
	seen := map[[2]string]bool{}
	add := func(list []taskstore.Webhook) {
		for _, h := range list {
			id := [2]string{h.Key.Task, h.Config.ID}
			if !seen[id] {
				seen[id] = true
				one := shown(h)
				one.Caller = a.from(ctx, h.Key.Scope)
				out = append(out, one)
			}
		}
	}
	if key.Task != "" {
		list, err := a.Store.Webhooks(ctx, key)
		add(list)
		return out, err
	}
	if operator {
		list, err := a.Store.Outbox(ctx, a.Name, "", "", webhookPage)
		if err != nil {
			return out, err
		}
		add(list)
	}
	page, err := a.Store.List(ctx, taskstore.Query{Scope: key.Scope, PageSize: webhookPage})
	if err != nil {
		return out, err
	}
	for _, t := range page.Tasks {
		list, err := a.Store.Webhooks(ctx, taskstore.Key{Scope: key.Scope, Task: t.ID})
		if err != nil && !errors.Is(err, taskstore.ErrNotFound) {
			return out, err
		}
		add(list)
	}
	return out, nil
}

func shown(h taskstore.Webhook) webhook {
	out := webhook{
		Task: h.Key.Task, ID: h.Config.ID, URL: withoutQuery(h.Config.URL), Delivered: h.Delivered, Attempts: h.Attempts,
		Failure: h.Failure, Done: h.Done, Token: h.Config.Token != "",
	}
	if !h.Due.IsZero() {
		out.Due = &h.Due
	}
	if h.Config.Authentication != nil {
		out.Scheme = h.Config.Authentication.Scheme
	}
	return out
}
