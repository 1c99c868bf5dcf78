// loadgen: closed-loop load generator. One JSON line per run on stdout.
//
//	loadgen -w W1 -n 64 -dur 3s -pid PID      (see README.md for the workloads)
//
// HTTP/1.1 and HTTP/2 are spoken by hand over plain sockets so that the generator costs much less CPU
// than the servers under test. Server CPU comes from its clock, RSS from /proc/PID/status.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

var (
	addr  = flag.String("addr", "127.0.0.1:7001", "")
	gaddr = flag.String("gaddr", "127.0.0.1:7002", "")
	admin = flag.String("admin", "127.0.0.1:7003", "")
	w     = flag.String("w", "W1", "workload")
	nconn = flag.Int("n", 64, "connections")
	nstr  = flag.Int("streams", 1, "gRPC streams in flight per connection")
	dur   = flag.Duration("dur", 3*time.Second, "")
	warm  = flag.Duration("warm", time.Second, "")
	pid   = flag.Int("pid", 0, "server pid")
	count = flag.Int("count", 0, "stop after this many requests (fill)")
	size  = flag.Int("size", 100, "text bytes")
	evs   = flag.Int("events", 0, "")
	mode  = flag.String("mode", "a", "a: artifact chunks, s: status updates")
	label = flag.String("label", "", "")
	query = flag.String("query", "", "further parameters of W6, such as \"status\":\"TASK_STATE_FAILED\"")
	depth = flag.Int("depth", 1, "which page W6 reads")
	tasks = flag.Int("running", 0, "tasks that run, and wait, beside the workload")
	extra = flag.Int("extra", 0, "events of a W4 stream beside the floor's: 1 for the engine's WORKING entry")
)

const jpre = `{"jsonrpc":"2.0","id":1,"method":"`

func msg(text string) string {
	return `{"message":{"messageId":"m-0000000000","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}`
}

func httpReq(method, path, body string) []byte {
	s := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:7001\r\nA2A-Version: 1.0\r\nAccept: application/json, text/event-stream\r\n"
	if method == "POST" {
		s += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return []byte(s + "\r\n" + body)
}

func rpc(method, params string) []byte {
	return httpReq("POST", "/rpc", jpre+method+`","params":`+params+`}`)
}

// ---- HTTP/1.1 client ----

type hconn struct {
	c   net.Conn
	br  *bufio.Reader
	req []byte
	off int // offset of the 10-digit message counter, or -1
	buf []byte
}

var (
	seq              atomic.Int64
	phase, winEvents atomic.Int64 // phase: 0 warm, 1 measure, 2 stop; SSE events seen while measuring
)

func dial(req []byte) *hconn {
	c, err := net.Dial("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	h := &hconn{c: c, br: bufio.NewReaderSize(c, 256<<10), req: bytes.Clone(req)}
	h.off = bytes.Index(h.req, []byte("m-0000000000"))
	return h
}

func (h *hconn) send() error {
	if h.off >= 0 {
		v := seq.Add(1)
		for i := h.off + 11; i > h.off+1; i-- {
			h.req[i] = byte('0' + v%10)
			v /= 10
		}
	}
	_, err := h.c.Write(h.req)
	return err
}

// head reads the response head; cl is -1 for a chunked body.
func (h *hconn) head() (status, cl int, err error) {
	line, err := h.br.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	status, _ = strconv.Atoi(string(line[9:12]))
	for {
		line, err = h.br.ReadSlice('\n')
		if err != nil {
			return status, cl, err
		}
		if len(line) <= 2 {
			return status, cl, err
		}
		switch line[0] | 0x20 {
		case 'c':
			if len(line) > 16 && bytes.EqualFold(line[:15], []byte("content-length:")) {
				cl, _ = strconv.Atoi(string(bytes.TrimSpace(line[15:])))
			}
		case 't':
			if len(line) > 18 && bytes.EqualFold(line[:18], []byte("transfer-encoding:")) {
				cl = -1
			}
		}
	}
}

func (h *hconn) full(n int) ([]byte, error) {
	if cap(h.buf) < n {
		h.buf = make([]byte, n*2)
	}
	b := h.buf[:n]
	_, err := io.ReadFull(h.br, b)
	return b, err
}

// chunk returns the next chunk of a chunked body, nil at its end.
func (h *hconn) chunk() ([]byte, error) {
	line, err := h.br.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 32)
	if err != nil {
		return nil, err
	}
	b, err := h.full(int(n) + 2)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	return b[:n], nil
}

func (h *hconn) body(cl int) ([]byte, error) {
	if cl >= 0 {
		return h.full(cl)
	}
	var out []byte
	for {
		b, err := h.chunk()
		if err != nil || b == nil {
			return out, err
		}
		out = append(out, b...)
	}
}

// one does a request and returns the body, valid until the next call.
func (h *hconn) one() ([]byte, error) {
	if err := h.send(); err != nil {
		return nil, err
	}
	st, cl, err := h.head()
	if err != nil {
		return nil, err
	}
	b, err := h.body(cl)
	if err == nil && st != 200 {
		err = fmt.Errorf("status %d: %.300s", st, b)
	}
	return b, err
}

// stream sends and calls f for each chunk; it returns the number of SSE events.
func (h *hconn) stream(f func(n int, b []byte)) (int, error) {
	if err := h.send(); err != nil {
		return 0, err
	}
	st, cl, err := h.head()
	if err != nil {
		return 0, err
	}
	if st != 200 || cl != -1 {
		b, _ := h.body(cl)
		return 0, fmt.Errorf("status %d, not a stream: %.300s", st, b)
	}
	n, nl := 0, false
	for {
		b, err := h.chunk()
		if err != nil {
			return n, err
		}
		if b == nil {
			return n, nil
		}
		if nl && b[0] == '\n' { // an event's blank line may straddle chunks
			n++
		}
		k := bytes.Count(b, []byte("\n\n"))
		n += k
		if k > 0 && phase.Load() == 1 {
			winEvents.Add(int64(k))
		}
		nl = b[len(b)-1] == '\n' && (len(b) < 2 || b[len(b)-2] != '\n')
		if f != nil {
			f(n, b)
		}
	}
}

// ---- measurement ----

// cpuSeconds is the time that a process was on a processor, in user and system mode, from its clock: /proc has it
// in steps of 10 ms.
func cpuSeconds(pid int) float64 {
	const schedClock = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		log.Fatalf("the clock of process %d: %v", pid, err)
	}
	return float64(t.Nano()) / 1e9
}

func memKB(pid int, key string) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, key+":") {
			n, _ := strconv.Atoi(strings.Fields(l)[1])
			return n
		}
	}
	return 0
}

// hostStat reads whole-machine ticks: steal, all, user+nice+system, softirq+irq.
func hostStat() (st, total, busy, soft float64) {
	b, _ := os.ReadFile("/proc/stat")
	f := strings.Fields(strings.SplitN(string(b), "\n", 2)[0])[1:]
	for i, x := range f {
		v, _ := strconv.ParseFloat(x, 64)
		if i < 8 {
			total += v
		}
		switch {
		case i == 7:
			st = v
		case i < 3:
			busy += v / 100
		case i == 5, i == 6:
			soft += v / 100
		}
	}
	return st, total, busy, soft
}

func selfCPU() float64 {
	var ru syscall.Rusage
	syscall.Getrusage(0, &ru)
	return float64(ru.Utime.Sec+ru.Stime.Sec) + float64(ru.Utime.Usec+ru.Stime.Usec)/1e6
}

type snap struct {
	cpu, self, st, tot, busy, soft float64
	t                              time.Time
}

func take() snap {
	var c float64
	if *pid > 0 {
		c = cpuSeconds(*pid)
	}
	a, b, bu, so := hostStat()
	return snap{c, selfCPU(), a, b, bu, so, time.Now()}
}

type result struct {
	Label    string  `json:"label"`
	W        string  `json:"w"`
	N        int     `json:"n"`
	Streams  int     `json:"streams,omitempty"`
	Reqs     int     `json:"reqs"`
	Events   int     `json:"events,omitempty"`
	Secs     float64 `json:"secs"`
	RPS      float64 `json:"rps"`
	EPS      float64 `json:"eps,omitempty"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	CPUus    float64 `json:"cpu_us"`              // server CPU per request
	CPUusEv  float64 `json:"cpu_us_ev,omitempty"` // server CPU per event
	SrvUtil  float64 `json:"srv_util"`
	LgUtil   float64 `json:"lg_util"`
	Other    float64 `json:"other_util"` // cores used by everything else on the machine
	Soft     float64 `json:"soft_util"`  // softirq cores (loopback delivery is booked here, not to the server)
	StealPct float64 `json:"steal_pct"`
	RSSKB    int     `json:"rss_kb"`
	HWMKB    int     `json:"hwm_kb"`
	Bytes    int     `json:"resp_bytes"`
	Errs     int     `json:"errs,omitempty"`
	Err      string  `json:"err,omitempty"`
	Note     string  `json:"note,omitempty"`
}

func finish(a, b snap, reqs, events int, lat []time.Duration, r result) {
	r.Label, r.W, r.N = *label, *w, *nconn
	r.Secs = b.t.Sub(a.t).Seconds()
	r.Reqs, r.Events = reqs, events
	r.RPS = float64(reqs) / r.Secs
	cpu := b.cpu - a.cpu
	if reqs > 0 {
		r.CPUus = cpu * 1e6 / float64(reqs)
	}
	if events > 0 {
		r.EPS = float64(events) / r.Secs
		r.CPUusEv = cpu * 1e6 / float64(events)
	}
	r.SrvUtil, r.LgUtil = cpu/r.Secs, (b.self-a.self)/r.Secs
	r.Other = (b.busy-a.busy)/r.Secs - r.SrvUtil - r.LgUtil
	r.Soft = (b.soft - a.soft) / r.Secs
	if b.tot > a.tot {
		r.StealPct = 100 * (b.st - a.st) / (b.tot - a.tot)
	}
	if *pid > 0 {
		r.RSSKB, r.HWMKB = memKB(*pid, "VmRSS"), memKB(*pid, "VmHWM")
	}
	if len(lat) > 0 {
		slices.Sort(lat)
		r.P50 = float64(lat[len(lat)/2]) / 1e6
		r.P99 = float64(lat[min(len(lat)-1, len(lat)*99/100)]) / 1e6
	}
	json.NewEncoder(os.Stdout).Encode(r)
}

// closed runs fn in a closed loop on each of n workers; samples inside the window count.
// A request counts where it ends. fn returns events and response bytes.
func closed(n int, mk func(i int) func() (ev, bytes int, err error)) {
	fns := make([]func() (int, int, error), n)
	for i := range fns {
		fns[i] = mk(i)
	}
	var left atomic.Int64
	left.Store(int64(*count))
	if *count > 0 {
		phase.Store(1)
	}
	var mu sync.Mutex
	var lat []time.Duration
	var reqs, errs, nbytes int
	var firstErr error
	var wg sync.WaitGroup
	a := take()
	for _, fn := range fns {
		wg.Go(func() {
			my := make([]time.Duration, 0, 1<<14)
			var r, bad, nb int
			for phase.Load() < 2 {
				if *count > 0 && left.Add(-1) < 0 {
					break
				}
				t0 := time.Now()
				_, by, err := fn()
				d := time.Since(t0)
				if err != nil {
					bad++
					mu.Lock()
					if firstErr == nil {
						firstErr = err
					}
					mu.Unlock()
					break
				}
				if phase.Load() == 1 {
					r++
					nb = by
					my = append(my, d)
				}
			}
			mu.Lock()
			lat = append(lat, my...)
			reqs += r
			errs += bad
			nbytes = max(nbytes, nb)
			mu.Unlock()
		})
	}
	var b snap
	var evEnd int64
	if *count > 0 {
		wg.Wait()
		b = take()
	} else {
		time.Sleep(*warm)
		a = take()
		phase.Store(1)
		time.Sleep(*dur)
		phase.Store(2)
		evEnd = winEvents.Load()
		b = take()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			mu.Lock() // a stuck worker's samples are lost; say so
			errs++
			firstErr = fmt.Errorf("workers stuck after the window")
		}
	}
	res := result{Errs: errs, Bytes: nbytes, Streams: *nstr}
	if firstErr != nil {
		res.Err = firstErr.Error()
	}
	finish(a, b, reqs, int(evEnd), lat, res)
}

func httpLoop(req []byte, must string, minLen int) {
	closed(*nconn, func(i int) func() (int, int, error) {
		h := dial(req)
		k := 0
		return func() (int, int, error) {
			b, err := h.one()
			if err == nil {
				if k++; k%64 == 1 || len(b) < minLen {
					if !bytes.Contains(b, []byte(must)) || len(b) < minLen {
						err = fmt.Errorf("unexpected body (%d bytes): %.300s", len(b), b)
					}
				}
			}
			return 0, len(b), err
		}
	})
}

func adminGet(path string) string {
	r, err := http.Get("http://" + *admin + path)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

func findID(b []byte) string {
	i := bytes.Index(b, []byte(`"task":{`))
	var t struct{ ID string }
	if err := json.NewDecoder(bytes.NewReader(b[i+7:])).Decode(&t); err != nil || t.ID == "" {
		log.Fatalf("no task id in %.300s", b)
	}
	return t.ID
}

func main() {
	flag.Parse()
	text := strings.Repeat("x", *size)
	if *tasks > 0 {
		h := dial(rpc("SendMessage", `{"configuration":{"returnImmediately":true},`+msg("F:1:s")[1:]))
		for range *tasks {
			if _, err := h.one(); err != nil {
				log.Fatal(err)
			}
		}
	}
	switch *w {
	case "W1", "fill":
		httpLoop(rpc("SendMessage", msg(text)), "TASK_STATE_COMPLETED", 2**size)
	case "W9":
		text = strings.Repeat("y", 64<<10)
		httpLoop(rpc("SendMessage", msg(text)), "TASK_STATE_COMPLETED", 2*(64<<10))
	case "W2":
		httpLoop(httpReq("POST", "/rest/message:send", msg(text)), "TASK_STATE_COMPLETED", 2**size)
	case "W3":
		grpcLoop(text)
	case "W4":
		n := 100
		if *evs > 0 {
			n = *evs
		}
		req := rpc("SendStreamingMessage", msg(fmt.Sprintf("S:%d:%s", n, *mode)))
		closed(*nconn, func(i int) func() (int, int, error) {
			h := dial(req)
			return func() (int, int, error) {
				ok := false
				var tail []byte
				ev, err := h.stream(func(_ int, b []byte) {
					if tail = append(tail, b...); bytes.Contains(tail, []byte("TASK_STATE_COMPLETED")) {
						ok = true
					}
					tail = append(tail[:0], tail[max(0, len(tail)-32):]...)
				})
				if err == nil && (ev != n+2+*extra || !ok) {
					err = fmt.Errorf("stream ended after %d events, completed=%v", ev, ok)
				}
				return ev, 0, err
			}
		})
	case "W5":
		h := dial(rpc("SendMessage", msg("B:")))
		b, err := h.one()
		if err != nil {
			log.Fatal(err)
		}
		id := findID(b)
		if n, a := bytes.Count(b, []byte(`"messageId"`)), bytes.Count(b, []byte(`"artifactId"`)); n != 20 || a != 5 {
			log.Fatalf("want 20 messages and 5 artifacts, got %d and %d", n, a)
		}
		httpLoop(rpc("GetTask", `{"id":"`+id+`"}`), `"messageId"`, 4000)
	case "W6":
		params := `"pageSize":50`
		if *query != "" {
			params += "," + *query
		}
		httpLoop(rpc("ListTasks", `{`+params+pageToken(params)+`}`), `"totalSize"`, 10000)
	case "W7":
		fanout()
	default:
		log.Fatal("unknown workload")
	}
}

// pageToken turns the pages of a list until the one at -depth and returns its parameter.
func pageToken(params string) string {
	token := ""
	h := dial(nil)
	defer func() { _ = h.c.Close() }()
	for range *depth - 1 {
		h.req = rpc("ListTasks", `{`+params+token+`}`)
		b, err := h.one()
		if err != nil {
			log.Fatal(err)
		}
		var page struct {
			Result struct{ NextPageToken string }
		}
		if err := json.Unmarshal(b, &page); err != nil || page.Result.NextPageToken == "" {
			log.Fatalf("no further page in %.300s", b)
		}
		token = `,"pageToken":"` + page.Result.NextPageToken + `"`
	}
	return token
}

// ---- W7 ----

func fanout() {
	n := 1000
	if *evs > 0 {
		n = *evs
	}
	p := fmt.Sprintf(`{"configuration":{"returnImmediately":true},%s`, msg(fmt.Sprintf("F:%d:%s", n, *mode))[1:])
	b, err := dial(rpc("SendMessage", p)).one()
	if err != nil {
		log.Fatal(err)
	}
	id := findID(b)
	var ready, wg sync.WaitGroup
	got := make([]int, *nconn)
	errs := make([]error, *nconn)
	ends := make([]time.Time, *nconn)
	ready.Add(*nconn)
	for i := range *nconn {
		h := dial(rpc("SubscribeToTask", `{"id":"`+id+`"}`))
		wg.Go(func() {
			first := true
			got[i], errs[i] = h.stream(func(k int, b []byte) {
				if first && k > 0 {
					first = false
					ready.Done()
				}
			})
			ends[i] = time.Now()
			if first {
				ready.Done()
			}
		})
	}
	ready.Wait()
	time.Sleep(200 * time.Millisecond)
	a := take()
	adminGet("/admin/go")
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	res := result{}
	select {
	case <-done:
	case <-time.After(120 * time.Second):
		res.Err = "not all subscribers finished in 120 s"
	}
	z := take()
	total, short := 0, 0
	var lat []time.Duration
	for i := range got {
		total += got[i]
		if got[i] < n+1 {
			short++
		}
		if errs[i] != nil {
			res.Errs++
			res.Err = errs[i].Error()
		}
		lat = append(lat, ends[i].Sub(a.t))
	}
	res.Note = fmt.Sprintf("short=%d min=%d max=%d", short, slices.Min(got), slices.Max(got))
	finish(a, z, 1, total, lat, res)
}

// ---- gRPC over hand-driven HTTP/2 ----

func grpcLoop(text string) {
	pm, _ := proto.Marshal(&a2apb.SendMessageRequest{Message: &a2apb.Message{
		MessageId: "m-0000000000", Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}},
	}})
	body := append([]byte{0, 0, 0, byte(len(pm) >> 8), byte(len(pm))}, pm...)
	off := bytes.Index(body, []byte("m-0000000000")) + 2
	var hb bytes.Buffer
	enc := hpack.NewEncoder(&hb)
	enc.SetMaxDynamicTableSize(0)
	block := func() []byte {
		hb.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", "/lf.a2a.v1.A2AService/SendMessage"},
			{":authority", *gaddr},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
			{"user-agent", "grpc-go/1.80.0"},
			{"a2a-version", "1.0"},
		} {
			enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
		}
		return bytes.Clone(hb.Bytes())
	}
	block()
	hdr := block()

	type done struct {
		lat []time.Duration
		n   int
		err error
		by  int
	}
	out := make([]done, *nconn)
	var wg sync.WaitGroup
	for ci := range *nconn {
		c, err := net.Dial("tcp", *gaddr)
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() {
			d := &out[ci]
			bw := bufio.NewWriterSize(c, 64<<10)
			br := bufio.NewReaderSize(c, 64<<10)
			bw.WriteString(http2.ClientPreface)
			fr := http2.NewFramer(bw, br)
			fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			fr.SetReuseFrames()
			fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
			fr.WriteWindowUpdate(0, 1<<30)
			next := uint32(1)
			start := map[uint32]time.Time{}
			recv := 0
			my := bytes.Clone(body)
			open := func() {
				v := seq.Add(1)
				for i := off + 9; i >= off; i-- {
					my[i] = byte('0' + v%10)
					v /= 10
				}
				start[next] = time.Now()
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: next, BlockFragment: hdr, EndHeaders: true})
				fr.WriteData(next, true, my)
				next += 2
			}
			for range *nstr {
				open()
			}
			if d.err = bw.Flush(); d.err != nil {
				return
			}
			for len(start) > 0 {
				if br.Buffered() == 0 {
					if d.err = bw.Flush(); d.err != nil {
						return
					}
				}
				f, err := fr.ReadFrame()
				if err != nil {
					d.err = err
					return
				}
				switch f := f.(type) {
				case *http2.SettingsFrame:
					if !f.IsAck() {
						fr.WriteSettingsAck()
					}
				case *http2.PingFrame:
					if !f.IsAck() {
						fr.WritePing(true, f.Data)
					}
				case *http2.DataFrame:
					recv += len(f.Data())
					d.by = max(d.by, len(f.Data()))
					if recv > 1<<28 {
						fr.WriteWindowUpdate(0, uint32(recv))
						recv = 0
					}
				case *http2.MetaHeadersFrame:
					if !f.StreamEnded() {
						continue
					}
					ok := false
					for _, h := range f.Fields {
						if h.Name == "grpc-status" && h.Value == "0" {
							ok = true
						}
					}
					if !ok {
						d.err = fmt.Errorf("grpc trailers %v", f.Fields)
						return
					}
					if phase.Load() == 1 {
						d.n++
						d.lat = append(d.lat, time.Since(start[f.StreamID]))
					}
					delete(start, f.StreamID)
					if phase.Load() < 2 {
						open()
					}
				case *http2.GoAwayFrame, *http2.RSTStreamFrame:
					d.err = fmt.Errorf("%v", f)
					return
				}
			}
		})
	}
	time.Sleep(*warm)
	a := take()
	phase.Store(1)
	time.Sleep(*dur)
	phase.Store(2)
	b := take()
	wg.Wait()
	res := result{Streams: *nstr}
	var lat []time.Duration
	n := 0
	for i := range out {
		n += out[i].n
		lat = append(lat, out[i].lat...)
		res.Bytes = max(res.Bytes, out[i].by)
		if out[i].err != nil {
			res.Errs++
			res.Err = out[i].err.Error()
		}
	}
	finish(a, b, n, 0, lat, res)
}
