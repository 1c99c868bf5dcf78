// Command bench measures Parley beside a bare net/http or grpc-go server that does the same work (the floor),
// interleaved in one run, and prints medians and ratios as a Markdown table.
//
//	go run . -reps 5            all workloads, about 10 minutes
//	go run . -reps 3 W1 W4      some of them
//
// The server is pinned to one processor and the load generator to the other. Times of one machine mean nothing
// on another; the ratios hold.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workload is one row of the table.
type workload struct {
	name, what string
	load       string // arguments of the load generator
	floor      string // arguments of the floor
	parley     string // further arguments of the load generator for Parley
	perEvent   bool   // the figure is CPU per event, not per request
	fill       int    // tasks stored before
}

var workloads = []workload{
	{name: "W1", what: "SendMessage, JSON-RPC, 100 B, 64 connections", load: "-w W1 -n 64 -warm 1s -dur 2500ms"},
	{name: "W2", what: "the same on REST", load: "-w W2 -n 64 -warm 1s -dur 2500ms"},
	{name: "W3", what: "the same on gRPC", load: "-w W3 -n 64 -warm 1s -dur 2500ms"},
	{name: "W4-100", what: "stream of 100 chunks, 16 clients, per event", load: "-w W4 -n 16 -events 100 -warm 1s -dur 3s", parley: "-extra 1", perEvent: true},
	{name: "W4-1000", what: "stream of 1,000 chunks, per event", load: "-w W4 -n 16 -events 1000 -warm 1s -dur 3s", parley: "-extra 1", perEvent: true},
	{name: "W4-10000", what: "stream of 10,000 chunks, per event", load: "-w W4 -n 16 -events 10000 -warm 2s -dur 6s", parley: "-extra 1", perEvent: true},
	{name: "W5", what: "GetTask, 20 messages, 5 artifacts", load: "-w W5 -n 64 -warm 1s -dur 2500ms"},
	{name: "W6", what: "ListTasks, page of 50, 10,000 tasks", load: "-w W6 -n 8 -warm 1s -dur 2500ms", fill: 10_000},
	{name: "W6-100k", what: "the same, 100,000 tasks", load: "-w W6 -n 8 -warm 1s -dur 2500ms", fill: 100_000},
	{name: "W7", what: "1 task, 100 subscribers, 1,000 events, per delivery", load: "-w W7 -n 100 -events 1000 -mode s", perEvent: true},
	{name: "W9", what: "64 KiB of text there and back, 16 clients", load: "-w W9 -n 16 -warm 1s -dur 2500ms"},
}

// sample is what the load generator says of one run.
type sample struct {
	CPU      float64 `json:"cpu_us"`
	CPUEvent float64 `json:"cpu_us_ev"`
	RPS      float64 `json:"rps"`
	P99      float64 `json:"p99_ms"`
	RSS      int     `json:"rss_kb"`
	Err      string  `json:"err"`
	heap     int
}

func main() {
	log.SetFlags(0)
	reps := flag.Int("reps", 5, "runs of each workload")
	flag.Parse()
	dir, err := os.MkdirTemp("", "parley-bench-")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	for _, p := range []string{"floor", "loadgen", "parley"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, p), "./cmd/"+p) //nolint:noctx // bounded by itself
		build.Stderr = os.Stderr
		check(build.Run())
	}
	fmt.Printf("%s, %d processors, %d runs, %s\n\n", runtime.Version(), runtime.NumCPU(), *reps, time.Now().Format(time.DateOnly))
	fmt.Println("| | Workload | floor: CPU µs | Parley: CPU µs | ratio (min–max) | Parley: 1/s | p99 ms | peak RSS MB | live heap KiB/task |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, w := range workloads {
		if flag.NArg() == 0 || slices.Contains(flag.Args(), w.name) {
			w.measure(dir, *reps)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (w *workload) measure(dir string, reps int) {
	var floors, parleys []sample
	var ratios []float64
	for rep := range reps {
		pair := [2]func() sample{
			func() sample { return w.run(dir, "floor", "-codec v1 "+w.floor, "") },
			func() sample { return w.run(dir, "parley", "", w.parley) },
		}
		var got [2]sample
		for i := range pair { // every second run the other way round
			k := i ^ rep&1
			got[k] = pair[k]()
		}
		floors, parleys = append(floors, got[0]), append(parleys, got[1])
		ratios = append(ratios, w.cpu(got[1])/w.cpu(got[0]))
	}
	slices.Sort(ratios)
	heap := ""
	if w.fill > 0 {
		heap = fmt.Sprintf("%.1f", median(parleys, func(s sample) float64 { return float64(s.heap) / 1024 / float64(w.fill) }))
	}
	fmt.Printf("| %s | %s | %.2f | %.2f | %.2f (%.2f–%.2f) | %.0f | %.1f | %.0f | %s |\n", w.name, w.what,
		median(floors, w.cpu), median(parleys, w.cpu), ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1],
		median(parleys, func(s sample) float64 { return s.RPS }), median(parleys, func(s sample) float64 { return s.P99 }),
		median(parleys, func(s sample) float64 { return float64(s.RSS) / 1024 }), heap)
}

func (w *workload) cpu(s sample) float64 {
	if w.perEvent {
		return s.CPUEvent
	}
	return s.CPU
}

func median(samples []sample, of func(sample) float64) float64 {
	var v []float64
	for _, s := range samples {
		v = append(v, of(s))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// run starts a fresh server, loads it and returns what was measured.
func (w *workload) run(dir, server, args, more string) sample {
	srv := exec.Command("taskset", append([]string{"-c", "0", filepath.Join(dir, server)}, strings.Fields(args)...)...) //nolint:gosec,noctx // our own programs
	srv.Stderr = os.Stderr
	check(srv.Start())
	defer func() { _ = srv.Process.Kill(); _ = srv.Wait() }()
	for range 100 {
		if r, err := http.Get("http://127.0.0.1:7003/admin/gc"); err == nil { //nolint:noctx // on loopback
			_ = r.Body.Close()
			break
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // waiting for a program to start
	}
	if w.fill > 0 {
		load(dir, srv.Process.Pid, "-w fill -n 16 -count "+strconv.Itoa(w.fill))
	}
	heap := liveHeap()
	s := load(dir, srv.Process.Pid, w.load+" "+more)
	s.heap = heap
	return s
}

func load(dir string, pid int, args string) sample {
	all := append([]string{"-c", "1", filepath.Join(dir, "loadgen"), "-pid", strconv.Itoa(pid)}, strings.Fields(args)...)
	out, err := exec.Command("taskset", all...).Output() //nolint:gosec,noctx // our own program, bounded by its arguments
	if err != nil {
		log.Fatalf("loadgen %s: %v", args, err)
	}
	var s sample
	check(json.Unmarshal(out, &s))
	if s.Err != "" {
		log.Fatalf("loadgen %s: %s", args, s.Err)
	}
	return s
}

func liveHeap() int {
	r, err := http.Get("http://127.0.0.1:7003/admin/gc") //nolint:noctx // on loopback
	check(err)
	defer func() { _ = r.Body.Close() }()
	var m struct {
		Heap int `json:"heap"`
	}
	check(json.NewDecoder(r.Body).Decode(&m))
	return m.Heap
}
