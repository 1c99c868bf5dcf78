package tap

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
)

// WriteHAR writes exchanges as an HTTP archive, version 1.2, for the tools that read those. A stream's body is its events
// again, without what stood between them; on gRPC bodies are the messages as JSON, one a line, and the frames' own bytes
// are left to the recording. What an archive has no place for (frames with their times, findings) is in members that begin
// with an underscore, as the format allows.
func WriteHAR(w io.Writer, exchanges []*Exchange) error {
	entries := make([]any, 0, len(exchanges))
	for _, x := range exchanges {
		entries = append(entries, harEntry(x))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(object{"log": object{
		"version": "1.2", "creator": object{"name": "parley tap", "version": a2a.Version}, "pages": []any{}, "entries": entries,
	}})
}

type object = map[string]any

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func harEntry(x *Exchange) object {
	e := object{
		"startedDateTime": x.Start.UTC().Format("2006-01-02T15:04:05.000Z07:00"), "time": milliseconds(x.Duration),
		"request": harRequest(x), "response": harResponse(x), "cache": object{},
		"timings":   object{"send": 0, "wait": milliseconds(min(x.First, x.Duration)), "receive": milliseconds(max(0, x.Duration-x.First))},
		"_id":       x.ID,
		"_kind":     x.Kind,
		"_findings": slices.Concat([]Finding{}, x.Findings),
	}
	for name, value := range map[string]string{
		"_binding": x.Binding, "_operation": x.Operation, "_task": x.Task, "_context": x.Context, "_note": x.Note, "_upstream": x.Upstream, "_client": x.Client,
	} {
		if value != "" {
			e[name] = value
		}
	}
	var frames []object
	for i := range x.Frames {
		f := &x.Frames[i]
		frames = append(frames, object{"time": milliseconds(f.At), "data": x.Text(f.Data), "findings": slices.Concat([]Finding{}, f.Findings)})
	}
	if frames != nil {
		e["_frames"] = frames
	}
	return e
}

func harRequest(x *Exchange) object {
	query := []any{}
	if u, err := url.Parse(x.URL); err == nil {
		values := u.Query()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			for _, v := range values[name] {
				query = append(query, object{"name": name, "value": v})
			}
		}
	}
	r := object{
		"method": x.Method, "url": x.URL, "httpVersion": x.Proto, "cookies": []any{}, "headers": harHeaders(x.RequestHeader),
		"queryString": query, "headersSize": -1, "bodySize": x.Sent,
	}
	if len(x.Request) > 0 {
		r["postData"] = object{"mimeType": x.RequestHeader.Get("Content-Type"), "params": []any{}, "text": strings.ToValidUTF8(x.RequestText(), "\ufffd")}
	}
	return r
}

func harResponse(x *Exchange) object {
	text, encoding := harBody(x)
	content := object{"size": len(text), "mimeType": x.ResponseHeader.Get("Content-Type"), "text": text}
	if encoding != "" {
		content["encoding"] = encoding
	}
	r := object{
		"status": x.Status, "statusText": http.StatusText(x.Status), "httpVersion": x.Proto, "cookies": []any{},
		"headers": append(harHeaders(x.ResponseHeader), harHeaders(x.Trailer)...), "content": content,
		"redirectURL": x.ResponseHeader.Get("Location"), "headersSize": -1, "bodySize": x.Received,
	}
	if x.Err != "" {
		r["_error"] = x.Err
	}
	return r
}

// harBody returns the body of an answer, and base64 where it is not text.
func harBody(x *Exchange) (text, encoding string) {
	var b strings.Builder
	b.Write(x.Response)
	for i := range x.Frames {
		f := &x.Frames[i]
		if x.Binding == a2a.BindingGRPC {
			b.WriteString(x.Text(f.Data) + "\n")
			continue
		}
		for _, field := range []string{"event: " + f.Event, "id: " + f.ID} {
			if !strings.HasSuffix(field, ": ") {
				b.WriteString(field + "\n")
			}
		}
		for line := range strings.SplitSeq(string(f.Data), "\n") {
			b.WriteString("data: " + line + "\n")
		}
		b.WriteString("\n")
	}
	if !utf8.ValidString(b.String()) {
		return base64.StdEncoding.EncodeToString([]byte(b.String())), "base64"
	}
	return b.String(), ""
}

func harHeaders(h http.Header) []any {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			list = append(list, object{"name": name, "value": v})
		}
	}
	return list
}
