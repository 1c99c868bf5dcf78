package console_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/examples/revisor/textstats"
)

var update = flag.Bool("update", false, "write docs/img anew")

// TestScreenshots shows the two views that the documentation has pictures of.
func TestScreenshots(t *testing.T) {
	s := play(t, textstats.Agent{}, nil)
	for _, text := range []string{"How long is this text?", "One. Two. Three.", " "} {
		s.say(t, a2a.TextPart(text))
	}
	c, err := client.New(t.Context(), s.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range c.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: &a2a.Message{
		Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("A stream of events.")},
	}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.Post(s.url+"/a2a/rest/message:send", "application/json", strings.NewReader(`{"message": {}}`)) // no version
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.recorded(t, 9)
	b := open(t, s.page)
	b.run(chromedp.EmulateViewport(1280, 760))
	b.view("Conversation")
	b.typeIn("Message", "A task is an append-only log. One entry is one event that readers see.")
	b.click(".compose button", "Send")
	b.shows(".said .state", "Completed")
	b.shoot("console-conversation.png")

	b.view("Wire")
	b.shows(".rows.wire", "SendMessage")
	b.click(".rows.wire .row", "8")
	b.shows(".detail .rows.frames", "statusUpdate")
	b.shoot("console-wire.png")
}

// shoot takes a picture, and keeps it with -update.
func (b *tab) shoot(name string) {
	b.t.Helper()
	eval[bool](b, `(document.activeElement?.blur(), new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))`)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if len(png) < 10_000 {
		b.t.Errorf("%s has %d bytes: the page is empty", name, len(png))
	}
	if *update {
		if err := os.MkdirAll(filepath.Join("..", "docs", "img"), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("..", "docs", "img", name), png, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}
