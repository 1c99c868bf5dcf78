package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/child"
)

const (
	keptOutput   = 4 << 10 // of a test that failed
	keptFailures = 100
	maxLine      = 1 << 20
)

// fail notes a test that failed.
func (s *summary) fail(test, output string) {
	s.Failed++
	if len(s.Failures) < keptFailures {
		if len(output) > keptOutput {
			output = "…" + output[len(output)-keptOutput:]
		}
		s.Failures = append(s.Failures, failure{test, output})
	}
}

func (s *summary) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", s.Passed, s.Failed, s.Skipped)
}

func (s *summary) count() int { return s.Passed + s.Failed + s.Skipped }

// tell says how far a run is, twice a second while that changes, and that it is alive in any case. It ends with stop.
func (r *testRun) tell() (stop func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		var last string
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			r.u.Alive()
			if now, _ := r.count.Load().(string); now != last {
				last = now
				_ = r.u.Progress(a2a.TextPart(now)) // a run that may not write is ended by its context
			}
		}
	}()
	return func() { close(ended) }
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
}

// goTest runs go test. Its events say all there is to count; a package that fails without a test that failed, because it
// does not compile or its process died, is a failure of its own.
func (r *testRun) goTest(ctx context.Context, dir string, s *summary) error {
	args := append([]string{"go", "test", "-json", "-count=1"}, r.Paths...)
	if len(r.Paths) == 0 {
		args = append(args, "./...")
	}
	said := map[string]string{} // the output of what runs
	broken := map[string]bool{} // packages with a test that failed
	_, err := r.program(ctx, dir, func(out io.Reader) error {
		lines := child.NewLines(out, maxLine)
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			var e event
			if json.Unmarshal(line, &e) != nil {
				_, _ = r.log.Write(append(line, '\n'))
				continue
			}
			r.goEvent(s, e, said, broken)
			r.count.Store(s.String())
		}
	}, args...)
	return ended(s, err, "go test")
}

func (r *testRun) goEvent(s *summary, e event, said map[string]string, broken map[string]bool) {
	name := strings.TrimSuffix(e.Package+"."+e.Test, ".")
	if e.Package == "" {
		name = e.ImportPath
	}
	switch e.Action {
	case "output", "build-output":
		_, _ = r.log.Write([]byte(e.Output))
		text := said[name] + e.Output
		said[name] = text[max(0, len(text)-keptOutput):]
	case "pass", "skip", "fail":
		defer delete(said, name)
		switch {
		case e.Action == "fail" && e.Test != "":
			broken[e.Package] = true
			s.fail(name, said[name])
		case e.Action == "fail" && !broken[e.Package]:
			s.fail(name, said[e.FailedBuild]+said[name]) // what the compiler said, if it was that
		case e.Test == "": // a package
		case e.Action == "pass":
			s.Passed++
		case e.Action == "skip":
			s.Skipped++
		}
	}
}

// ended says what the end of a test program means.
func ended(s *summary, err error, program string) error {
	switch {
	case err == nil, testsFailed(err) && s.Failed > 0:
		return nil
	case testsFailed(err) && s.count() > 0:
		s.fail(program, "it ended as if a test had failed")
		return nil
	case testsFailed(err):
		return fmt.Errorf("%s failed before it ran a test: see log.txt", program)
	}
	return fmt.Errorf("%s: %w", program, err)
}

// report is what pytest writes with --junitxml.
type report struct {
	Suites []struct {
		Cases []struct {
			Class   string  `xml:"classname,attr"`
			Name    string  `xml:"name,attr"`
			Failure *string `xml:"failure"`
			Error   *string `xml:"error"`
			Skipped *string `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// pytest runs pytest and reads its report.
func (r *testRun) pytest(ctx context.Context, dir string, s *summary) error {
	file := filepath.Join(r.scratch, "report.xml")
	args := append([]string{"python3", "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "--junitxml=" + file}, r.Paths...)
	_, err := r.program(ctx, dir, r.lines(func(string) {}), args...)
	text, rerr := os.ReadFile(file)
	if rerr == nil {
		var all report
		if xerr := xml.Unmarshal(text, &all); xerr != nil {
			return fmt.Errorf("the report of pytest cannot be read: %w", xerr)
		}
		for _, suite := range all.Suites {
			for _, c := range suite.Cases {
				name := strings.TrimPrefix(c.Class+"."+c.Name, ".")
				switch {
				case c.Failure != nil:
					s.fail(name, *c.Failure)
				case c.Error != nil:
					s.fail(name, *c.Error)
				case c.Skipped != nil:
					s.Skipped++
				default:
					s.Passed++
				}
			}
		}
	}
	return ended(s, err, "pytest")
}

// Node's own test runner ends with its counts, in either of its formats.
var (
	nodeCount = regexp.MustCompile(`^(?:#|ℹ) (pass|fail|skipped|todo) (\d+)$`)
	nodeFail  = regexp.MustCompile(`^\s*(?:not ok \d+ - |✖ )(.+?)(?: \([\d.]+ms\))?$`)
)

// npmTest runs npm test. The counts are those of Node's test runner; any other is one test, by its end.
func (r *testRun) npmTest(ctx context.Context, dir string, s *summary) error {
	if _, err := os.Stat(filepath.Join(dir, "package-lock.json")); err == nil {
		if _, err := r.program(ctx, dir, r.lines(func(string) {}), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return fmt.Errorf("npm ci: %w", err)
		}
	}
	var failed []string
	counts := map[string]int{}
	_, err := r.program(ctx, dir, r.lines(func(line string) {
		if m := nodeCount.FindStringSubmatch(line); m != nil {
			counts[m[1]], _ = strconv.Atoi(m[2])
		} else if m := nodeFail.FindStringSubmatch(line); m != nil && m[1] != "failing tests:" {
			failed = append(failed, m[1])
		}
	}), "npm", "test")
	s.Passed, s.Skipped = counts["pass"], counts["skipped"]+counts["todo"]
	for i := range counts["fail"] {
		name := "npm test"
		if i < len(failed) {
			name = failed[i]
		}
		s.fail(name, "")
	}
	if len(counts) == 0 {
		switch {
		case err == nil:
			s.Passed = 1
		case testsFailed(err):
			s.fail("npm test", "")
		}
	}
	return ended(s, err, "npm test")
}

// lines returns what reads a program's output line by line into the log.
func (r *testRun) lines(each func(string)) func(io.Reader) error {
	return func(out io.Reader) error {
		in := bufio.NewReaderSize(out, 64<<10)
		for {
			line, prefix, err := in.ReadLine()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			_, _ = r.log.Write(line)
			if !prefix {
				_, _ = r.log.Write([]byte{'\n'})
			}
			each(string(line))
		}
	}
}
