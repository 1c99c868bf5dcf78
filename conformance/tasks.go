package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/rules"
)

// streams judges SendStreamingMessage.
func (p *probe) streams() {
	if !p.streaming() {
		x := p.play(call{op: "SendStreamingMessage", params: p.message("complete", "")})
		p.mustFail("stream-refused", x, a2a.ErrUnsupportedOperation)
		x = p.play(call{op: "SubscribeToTask", params: idOf("conformance-" + random())})
		p.mustFail("stream-refused", x, a2a.ErrUnsupportedOperation)
		return
	}
	p.skip("stream-refused", "the card offers streams")
	for _, of := range []string{"complete", "chunked", "message"} {
		if p.full() {
			return
		}
		x := p.play(call{op: "SendStreamingMessage", params: p.message(of, "")})
		events, _ := x.Events()
		if len(events) == 0 && x.Failure() == nil && !x.Stream {
			p.fail("stream-media-type", x, "no stream", "a stream")
		}
		p.fold(x, events)
	}
}

// folded is a task as a stream tells it.
type folded struct {
	id, state string
	artifacts map[string]string // the texts, by id
}

// artifact is what the run reads of one.
type artifact struct {
	ArtifactID string
	Parts      []struct{ Text string }
}

func (a *artifact) text() string {
	var b strings.Builder
	for _, p := range a.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func texts(raw json.RawMessage) map[string]string {
	var list []artifact
	_ = json.Unmarshal(raw, &list) // else there are none
	out := map[string]string{}
	for _, a := range list {
		out[a.ArtifactID] = a.text()
	}
	return out
}

// fold compares what a stream told with the task as it can be read afterwards.
func (p *probe) fold(x *rules.Exchange, events []json.RawMessage) {
	f := folded{artifacts: map[string]string{}}
	for _, raw := range events {
		var e struct {
			Task           *task
			ArtifactUpdate *struct {
				Append   bool
				Artifact artifact
			}
		}
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		if s := stateOf(raw); s != "" {
			f.state = s
		}
		switch {
		case e.Task != nil:
			f.id, f.artifacts = e.Task.ID, texts(e.Task.Artifacts)
		case e.ArtifactUpdate != nil && e.ArtifactUpdate.Append:
			f.artifacts[e.ArtifactUpdate.Artifact.ArtifactID] += e.ArtifactUpdate.Artifact.text()
		case e.ArtifactUpdate != nil:
			f.artifacts[e.ArtifactUpdate.Artifact.ArtifactID] = e.ArtifactUpdate.Artifact.text()
		}
	}
	if f.id == "" || x.Open && !rules.Terminal(f.state) {
		return
	}
	if _, now := p.get(idOf(f.id)); now != nil {
		got, want := fmt.Sprintf("%s %v", f.state, f.artifacts), fmt.Sprintf("%s %v", now.Status.State, texts(now.Artifacts))
		p.hold(got == want, "stream-order", x, got, want+", as GetTask has it")
	}
}

// ended judges the operations on a task that has ended.
func (p *probe) ended() {
	m, why := p.endedTask()
	if m == nil {
		for _, rule := range []string{"get-task", "cancel-terminal", "subscribe-terminal", "send-terminal"} {
			p.skip(rule, why)
		}
		return
	}
	x, t := p.get(idOf(m.id))
	if t == nil {
		p.fail("get-task", x, fmt.Sprint("no task: ", x.Failure()), "task "+m.id)
		return
	}
	p.hold(t.ID == m.id && t.ContextID == m.contextID && t.Status.State == m.state, "get-task", x,
		fmt.Sprintf("task %s, context %s, %s", t.ID, t.ContextID, t.Status.State), fmt.Sprintf("task %s, context %s, %s", m.id, m.contextID, m.state))
	p.sample, _ = x.Result()
	p.history()
	p.mustFail("cancel-terminal", p.play(call{op: "CancelTask", params: idOf(m.id)}), a2a.ErrTaskNotCancelable)
	x, _ = p.send(p.message("complete", "", `"taskId":`+quote(m.id)))
	p.mustFail("send-terminal", x, a2a.ErrUnsupportedOperation)
	if p.streaming() {
		p.mustFail("subscribe-terminal", p.play(call{op: "SubscribeToTask", params: idOf(m.id)}), a2a.ErrUnsupportedOperation)
	}
}

func (p *probe) history() {
	m := p.cached["input"] // with an answer it has the longest
	if m == nil {
		m, _ = p.endedTask()
	}
	_, all := p.get(idOf(m.id))
	if all == nil || len(all.History) == 0 {
		for _, rule := range []string{"history-length", "history-zero"} {
			p.skip(rule, "the agent keeps no history")
		}
		return
	}
	if x, t := p.get(`{"id":` + quote(m.id) + `,"historyLength":0}`); t != nil {
		p.hold(len(t.History) == 0, "history-zero", x, fmt.Sprintf("%d messages", len(t.History)), "no history")
	}
	if len(all.History) < 2 {
		p.skip("history-length", "no task has more than one message")
		return
	}
	x, t := p.get(`{"id":` + quote(m.id) + `,"historyLength":1}`)
	if t != nil {
		p.hold(len(t.History) <= 1, "history-length", x, fmt.Sprintf("%d messages", len(t.History)), "at most 1")
		p.query(len(t.History) <= 1, x, "historyLength has no effect")
	}
	if t != nil && len(t.History) == 1 {
		last := all.History[len(all.History)-1]
		p.hold(equalJSON(t.History[0], last), "history-length", x, string(t.History[0]), "the most recent message, "+rules.Clip(string(last), 200))
	}
}

// query judges whether a parameter in a query has its effect.
func (p *probe) query(ok bool, x *rules.Exchange, got string) {
	if p.over(a2a.BindingREST) {
		p.hold(ok, "rest-query", x, got, "its effect")
	}
}

// page is an answer of ListTasks.
type page struct {
	Tasks         []task
	NextPageToken string
	PageSize      int
	TotalSize     int
}

func (p *probe) list(params string) (*rules.Exchange, *page) {
	x := p.play(call{op: "ListTasks", params: params})
	raw, _ := x.Result()
	var out page
	if raw == nil || json.Unmarshal(raw, &out) != nil {
		return x, nil
	}
	return x, &out
}

// lists judges ListTasks, in a context of the run's own.
func (p *probe) lists() {
	m, why := p.task("artifact")
	if m == nil {
		p.noLists(why)
		return
	}
	context := `"contextId":` + quote(m.contextID)
	mine := []string{m.id}
	for range 2 {
		if _, t := p.send(p.message("artifact", "", context)); t != nil && t.ContextID == m.contextID {
			mine = append(mine, t.ID)
		}
	}
	x, all := p.list(`{` + context + `}`)
	if all == nil {
		p.noLists("ListTasks is refused: " + fmt.Sprint(x.Failure()))
		return
	}
	p.listFields(x)
	outside := slices.DeleteFunc(slices.Clone(all.Tasks), func(t task) bool { return t.ContextID == m.contextID })
	p.hold(len(outside) == 0, "list-context", x, fmt.Sprintf("%d tasks of other contexts", len(outside)), "none")
	p.order(x, all)
	p.listContents(context, all)
	p.pages(context, mine)
	p.listBounds()
}

func (p *probe) noLists(why string) {
	for i := range rules.All {
		if id := rules.All[i].ID; strings.HasPrefix(id, "list-") {
			p.skip(id, why)
		}
	}
}

func (p *probe) listFields(x *rules.Exchange) {
	raw, _ := x.Result()
	var fields map[string]json.RawMessage
	if p.over(a2a.BindingGRPC) || json.Unmarshal(raw, &fields) != nil {
		return
	}
	for _, name := range []string{"tasks", "nextPageToken", "pageSize", "totalSize"} {
		v, ok := fields[name]
		p.hold(ok && string(v) != "null", "list-fields", x, name+" "+orNone(string(v)), name)
	}
}

func (p *probe) order(x *rules.Exchange, all *page) {
	var last time.Time
	timed := 0
	for i, t := range all.Tasks {
		now, err := time.Parse(time.RFC3339Nano, string(t.Status.Timestamp))
		if err != nil {
			continue
		}
		if timed++; timed > 1 && now.After(last) {
			p.fail("list-order", x, fmt.Sprintf("tasks[%d] at %s after %s", i, t.Status.Timestamp, last.Format(time.RFC3339Nano)), "the latest first")
			return
		}
		last = now
	}
	if timed > 1 {
		p.pass("list-order")
	}
}

func (p *probe) listContents(context string, all *page) {
	x, with := p.list(`{` + context + `,"includeArtifacts":true}`)
	if with != nil && slices.ContainsFunc(with.Tasks, func(t task) bool { return t.Artifacts != nil }) {
		p.pass("list-artifacts-included")
		without := slices.ContainsFunc(all.Tasks, func(t task) bool { return t.Artifacts != nil })
		y, _ := p.list(`{` + context + `}`)
		p.hold(!without, "list-artifacts", y, "artifacts", "no field artifacts")
	} else if m := p.cached["artifact"]; m != nil && with != nil {
		if _, t := p.get(idOf(m.id)); t != nil && len(texts(t.Artifacts)) > 0 {
			p.fail("list-artifacts-included", x, "no artifacts", "those of task "+m.id)
		}
	}
	x, done := p.list(`{` + context + `,"status":"TASK_STATE_COMPLETED"}`)
	y, none := p.list(`{` + context + `,"status":"TASK_STATE_REJECTED"}`)
	if done != nil && none != nil {
		wrong := func(list []task, state string) bool {
			return slices.ContainsFunc(list, func(t task) bool { return t.Status.State != state })
		}
		p.hold(!wrong(done.Tasks, "TASK_STATE_COMPLETED"), "list-status", x, "tasks in other states", "completed tasks")
		p.hold(!wrong(none.Tasks, "TASK_STATE_REJECTED"), "list-status", y, "tasks in other states", "rejected tasks")
	}
	if m := p.cached["input"]; m != nil {
		x, short := p.list(`{"contextId":` + quote(m.contextID) + `,"historyLength":1}`)
		if short != nil {
			p.hold(!slices.ContainsFunc(short.Tasks, func(t task) bool { return len(t.History) > 1 }), "list-history", x, "more than one message", "at most 1")
		}
	}
}

// pages reads the run's context by pages of one.
func (p *probe) pages(context string, mine []string) {
	const rule = "list-pages"
	var got []string
	token := ""
	for range len(mine) + 3 {
		params := `{` + context + `,"pageSize":1`
		if token != "" {
			params += `,"pageToken":` + quote(token)
		}
		x, page := p.list(params + `}`)
		if page == nil {
			p.fail(rule, x, fmt.Sprint("no page: ", x.Failure()), "the next page")
			return
		}
		if len(page.Tasks) > 1 {
			p.fail(rule, x, fmt.Sprintf("%d tasks", len(page.Tasks)), "at most 1, the page size")
			p.query(false, x, "pageSize has no effect")
			return
		}
		p.query(true, x, "")
		for _, t := range page.Tasks {
			if slices.Contains(got, t.ID) {
				p.fail(rule, x, "task "+t.ID+" once more", "tasks that were on no page before")
				return
			}
			got = append(got, t.ID)
		}
		if token = page.NextPageToken; token == "" {
			slices.Sort(got)
			slices.Sort(mine)
			p.hold(slices.Equal(got, mine), rule, x, fmt.Sprintf("%d tasks on all pages: %v", len(got), got), fmt.Sprintf("%d: %v", len(mine), mine))
			return
		}
	}
	p.fail(rule, nil, "pages without an end", "an empty nextPageToken on the last page")
}

func (p *probe) listBounds() {
	for _, size := range []int{101, 0, -1} {
		x, page := p.list(fmt.Sprintf(`{"pageSize":%d}`, size))
		if page == nil {
			if x.Failure() != nil {
				p.pass("list-page-size")
			}
			continue
		}
		p.hold(len(page.Tasks) <= 100 && page.PageSize <= 100 && page.PageSize >= 0, "list-page-size", x,
			fmt.Sprintf("%d tasks, pageSize %d", len(page.Tasks), page.PageSize), "an error, or at most 100")
	}
	x, page := p.list(`{"pageToken":"!conformance: no token of yours!"}`)
	p.hold(page == nil && x.Failure() != nil, "list-bad-token", x, "a page", "an error")
}

// liveTasks judges cancellation, and subscriptions to a task that has not ended.
func (p *probe) liveTasks() {
	m, why := p.liveTask()
	if m == nil {
		for _, rule := range []string{
			"cancel-state", "cancel-idempotent", "subscribe-first", "subscribe-closes", "stream-broadcast", "stream-independent",
		} {
			p.skip(rule, why)
		}
		return
	}
	if !p.streaming() {
		p.cancelTask(m)
		return
	}
	k := call{op: "SubscribeToTask", params: idOf(m.id)}
	a, b, closed := p.start(k), p.start(k), p.start(k)
	for _, s := range []*stream{a, b, closed} {
		p.await(s)
	}
	closed.stop()
	<-closed.done
	_, now := p.get(idOf(m.id))
	alive := now == nil || now.Status.State != "TASK_STATE_CANCELED" && now.Status.State != "TASK_STATE_FAILED"
	canceled := p.cancelTask(m)
	xa, xb := a.end(p.patient), b.end(p.settle) // both had the time of the first
	for _, x := range []*rules.Exchange{xa, xb} {
		if canceled && x.Open && x.Err == "" {
			p.fail("subscribe-closes", x, "a stream that goes on", "its end: the task is canceled")
		}
		p.judge(p.name, x, rules.Check(x))
		p.note(x, k)
	}
	ea, _ := xa.Events()
	eb, _ := xb.Events()
	if len(ea) == 0 || len(eb) == 0 {
		switch e := xa.Failure(); {
		case e == nil:
		case now != nil && rules.Terminal(now.Status.State): // by itself, before it was subscribed to
			for _, rule := range []string{"subscribe-first", "subscribe-closes", "stream-broadcast", "stream-independent"} {
				p.skip(rule, "the task had ended before it was subscribed to: tell the run what to say, for input or long")
			}
		default:
			p.fail("subscribe-first", xa, e.String(), "the Task, which has not ended")
		}
		return
	}
	p.hold(alive, "stream-independent", xa, "the task ended as a stream was closed", "no effect")
	if canceled {
		got := func(list []json.RawMessage) bool { return rules.Terminal(stateOf(list[len(list)-1])) }
		p.hold(got(ea) && got(eb), "stream-independent", xa, "a stream without the task's end", "the task's end on the streams that are left")
		same := len(ea) == len(eb) && slices.EqualFunc(ea[1:], eb[1:], equalJSON)
		p.hold(same, "stream-broadcast", xb, fmt.Sprintf("%s", eb[1:]), fmt.Sprintf("%s, as on the other stream", ea[1:]))
	}
}

// await waits for a stream's first frame.
func (p *probe) await(s *stream) {
	timer := time.NewTimer(p.settle)
	defer timer.Stop()
	select {
	case <-s.first:
	case <-timer.C:
	}
}

// cancelTask cancels a task, twice, and reports whether it is canceled.
func (p *probe) cancelTask(m *made) bool {
	x := p.play(call{op: "CancelTask", params: idOf(m.id)})
	raw, e := x.Result()
	var t task
	switch {
	case e != nil && (e.Code == a2a.ErrTaskNotCancelable || e.Code == a2a.ErrUnsupportedOperation):
		p.skip("cancel-state", "the agent's task cannot be canceled")
		p.skip("cancel-idempotent", "the agent's task cannot be canceled")
		return false
	case raw == nil || json.Unmarshal(raw, &t) != nil:
		p.fail("cancel-state", x, fmt.Sprint("no task: ", e), "the task")
		return false
	}
	p.hold(t.ID == m.id && rules.Terminal(t.Status.State), "cancel-state", x, fmt.Sprintf("task %s, %s", t.ID, t.Status.State), "task "+m.id+", canceled")
	if t.Status.State != "TASK_STATE_CANCELED" {
		return false
	}
	p.report.Made.Canceled++
	x = p.play(call{op: "CancelTask", params: idOf(m.id)})
	if e := x.Failure(); e != nil && !slices.Contains([]a2a.ErrorCode{a2a.ErrTaskNotCancelable, a2a.ErrTaskNotFound, 0}, e.Code) {
		p.fail("cancel-idempotent", x, e.String(), "the canceled task, or an error that says that it is")
	}
	if x, now := p.get(idOf(m.id)); now != nil {
		p.hold(now.Status.State == "TASK_STATE_CANCELED", "cancel-idempotent", x, now.Status.State, "TASK_STATE_CANCELED")
	}
	return true
}

// together compares the interfaces.
func (r *run) together(probes []*probe) {
	if len(probes) < 2 {
		for _, rule := range []string{"same-operations", "same-results", "same-errors", "same-auth"} {
			r.notMeasured(rule, AllName, "only one interface was looked at")
		}
		return
	}
	r.sameResults(probes)
	kinds := map[string]map[string]string{} // of errors, by rule and interface
	for _, p := range probes {
		for op := range p.ops {
			for _, q := range probes {
				if known, asked := q.ops[op]; asked && known != p.ops[op] && p.ops[op] {
					r.fail("same-operations", AllName, nil, "", q.name+" does not know "+op, "what "+p.name+" knows")
				}
			}
		}
		for rule, code := range p.errors {
			if code == 0 {
				continue
			}
			if kinds[rule] == nil {
				kinds[rule] = map[string]string{}
			}
			kinds[rule][p.name] = family(code)
		}
	}
	r.pass("same-operations", AllName)
	for _, rule := range slices.Sorted(maps.Keys(kinds)) {
		to := "same-errors"
		if strings.HasPrefix(rule, "auth-") {
			to = "same-auth"
		}
		var values []string
		for _, v := range kinds[rule] {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 1 {
			r.fail(to, AllName, nil, rule, fmt.Sprint(kinds[rule]), "one kind of error")
		} else if len(kinds[rule]) > 1 {
			r.pass(to, AllName)
		}
	}
	if _, ok := kinds["auth-required"]; !ok {
		r.notMeasured("same-auth", AllName, "the agent asks for no authentication, or does not say so by its errors")
	}
}

// family returns the kind of an error; wrong input is one kind, however a binding says it.
func family(c a2a.ErrorCode) string {
	if c == a2a.ErrInvalidRequest || c == a2a.ErrParse {
		c = a2a.ErrInvalidParams
	}
	return c.Name()
}

// sameResults reads one task through every interface.
func (r *run) sameResults(probes []*probe) {
	var want json.RawMessage
	var from *probe
	for _, p := range probes {
		if want, from = p.sample, p; want != nil {
			break
		}
	}
	var t task
	if want == nil || json.Unmarshal(want, &t) != nil {
		r.notMeasured("same-results", AllName, "no task of this agent ended")
		return
	}
	for _, p := range probes {
		if p == from {
			continue
		}
		x := p.play(call{op: "GetTask", params: idOf(t.ID)})
		got, e := x.Result()
		if unsent(x) {
			continue
		}
		if got == nil {
			r.fail("same-results", AllName, x, "", fmt.Sprintf("%s: %v", p.name, e), "the task, as through "+from.name)
			continue
		}
		if equalJSON(got, want) {
			r.pass("same-results", AllName)
		} else {
			r.fail("same-results", AllName, x, "", p.name+": "+string(got), "as through "+from.name+": "+rules.Clip(string(want), 400))
		}
	}
}

// equalJSON compares results as the proto sees them: what is empty is as good as absent, and a time is a moment.
func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(normal(x), normal(y))
}

func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if n := normal(e); n != nil {
				out[k] = n
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = normal(e)
		}
		return out
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.UnixMilli()
		}
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}
