package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// status is what came of a test, or of several: the worst counts.
type status int

const (
	passed status = iota
	skipped
	missing // it did not run
	failed
)

func (s status) String() string { return [...]string{"pass", "skip", "missing", "fail"}[s] }

// results are what tests said, as "go test -json" tells it (go doc test2json).
type results struct {
	out   io.Writer // hears of packages and of what failed, as go test without -v says it
	tests map[id]*outcome
	order []id
}

type id struct{ pkg, name string } // without a name: of the package itself

type outcome struct {
	status status
	output strings.Builder
}

type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
}

func newResults(out io.Writer) *results { return &results{out: out, tests: make(map[id]*outcome)} }

// read takes in the events of a run.
func (r *results) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintf(r.out, "%s\n", lines.Bytes()) //nolint:errcheck // what is no event is for people
			continue
		}
		r.take(&e)
	}
	return lines.Err()
}

func (r *results) take(e *event) {
	if e.Action == "build-output" {
		_, _ = io.WriteString(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	o := r.of(id{e.Package, e.Test})
	switch e.Action {
	case "output":
		o.output.WriteString(e.Output)
	case "pass":
		o.status = passed
	case "skip":
		o.status = skipped
	case "fail":
		o.status = failed
	}
	if ended := e.Test == "" && slices.Contains([]string{"pass", "skip", "fail"}, e.Action); ended {
		r.show(e.Package)
	}
}

func (r *results) of(i id) *outcome {
	o := r.tests[i]
	if o == nil {
		o = &outcome{status: failed} // until it says otherwise: it may never end
		r.tests[i] = o
		r.order = append(r.order, i)
	}
	return o
}

// show writes what go test writes of a package.
func (r *results) show(pkg string) {
	whole := r.tests[id{pkg, ""}]
	defer whole.output.Reset() // there may be another run
	if whole.status != failed {
		for line := range strings.Lines(whole.output.String()) {
			if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "?") {
				_, _ = io.WriteString(r.out, line)
			}
		}
		return
	}
	for _, i := range r.order {
		if o := r.tests[i]; i.pkg == pkg && i.name != "" && o.status == failed {
			for line := range strings.Lines(o.output.String()) {
				if !strings.HasPrefix(line, "=== ") {
					_, _ = io.WriteString(r.out, line)
				}
			}
		}
	}
	_, _ = io.WriteString(r.out, whole.output.String())
}

// judge returns what came of a test: by binding where subtests of it, at any depth, are named like one, otherwise by its
// package.
func (r *results) judge(t test) map[string]status {
	label := cmp.Or(t.dir, "host")
	whole, ok := r.tests[id{t.pkg(), t.name}]
	if !ok {
		return map[string]status{label: missing}
	}
	byBinding := map[string]status{}
	worst := passed
	for i, o := range r.tests {
		rest, below := strings.CutPrefix(i.name, t.name+"/")
		if i.pkg != t.pkg() || !below {
			continue
		}
		worst = max(worst, o.status)
		for part := range strings.SplitSeq(strings.ToLower(rest), "/") {
			if b := bindings[part]; b != "" {
				byBinding[b] = max(byBinding[b], o.status)
			}
		}
	}
	switch {
	case len(byBinding) == 0:
		return map[string]status{label: max(whole.status, worst)}
	case whole.status == failed && !slices.Contains(slices.Collect(maps.Values(byBinding)), failed):
		for b := range byBinding {
			byBinding[b] = failed // by what is not of one binding
		}
	}
	return byBinding
}

// line is a line of the table: a row, and a binding or a package.
type line struct {
	label  string
	status status
	why    []string // the tests that did not pass
}

// judgeRow returns the lines of a row.
func (r *results) judgeRow(w row) []*line {
	byLabel := map[string]*line{}
	for _, t := range w.tests {
		for label, s := range r.judge(t) {
			l := byLabel[label]
			if l == nil {
				l = &line{label: label}
				byLabel[label] = l
			}
			if l.status = max(l.status, s); s != passed {
				l.why = append(l.why, t.String())
			}
		}
	}
	if len(w.tests) == 0 {
		byLabel["-"] = &line{label: "-", status: missing, why: []string{"no test is named"}}
	}
	if w.onWire() || byLabel["jsonrpc"] != nil || byLabel["rest"] != nil || byLabel["grpc"] != nil {
		for _, b := range bindings {
			if byLabel[b] == nil {
				byLabel[b] = &line{label: b, status: missing, why: []string{"no test of this binding"}}
			}
		}
	}
	rank := func(l *line) int { return slices.Index([]string{"jsonrpc", "rest", "grpc"}, l.label) & 0xff } // others last
	return slices.SortedFunc(maps.Values(byLabel), func(a, b *line) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.label, b.label))
	})
}

// table writes the lines of all rows and reports whether all passed.
func (r *results) table(out io.Writer, rows []row) bool {
	good := true
	for _, w := range rows {
		for _, l := range r.judgeRow(w) {
			text := w.id + " " + l.label + " " + l.status.String()
			if l.status != passed {
				good = false
				slices.Sort(l.why)
				text += ": " + strings.Join(slices.Compact(l.why), ", ")
			}
			fmt.Fprintln(out, text) //nolint:errcheck // a table for people
		}
	}
	return good
}
