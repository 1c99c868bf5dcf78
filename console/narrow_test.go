package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/internal/script"
)

// uncut fails if a text is cut off. What does not fit ends in an ellipsis, but a word of ours fits.
func (b *tab) uncut(where string) {
	b.t.Helper()
	for _, s := range eval[[]string](b, `(() => {
		const out = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
		for (let n = texts.nextNode(); n; n = texts.nextNode()) {
			const parent = n.parentElement;
			if (!/\w/.test(n.data) || !parent.checkVisibility() || parent.closest(".hidden, .skip, option")) continue;
			range.selectNodeContents(n);
			const all = [...range.getClientRects()], right = Math.max(...all.map((r) => r.right)), left = Math.min(...all.map((r) => r.left));
			const ours = !parent.closest("bdi") || parent.closest(".state");
			let inline = true; // an ellipsis is drawn in the place of text, not of boxes
			for (let e = parent; e; e = e.parentElement) {
				const style = getComputedStyle(e), box = e.getBoundingClientRect();
				const cut = (e === document.documentElement || style.overflowX !== "visible") && (right > box.right + 1 || left < box.left - 1);
				if (cut && !(inline && style.textOverflow === "ellipsis" && !ours)) {
					out.push(JSON.stringify(n.data.slice(0, 60)) + " ends at " + Math.round(right) + ", and " + e.outerHTML.slice(0, 160) + " at " + Math.round(box.right));
				}
				if (cut) break;
				inline &&= style.display === "inline";
			}
		}
		return out;
	})()`) {
		b.t.Errorf("%s: %s", where, s)
	}
}

// On a screen of 400 pixels nothing of ours is cut off, and of what others say it can be seen that there is more.
func TestNarrow(t *testing.T) {
	s := play(t, new(script.Agent), nil)
	long := strings.Repeat("unbroken", 60)
	c, err := client.New(t.Context(), s.url, client.Options{Header: http.Header{"X-" + strings.Repeat("Long", 12): {long}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
		Role: a2a.RoleUser, Parts: []*a2a.Part{{Content: a2a.Data(`[{"artifact": {"Name": "` + long + `", "Text": "` + long + `"}}, {"fail": "no"}]`)}},
	}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, steps := range []string{
		`[{"progress": "` + long + `"}, {"chunks": {"ID": "c", "Name": "c", "Texts": ["word "], "Times": 2, "Last": true}}, {"park": "` + long + `"}]`,
		`[{"message": "m"}, {"parkAuth": "Log in"}]`,
	} {
		s.say(t, &a2a.Part{Content: a2a.Data(steps)})
	}
	res, err := http.Post(s.url+"/a2a/rest/message:send?"+long, "application/json", strings.NewReader(`{"message":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	b := open(t, s.page)
	b.run(chromedp.EmulateViewport(400, 700))
	b.shows("h2", "Stage agent")
	b.uncut("card")
	b.view("Conversation")
	b.script(`[{"progress": "` + long + `"}, {"artifact": {"Name": "` + long + `", "Text": "` + long + `"}}, {"park": "Which?"}]`)
	b.shows(".said .state", "Input required")
	b.uncut("conversation")
	b.view("Tasks")
	b.shows(".rows.tasks", "Auth required")
	b.uncut("tasks")
	for _, name := range []string{"Auth required", "Failed", "Input required"} {
		b.view("Tasks")
		b.click(".rows.tasks .row", name)
		b.shows(".rows.log", name)
		b.uncut("timeline " + name)
	}
	b.press("jj\r")
	b.shows(".detail h3", "The event")
	b.uncut("event")
	b.click(".detail button", "Close")
	b.click(".tools button", "The task as it is")
	b.shows(".detail dt", "State")
	b.uncut("task")
	b.click(".tools button", "Webhooks")
	b.typeIn("Address of the webhook", "http://127.0.0.1:1/"+long)
	b.click(".detail button", "Register")
	b.shows(".detail li", "unbroken")
	b.uncut("webhooks of a task")
	b.view("Wire")
	b.shows(".rows.wire", "SendStreamingMessage")
	b.uncut("wire")
	b.click(".rows.wire .row", "2")
	b.shows(".detail .rows.frames", "statusUpdate")
	if wide := eval[[]float64](b, `[...document.querySelectorAll(".detail .heads > span")].map((e) => e.clientWidth || e.getBoundingClientRect().width)`); slices.Min(wide) < 100 {
		t.Errorf("the columns of the headers are %v pixels wide", wide)
	}
	b.uncut("exchange")
	b.view("Webhooks")
	b.shows(".hooklist", "unbroken")
	b.uncut("webhooks")
	b.press("?")
	b.shows("dialog[open]", "Next and previous row")
	b.uncut("help")
}
