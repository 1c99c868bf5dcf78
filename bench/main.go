// Command bench measures, interleaved in one run: Parley with its tasks in memory and in a SQLite file (every commit on
// the disk), the Go and the JavaScript SDK with theirs in memory, and a bare net/http or grpc-go server that does the
// same work (the floor). It prints the tables and writes them, with the plots of growth, into docs/performance.md.
//
//	go run .                    everything, about 14 minutes
//	go run . W1 W4 tasks        some workloads and curves; the page stays as it is
//	go run . -from bench.jsonl  the page from the figures of an earlier run
//	go run . -smoke             allocations and ratios against the budget in the page, in less than a minute
//
// The server is pinned to the first processor and the load to the second. Times of one machine mean nothing on another;
// the ratios hold. What was measured is in -out, a line of JSON for each server that was started.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

// options are the flags.
type options struct {
	reps, peerReps, growthReps int
	stored                     int
	data, out, from, page      string
	smoke                      bool
}

func main() {
	log.SetFlags(0)
	var o options
	flag.IntVar(&o.reps, "reps", 3, "runs of each workload")
	flag.IntVar(&o.peerReps, "peer-reps", 2, "runs of each workload with the other SDKs")
	flag.IntVar(&o.growthReps, "growth-reps", 1, "runs of each point of the curves")
	flag.IntVar(&o.stored, "stored", 1_000_000, "most tasks of the curve of stored tasks")
	flag.StringVar(&o.data, "data", os.TempDir(), "folder for programs and files with tasks: on a disk, not in memory")
	flag.StringVar(&o.out, "out", "../bin/bench.jsonl", "file for what is measured")
	flag.StringVar(&o.from, "from", "", "file with what was measured: only write the page")
	flag.StringVar(&o.page, "page", "../docs/performance.md", "page to write")
	flag.BoolVar(&o.smoke, "smoke", false, "compare with the budget in the page, and fail if something costs more")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, &o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o *options) error {
	if o.smoke {
		return smoke(ctx, o)
	}
	if o.from != "" {
		samples, err := readSamples(o.from)
		if err != nil {
			return err
		}
		return writePage(os.Stdout, o.page, samples)
	}
	steps := chosen(o, flag.Args())
	samples, err := measureAll(ctx, o, steps)
	if err != nil {
		return err
	}
	if flag.NArg() > 0 {
		return printTables(os.Stdout, samples)
	}
	return writePage(os.Stdout, o.page, samples)
}

// chosen returns what to measure: everything, or the workloads and curves that are named.
func chosen(o *options, names []string) []step {
	named := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	ws := slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool { return !named(w.name) })
	cs := slices.DeleteFunc(slices.Clone(curves), func(c curve) bool { return !named(c.name) })
	return append(plan(ws, o.reps, o.peerReps), growth(cs, o.growthReps, o.stored)...)
}

// measureAll takes the steps and keeps what they measure in a file. A system that fails is left out of the tables, and
// said so.
func measureAll(ctx context.Context, o *options, steps []step) (samples []sample, err error) {
	if err := installJS(ctx); err != nil {
		if os.Getenv("CI") == "true" {
			return nil, err
		}
		log.Printf("without a2a-js: %v", err)
		steps = slices.DeleteFunc(steps, func(s step) bool { return s.system == a2aJS })
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o750); err != nil {
		return nil, err
	}
	out, err := os.Create(o.out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	r, err := newRig(ctx, o.data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	begin := time.Now()
	for i, s := range steps {
		m := r.measure(ctx, s.system, s.load)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: what was measured is in %s", o.out)
		}
		m.Workload, m.X, m.Rep = s.workload, s.x, s.rep
		samples = append(samples, m)
		if err := json.NewEncoder(out).Encode(m); err != nil {
			return nil, err
		}
		log.Printf("%4d/%d %6s  %s", i+1, len(steps), time.Since(begin).Round(time.Second), m.progress(s.perEvent))
	}
	return samples, nil
}

func (m sample) progress(perEvent bool) string {
	at := ""
	if m.X > 0 {
		at = " at " + number(float64(m.X))
	}
	if m.Err != "" {
		return fmt.Sprintf("%s%s: %s FAILED: %s", m.Workload, at, m.System, m.Err)
	}
	cost := m.CPU
	if perEvent {
		cost = m.CPUEvent
	}
	return fmt.Sprintf("%s%s: %s %s µs", m.Workload, at, m.System, number(cost))
}

func readSamples(path string) (samples []sample, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var m sample
		if err := d.Decode(&m); err == io.EOF {
			return samples, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		samples = append(samples, m)
	}
}
