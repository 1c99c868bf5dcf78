package main

import (
	"fmt"
	"slices"
)

// workload is one row of the tables.
type workload struct {
	name, what string
	load       load
	perEvent   bool // the figure is CPU an event, not a request
	systems    []system
	goal       goal
}

// goal is what Parley with its tasks in memory should need at most: the first figure is to be reached, the second
// is the stretch.
type goal struct {
	unit           string // "× floor", "µs"
	reach, stretch float64
}

func (g goal) String() string { return fmt.Sprintf("%g (%g) %s", g.reach, g.stretch, g.unit) }

// met says how far a figure comes.
func (g goal) met(v float64) string {
	switch {
	case v <= g.stretch:
		return "stretch"
	case v <= g.reach:
		return "reach"
	}
	return "missed"
}

const timesFloor, micros = "× floor", "µs"

const window = " -warm 700ms -dur 2s"

var (
	all  = []system{floor, best, memory, file, a2aGo, a2aJS}
	noJS = []system{floor, memory, file, a2aGo}
	own  = []system{floor, best, memory, file}
)

// workloads are W1 to W10: W10 is the p99 of W1.
var workloads = []workload{
	{"W1", "SendMessage, JSON-RPC, 100 B, 64 connections", load{args: "-w W1 -n 64" + window}, false, all, goal{timesFloor, 2.0, 1.2}},
	{"W2", "the same on REST", load{args: "-w W2 -n 64" + window}, false, all, goal{timesFloor, 2.0, 1.2}},
	{"W3", "the same on gRPC", load{args: "-w W3 -n 64" + window}, false, noJS, goal{timesFloor, 2.5, 1.5}},
	{"W4", "stream of 100 chunks, 16 clients, per event", load{args: "-w W4 -n 16 -events 100" + window}, true, all, goal{micros, 7, 2}},
	{"W5", "GetTask, 20 messages, 5 artifacts", load{args: "-w W5 -n 64" + window}, false, all, goal{timesFloor, 1.2, 0.9}},
	{"W6", "ListTasks, page of 50, 10,000 tasks", load{args: "-w W6 -n 8" + window, fill: 10_000}, false, all, goal{timesFloor, 2.0, 1.2}},
	{"W7", "1 task, 100 subscribers, 1,000 events, per delivery", load{args: "-w W7 -n 100 -events 1000 -mode s"}, true, all, goal{micros, 2, 1}},
	{"W8", "ListTasks, page of 50, 100,000 tasks; memory", load{args: "-w W6 -n 8" + window, fill: 100_000}, false, own, goal{timesFloor, 2.0, 1.2}},
	{"W9", "64 KiB of text there and back, 16 clients", load{args: "-w W9 -n 16" + window}, false, all, goal{micros, 200, 160}},
}

// peers are measured less often: they are far away, and slow.
func (s system) isPeer() bool { return s == a2aGo || s == a2aJS }

func (w *workload) cpu(s sample) float64 {
	if w.perEvent {
		return s.CPUEvent
	}
	return s.CPU
}

// step is one measurement to come.
type step struct {
	workload string
	perEvent bool
	system   system
	load     load
	x, rep   int
}

// more is how often Parley in memory and its yardstick are measured beyond the other systems: their short requests vary.
const more = 2

// runs returns how often a system is measured on a workload. Long fills are done once.
func (w *workload) runs(s system, reps, peerReps int) int {
	switch {
	case w.load.fill >= 100_000:
		return min(reps, 1)
	case s.isPeer():
		return min(reps, peerReps)
	case w.goal.unit == timesFloor && w.load.fill == 0 && (s == floor || s == memory):
		return reps + more
	}
	return reps
}

// plan returns the measurements of the workloads, interleaved: all systems follow each other on a workload, every
// second time the other way round.
func plan(list []workload, reps, peerReps int) (out []step) {
	for rep := range reps + more {
		for _, w := range list {
			systems := slices.Clone(w.systems)
			if rep%2 == 1 {
				slices.Reverse(systems)
			}
			for _, s := range systems {
				if rep < w.runs(s, reps, peerReps) {
					out = append(out, step{workload: w.name, perEvent: w.perEvent, system: s, load: w.load, rep: rep})
				}
			}
		}
	}
	return out
}
