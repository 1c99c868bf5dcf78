package console_test

import (
	"fmt"
	"strings"
	"testing"

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
