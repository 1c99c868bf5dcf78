package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// writePage prints the tables and writes them and the plots into the blocks of the page; what stands around them stays.
// What could not be measured is missing there, and is the error.
func writePage(w io.Writer, path string, samples []sample) error {
	failed := printTables(w, samples)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(text)
	blocks := map[string]string{"run": runLine(samples), "cost": costs(samples), "rates": rates(samples), "memory": memories(samples)}
	for _, c := range curves {
		drawn, table := c.draw(samples)
		blocks[c.name] = table
		if drawn == "" {
			continue
		}
		images := filepath.Join(filepath.Dir(path), "img")
		if err := os.MkdirAll(images, 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(images, c.name+".svg"), []byte(drawn), 0o600); err != nil {
			return err
		}
	}
	for name, content := range blocks {
		if page, err = replaceBlock(page, name, content); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return errors.Join(os.WriteFile(path, []byte(page), 0o600), failed) //nolint:gosec // the page that was named
}

func printTables(w io.Writer, samples []sample) error {
	parts := []string{runLine(samples), costs(samples), rates(samples), memories(samples)}
	for _, c := range curves {
		if _, table := c.draw(samples); table != "" {
			parts = append(parts, c.title+"\n\n"+table)
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(parts, "\n"))
	return errors.Join(err, failures(samples))
}

// failures says what could not be measured.
func failures(samples []sample) error {
	var all []error
	for _, m := range samples {
		if m.Err != "" {
			all = append(all, fmt.Errorf("%s: %s: %s", m.Workload, m.System, m.Err))
		}
	}
	return errors.Join(all...)
}

// replaceBlock puts content between the two comments that name a block.
func replaceBlock(page, name, content string) (string, error) {
	begin, end := "<!-- bench: "+name+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(page, begin)
	if !ok {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("no line %q after %q", end, strings.TrimSpace(begin))
	}
	return before + begin + content + end + after, nil
}

func runLine(samples []sample) string {
	var other []float64
	reps := 0
	for _, m := range samples {
		if m.Err == "" {
			other = append(other, max(0, m.Other))
		}
		reps = max(reps, m.Rep+1)
	}
	busy := "nothing else ran"
	if o := middle(other); o > 0.1 {
		busy = fmt.Sprintf("**other programs used %.1f processors meanwhile**: read only the ratios", o)
	}
	return fmt.Sprintf("%s, %d processors, %s, a2a-go %s, @a2a-js/sdk 1.3.0 on %s, up to %d runs, medians, %s; %s.\n",
		runtime.Version(), runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, moduleVersion("github.com/a2aproject/a2a-go/v2"),
		nodeVersion(), reps, time.Now().Format(time.DateOnly), busy)
}

// moduleVersion is that of a module in go.mod.
func moduleVersion(path string) string {
	text, _ := os.ReadFile("go.mod")
	_, rest, _ := strings.Cut(string(text), path+" ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

// of returns a figure of every good sample of a system on a workload, in the order of the runs.
func of(samples []sample, workload string, s system, figure func(sample) float64) (out []float64) {
	for _, m := range samples {
		if m.Workload == workload && m.System == s.name && m.Err == "" {
			out = append(out, figure(m))
		}
	}
	return out
}

// ratios returns the figure of one system by that of another, run by run.
func ratios(samples []sample, workload string, s, by system, figure func(sample) float64) (out []float64) {
	for _, m := range samples {
		for _, n := range samples {
			if m.Workload == workload && n.Workload == workload && m.System == s.name && n.System == by.name &&
				m.Rep == n.Rep && m.Err == "" && n.Err == "" && figure(n) > 0 {
				out = append(out, figure(m)/figure(n))
			}
		}
	}
	return out
}

func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func cell(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return number(middle(v))
}

// spread is a ratio with its smallest and largest.
func spread(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", number(middle(v)), number(slices.Min(v)), number(slices.Max(v)))
}

func header(b *strings.Builder, columns ...string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// costs is the table of the CPU.
func costs(samples []sample) string {
	var b strings.Builder
	header(&b, "", "µs of CPU", "floor", "best floor", "Parley, memory", "× floor", "goal: reach (stretch)", "",
		"Parley, SQLite", "× memory", "a2a-go", "× Parley", "a2a-js", "× Parley")
	for _, w := range workloads {
		ours := of(samples, w.name, memory, w.cpu)
		if len(ours) == 0 {
			continue
		}
		byFloor := ratios(samples, w.name, memory, floor, w.cpu)
		against := ours
		if w.goal.unit == timesFloor {
			against = byFloor
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | **%s** | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", w.name, w.what,
			cell(of(samples, w.name, floor, w.cpu)), cell(of(samples, w.name, best, w.cpu)), cell(ours), spread(byFloor),
			w.goal, w.goal.met(middle(against)),
			cell(of(samples, w.name, file, w.cpu)), spread(ratios(samples, w.name, file, memory, w.cpu)),
			cell(of(samples, w.name, a2aGo, w.cpu)), spread(ratios(samples, w.name, a2aGo, memory, w.cpu)),
			cell(of(samples, w.name, a2aJS, w.cpu)), spread(ratios(samples, w.name, a2aJS, memory, w.cpu)))
	}
	return b.String()
}

// rates is the table of requests a second and latencies.
func rates(samples []sample) string {
	var b strings.Builder
	systems := []system{floor, memory, file, a2aGo, a2aJS}
	columns := []string{"", "requests/s · p50 / p99 ms"}
	for _, s := range systems {
		columns = append(columns, s.name)
	}
	header(&b, columns...)
	for _, w := range workloads {
		if len(of(samples, w.name, memory, w.cpu)) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", w.name, w.what)
		for _, s := range systems {
			rps := of(samples, w.name, s, func(m sample) float64 { return m.RPS })
			if len(rps) == 0 {
				b.WriteString(" – |")
				continue
			}
			fmt.Fprintf(&b, " %s · %s / %s |", cell(rps), cell(of(samples, w.name, s, func(m sample) float64 { return m.P50 })),
				cell(of(samples, w.name, s, func(m sample) float64 { return m.P99 })))
		}
		b.WriteString("\n")
	}
	p99 := func(m sample) float64 { return m.P99 }
	if ours := of(samples, "W1", memory, p99); len(ours) > 0 {
		fmt.Fprintf(&b, "\nW10, the p99 of W1: goal 20 ms (11), %s ms: %s.\n", cell(ours), goal{"ms", 20, 11}.met(middle(ours)))
	}
	return b.String()
}

// memories is the table of what a stored task takes.
func memories(samples []sample) string {
	var b strings.Builder
	header(&b, "W8: KiB a task", "tasks", "peak resident", "live heap", "")
	if len(of(samples, "W8", memory, func(m sample) float64 { return m.CPU })) == 0 {
		return ""
	}
	for _, s := range all {
		workload, tasks := "W8", 100_000.0
		if s.isPeer() {
			workload, tasks = "W6", 10_000
		}
		p := of(samples, workload, s, func(m sample) float64 { return float64(m.Peak-m.Base) / tasks })
		l := of(samples, workload, s, func(m sample) float64 { return float64(m.Heap) / 1024 / tasks })
		if s == best || len(p) == 0 {
			continue
		}
		met := ""
		if s == memory {
			met = fmt.Sprintf("goal 2.2 / 1.0 (1.5 / 0.8): %s / %s", goal{"", 2.2, 1.5}.met(middle(p)), goal{"", 1.0, 0.8}.met(middle(l)))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.name, number(tasks), cell(p), cell(l), met)
	}
	return b.String()
}

// draw returns a curve's plot, and its figures as a table with the ratio of the ends.
func (c *curve) draw(samples []sample) (plot, table string) {
	var lines []line
	var b strings.Builder
	for i := range c.series {
		s := &c.series[i]
		pts := c.points(s, samples)
		lines = append(lines, line{s.name, s.color(i), pts})
		if len(pts) == 0 {
			continue
		}
		if b.Len() == 0 {
			header(&b, c.y, "at "+c.x, "last ÷ first")
		}
		var at []string
		for _, p := range pts {
			at = append(at, fmt.Sprintf("%s: %s", number(p.x), number(p.y)))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, strings.Join(at, " · "), number(pts[len(pts)-1].y/pts[0].y))
	}
	return svg(c.title, c.x, c.y, lines), b.String()
}

// color is the same for a system in all plots; where a system has several lines, each has its own.
func (s *series) color(i int) int {
	if k := slices.IndexFunc(all, func(sys system) bool { return sys.name == s.name }); k >= 0 {
		return k
	}
	return i
}
