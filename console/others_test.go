package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/internal/script"
	"github.com/parley-a2a/parley/taskstore"
)

// evilName is a subject that would do something if it became part of the page.
const evilName = `<img src=x onerror="window.pwned=1">-` + "a-name-that-is-far-too-long-for-a-narrow-screen-and-goes-on-and-on"

// keyed lets in whoever has the key of a name, and those who have none as nobody.
func keyed(c *parley.Config) {
	c.Authenticate = func(_ context.Context, info *a2a.CallInfo) error {
		switch key := info.Header.Get("X-API-Key"); key {
		case "":
		case "alice", "carol":
			info.Caller = a2a.Caller{Tenant: "t-" + key, Issuer: "api-key", Subject: key}
		case "evil":
			info.Caller = a2a.Caller{Issuer: "api-key", Subject: evilName}
		default:
			return a2a.Errorf(a2a.ErrUnauthenticated, "who are you?")
		}
		return nil
	}
}

var park = a2a.DataPart([]map[string]string{{"park": "Well?"}})

// listed is a caller as the console lists it.
type listed struct {
	ID, Issuer, Subject, Tenant string
	Anonymous, Own              bool
}

// callers returns what the console lists, by the subject, and that as a list.
func (v *visitor) callers() (map[string]listed, []listed) {
	v.t.Helper()
	res, body := v.do("GET", "api/agents/agent/callers", "")
	var page struct {
		Callers []listed
		Next    string
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || res.StatusCode != http.StatusOK || page.Next != "" {
		v.t.Fatalf("%s %s (%v)", res.Status, body, err)
	}
	by := map[string]listed{}
	for i, c := range page.Callers {
		by[c.Subject] = c
		page.Callers[i].ID = ""
	}
	return by, page.Callers
}

// The operator sees who has tasks, and of each what a caller sees of its own: the list, a task as it goes on, its log, its webhooks.
func TestOperatorSeesOthers(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	s := play(t, new(script.Agent), keyed)
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	if _, list := v.callers(); len(list) != 1 || !list[0].Own || list[0].Subject != "operator" {
		t.Errorf("before anybody called: %+v", list)
	}
	alices, carols, nobodys := s.sayAs(t, "alice", "", park).ID, s.sayAs(t, "carol", "", park).ID, s.say(t, park).ID
	s.sayAs(t, "evil", "", park)
	if res, body := v.do("POST", "api/agents/agent/a2a/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`,
		"A2A-Version", "1.0", "Content-Type", "application/json"); res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", res.Status, body)
	}
	if _, err := s.client(t, "alice").CreateTaskPushNotificationConfig(t.Context(), &a2a.TaskPushNotificationConfig{
		TaskID: alices, URL: receiver.URL + "/hook?key=secret-in-query", Token: "secret-token",
	}); err != nil {
		t.Fatal(err)
	}
	by, list := v.callers()
	want := []listed{
		{Issuer: "console", Subject: "operator", Own: true},
		{Anonymous: true},
		{Issuer: "api-key", Subject: evilName},
		{Issuer: "api-key", Subject: "alice", Tenant: "t-alice"},
		{Issuer: "api-key", Subject: "carol", Tenant: "t-carol"},
	}
	if !slices.Equal(list, want) {
		t.Errorf("the callers are\n%+v, want\n%+v", list, want)
	}
	const here = "api/agents/agent/"
	for _, tt := range []struct {
		as    string // a subject of the list
		task  string
		found bool
	}{
		{"alice", alices, true}, {"carol", carols, true}, {"", nobodys, true}, {"carol", alices, false}, {"", alices, false}, {"operator", alices, false},
	} {
		id := by[tt.as].ID
		for _, path := range []string{"a2a/tasks/" + tt.task, "tasks/" + tt.task + "/log", "webhooks?task=" + tt.task} {
			res, body := v.do("GET", here+path, "", "A2A-Version", "1.0", "Parley-Caller", id)
			if want := map[bool]int{true: 200, false: 404}[tt.found]; res.StatusCode != want {
				t.Errorf("%s as %q: %s, want %d: %.300s", path, tt.as, res.Status, want, body)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("a secret is shown: %s", body)
			}
		}
		if _, body := v.do("GET", here+"a2a/tasks?historyLength=1", "", "A2A-Version", "1.0", "Parley-Caller", id); strings.Contains(body, tt.task) != tt.found ||
			!strings.Contains(body, `"totalSize":1`) {
			t.Errorf("the tasks of %q are %.300s", tt.as, body)
		}
	}
	as := []string{"Parley-Caller", by["alice"].ID}
	if _, body := v.do("GET", here+"tasks/"+alices+"/log", "", as...); !strings.Contains(body, "Well?") {
		t.Errorf("the log has no question: %s", body)
	}
	if _, body := v.do("GET", here+"webhooks", "", as...); !strings.Contains(body, receiver.URL) {
		t.Errorf("the webhooks are %s", body)
	}
	// Who looks at nobody's in particular sees whose a webhook is; who looks at another's sees none of alice's.
	if _, body := v.do("GET", here+"webhooks", ""); !strings.Contains(body, `"caller":"`+as[1]+`"`) {
		t.Errorf("all webhooks are %s", body)
	}
	if _, body := v.do("GET", here+"webhooks", "", "Parley-Caller", by["carol"].ID); strings.Contains(body, receiver.URL) {
		t.Errorf("carol's webhooks are %s", body)
	}
	for path, want := range map[string]int{"callers?after=x": 400, "a2a/tasks?pageSize=0": 400, "a2a/tasks?historyLength=-1": 400, "a2a/tasks?pageToken=x": 400} {
		if res, body := v.do("GET", here+path, "", append(as, "A2A-Version", "1.0")...); res.StatusCode != want {
			t.Errorf("%s: %s, want %d: %s", path, res.Status, want, body)
		}
	}
	if res, _ := v.do("GET", here+"a2a/tasks", "", "A2A-Version", "1.0", "Parley-Caller", "alice"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a caller that is no id: %s", res.Status)
	}

	// It goes on while the operator looks, and the hints tell of it.
	stream := v.stream("POST", here+"a2a/tasks/"+alices+":subscribe", append(as, "A2A-Version", "1.0", "Content-Type", "application/json")...)
	stream.until("TASK_STATE_INPUT_REQUIRED")
	events := v.stream("GET", "api/events")
	events.until("event: hello")
	s.sayAs(t, "alice", alices, a2a.TextPart("So be it"))
	stream.until("TASK_STATE_COMPLETED")
	stream.until("") // its end
	events.until("event: tasks")
	if res, body := v.do("POST", here+"a2a/tasks/"+alices+":subscribe", "{}", append(as, "A2A-Version", "1.0", "Content-Type", "application/json")...); res.StatusCode != http.StatusBadRequest ||
		!strings.Contains(body, "has ended") {
		t.Errorf("a subscription to a task that has ended: %s %s", res.Status, body)
	}
}

// heard is an answer that is read as it comes.
type heard struct {
	t   *testing.T
	res *http.Response
	all string
}

func (v *visitor) stream(method, path string, header ...string) *heard {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), wait)
	v.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, v.base+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.AddCookie(v.cookie)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { res.Body.Close() })
	return &heard{t: v.t, res: res}
}

// until reads as far as the text; empty: to the end.
func (h *heard) until(text string) {
	h.t.Helper()
	for buf := make([]byte, 4096); text == "" || !strings.Contains(h.all, text); {
		n, err := h.res.Body.Read(buf)
		h.all += string(buf[:n])
		if err != nil {
			if errors.Is(err, io.EOF) && strings.Contains(h.all, text) {
				return
			}
			h.t.Fatalf("%s, %v; still wanted: %q; got\n%s", h.res.Status, err, text, h.all)
		}
	}
}

// What would change something in another's name is refused, and nothing has changed.
func TestOperatorOnlyReadsOthers(t *testing.T) {
	s := play(t, new(script.Agent), keyed)
	task := s.sayAs(t, "alice", "", park)
	hook, err := s.client(t, "alice").CreateTaskPushNotificationConfig(t.Context(), &a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: "http://127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	by, _ := v.callers()
	const message = `{"message":{"messageId":"m","role":"ROLE_USER","taskId":"TASK","parts":[{"text":"x"}]}}`
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "message:send", message},
		{"POST", "message:send", strings.ReplaceAll(message, `"taskId":"TASK",`, "")},
		{"POST", "message:stream", message},
		{"POST", "tasks/TASK:cancel", "{}"},
		{"POST", "tasks/TASK/pushNotificationConfigs", `{"url":"http://127.0.0.1:2/"}`},
		{"DELETE", "tasks/TASK/pushNotificationConfigs/HOOK", ""},
		{"GET", "tasks/TASK/pushNotificationConfigs/HOOK", ""},
		{"GET", "tasks/TASK/pushNotificationConfigs", ""},
		{"GET", "extendedAgentCard", ""},
	} {
		fill := strings.NewReplacer("TASK", task.ID, "HOOK", hook.ID)
		res, body := v.do(tt.method, "api/agents/agent/a2a/"+fill.Replace(tt.path), fill.Replace(tt.body),
			"A2A-Version", "1.0", "Content-Type", "application/json", "Parley-Caller", by["alice"].ID)
		if res.StatusCode != http.StatusForbidden || !strings.Contains(body, "reads other callers' tasks") {
			t.Errorf("%s %s: %s %s", tt.method, tt.path, res.Status, body)
		}
	}
	alice := taskstore.Scope{Agent: scope, Tenant: "t-alice", Owner: a2a.Caller{Issuer: "api-key", Subject: "alice"}.Owner()}
	page, err := s.store.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 10})
	if err != nil || page.Total != 1 || page.Tasks[0].Status.State != a2a.TaskStateInputRequired {
		t.Errorf("afterwards alice has %+v, %v", page, err)
	}
	hooks, err := s.store.Webhooks(t.Context(), taskstore.Key{Scope: alice, Task: task.ID})
	if err != nil || len(hooks) != 1 || hooks[0].Config.ID != hook.ID {
		t.Errorf("afterwards the webhooks are %+v, %v", hooks, err)
	}
}

// A caller cannot choose, neither another nor itself, at loopback nor beyond.
func TestCallersCannotChoose(t *testing.T) {
	s := play(t, new(script.Agent), keyed)
	alices, carols := s.sayAs(t, "alice", "", park).ID, s.sayAs(t, "carol", "", park).ID
	s.say(t, park)
	op := &visitor{t: t, base: s.base}
	op.signIn(s.token)
	by, _ := op.callers()
	remote := s.serveConsole(t, console.Options{Authenticate: s.authenticate, Hosts: []string{"console.example"}, Secure: true})
	for where, base := range map[string]string{"beside an operator": s.base, "beyond loopback": remote} {
		v := &visitor{t: t, base: base}
		if res := v.signIn("", "X-API-Key", "alice"); res.StatusCode != http.StatusNoContent {
			t.Fatalf("%s: %s", where, res.Status)
		}
		if res, body := v.do("GET", "api/agents/agent/callers", ""); res.StatusCode != http.StatusForbidden || strings.Contains(body, "carol") {
			t.Errorf("%s: the callers: %s %s", where, res.Status, body)
		}
		for _, as := range []string{by["carol"].ID, by["alice"].ID, by[""].ID, "x"} {
			for _, path := range []string{
				"agents", "agents/agent/card", "agents/agent/callers", "agents/agent/a2a/tasks", "agents/agent/a2a/tasks/" + carols, "agents/agent/a2a/tasks/" + alices,
				"agents/agent/tasks/" + carols + "/log", "agents/agent/webhooks", "agents/agent/webhooks?task=" + carols,
			} {
				res, body := v.do("GET", "api/"+path, "", "A2A-Version", "1.0", "Parley-Caller", as)
				if res.StatusCode != http.StatusForbidden || strings.Contains(body, carols) || strings.Contains(body, "Well?") {
					t.Errorf("%s: %s as %q: %s %.300s", where, path, as, res.Status, body)
				}
			}
			for path, method := range map[string]string{"events": "GET", "agents/agent/a2a/tasks/" + carols + ":subscribe": "POST"} {
				h := v.stream(method, "api/"+path, "A2A-Version", "1.0", "Content-Type", "application/json", "Parley-Caller", as)
				if h.res.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s as %q: %s", where, path, as, h.res.Status)
				}
			}
		}
		if res, _ := v.do("GET", "api/agents/agent/a2a/tasks/"+alices, "", "A2A-Version", "1.0"); res.StatusCode != http.StatusOK {
			t.Errorf("%s: her own: %s", where, res.Status)
		}
		// The operator's token opens nothing where there is none.
		if res := (&visitor{t: t, base: base}).signIn(s.token); (res.StatusCode == http.StatusNoContent) != (base == s.base) {
			t.Errorf("%s: the token: %s", where, res.Status)
		}
	}
}

// By the keyboard the operator chooses a caller and opens its task, which it can follow and not change.
func TestChooseCaller(t *testing.T) {
	s := play(t, new(script.Agent), keyed)
	s.sayAs(t, "evil", "", a2a.TextPart("of evil"))
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	b := open(t, s.page)
	b.view("Tasks")
	b.shows(".rows.tasks", "There is no task")
	b.shows(`select[aria-label="Caller"]`, evilName)
	task := s.sayAs(t, "alice", "", park)
	hook, err := s.client(t, "alice").CreateTaskPushNotificationConfig(t.Context(), &a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: "http://127.0.0.1:1/hook"})
	if err != nil {
		t.Fatal(err)
	}
	by, _ := v.callers()
	b.click("button", "Refresh")
	b.shows(`select[aria-label="Caller"]`, "alice (api-key, tenant t-alice)")
	eval[bool](b, `(document.querySelector("select[aria-label=Caller]").focus(), true)`)
	b.press("alice")
	b.until(`document.querySelector("select[aria-label=Caller]").value === ` + js(by["alice"].ID))
	b.shows(".tools", "1 task")
	b.shows(".rows.tasks", "Well?")
	b.press("\x1bj\r")

	b.shows(".tools code", task.ID)
	b.shows(".tools", "of alice (api-key, tenant t-alice): you can only look")
	b.shows(".rows.log", "Input required")
	b.click(".tools button", "Webhooks")
	b.shows(".detail li", "http://127.0.0.1:1/hook")
	if buttons := eval[string](b, `[...document.querySelectorAll("button")].filter((e) => e.checkVisibility()).map((e) => e.innerText).join("|")`); strings.Contains(buttons, "Cancel") ||
		strings.Contains(buttons, "Go on") || strings.Contains(buttons, "Register") || strings.Contains(buttons, "Remove") {
		t.Errorf("the buttons are %s", buttons)
	}
	s.sayAs(t, "alice", task.ID, a2a.TextPart("So be it"))
	b.shows(".rows.log", "Completed")
	b.run(chromedp.Reload())
	b.shows(".rows.log", "You: So be it")
	b.press("\x1b")
	b.until(`location.hash.startsWith("#/tasks?caller=")`)
	b.shows(".rows.tasks", "So be it")
	b.until(`document.querySelector("select[aria-label=Caller]").value === ` + js(by["alice"].ID))

	b.view("Webhooks")
	b.shows(".hooklist li", "of alice (api-key, tenant t-alice)")
	b.click(".hooklist a", "Task")
	b.shows(".rows.log", "Completed")
	if _, err := s.client(t, "alice").DeleteTaskPushNotificationConfig(t.Context(), &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: task.ID, ID: hook.ID}); err != nil {
		t.Fatal(err)
	}

	b.run(chromedp.EmulateViewport(400, 700))
	b.view("Tasks")
	b.choose("Caller", by[evilName].ID)
	b.shows(".rows.tasks", "of evil")
	b.quick()
	if over := eval[int](b, `document.documentElement.scrollWidth`); over > 400 {
		t.Errorf("the tasks are %d pixels wide on a screen of 400", over)
	}
	b.click(".rows.tasks .row", "Completed")
	b.shows(".tools", evilName)
	if over := eval[int](b, `document.documentElement.scrollWidth`); over > 400 {
		t.Errorf("the task is %d pixels wide on a screen of 400", over)
	}
	if eval[bool](b, `"pwned" in window || !!document.querySelector("main img, main script")`) {
		t.Error("the name of a caller became part of the page")
	}
	// Where there is one to choose from, there is no choice.
	alone := open(t, play(t, new(script.Agent), nil).page)
	alone.view("Tasks")
	alone.shows(".rows.tasks", "There is no task")
	alone.quick()
	if eval[bool](alone, `document.querySelector("select[aria-label=Caller]").checkVisibility()`) {
		t.Error("a choice of one")
	}
}

// More callers than one answer has are all listed, each once, and all can be chosen.
func TestManyCallers(t *testing.T) {
	s := play(t, new(script.Agent), keyed)
	const many = 1100
	for n := range many {
		owner := a2a.Caller{Issuer: "i", Subject: fmt.Sprintf("s%04d", n)}.Owner()
		id := fmt.Sprintf("task-%d", n)
		if _, err := s.store.Commit(t.Context(), taskstore.Change{
			Key: taskstore.Key{Scope: taskstore.Scope{Agent: scope, Owner: owner}, Task: id}, Create: true,
			Records: []taskstore.Record{{Entry: a2a.Entry{Event: &a2a.Task{
				ID: id, ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: time.Now()},
			}}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	v := &visitor{t: t, base: s.base}
	v.signIn(s.token)
	var got []string
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		_, body := v.do("GET", "api/agents/agent/callers?after="+url.QueryEscape(after), "")
		var page struct {
			Callers []listed
			Next    string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || pages > 3 {
			t.Fatalf("page %d: %v: %.300s", pages, err, body)
		}
		for _, c := range page.Callers {
			got = append(got, c.Subject)
		}
		after = page.Next
	}
	if len(got) != many+1 || got[0] != "operator" || got[1] != "s0000" || got[many] != "s1099" || !slices.IsSorted(got[1:]) {
		t.Errorf("%d callers, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	b := open(t, s.page)
	b.view("Tasks")
	b.until(fmt.Sprintf(`document.querySelector("select[aria-label=Caller]").options.length === %d`, many+1))
	b.choose("Caller", "issuer=i&subject=s1099&tenant=")
	b.shows(".tools", "1 task")
}
