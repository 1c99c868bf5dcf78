package console_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/console"
	"github.com/parley-a2a/parley/examples/revisor/textstats"
	"github.com/parley-a2a/parley/internal/script"
)

// play a script by the page: it goes as a JSON part.
func (b *tab) script(steps string) {
	b.t.Helper()
	b.click(".compose button", "JSON")
	b.typeIn("JSON part", steps)
	b.click(".compose button", "Send")
}

func TestConversation(t *testing.T) {
	s := play(t, textstats.Agent{}, nil)
	b := open(t, s.page)
	b.view("Conversation")
	b.typeIn("Message", "How long is this text?")
	b.press("\r")
	b.shows(".said .state", "Completed")
	b.shows(".artifact", "5 words in 1 sentence")
	if got := eval[string](b, "location.href"); strings.Contains(got, s.token) {
		t.Errorf("the token is still in the address: %s", got)
	}
	b.shows(".said.user", "How long is this text?")
}

func TestAnswerInPlace(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	b := open(t, s.page)
	b.view("Conversation")
	b.script(`[{"park": "Which colour?"}]`)
	b.shows(".said .state", "Input required")
	b.shows(".said", "Which colour?")
	b.typeIn("Answer", "Green")
	b.click(".answer button", "Answer")
	b.shows(".said .state", "Completed")
	b.shows(".artifact", "Green")

	b.click("button", "Start over")
	b.script(`[{"askAuth": "Log in first."}, {"echo": true}]`)
	b.shows(".said .state", "Auth required")
	b.typeIn("Answer to the request for authorization", "Done")
	b.click(".answer button", "Answer, and go on")
	b.shows(".said .state", "Completed")
	b.shows(".artifact", "Done")
}

func TestCancel(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	b := open(t, s.page)
	b.view("Conversation")
	b.script(`[{"progress": "At it"}, {"wait": "never"}]`)
	b.shows(".said", "At it")
	b.click(".said button", "Cancel")
	b.shows(".said .state", "Canceled")
	b.until(`[...document.querySelectorAll(".said button")].every((e) => e.innerText !== "Cancel" || !e.checkVisibility())`)
}

// Whatever an agent sends in whatever string is text.
func TestUntrusted(t *testing.T) {
	evil := `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`
	steps := fmt.Sprintf(`[{"progress": %[1]s}, {"message": %[1]s}, {"artifact": {"ID": %[1]s, "Name": %[1]s, "Text": %[1]s}}, {"complete": %[1]s}]`, js(evil))
	s := play(t, new(script.Agent), nil)
	b := open(t, s.page)
	b.view("Conversation")
	b.script(steps)
	b.shows(".said .state", "Completed")
	b.shows(".artifact", evil)
	b.click(".said a", "Timeline")
	b.shows(".rows.log", "Completed")
	b.press("jjj\r")
	b.shows(".detail", evil)
	b.view("Tasks")
	b.shows(".rows.tasks", evil)
	b.view("Wire")
	if eval[bool](b, `"pwned" in window || !!document.querySelector("main img[src=x], main script")`) {
		t.Error("what the agent sent became part of the page")
	}
}

// turned begins with letters that are written to the left and has what turns round all that follows it. What is seen of it is
// escaped, as on the command line.
const (
	turned = "\u05e9\u05dc\u05d5\u05dd\u202egnp.exe"
	seen   = "\u05e9\u05dc\u05d5\u05dd\\u202egnp.exe"
)

// theirsOnly fails if what hides in a text is on the page, or letters that are written to the left are not kept apart from
// the text beside them. It returns the text of what is kept apart.
func (b *tab) theirsOnly(where string) []string {
	b.t.Helper()
	got := eval[struct{ Hidden, Loose, Theirs []string }](b, `(() => {
		const hidden = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
		const out = { Hidden: [], Loose: [], Theirs: [] };
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n = texts.nextNode(); n; n = texts.nextNode()) {
			if (hidden.test(n.data)) out.Hidden.push(n.parentElement.outerHTML.slice(0, 300));
			if (!/[\u0590-\u05ff]/.test(n.data)) continue;
			if (n.parentElement.closest("bdi, pre")) out.Theirs.push(n.data);
			else out.Loose.push(n.parentElement.outerHTML.slice(0, 300));
		}
		for (const e of document.querySelectorAll("[title], [alt], [aria-label]")) {
			for (const name of ["title", "alt", "aria-label"]) {
				if (hidden.test(e.getAttribute(name) ?? "")) out.Hidden.push(e.outerHTML.slice(0, 300));
			}
		}
		return out;
	})()`)
	for _, s := range got.Hidden {
		b.t.Errorf("%s: it hides in %q", where, s)
	}
	for _, s := range got.Loose {
		b.t.Errorf("%s: it stands beside our text in %q", where, s)
	}
	return got.Theirs
}

// Whatever an agent, a client or a receiver says in whatever string, what stands beside it is read as we wrote it.
func TestTurnedText(t *testing.T) {
	s := play(t, agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		png, err := base64.StdEncoding.DecodeString(pixel)
		if err != nil {
			return err
		}
		named := func(p *a2a.Part, mediaType string) *a2a.Part {
			p.Filename, p.MediaType = turned, mediaType
			return p
		}
		if err := u.Artifact(a2a.Artifact{ArtifactID: turned, Name: turned, Description: turned, Parts: []*a2a.Part{
			named(a2a.TextPart(turned), turned), named(&a2a.Part{Content: a2a.Raw{0, 255}}, turned), named(&a2a.Part{Content: a2a.Raw(png)}, "image/png"),
			named(&a2a.Part{Content: a2a.URL("https://files.example/" + turned)}, turned), a2a.DataPart(map[string]string{turned: turned}),
		}}); err != nil {
			return err
		}
		if err := u.Progress(named(&a2a.Part{Content: a2a.Raw{0}}, turned), a2a.TextPart(turned)); err != nil {
			return err
		}
		if r.Message.Text() == "fail" {
			return a2a.Errorf(a2a.ErrInvalidParams, "%s", turned)
		}
		return u.Park(a2a.TextPart(turned))
	}), func(c *parley.Config) {
		c.Name, c.Description, c.DocumentationURL = turned, turned, "https://docs.example/"+turned
		c.Skills = []*a2a.AgentSkill{{ID: turned, Name: turned, Description: turned, Tags: []string{turned}, Examples: []string{turned}}}
	})
	c, err := client.New(t.Context(), s.url, client.Options{Header: http.Header{"X-Turned": {turned}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{turned, "fail"} {
		for _, err := range c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
			Role: a2a.RoleUser, ContextID: turned, Parts: []*a2a.Part{a2a.TextPart(text)},
		}}) {
			if err != nil {
				break // it may end with the error
			}
		}
	}
	b := open(t, s.page)
	// sees looks at what is on the page when it has what somebody else said in an element that the selector finds.
	sees := func(where string, selectors ...string) {
		t.Helper()
		for _, sel := range selectors {
			b.shows(sel, seen)
		}
		if got := b.theirsOnly(where); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, seen) }) {
			t.Errorf("%s: there is nothing to look at in %q", where, got)
		}
	}
	sees("card", "h2", "p.text", ".tag", "li b", "li .muted")
	b.view("Conversation")
	b.typeIn("Message", turned)
	b.press("\r")
	b.shows(".said .state", "Input required")
	b.until(`document.querySelector(".artifact img")?.naturalWidth === 1`)
	sees("conversation", ".said.user pre", ".artifact header b", ".artifact header .muted", ".artifact p.muted", ".artifact .line span.muted", ".artifact .line code", ".artifact pre")
	b.click(".said a", "Timeline")
	b.shows(".rows.log", "Artifact")
	sees("timeline", ".rows.log")
	for range 6 {
		b.press("j\r")
		b.shows(".detail h3", "The event")
		b.theirsOnly("timeline, a row")
	}
	b.click(".tools button", "The task as it is")
	sees("task", ".detail .artifact header b", ".detail pre")
	b.click(".tools button", "Webhooks")
	b.typeIn("Address of the webhook", "http://127.0.0.1:1/"+turned)
	b.click(".detail button", "Register")
	sees("webhooks of a task", ".detail li code")
	b.view("Webhooks")
	b.shows(".hooklist", "127.0.0.1:1/")
	b.theirsOnly("webhooks")
	b.view("Tasks")
	sees("tasks", ".rows.tasks")
	b.view("Wire")
	b.click(".rows.wire .row", "2")
	b.shows(".detail h2", "SendStreamingMessage")
	sees("exchange", ".detail .heads", ".detail pre", ".detail .rows.frames")
	b.click(".detail .rows.frames .row", "2")
	b.shows(".detail h3", "Frame")
	sees("frame", ".detail pre")

	// Copies are as it was.
	b.allowClipboard()
	b.click(".detail button", "Copy as curl")
	b.shows("#toast", "copied")
	if got := eval[string](b, `navigator.clipboard.readText()`); !strings.Contains(got, turned) {
		t.Errorf("the command is %s", got)
	}
}

// A card that has other values where text should be is shown, with what is wrong with it.
func TestBrokenCard(t *testing.T) {
	odd := `{"onclick":"x","class":"error","href":"javascript:window.pwned=1"}`
	card := fmt.Sprintf(`{"name":%[1]s,"description":[%[1]s],"version":1.10,"capabilities":{"extensions":[null,%[1]s]},"provider":{"organization":%[1]s},
		"defaultInputModes":[%[1]s,null],"defaultOutputModes":{},"skills":[null,{"id":%[1]s,"examples":[%[1]s]}],
		"securitySchemes":{"a":null,"b":{"apiKeySecurityScheme":null},%[2]s:{"httpAuthSecurityScheme":{"scheme":%[2]s}}},
		"securityRequirements":[null,{"schemes":{%[2]s:{},"b":{}}}],
		"supportedInterfaces":[null,{"url":"http://127.0.0.1:1","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, odd, js(turned))
	s := new(stage)
	s.showAll(t, func() []console.Agent {
		return []console.Agent{{Name: scope, Card: func(context.Context) (console.Card, error) { return console.Card{Raw: []byte(card)}, nil }}}
	})
	b := open(t, s.page)
	b.shows("h2", odd)
	b.shows("dd", "1.10")
	b.shows(".finding", "MUST")
	b.shows(".card", "Callers need "+seen+" and b.")
	b.theirsOnly("broken card")
}

// Text comes into the page by dom.js and nowhere else.
func TestOneWayForText(t *testing.T) {
	files, err := fs.Glob(os.DirFS("assets"), "*.js")
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`createTextNode|appendData|\.(textContent|innerText|innerHTML|nodeValue) \+?= [^']|\.data \+?= [^']`)
	for _, name := range files {
		b, err := os.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(b), "\n") {
			if name != "dom.js" && other.MatchString(line) {
				t.Errorf("%s:%d: use fill and theirs of dom.js: %s", name, n+1, strings.TrimSpace(line))
			}
		}
	}
}
