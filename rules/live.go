package rules

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/parley-a2a/parley/a2a"
)

// Live holds an exchange to the clauses of [Check] while it passes, frame by frame.
type Live struct {
	x      *Exchange
	v      Verdict
	stream streamCheck
	frames int
	events int
	end    *Error // the error among the frames, after which no event is expected
	lost   bool   // a frame was no event: what follows cannot be judged as a stream
}

// Follow begins to judge x. Its request, Status, Header and Stream are there before the first frame, the rest before End;
// its Frames are not read.
func Follow(x *Exchange) *Live {
	l := &Live{x: x}
	l.stream = streamCheck{v: &l.v, subscribe: x.Op == "SubscribeToTask"}
	return l
}

// Frame judges the next frame, and returns what it breaks.
func (l *Live) Frame(data []byte) []Finding {
	before := len(l.v.Findings)
	l.frames++
	path := fmt.Sprintf("frame %d", l.frames)
	raw, err := l.x.event(data)
	switch l.x.Binding {
	case a2a.BindingJSONRPC:
		l.v.envelope(l.x, data, path)
	case a2a.BindingREST:
		if err != nil {
			l.v.restError(data, 0, path)
		}
	case a2a.BindingGRPC:
		l.v.message(l.x, data, fmt.Sprintf("message %d", l.frames))
	}
	switch {
	case l.end != nil || l.lost:
	case !l.x.Stream: // the one message of a unary call
		if raw != nil {
			l.v.data(l.x, raw, "")
		}
	case err != nil:
		l.end = err
	default:
		l.event(raw, path)
	}
	return l.v.Findings[before:len(l.v.Findings):len(l.v.Findings)]
}

func (l *Live) event(raw json.RawMessage, path string) {
	var e event
	if json.Unmarshal(raw, &e) != nil {
		l.v.fail("stream-framing", path, string(raw), "a StreamResponse")
		l.lost = true
		return
	}
	l.v.data(l.x, raw, path)
	if l.events == 0 {
		l.stream.begin(e, path)
	} else {
		l.stream.update(e, path)
	}
	l.events++
}

// Found returns what is broken so far.
func (l *Live) Found() []Finding { return l.v.Findings }

// End judges what shows at the end, and returns the verdict of the whole.
func (l *Live) End() Verdict {
	x, v := l.x, &l.v
	if x.Err != "" && !x.Stream {
		return *v
	}
	switch x.Binding {
	case a2a.BindingJSONRPC:
		v.rpc(x)
	case a2a.BindingREST:
		v.rest(x)
	case a2a.BindingGRPC:
		v.grpc(x)
		if x.Stream && l.end == nil && x.Status != 0 && x.Err == "" {
			l.end = x.grpcError()
		}
	}
	failure := l.end
	if !x.Stream {
		var raw json.RawMessage
		if raw, failure = x.Result(); raw != nil && x.Binding != a2a.BindingGRPC {
			v.data(x, raw, "")
		}
	}
	if failure != nil {
		v.hold(strings.TrimSpace(failure.Message) != "", "error-message", "", "an error without a message", "a message for people")
	}
	if x.Stream {
		l.endStream()
	}
	return *v
}

func (l *Live) endStream() {
	x, v := l.x, &l.v
	if x.Binding != a2a.BindingGRPC {
		v.hold(mediaType(x.Header) == "text/event-stream" && x.Status == http.StatusOK, "stream-media-type", "",
			fmt.Sprintf("HTTP %d, %s", x.Status, mediaType(x.Header)), "200, text/event-stream")
		v.hold(x.Bad == "", "stream-framing", "", x.Bad, "lines of fields, events ended by an empty line")
	}
	if !l.lost {
		l.stream.end(x, l.events, l.end)
	}
}
