// Command bench measures, interleaved in one run, and prints medians and ratios as Markdown tables:
//
//   - Parley with its tasks in memory beside a bare net/http or grpc-go server that does the same work (the floor);
//   - Parley with its tasks in a file, every commit on the disk, beside Parley with its tasks in memory.
//
// To run it:
//
//	go run . -reps 5               all workloads, about 20 minutes
//	go run . -reps 3 W1 W4-100     some of them
//	go run . -data /mnt/x D1-64    the file on another disk
//
// The server is pinned to one processor and the load generator to the other. Times of one machine mean nothing
// on another; the ratios hold. Fsyncs are counted with strace, if there is one.
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

// workload is one row of a table: a base and what is measured beside it.
type workload struct {
	name, what string
	load       string // arguments of the load generator
	parley     string // further ones for Parley
	file       string // and for Parley with a file
	perEvent   bool   // the figure is CPU per event, not per request
	fill       int    // tasks stored before, by the load generator
	stored     bool   // the file has -stored tasks from the start
	fsyncs     bool   // count them
}

// Beside the floor.
var core = []workload{
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

// Beside the memory store.
var durable = []workload{
	{name: "D1-1", what: "SendMessage, JSON-RPC, 100 B, 1 connection", load: "-w W1 -n 1 -warm 1s -dur 3s", fsyncs: true},
	{name: "D1-64", what: "the same, 64 connections", load: "-w W1 -n 64 -warm 1s -dur 3s", fsyncs: true},
	{name: "D1-256", what: "the same, 256 connections", load: "-w W1 -n 256 -warm 1s -dur 3s", fsyncs: true},
	{name: "D4-100", what: "stream of 100 chunks, 16 clients, per event", load: "-w W4 -n 16 -events 100 -warm 1s -dur 3s", parley: "-extra 1", perEvent: true},
	{name: "D4-1000", what: "stream of 1,000 chunks, per event", load: "-w W4 -n 16 -events 1000 -warm 1s -dur 3s", parley: "-extra 1", perEvent: true},
	{name: "D4-10000", what: "stream of 10,000 chunks, per event", load: "-w W4 -n 16 -events 10000 -warm 2s -dur 6s", parley: "-extra 1", perEvent: true},
	{name: "D5", what: "GetTask, 20 messages, 5 artifacts", load: "-w W5 -n 64 -warm 1s -dur 2500ms"},
	{name: "D6", what: "ListTasks, page of 50, 10,000 tasks", load: lists, fill: 10_000},
	{name: "D6-1", what: "the same, 1M tasks in the file", load: lists, stored: true},
	{name: "D6-1000", what: "the same, page 1,000", load: lists, file: "-depth 1000", stored: true},
	{name: "D6-10000", what: "the same, page 10,000", load: lists, file: "-depth 10000", stored: true},
	{name: "D6-state", what: "the failed, page 2,000", load: lists, file: `-query "status":"TASK_STATE_FAILED" -depth 2000`, stored: true},
	{name: "D6-after", what: "those of the last 15 days, page 5,000", load: lists, file: `-query "statusTimestampAfter":"` + halfAMonthAgo() + `" -depth 5000`, stored: true},
}

const lists = "-w W6 -n 8 -warm 1s -dur 2500ms"

// halfAMonthAgo is amid the times at which the stored tasks ended.
func halfAMonthAgo() string { return time.Now().UTC().AddDate(0, 0, -15).Format(time.RFC3339) }

// A durable page of a stored list is compared with the first page of 10,000 tasks in memory.
const memoryTasks = 10_000

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

// bench is one run of the program.
type bench struct {
	bin, data string // folders
	reps      int
	stored    int
	full      string // the file with the stored tasks; empty: not yet made
}

func main() {
	log.SetFlags(0)
	var b bench
	flag.IntVar(&b.reps, "reps", 5, "runs of each workload")
	flag.StringVar(&b.data, "data", os.TempDir(), "folder for the files with tasks: on a disk, not in memory")
	flag.IntVar(&b.stored, "stored", 1_000_000, "tasks in the file of the long lists")
	flag.Parse()
	dir, err := os.MkdirTemp(b.data, "parley-bench-")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	b.bin, b.data = dir, dir
	for _, p := range []string{"floor", "loadgen", "parley"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, p), "./cmd/"+p) //nolint:gosec,noctx // our own programs, bounded by itself
		build.Stderr = os.Stderr
		check(build.Run())
	}
	fmt.Printf("%s, %d processors, %d runs, %s\n", runtime.Version(), runtime.NumCPU(), b.reps, time.Now().Format(time.DateOnly))
	b.table("floor", "memory", core)
	b.table("memory", "file", durable)
}

// table measures the chosen workloads of a list.
func (b *bench) table(base, ours string, list []workload) {
	list = slices.DeleteFunc(slices.Clone(list), func(w workload) bool {
		return flag.NArg() > 0 && !slices.Contains(flag.Args(), w.name)
	})
	if len(list) == 0 {
		return
	}
	fmt.Printf("\n| | Workload | %[1]s: CPU µs | %[2]s: CPU µs | ratio (min–max) | %[1]s: 1/s | %[2]s: 1/s | ratio | p99 ms | RSS MB | live heap KiB/task | fsyncs/task |\n", base, ours)
	fmt.Println("|" + strings.Repeat("---|", 12))
	for _, w := range list {
		b.measure(&w, base, ours)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (b *bench) measure(w *workload, base, ours string) {
	var bases, all []sample
	var ratios, rates []float64
	for rep := range b.reps {
		var got [2]sample
		for i := range got { // every second run the other way round
			k := i ^ rep&1
			got[k] = b.run(w, [2]string{base, ours}[k])
		}
		bases, all = append(bases, got[0]), append(all, got[1])
		ratios, rates = append(ratios, w.cpu(got[1])/w.cpu(got[0])), append(rates, got[1].RPS/got[0].RPS)
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	heap, fsyncs := "", ""
	if w.fill > 0 {
		heap = fmt.Sprintf("%.1f", median(all, func(s sample) float64 { return float64(s.heap) / 1024 / float64(w.fill) }))
	}
	if w.fsyncs {
		fsyncs = b.fsyncs(w)
	}
	rps := func(s sample) float64 { return s.RPS }
	fmt.Printf("| %s | %s | %.2f | %.2f | %.2f (%.2f–%.2f) | %.0f | %.0f | %.2f | %.1f | %.0f | %s | %s |\n", w.name, w.what,
		median(bases, w.cpu), median(all, w.cpu), ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1],
		median(bases, rps), median(all, rps), rates[len(rates)/2], median(all, func(s sample) float64 { return s.P99 }),
		median(all, func(s sample) float64 { return float64(s.RSS) / 1024 }), heap, fsyncs)
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
func (b *bench) run(w *workload, kind string) sample {
	var args, more string
	fill := w.fill
	switch kind {
	case "floor":
		args = "-codec v1"
	case "memory":
		more = w.parley
		if w.stored {
			fill = memoryTasks
		}
	case "file":
		args, more = "-file "+b.file(w), w.parley+" "+w.file
	}
	srv := b.start(kind, args)
	defer stop(srv)
	if fill > 0 {
		b.load(srv.Process.Pid, "-w fill -n 16 -count "+strconv.Itoa(fill))
	}
	heap := liveHeap()
	s := b.load(srv.Process.Pid, w.load+" "+more)
	s.heap = heap
	return s
}

// start starts a server on the first processor, by way of a command if one is given.
func (b *bench) start(kind, args string, by ...string) *exec.Cmd {
	program := "parley"
	if kind == "floor" {
		program = kind
	}
	all := append(append([]string{"-c", "0"}, by...), filepath.Join(b.bin, program))
	srv := exec.Command("taskset", append(all, strings.Fields(args)...)...) //nolint:gosec,noctx // our own programs
	srv.Stderr = os.Stderr
	check(srv.Start())
	for range 500 {
		if r, err := http.Get("http://127.0.0.1:7003/admin/gc"); err == nil { //nolint:noctx // on loopback
			_ = r.Body.Close()
			return srv
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // waiting for a program to start
	}
	stop(srv)
	log.Fatalf("%s does not start", kind)
	return nil
}

func stop(srv *exec.Cmd) {
	_ = srv.Process.Kill()
	_ = srv.Wait()
}

// file returns the file for a workload: a new one, or that with the stored tasks.
func (b *bench) file(w *workload) string {
	if !w.stored {
		dir, err := os.MkdirTemp(b.data, "file-")
		check(err)
		return filepath.Join(dir, "tasks.db")
	}
	if b.full == "" {
		b.full = filepath.Join(b.data, "stored.db")
		fill := exec.Command(filepath.Join(b.bin, "parley"), "-file", b.full, "-fill", strconv.Itoa(b.stored)) //nolint:gosec,noctx // our own program
		fill.Stderr = os.Stderr
		check(fill.Run())
	}
	return b.full
}

// fsyncs returns how many fsyncs a task of the workload costs, empty where there is no strace.
func (b *bench) fsyncs(w *workload) string {
	if _, err := exec.LookPath("strace"); err != nil {
		return ""
	}
	const tasks = 10_000
	out := filepath.Join(b.data, "strace")
	// With -D the server is our child, and strace its own master.
	srv := b.start("file", "-file "+b.file(w), "strace", "-D", "-f", "--seccomp-bpf", "-c", "-e", "trace=fsync,fdatasync", "-o", out)
	b.load(srv.Process.Pid, w.load+" -count "+strconv.Itoa(tasks))
	stop(srv)
	var text []byte
	for range 100 {
		text, _ = os.ReadFile(out)
		if len(text) > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // waiting for a program to end
	}
	_ = os.Remove(out)
	calls := 0
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 5 && (f[len(f)-1] == "fsync" || f[len(f)-1] == "fdatasync") {
			n, err := strconv.Atoi(f[3])
			check(err)
			calls += n
		}
	}
	if calls == 0 {
		log.Fatalf("strace counted nothing:\n%s", text)
	}
	return fmt.Sprintf("%.2f", float64(calls)/tasks)
}

func (b *bench) load(pid int, args string) sample {
	all := append([]string{"-c", "1", filepath.Join(b.bin, "loadgen"), "-pid", strconv.Itoa(pid)}, strings.Fields(args)...)
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
