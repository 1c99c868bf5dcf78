package main

import (
	"fmt"
	"slices"
)

// curve is the cost of something against the size of something.
type curve struct {
	name, title, x string // the file's name, what stands above, and below
	y              string
	series         []series
}

type series struct {
	name     string
	system   system
	perEvent bool
	at       []int
	load     func(x int) load
}

// events returns so many that a run has about 2,000,000 deliveries.
func events(subscribers int) int { return min(100_000, 2_000_000/subscribers) }

// brief is the window of a point.
const brief = " -warm 500ms -dur 1200ms"

// short is a window that keeps what big requests leave in memory small.
func short(size int) string {
	if size >= 64<<10 {
		return fmt.Sprintf(" -count %d", 200<<20/size)
	}
	return brief
}

var (
	upTo1M  = []int{1_000, 10_000, 100_000, 1_000_000}
	slow    = []int{1, 10, 100, 400}
	tenfold = []int{1, 10, 100, 1_000, 10_000}
	readers = []int{1, 10, 100, 1_000}
	bodies  = []int{100, 1 << 10, 10 << 10, 100 << 10, 1 << 20}
)

// curves are what the page draws.
var curves = []curve{
	{"tasks", "Cost of an operation against the number of tasks stored", "tasks stored", "µs of CPU a request", []series{
		{"ListTasks, SQLite", file, false, upTo1M, stored("-w W6 -n 8")},
		{"ListTasks, memory", memory, false, upTo1M, stored("-w W6 -n 8")},
		{"SendMessage, SQLite", file, false, upTo1M, stored("-w W1 -n 64")},
		{"SendMessage, memory", memory, false, upTo1M, stored("-w W1 -n 64")},
		{"GetTask, SQLite", file, false, upTo1M, stored("-w W5 -n 64")},
		{"GetTask, memory", memory, false, upTo1M, stored("-w W5 -n 64")},
	}},
	{"length", "Cost of an event against the length of its task", "chunks of a stream", "µs of CPU an event", []series{
		{"a2a-go", a2aGo, true, slow, length},
		{"a2a-js", a2aJS, true, slow, length},
		{"floor", floor, true, tenfold, length},
		{"Parley, SQLite", file, true, tenfold, length},
		{"Parley, memory", memory, true, tenfold, length},
	}},
	{"subscribers", "Cost of a delivery against the number of subscribers of a task", "subscribers", "µs of CPU a delivery", []series{
		{"floor", floor, true, readers, subscribers},
		{"Parley, SQLite", file, true, readers, subscribers},
		{"Parley, memory", memory, true, readers, subscribers},
	}},
	{"concurrent", "Cost of a SendMessage against the number of tasks that run beside it", "tasks that run", "µs of CPU a request", []series{
		{"Parley, SQLite", file, false, tenfold, running},
		{"Parley, memory", memory, false, tenfold, running},
		{"floor", floor, false, tenfold, running},
	}},
	{"body", "Cost of a SendMessage against the size of its text", "bytes of text", "µs of CPU a request", []series{
		{"Parley, SQLite", file, false, bodies, body},
		{"floor", floor, false, bodies, body},
		{"Parley, memory", memory, false, bodies, body},
	}},
}

func stored(args string) func(int) load {
	return func(x int) load { return load{args: args + brief, stored: x} }
}

func length(x int) load { return load{args: fmt.Sprintf("-w W4 -n 4 -events %d", x) + brief} }

func subscribers(x int) load {
	return load{args: fmt.Sprintf("-w W7 -n %d -events %d -mode s", x, events(x))}
}

func running(x int) load { return load{args: fmt.Sprintf("-w W1 -n 64 -running %d", x) + brief} }

func body(x int) load { return load{args: fmt.Sprintf("-w W1 -n 16 -size %d", x) + short(x)} }

func (c *curve) key(s *series) string { return c.name + "/" + s.name }

// growth returns the measurements of the curves: at each point all systems follow each other.
func growth(list []curve, reps, most int) (out []step) {
	for rep := range reps {
		for _, c := range list {
			for i := range 8 {
				for _, s := range c.series {
					if i >= len(s.at) || s.load(s.at[i]).stored > most {
						continue
					}
					out = append(out, step{
						workload: c.key(&s), perEvent: s.perEvent, system: s.system, load: s.load(s.at[i]), x: s.at[i], rep: rep,
					})
				}
			}
		}
	}
	return out
}

// points returns the medians of a series.
func (c *curve) points(s *series, samples []sample) (out []point) {
	for _, x := range s.at {
		var v []float64
		for _, m := range samples {
			if m.Workload == c.key(s) && m.X == x && m.Err == "" {
				if s.perEvent {
					v = append(v, m.CPUEvent)
				} else {
					v = append(v, m.CPU)
				}
			}
		}
		if len(v) > 0 {
			slices.Sort(v)
			out = append(out, point{float64(x), v[len(v)/2]})
		}
	}
	return out
}
