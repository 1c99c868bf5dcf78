package console

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-a2a/parley/rules"
	"github.com/parley-a2a/parley/tap"
)

const (
	wirePage  = 1000      // rows of one answer
	framePage = 500       // frames of one answer
	maxShown  = 256 << 10 // bytes of a body or frame that the page gets; the whole is a download
)

// row is an exchange in the table.
type row struct {
	ID        int64       `json:"id"`
	Version   int64       `json:"version"`
	Start     time.Time   `json:"start"`
	Kind      string      `json:"kind"`
	Binding   string      `json:"binding"`
	Operation string      `json:"operation"`
	Method    string      `json:"method"`
	URL       string      `json:"url"`
	Task      string      `json:"task"`
	Context   string      `json:"context"`
	Status    int         `json:"status"`
	Stream    bool        `json:"stream"`
	Frames    int         `json:"frames"`
	First     float64     `json:"first"`    // milliseconds
	Duration  float64     `json:"duration"` // milliseconds
	Sent      int64       `json:"sent"`
	Received  int64       `json:"received"`
	Done      bool        `json:"done"`
	Err       string      `json:"err"`
	Findings  int         `json:"findings"` // its frames' included
	Worst     rules.Level `json:"worst"`
	GRPC      string      `json:"grpc,omitempty"` // the status of gRPC
}

func rowOf(x *tap.Exchange) row {
	out := row{
		ID: x.ID, Version: x.Version, Start: x.Start, Kind: x.Kind, Binding: x.Binding, Operation: x.Operation,
		Method: x.Method, URL: x.URL, Task: x.Task, Context: x.Context, Status: x.Status, Stream: x.Stream,
		Frames: len(x.Frames), First: milliseconds(x.First), Duration: milliseconds(x.Duration),
		Sent: x.Sent, Received: x.Received, Done: x.Done, Err: x.Err, GRPC: x.Trailer.Get("Grpc-Status"),
	}
	for _, f := range x.All() {
		out.Findings++
		if out.Worst == "" || f.Level == rules.Must {
			out.Worst = f.Level
		}
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// serveWire answers with the exchanges that changed after the given version of the recorder, in that order, and how
// the recording goes.
func (c *Console) serveWire(w http.ResponseWriter, r *http.Request) {
	after, err := number(r, "after")
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	list := c.opts.Wire.Exchanges(after, wirePage)
	rows := make([]row, len(list))
	for i := range list {
		rows[i] = rowOf(list[i])
	}
	reply(w, map[string]any{"rows": rows, "more": len(rows) == wirePage, "status": c.opts.Wire.Status()})
}

// searchWire answers with the ids of the exchanges in which the words occur, whatever their case: in what the table
// shows, in headers, bodies and frames.
func (c *Console) searchWire(w http.ResponseWriter, r *http.Request) {
	what := []byte(strings.ToLower(r.URL.Query().Get("q")))
	ids := []int64{}
	for after := int64(0); ; {
		list := c.opts.Wire.Exchanges(after, wirePage)
		for i := range list {
			after = list[i].Version
			if holds(list[i], what) {
				ids = append(ids, list[i].ID)
			}
		}
		if len(list) < wirePage || r.Context().Err() != nil {
			break
		}
	}
	slices.Sort(ids)
	reply(w, map[string]any{"ids": slices.Compact(ids)})
}

// holds reports whether lower-case text occurs in an exchange.
func holds(x *tap.Exchange, what []byte) bool {
	in := func(b []byte) bool { return bytes.Contains(bytes.ToLower(b), what) }
	for _, s := range []string{
		x.Operation, x.Method, x.URL, x.Task, x.Context, x.Err, x.Kind, x.Binding, x.Client, strconv.Itoa(x.Status), x.Note,
	} {
		if in([]byte(s)) {
			return true
		}
	}
	for _, h := range []http.Header{x.RequestHeader, x.ResponseHeader, x.Trailer} {
		for name, values := range h {
			if in([]byte(name + ": " + strings.Join(values, ", "))) {
				return true
			}
		}
	}
	finding := func(f tap.Finding) bool { return in([]byte(f.Rule + " " + f.Says + " " + f.Got)) }
	return in(x.Request) || in(x.Response) || slices.ContainsFunc(x.Findings, finding) ||
		slices.ContainsFunc(x.Frames, func(f tap.Frame) bool { return in(f.Data) || slices.ContainsFunc(f.Findings, finding) })
}

// body is what the page gets of a body.
type body struct {
	Text string `json:"text"` // for a person
	Size int64  `json:"size"` // bytes that passed
	Cut  bool   `json:"cut"`  // there is more
	Kept bool   `json:"kept"` // the whole can be downloaded
}

// bodyOf returns the beginning of a body as text; what is not UTF-8 becomes a replacement character.
func bodyOf(text string, kept int, size int64) body {
	out := body{Size: size, Kept: kept > 0 && int64(kept) >= size}
	if len(text) > maxShown {
		text, out.Cut = text[:maxShown], true
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		text = text[:max(len(text)-1, 0)]
	}
	out.Text = strings.ToValidUTF8(text, "\uFFFD")
	return out
}

// none makes an empty list of findings one in JSON too.
func none(list []tap.Finding) []tap.Finding {
	if list == nil {
		return []tap.Finding{}
	}
	return list
}

// find returns the exchange that the path names, or answers that there is none.
func (c *Console) find(w http.ResponseWriter, r *http.Request) (*tap.Exchange, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err == nil {
		if x := c.opts.Wire.Exchange(id); x != nil {
			return x, true
		}
	}
	refuse(w, http.StatusNotFound, "the recorder has no such exchange any more: it may be in the file")
	return nil, false
}

// serveExchange answers with one exchange but for its frames.
func (c *Console) serveExchange(w http.ResponseWriter, r *http.Request) {
	x, ok := c.find(w, r)
	if !ok {
		return
	}
	reply(w, map[string]any{
		"row": rowOf(x), "upstream": x.Upstream, "proto": x.Proto, "client": x.Client,
		"requestHeader": x.RequestHeader, "responseHeader": x.ResponseHeader, "trailer": x.Trailer,
		"request":  bodyOf(x.RequestText(), len(x.Request), max(x.Sent, int64(len(x.Request)))),
		"response": bodyOf(x.Text(x.Response), len(x.Response), int64(len(x.Response))),
		"findings": none(x.Findings), "truncated": x.Truncated, "note": x.Note,
	})
}

// serveFrames answers with the frames of an exchange after the first so many.
func (c *Console) serveFrames(w http.ResponseWriter, r *http.Request) {
	after, err := number(r, "after")
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	x, ok := c.find(w, r)
	if !ok {
		return
	}
	type frame struct {
		N        int           `json:"n"` // from 0
		At       float64       `json:"at"`
		Size     int           `json:"size"`
		Event    string        `json:"event"`
		ID       string        `json:"id"`
		Data     body          `json:"data"`
		Findings []tap.Finding `json:"findings"`
	}
	start := int(min(after, int64(len(x.Frames))))
	end := min(start+framePage, len(x.Frames))
	out := make([]frame, 0, end-start)
	for total, n := 0, start; n < end && total < 4*maxShown; n++ {
		f := &x.Frames[n]
		b := bodyOf(x.Text(f.Data), len(f.Data), int64(len(f.Data)))
		total += len(b.Text)
		out = append(out, frame{n, milliseconds(f.At), len(f.Data), f.Event, f.ID, b, none(f.Findings)})
	}
	reply(w, map[string]any{"frames": out, "total": len(x.Frames)})
}

// downloadBody sends a body as a file, whatever it says it is.
func (c *Console) downloadBody(w http.ResponseWriter, r *http.Request) {
	x, ok := c.find(w, r)
	if !ok {
		return
	}
	name, data := "request", x.Request
	if strings.HasSuffix(r.URL.Path, "/response") {
		name, data = "response", x.Response
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="exchange-%d-%s.bin"`, x.ID, name))
	_, _ = w.Write(data) // whoever asked is gone
}

// wireDeliveries returns the notifications that passed the tap, the latest first: those of one task, or of all.
func wireDeliveries(rec *tap.Recorder, task string) []delivery {
	out := []delivery{}
	for after := int64(0); ; {
		list := rec.Exchanges(after, wirePage)
		for i := range list {
			x := list[i]
			after = x.Version
			if x.Kind == tap.KindWebhook && (task == "" || x.Task == task) {
				out = append(out, deliveryOf(x))
			}
		}
		if len(list) < wirePage {
			break
		}
	}
	slices.SortFunc(out, func(a, b delivery) int { return int(b.Exchange - a.Exchange) })
	return out[:min(len(out), keptDeliveries)]
}

func deliveryOf(x *tap.Exchange) delivery {
	d := delivery{Time: x.Start, Task: x.Task, URL: withoutQuery(x.URL), Exchange: x.ID, Done: x.Done}
	switch {
	case x.Err != "":
		d.Failure = x.Err
	case x.Done && (x.Status < 200 || x.Status > 299):
		d.Failure = fmt.Sprintf("HTTP status %d", x.Status)
	}
	return d
}
