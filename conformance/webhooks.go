package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// isLoopback reports whether an address in a card is one of the own machine.
func isLoopback(address string) bool {
	if !strings.Contains(address, "://") {
		address = "grpc://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// maxDeliveries bounds what a receiver keeps.
const maxDeliveries = 500

// delivery is a request that a webhook got.
type delivery struct {
	path   string
	header http.Header
	body   []byte
}

// Receiver takes the notifications that a run asks for.
type Receiver struct {
	url string
	srv *http.Server

	mu   sync.Mutex
	got  []delivery
	more chan struct{} // closed and made anew at each delivery
}

// Receive listens for notifications at addr, such as 127.0.0.1:0. The public URL is where the agent finds it; "": the
// address itself. Close ends it.
func Receive(ctx context.Context, addr, publicURL string) (*Receiver, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("conformance: the webhook: %w", err)
	}
	if publicURL == "" {
		publicURL = "http://" + l.Addr().String()
	}
	r := &Receiver{url: strings.TrimRight(publicURL, "/"), more: make(chan struct{})}
	r.srv = &http.Server{Handler: r, ReadTimeout: 10 * time.Second}
	go func() { _ = r.srv.Serve(l) }() // until Close
	return r, nil
}

// Close ends the receiver.
func (r *Receiver) Close() error { return r.srv.Close() }

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) < maxDeliveries {
		r.got = append(r.got, delivery{req.URL.Path, req.Header, body})
	}
	close(r.more)
	r.more = make(chan struct{})
	w.WriteHeader(http.StatusNoContent)
}

// at returns what came to a path, once enough says so or the time is over.
func (r *Receiver) at(path string, d time.Duration, enough func([]delivery) bool) []delivery {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		r.mu.Lock()
		var out []delivery
		for _, got := range r.got {
			if strings.HasSuffix(got.path, path) {
				out = append(out, got)
			}
		}
		more := r.more
		r.mu.Unlock()
		if enough(out) {
			return out
		}
		select {
		case <-more:
		case <-timer.C:
			return out
		}
	}
}

// config is what the run reads of a webhook's configuration.
type config struct {
	ID     string
	TaskID string
	URL    string
}

// webhooks judges push notifications.
func (p *probe) webhooks() {
	if !p.pushes() {
		p.pushRefused()
		return
	}
	p.skip("push-refused", "the card offers push notifications")
	m, why := p.liveTask()
	if m == nil {
		m, _ = p.endedTask()
	}
	if m == nil {
		p.noWebhooks(why)
		return
	}
	receiver := p.Webhook
	if receiver == nil && isLoopback(p.iface.URL) {
		var err error
		if receiver, err = Receive(p.ctx, "127.0.0.1:0", ""); err == nil {
			defer func() { _ = receiver.Close() }() // the run has what it wants
		}
	}
	keep, drop, word := "/"+random(), "/"+random(), random()
	base := nowhere
	if receiver != nil {
		base = receiver.url
	}
	auth := `"authentication":{"scheme":"Bearer","credentials":"` + word + `"}`
	a := p.createConfig(m, base+keep, auth)
	if a == nil {
		return
	}
	b := p.createConfig(m, base+drop, auth)
	p.readConfigs(m, a, b, base+keep)
	if b != nil {
		p.deleteConfig(m, b)
	}
	p.deliveries(m, receiver, keep, drop, word, b != nil)
	p.deleteConfig(m, a)
}

func (p *probe) noWebhooks(why string) {
	for i := range rules.All {
		if id := rules.All[i].ID; strings.HasPrefix(id, "push-") {
			p.skip(id, why)
		}
	}
}

func (p *probe) pushRefused() {
	p.noWebhooks("the card offers no push notifications")
	about := `"taskId":"conformance-` + random() + `"`
	for op, params := range map[string]string{
		"CreateTaskPushNotificationConfig": `{` + about + `,"url":` + quote(nowhere) + `}`,
		"GetTaskPushNotificationConfig":    `{` + about + `,"id":"1"}`,
		"ListTaskPushNotificationConfigs":  `{` + about + `}`,
		"DeleteTaskPushNotificationConfig": `{` + about + `,"id":"1"}`,
	} {
		p.mustFail("push-refused", p.play(call{op: op, params: params}), a2a.ErrPushNotificationNotSupported)
	}
}

func (p *probe) readConfig(x *rules.Exchange) *config {
	raw, _ := x.Result()
	var c config
	if raw == nil || json.Unmarshal(raw, &c) != nil {
		return nil
	}
	return &c
}

func (p *probe) createConfig(m *made, address, auth string) *config {
	id := "conformance-" + random()
	x := p.play(call{op: "CreateTaskPushNotificationConfig", params: fmt.Sprintf(`{"taskId":%s,"id":%s,"url":%s,%s}`, quote(m.id), quote(id), quote(address), auth)})
	c := p.readConfig(x)
	if c == nil {
		p.noWebhooks("the agent takes no webhook at " + address + ": " + fmt.Sprint(x.Failure()) + x.Err)
		return nil
	}
	p.report.Made.Webhooks++
	p.hold(c.ID != "" && c.URL == address && (c.TaskID == m.id || c.TaskID == ""), "push-create", x,
		fmt.Sprintf("id %q, task %q, URL %q", c.ID, c.TaskID, c.URL), "an id, and what was asked for")
	if c.ID == "" {
		c.ID = id
	}
	p.config[c.ID] = m.id
	return c
}

func (p *probe) readConfigs(m *made, a, b *config, address string) {
	about := func(id string) string { return fmt.Sprintf(`{"taskId":%s,"id":%s}`, quote(m.id), quote(id)) }
	x := p.play(call{op: "GetTaskPushNotificationConfig", params: about(a.ID)})
	got := p.readConfig(x)
	p.hold(got != nil && got.ID == a.ID && got.URL == address, "push-get", x, fmt.Sprintf("%+v", got), "the configuration")
	x = p.play(call{op: "GetTaskPushNotificationConfig", params: about("conformance-" + random())})
	p.mustFail("push-get-unknown", x, a2a.ErrTaskNotFound)
	x = p.play(call{op: "ListTaskPushNotificationConfigs", params: `{"taskId":` + quote(m.id) + `}`})
	var list struct{ Configs []config }
	raw, _ := x.Result()
	_ = json.Unmarshal(raw, &list) // what is malformed has none
	has := func(c *config) bool {
		return c == nil || slices.ContainsFunc(list.Configs, func(o config) bool { return o.ID == c.ID })
	}
	p.hold(has(a) && has(b), "push-list", x, fmt.Sprintf("%d configurations", len(list.Configs)), "all that were made")
}

func (p *probe) deleteConfig(m *made, c *config) {
	params := fmt.Sprintf(`{"taskId":%s,"id":%s}`, quote(m.id), quote(c.ID))
	x := p.play(call{op: "DeleteTaskPushNotificationConfig", params: params})
	if e := x.Failure(); e != nil || x.Err != "" {
		p.fail("push-delete", x, fmt.Sprint(e, x.Err), "its deletion")
		return
	}
	delete(p.config, c.ID)
	p.report.Made.Deleted++
	x = p.play(call{op: "GetTaskPushNotificationConfig", params: params})
	p.hold(x.Failure() != nil, "push-delete", x, "the configuration", a2a.ErrTaskNotFound.Name())
	x = p.play(call{op: "DeleteTaskPushNotificationConfig", params: params})
	e := x.Failure()
	p.hold(e == nil && x.Err == "", "push-delete-again", x, fmt.Sprint(e, x.Err), "the same as the first time")
}

// deliveries cancels the task and looks at what the webhook gets.
func (p *probe) deliveries(m *made, r *Receiver, keep, drop, word string, dropped bool) {
	none := func(why string) {
		for _, rule := range []string{"push-delivered", "push-credentials", "push-payload"} {
			p.skip(rule, why)
		}
	}
	if r == nil {
		none("the agent is elsewhere: give the run a webhook that it can reach")
		return
	}
	live := m.live()
	if live {
		p.play(call{op: "CancelTask", params: idOf(m.id)})
	}
	last := m.state
	if !rules.Terminal(last) {
		none("the task did not change while the webhook was registered")
		return
	}
	got := r.at(keep, p.settle, func(list []delivery) bool {
		return slices.ContainsFunc(list, func(d delivery) bool { return stateOf(d.body) == last })
	})
	if len(got) == 0 {
		p.fail("push-delivered", nil, "nothing within "+p.settle.String(), "the update to "+last)
		none("nothing was delivered")
		return
	}
	p.pass("push-delivered")
	for _, d := range got {
		x := &rules.Exchange{Method: "POST (by the agent)", URL: keep, Sent: d.header, Body: d.body}
		auth := d.header.Get("Authorization")
		p.hold(strings.EqualFold(auth, "Bearer "+word), "push-credentials", x, shape(auth, word), "Authorization: Bearer and the credentials")
		v := rules.CheckEvent(d.body)
		if i := slices.IndexFunc(v.Findings, func(f rules.Finding) bool { return f.Rule == "result-one" || f.Path == "" }); i >= 0 {
			p.fail("push-payload", x, v.Findings[i].Got, "one StreamResponse")
		} else {
			p.pass("push-payload")
		}
		p.judge(p.name, x, v)
	}
	if dropped && live {
		late := r.at(drop, 0, func([]delivery) bool { return true })
		late = slices.DeleteFunc(late, func(d delivery) bool { return !rules.Terminal(stateOf(d.body)) })
		p.hold(len(late) == 0, "push-delete", nil, "a notification after the deletion", "none")
	}
}

// shape tells of a header what may be told.
func shape(auth, word string) string {
	if auth == "" {
		return "no Authorization"
	}
	return strings.ReplaceAll(rules.Clip(auth, 60), word, "<credentials>")
}
