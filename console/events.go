package console

import (
	"fmt"
	"net/http"
	"time"
)

const (
	keepAlive = 15 * time.Second       // silence on the stream of events after which a comment is sent
	breath    = 200 * time.Millisecond // between two events: what happens meanwhile is one
)

// serveEvents is the stream of hints: "tasks" when a task of an agent with a store got records, "wire" when an exchange
// changed. They say that there is something new and not what, so that one that is lost costs nothing.
func (c *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	say := func(s string) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(2 * keepAlive)) // without it the server's own limits hold
		_, err := fmt.Fprint(w, s)
		return err == nil && rc.Flush() == nil
	}
	tasks := make(chan struct{}, 1)
	for _, a := range c.opts.Agents() {
		if a.Store != nil {
			defer a.Store.Notify(func(string) {
				select {
				case tasks <- struct{}{}:
				default:
				}
			})()
		}
	}
	var wire <-chan struct{}
	if operator := sessionOf(r.Context()).caller == nil; operator && c.opts.Wire != nil {
		wire = c.opts.Wire.Changed()
	}
	quiet := time.NewTimer(keepAlive)
	defer quiet.Stop()
	for ok := say("retry: 1000\n\nevent: hello\ndata:\n\n"); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-tasks:
			ok = say("event: tasks\ndata:\n\n")
		case <-wire:
			wire = c.opts.Wire.Changed()
			ok = say("event: wire\ndata:\n\n")
		case <-quiet.C:
			ok = say(":\n\n")
			quiet.Reset(keepAlive)
			continue
		}
		quiet.Reset(keepAlive)
		select {
		case <-r.Context().Done():
		case <-time.After(breath):
		}
	}
}
