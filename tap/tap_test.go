package tap

import (
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

// TestConversation has Revisor count a text through the tap, on every binding, and looks at what was recorded.
func TestConversation(t *testing.T) {
	tap := startTap(t, startHost(t, revisor(t), nil), nil)
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			c := dial(t, tap.url, binding)
			res, err := c.SendMessage(t.Context(), text("How long is this?"))
			if err != nil {
				t.Fatal(err)
			}
			task := res.(*a2a.Task)
			n := 0
			for _, err := range c.SendStreamingMessage(t.Context(), text("And how long is this?")) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "no such"}); err == nil {
				t.Fatal("a task that is not there")
			}
			of := func(operation string) *Exchange {
				return tap.until(t, func(x *Exchange) bool { return x.Binding == binding && x.Operation == operation && x.Done })
			}
			if x := of("SendMessage"); x.Task != task.ID || x.Context != task.ContextID || x.Err != "" || x.Kind != KindCall {
				t.Errorf("SendMessage was recorded as %+v", x)
			}
			if x := of("SendStreamingMessage"); len(x.Frames) != n || !x.Stream || x.First <= 0 || x.Duration < x.First {
				t.Errorf("a stream of %d frames was recorded as %+v", n, x)
			}
			if x := of("GetTask"); x.Task != "no such" {
				t.Errorf("GetTask was recorded as %+v", x)
			}
			for _, x := range tap.rec.Exchanges(0, 0) {
				for _, f := range x.All() {
					t.Errorf("%s %s: %+v", x.Operation, x.URL, f)
				}
			}
		})
	}
}
