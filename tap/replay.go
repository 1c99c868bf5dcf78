package tap

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/rules"
)

// Replay is one call of a recording, played again.
type Replay struct {
	Recorded *Exchange
	Again    *Exchange // nil: it could not be played, or was left out
	// LeftOut says that a webhook was left out: the one that a message registers, or, where Again is nil, the whole call, which
	// is about nothing else.
	LeftOut bool
	// Differences are where the two answers are not the same, besides ids that an agent makes, times, and the text of what
	// depends on them; none: they are. At most ten.
	Differences []string

	leave    context.CancelFunc
	finished bool // it was compared
}

// ReplayOptions is how a recording is played again.
type ReplayOptions struct {
	Header   http.Header   // of every request, such as a credential: recordings have none
	Upstream *tls.Config   // for connections to the agent; nil: the usual
	Patience time.Duration // how long one call may take; zero: 30 s
	// Webhooks registers the recorded webhooks again. Whoever is there hears from the agent, with what a recording has in
	// place of the receiver's credential.
	Webhooks bool
}

// Play sends the calls of a recording to the agent with the card again, in their order, and returns what came of each. A
// call that was made while another one went on (a cancel beside a stream) is made again when that one has come as far. Ids
// that the agent made are followed: where the recording names a task of its own, the new one's is sent.
func Play(ctx context.Context, recorded []*Exchange, card []byte, cardURL string, opts ReplayOptions) ([]*Replay, error) {
	t, err := New(Config{Card: card, CardURL: cardURL, Listen: "127.0.0.1:0", Upstream: opts.Upstream})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- t.Serve(ctx, func(string) { close(ready) }) }()
	defer func() {
		cancel()
		<-ended //nolint:errcheck // it records into memory only
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		return nil, err
	}
	if opts.Patience <= 0 {
		opts.Patience = 30 * time.Second
	}
	p := &player{tap: t, opts: opts, ids: map[string]string{}, client: newTransport(nil)}
	for _, x := range recorded {
		if x.Kind == KindCall && x.Done && x.Operation != "" {
			p.calls = append(p.calls, &Replay{Recorded: x})
		}
	}
	for i := range p.calls {
		if err := p.play(ctx, i); err != nil {
			return p.calls, err
		}
	}
	for _, c := range p.calls {
		p.finish(ctx, c)
	}
	return p.calls, nil
}

// player plays a recording through a tap of its own, which makes exchanges of what comes back.
type player struct {
	tap    *Tap
	opts   ReplayOptions
	client http.RoundTripper
	calls  []*Replay
	ids    map[string]string // new by recorded
}

// play waits until the calls before have come as far as they had, and makes the call.
func (p *player) play(ctx context.Context, i int) error {
	c := p.calls[i]
	for _, before := range p.calls[:i] {
		into := c.Recorded.Start.Sub(before.Recorded.Start)
		if before.Recorded.Duration <= into {
			p.finish(ctx, before)
			continue
		}
		frames := 0
		for _, f := range before.Recorded.Frames {
			if f.At <= into {
				frames++
			}
		}
		p.wait(ctx, before, func(x *Exchange) bool { return x.Done || len(x.Frames) >= frames })
		p.learn(before)
	}
	if !p.opts.Webhooks && strings.Contains(c.Recorded.Operation, "PushNotification") {
		c.LeftOut = true
		return nil
	}
	req, err := p.request(ctx, c)
	if err != nil {
		c.Differences = []string{err.Error()}
		return nil
	}
	id := p.tap.rec.lastID.Load() + 1
	c.Again = &Exchange{ID: id}
	timed, cancel := context.WithTimeout(ctx, p.opts.Patience)
	c.leave = cancel
	go func() {
		defer cancel()
		if res, err := p.client.RoundTrip(req.WithContext(timed)); err == nil {
			_, _ = io.Copy(io.Discard, res.Body) // the tap has what came
			_ = res.Body.Close()
		}
	}()
	p.wait(ctx, c, func(*Exchange) bool { return true }) // it has its id before the next one is sent
	return ctx.Err()
}

// wait waits for what has become of a call.
func (p *player) wait(ctx context.Context, c *Replay, ok func(*Exchange) bool) {
	if c.Again == nil || c.Again.Done {
		return
	}
	late := time.NewTimer(p.opts.Patience + time.Second)
	defer late.Stop()
	for {
		changed := p.tap.rec.Changed()
		if x := p.tap.rec.Exchange(c.Again.ID); x != nil {
			c.Again = x
			if ok(x) {
				return
			}
		}
		select {
		case <-changed:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// finish waits for the end of a call and compares it.
func (p *player) finish(ctx context.Context, c *Replay) {
	if c.Again == nil || c.finished { // one that was done at once is to be looked at, too
		return
	}
	c.finished = true
	if left(c.Recorded) {
		p.wait(ctx, c, func(x *Exchange) bool { return x.Done || len(x.Frames) >= len(c.Recorded.Frames) })
		c.leave()
	}
	p.wait(ctx, c, func(x *Exchange) bool { return x.Done })
	p.learn(c)
	c.Differences = p.compare(c)
}

// request returns a recorded request as it is sent again.
func (p *player) request(ctx context.Context, c *Replay) (*http.Request, error) {
	x, sent := c.Recorded, c.Recorded.Request
	if !p.opts.Webhooks {
		sent = withoutWebhook(x)
		c.LeftOut = !bytes.Equal(sent, x.Request)
	}
	address, err := p.address(x)
	if err != nil {
		return nil, err
	}
	body := p.translate(sent)
	if x.Binding == a2a.BindingGRPC {
		body, _ = editMessage(x.Operation, false, sent, func(owner protoreflect.Name, name, s string) string {
			if owner == "Message" && name == "message_id" {
				return p.renewed(s)
			}
			return p.id(s)
		})
		body = appendMessage(nil, body)
	}
	req, err := http.NewRequestWithContext(ctx, x.Method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range x.RequestHeader {
		if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, blot) }) || name == "Content-Length" || name == "Accept-Encoding" ||
			strings.HasPrefix(name, "Grpc-") {
			continue
		}
		req.Header[name] = values
	}
	maps.Copy(req.Header, p.opts.Header)
	return req, nil
}

// withoutWebhook returns a request without the webhook that its message registers.
func withoutWebhook(x *Exchange) []byte {
	if x.Binding != a2a.BindingGRPC {
		return edit(x.Request, "", func(path string, value json.RawMessage) []byte {
			if strings.TrimPrefix(path, "params.") != "configuration" {
				return nil
			}
			var c map[string]json.RawMessage
			if json.Unmarshal(value, &c) != nil || c["taskPushNotificationConfig"] == nil {
				return nil
			}
			delete(c, "taskPushNotificationConfig")
			b, _ := marshal(c) // of what was JSON
			return b
		})
	}
	m, _ := rules.NewMessage(x.Operation, false).(*pb.SendMessageRequest)
	if m == nil || proto.Unmarshal(x.Request, m) != nil || m.GetConfiguration().GetTaskPushNotificationConfig() == nil {
		return x.Request
	}
	m.Configuration.TaskPushNotificationConfig = nil
	b, _ := proto.Marshal(m) // of what was a message
	return b
}

// address returns where a recorded call goes now: to the interface with its binding.
func (p *player) address(x *Exchange) (string, error) {
	was, err := url.Parse(x.URL)
	if err != nil {
		return "", err
	}
	for _, i := range p.tap.card.SupportedInterfaces {
		if i.ProtocolBinding != x.Binding {
			continue
		}
		here := p.tap.here(i)
		switch i.ProtocolBinding {
		case a2a.BindingGRPC:
			return p.tap.scheme() + strings.TrimPrefix(here, "https://") + was.Path, nil
		case a2a.BindingREST:
			_, rest, ok := cutOperation(x, was.EscapedPath())
			if !ok {
				return "", fmt.Errorf("%s names no operation", was.Path)
			}
			here = strings.TrimRight(here, "/") + p.translateText(rest)
		}
		if was.RawQuery != "" {
			here += "?" + p.translateText(was.RawQuery)
		}
		return here, nil
	}
	return "", fmt.Errorf("the agent has no %s interface", x.Binding)
}

// cutOperation splits a path into that of the interface and that of the operation.
func cutOperation(x *Exchange, path string) (base, rest string, ok bool) {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if o, _ := restOperation(x.Method, path[i:]); o == x.Operation {
			base, rest, ok = path[:i], path[i:], true // the shortest that is one
		}
	}
	return base, rest, ok
}

func (p *player) id(recorded string) string {
	if now, ok := p.ids[recorded]; ok {
		return now
	}
	return recorded
}

// translate puts the new ids into a request.
func (p *player) translate(body []byte) []byte {
	return edit(body, "", func(path string, value json.RawMessage) []byte {
		var s string
		if json.Unmarshal(value, &s) != nil {
			return nil
		}
		now := p.id(s)
		if strings.HasSuffix(path, "essage.messageId") {
			now = p.renewed(s)
		}
		if now == s {
			return nil
		}
		b, _ := marshal(now) // of a string
		return b
	})
}

// renewed returns a message's new id. An agent may answer an id that it knows with the task of then (safe-retry); what was
// sent twice is sent twice again.
func (p *player) renewed(id string) string {
	if _, ok := p.ids[id]; !ok && id != "" {
		p.ids[id] = "replay-" + rand.Text()
	}
	return p.id(id)
}

func (p *player) translateText(s string) string {
	for was, now := range p.ids {
		if len(was) >= minLiteral {
			s = strings.ReplaceAll(s, was, now)
		}
	}
	return s
}

// results returns what an exchange answered, as JSON values. Of a stream it is the task that its events make, since into how
// many events a task's course falls depends on the moment.
func results(x *Exchange) []any {
	if task := folded(x); task != nil {
		return []any{task}
	}
	var out []any
	take := func(b []byte) {
		var v any
		dec := json.NewDecoder(strings.NewReader(x.Text(b)))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			v = string(b)
		}
		out = append(out, v)
	}
	if len(x.Response) > 0 {
		take(x.Response)
	}
	for i := range x.Frames {
		take(x.Frames[i].Data)
	}
	return out
}

// folded returns the task that a stream tells, without its history; nil where it tells of none.
func folded(x *Exchange) any {
	if !x.Stream || len(x.Frames) == 0 {
		return nil
	}
	var task a2a.Task
	for i := range x.Frames {
		data := []byte(x.Text(x.Frames[i].Data))
		if x.Binding == a2a.BindingJSONRPC {
			var r struct{ Result json.RawMessage }
			_ = json.Unmarshal(data, &r) // what is none has no event
			data = r.Result
		}
		event, err := a2a.ParseStreamResponse(data)
		if err != nil {
			return nil
		}
		task.Apply(event)
	}
	if task.ID == "" {
		return nil
	}
	task.History = nil
	var v any
	dec := json.NewDecoder(bytes.NewReader(task.AppendJSON(nil)))
	dec.UseNumber()
	_ = dec.Decode(&v) // of what was just made
	return v
}

// idNames are the members that hold ids which an agent makes.
var idNames = []string{"id", "taskId", "contextId", "messageId", "artifactId", "nextPageToken"}

// learn takes from an answer which ids the agent made this time.
func (p *player) learn(c *Replay) {
	if c.Again == nil {
		return
	}
	was, now := results(c.Recorded), results(c.Again)
	for i := range min(len(was), len(now)) {
		walk("", was[i], now[i], func(path string, a, b any) {
			from, ok := a.(string)
			to, ok2 := b.(string)
			if ok && ok2 && from != to && slices.Contains(idNames, path[strings.LastIndexByte(path, '.')+1:]) {
				p.ids[from] = to
			}
		})
	}
}

// compare returns where the answers differ.
func (p *player) compare(c *Replay) (out []string) {
	differ := func(format string, args ...any) {
		if len(out) < 10 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	was, now := c.Recorded, c.Again
	if was.Status != now.Status {
		differ("status %d, was %d", now.Status, was.Status)
	}
	if a, b := grpcCode(was), grpcCode(now); a != b && !left(was) {
		differ("grpc-status %s, was %s", grpcError(now), grpcError(was))
	}
	if was.Err != now.Err && !left(was) {
		differ("error %q, was %q", now.Err, was.Err)
	}
	before, after := results(was), results(now)
	if left(was) && !ended(before) {
		return out // how far the agent had come by then was chance
	}
	if len(before) != len(after) {
		differ("%d frames, were %d", len(after), len(before))
	}
	for i := range min(len(before), len(after)) {
		at := ""
		if len(before) > 1 {
			at = "frame " + strconv.Itoa(i+1)
		}
		walk(at, before[i], after[i], func(path string, a, b any) {
			if !p.same(path, a, b) {
				differ("%s is %s, was %s", path, show(b), show(a))
			}
		})
	}
	return out
}

// left reports whether the client went away before the end.
func left(x *Exchange) bool { return x.Err == clientLeft }

// ended reports whether the results are a task that has ended.
func ended(results []any) bool {
	if len(results) != 1 {
		return false
	}
	task, _ := results[0].(map[string]any)
	status, _ := task["status"].(map[string]any)
	state, _ := status["state"].(string)
	return rules.Terminal(state)
}

func grpcCode(x *Exchange) string { return grpcEnd(x).Get("Grpc-Status") }

// grpcEnd returns the header that has the status of a call over gRPC.
func grpcEnd(x *Exchange) http.Header {
	if x.Trailer.Get("Grpc-Status") != "" {
		return x.Trailer
	}
	return x.ResponseHeader
}

// grpcError returns the status of a call over gRPC with its message.
func grpcError(x *Exchange) string {
	code := grpcCode(x)
	if message := grpcMessage(grpcEnd(x).Get("Grpc-Message")); message != "" {
		code += " " + clipped(message, maxMessage)
	}
	return code
}

// same reports whether two values are the same, or may differ from run to run.
func (p *player) same(path string, a, b any) bool {
	if strings.Contains(path, extension.ChunkIntegrity) || strings.Contains(path, extension.GenerationKey) {
		return true // a digest covers the ids, a generation counts the entries so far
	}
	from, ok := a.(string)
	to, ok2 := b.(string)
	if !ok || !ok2 {
		return a == nil && b == nil || fmt.Sprint(a) == fmt.Sprint(b) && a != nil && b != nil
	}
	if from == to || p.id(from) == to || p.translateText(from) == to {
		return true
	}
	_, err := time.Parse(time.RFC3339Nano, from)
	_, err2 := time.Parse(time.RFC3339Nano, to)
	return err == nil && err2 == nil || strings.HasSuffix(path, "imestamp")
}

func show(v any) string {
	if v == nil {
		return "absent"
	}
	object, _ := v.(map[string]any)
	message, ok := object["message"].(string)
	if !ok || object["code"] == nil {
		return clipped(v, maxValue)
	}
	details := maps.Clone(object) // of an error: first of all it says why
	delete(details, "code")
	delete(details, "message")
	return strings.TrimSuffix(fmt.Sprintf("%v %s %s", object["code"], clipped(message, maxMessage), clipped(details, maxValue)), " {}")
}

// How much is shown of what differs.
const (
	maxValue   = 200
	maxMessage = 1000 // why something was refused
)

func clipped(v any, n int) string {
	b, _ := marshal(v) // of what was JSON
	return rules.Clip(string(b), n)
}

// walk calls leaf for every pair of values at the same path of two JSON values; where only one has it, the other is nil.
func walk(path string, a, b any, leaf func(path string, a, b any)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			names := maps.Clone(x)
			maps.Copy(names, y)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				walk(strings.TrimPrefix(path+"."+name, "."), x[name], y[name], leaf)
			}
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				walk(fmt.Sprintf("%s[%d]", path, i), element(x, i), element(y, i), leaf)
			}
			return
		}
	}
	leaf(path, a, b)
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}
