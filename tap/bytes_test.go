package tap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// odd are answers of agents, most of them broken.
var odd = map[string]string{
	"good":            `{"jsonrpc":"2.0","id":1,"result":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`,
	"spaces":          "  {\n\"jsonrpc\" : \"2.0\",\t\"id\":1 , \"result\":{} }\r\n\r\n",
	"no JSON":         "<html>& so on",
	"half":            `{"jsonrpc":"2.0","id":1,"result":{"id":"t`,
	"not UTF-8":       "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\xfe\"}",
	"nothing":         "",
	"NUL":             "\x00\x00",
	"events":          "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
	"broken events":   "\ufeffdata: {\n\n\nhello\rdata:x\r\ndata: y\n:c\r\n\r\nevent: z\nid: 1\ndata",
	"events, no end":  "data: {}",
	"only line ends":  "\n\r\n\r\r\n",
	"a large one":     strings.Repeat("0123456789abcdef", 1<<16),
	"script in words": `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"<script>alert(1)</script>\u2028"}}`,
}

// TestBytes holds what a client gets through the tap against what it gets without it: status, header, body, trailer.
func TestBytes(t *testing.T) {
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("answer")
		body, _ := io.ReadAll(r.Body)
		h := w.Header()
		h["X-Odd"] = []string{"a", "b", ""}
		h.Set("X-Body", fmt.Sprintf("%q", body))
		h.Set("X-Query", r.URL.RawQuery)
		h.Set("X-Path", r.URL.EscapedPath())
		h.Set("X-Accept", fmt.Sprintf("%q %q", r.Header["Accept-Encoding"], r.Header["X-Forwarded-For"]))
		h.Set("X-Agent", fmt.Sprintf("%q", r.Header["User-Agent"]))
		h.Set("Trailer", "X-After")
		h.Set("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
		if strings.Contains(name, "event") || strings.Contains(name, "ends") {
			h.Set("Content-Type", "text/event-stream")
		} else {
			h.Set("Content-Type", "application/json; odd=1")
		}
		w.WriteHeader(map[bool]int{true: 200, false: 418}[name != "no JSON"])
		_, _ = io.WriteString(w, odd[name])
		h.Set("X-After", "end")
	})
	tap := startTapOn(t, cfg, nil)
	direct := strings.TrimSuffix(cfg.CardURL, a2a.CardPath)
	hc := &http.Client{Transport: &http.Transport{DisableCompression: true}} // it asks for no encoding by itself
	get := func(base, path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		if path[1] == 'r' {
			req.Header.Set("Accept-Encoding", "br")
		}
		req.Header["User-Agent"] = nil
		res, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		var head bytes.Buffer
		_ = res.Header.Write(&head)
		return fmt.Sprintf("%s\n%s\n%v\n%s", res.Status, head.String(), res.Trailer, b)
	}
	for name, answer := range odd {
		for _, path := range []string{"/rpc", "/rest/tasks/a%2Fb%3A:cancel", "/else/%41/../x;y"} {
			path += "?answer=" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "%20"), ",", "%2C") + "&odd=;%zz&plus=+"
			body := "{\"broken\": \xff" + answer[:min(40, len(answer))]
			if with, without := get(tap.url, path, body), get(direct, path, body); with != without {
				t.Errorf("%s %s: with the tap\n%.900s\nwithout\n%.900s", name, path, with, without)
			}
		}
	}
}

// TestFrameByFrame has an agent send its next event only after the client has read the last one through the tap.
func TestFrameByFrame(t *testing.T) {
	read := make(chan struct{})
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-read:
			case <-r.Context().Done():
				return
			}
		}
	})
	tap := startTapOn(t, cfg, nil)
	res := open(t, tap.url+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{}}`)
	in := bufio.NewScanner(res.Body)
	for i := 0; in.Scan(); {
		if in.Text() == "" {
			continue
		}
		if want := fmt.Sprintf("data: %d", i); in.Text() != want {
			t.Fatalf("got %q, want %q", in.Text(), want)
		}
		n := i + 1
		tap.until(t, func(x *Exchange) bool { return len(x.Frames) == n && !x.Done }) // the recorder sees it as it passes
		i = n
		read <- struct{}{}
	}
	if x := tap.until(t, done("SendStreamingMessage")); len(x.Frames) != 5 || x.Frames[4].At < x.Frames[0].At {
		t.Errorf("recorded %+v", x)
	}
}

// TestHalfABody has an agent send the second half of an ordinary body only after the client has read the first.
func TestHalfABody(t *testing.T) {
	read := make(chan struct{})
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "more")
	})
	tap := startTapOn(t, cfg, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, tap.url+"/rpc", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	half := make([]byte, 4)
	if _, err := io.ReadFull(res.Body, half); err != nil || string(half) != "half" {
		t.Fatalf("%q, %v", half, err)
	}
	close(read)
	if more, err := io.ReadAll(res.Body); err != nil || string(more) != "more" {
		t.Errorf("%q, %v", more, err)
	}
}

// TestBroken has the client leave, the agent break off, and no agent at all.
func TestBroken(t *testing.T) {
	left := make(chan struct{})
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\ndata: half")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/rpc" {
			<-r.Context().Done()
			close(left)
			return
		}
		panic(http.ErrAbortHandler)
	})
	tap := startTapOn(t, cfg, nil)

	res := open(t, tap.url+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}`)
	if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the agent does not learn that the client left")
	}
	x := tap.until(t, done("SubscribeToTask"))
	if x.Err != clientLeft || len(x.Frames) != 1 {
		t.Errorf("the client left, and %+v", x)
	}
	for _, f := range x.Findings {
		if !f.Client {
			t.Errorf("the client left, and the agent is blamed: %+v", f)
		}
	}

	res = open(t, tap.url+"/rest/message:stream", `{}`)
	if b, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != "data: {}\n\ndata: half" {
		t.Errorf("the agent broke off, and the client got %q, %v", b, err)
	}
	if x := tap.until(t, done("SendStreamingMessage")); x.Err != agentBroke || !has(x, "stream-framing") {
		t.Errorf("the agent broke off, and %+v", x)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	none := startTapOn(t, Config{Card: fakeCard("http://" + l.Addr().String()), CardURL: "file:///card.json"}, nil)
	if res, body := post(t, none.url+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`); res.StatusCode != 502 {
		t.Errorf("no agent, and %d %s", res.StatusCode, body)
	}
	if x := none.until(t, done("GetTask")); !strings.Contains(x.Err, "refused") {
		t.Errorf("no agent, and %+v", x)
	}
}

func has(x *Exchange, rule string) bool {
	for _, f := range x.All() {
		if f.Rule == rule {
			return true
		}
	}
	return false
}

// TestNothingLost has 10,000 events and an artifact of 9 MB pass, and finds every byte in the file.
func TestNothingLost(t *testing.T) {
	const events = 10_000
	large := strings.Repeat("ä\\\"", 9<<20/4)
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rest/tasks/large" {
			w.Header().Set("Content-Type", "application/a2a+json")
			_, _ = io.WriteString(w, `{"id":"large","artifacts":"`+large+`"}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range events {
			_, _ = fmt.Fprintf(w, "data: {\"artifactUpdate\":{\"taskId\":\"t\",\"contextId\":\"c\",\"artifact\":{\"artifactId\":\"%d\"}}}\n\n", i)
			if i%7 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	})
	path := filepath.Join(t.TempDir(), "tap.jsonl")
	tap := startTapOn(t, cfg, func(c *Config) { c.Recording.File, c.Recording.Rotate = path, 1<<20 })
	res, body := post(t, tap.url+"/rest/message:stream", `{}`)
	if n := strings.Count(body, "\n\n"); n != events || res.StatusCode != 200 {
		t.Fatalf("%d events passed", n)
	}
	if res := open(t, tap.url+"/rest/tasks/large", ""); true {
		if n, err := io.Copy(io.Discard, res.Body); err != nil || n < 9<<20 {
			t.Fatal(n, err)
		}
	}
	tap.until(t, done("SendStreamingMessage"))
	tap.until(t, done("GetTask"))
	if s := tap.rec.Status(); s.Lost != 0 || s.FileError != "" || s.File == path {
		t.Errorf("the recorder's status is %+v", s)
	}
	all, err := Read(path)
	if err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	for i, f := range all[0].Frames {
		if !strings.Contains(string(f.Data), fmt.Sprintf(`"artifactId":"%d"}`, i)) {
			t.Fatalf("frame %d is %s", i, f.Data)
		}
	}
	if len(all[0].Frames) != events || all[0].Truncated != 0 || all[1].Truncated != 0 {
		t.Errorf("%d frames were recorded, %d and %d bytes left out", len(all[0].Frames), all[0].Truncated, all[1].Truncated)
	}
	if !strings.Contains(string(all[1].Response), large) {
		t.Errorf("%d bytes were recorded", len(all[1].Response))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 1<<20 {
		t.Errorf("%v, %v", info, err)
	}
	if memory := tap.rec.Exchange(1); len(memory.Frames) != events {
		t.Errorf("%d frames are in memory", len(memory.Frames))
	}
}

// TestFullDisk fills the disk under a recording: the traffic goes on, and so does what is in memory.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	cfg := fake(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, odd["good"]) })
	cfg.Recording.File = filepath.Join(t.TempDir(), "tap.jsonl")
	rec, err := NewRecorder(cfg.Recording)
	if err != nil {
		t.Fatal(err)
	}
	_ = rec.Close()
	cfg.Recording.File = filepath.Join(t.TempDir(), "tap.jsonl")
	tap := startTapOn(t, cfg, nil)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	tap.rec.file.f, tap.rec.file.w = full, bufio.NewWriter(full) // before anything passes
	for range 3 {
		if res, body := post(t, tap.url+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`); res.StatusCode != 200 || body != odd["good"] {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	tap.until(t, func(x *Exchange) bool { return x.ID == 3 && x.Done })
	if s := tap.rec.Status(); !strings.Contains(s.FileError, "no space") || s.Exchanges != 3 {
		t.Errorf("the recorder's status is %+v", s)
	}
	if err := tap.rec.Close(); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("the recording failed, and Close says %v", err)
	}
}

// TestNobodyThere sends to an agent, and to a webhook, that nobody answers for: what was sent is recorded and judged, and
// nothing else is.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String()
	_ = l.Close()
	tap := startTapOn(t, Config{Card: fakeCard(gone), CardURL: "file:///card.json"}, func(c *Config) { c.Webhooks = true })
	hook := tap.hooks.here(tap.url, gone+"/hook")
	for i, c := range []struct{ url, body, rules string }{
		{tap.url + "/rest/message:send", sendParams, ""},
		{tap.url + "/rest/message:send", `{}`, "client-params"},
		{hook, working, ""},
		{hook, `{"statusUpdate":7}`, "data-types"},
	} {
		if res, _ := post(t, c.url, c.body, "Content-Type", "application/a2a+json"); res.StatusCode != 502 {
			t.Errorf("nobody is there, and %d", res.StatusCode)
		}
		x := tap.until(t, func(x *Exchange) bool { return x.ID == int64(i+1) && x.Done })
		var found []string
		for _, f := range x.All() {
			if f.Client || x.Kind == KindWebhook {
				found = append(found, f.Rule)
			}
		}
		if string(x.Request) != c.body || !strings.Contains(x.Err, "refused") || strings.Join(found, " ") != c.rules {
			t.Errorf("recorded %+v", x)
		}
	}
}

// TestRefusedUnread has a handler that refuses before it reads what was sent: the half that was seen is not judged.
func TestRefusedUnread(t *testing.T) {
	cfg := fake(t, func(http.ResponseWriter, *http.Request) {})
	card := new(a2a.AgentCard)
	if err := card.UnmarshalJSON(cfg.Card); err != nil {
		t.Fatal(err)
	}
	rec, err := NewRecorder(Options{Card: card})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rec.Close() }()
	url := serveHandler(t, rec.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 10))
		w.WriteHeader(http.StatusUnauthorized)
	})))
	post(t, url+"/rest/message:send", sendParams, "Content-Type", "application/a2a+json")
	x := untilExchange(t, rec, done("SendMessage"))
	if string(x.Request) != sendParams[:10] || has(x, "client-params") || !strings.Contains(x.Note, "body is not judged") {
		t.Errorf("recorded %+v", x)
	}
	post(t, url+"/rpc", `{"jsonrpc":"2.0"}`, "A2A-Version", "", "Content-Type", "text/json") // its header is, as ever
	x = untilExchange(t, rec, func(x *Exchange) bool { return x.Binding == a2a.BindingJSONRPC && x.Done })
	if has(x, "client-envelope") || has(x, "client-method") || !has(x, "client-version") || !has(x, "client-media-type") {
		t.Errorf("recorded %+v", x)
	}
}
