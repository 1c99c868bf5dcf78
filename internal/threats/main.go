// Command threats holds the tests to docs/threats.md, where each row names the tests that prove its control. It prints a
// line for each row and binding, such as "A1 jsonrpc pass", and for what is not on the wire the package in its place. A
// named test that does not exist or is skipped, a row without a test, and a row of the wire without all three bindings
// are failures.
//
//	threats ./...          runs these tests, as "go test ./..." does, and judges the page by what they said
//	threats                runs only those that the page names
//	threats -off [ROW...]  takes each row's control away and wants that row to fail, and it alone; 10 minutes and more
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "threats:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, args []string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	rows, err := readPage(path.Join(root, pagePath))
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "-off" {
		return switchOff(ctx, os.Stdout, root, rows, args[1:])
	}
	res := newResults(os.Stdout)
	if len(args) > 0 {
		err = goTest(ctx, root, res, args...)
	} else {
		err = runNamed(ctx, root, res, rows)
	}
	if err == nil || len(res.tests) > 0 {
		if !res.table(os.Stdout, rows) && err == nil {
			err = fmt.Errorf("%s is not proved", pagePath)
		}
	}
	return err
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// goTest runs go test and takes its events in. The error says that a test failed, or that go test did.
func goTest(ctx context.Context, root string, res *results, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...) //nolint:gosec // arguments of whoever runs this
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read := res.read(out)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go test: %w\n%s", err, stderr.Bytes())
	}
	return read
}

// runNamed runs the tests that rows name. Conversations are asked for by name, since there are many others.
func runNamed(ctx context.Context, root string, res *results, rows []row, flags ...string) error {
	var names, packages, conversations []string
	for _, r := range rows {
		for _, t := range r.tests {
			if conversation, ok := strings.CutPrefix(t.name, wireTest+"/"); ok {
				conversations = append(conversations, conversation)
				continue
			}
			names, packages = append(names, t.name), append(packages, "./"+t.dir)
		}
	}
	var failed error
	for _, args := range [][]string{
		append([]string{"-run", "^(" + alternatives(names) + ")$"}, unique(packages)...),
		{"-run", "^" + wireTest + "$/^(" + alternatives(conversations) + ")$", "."},
	} {
		if strings.Contains(args[1], "()") {
			continue
		}
		if err := goTest(ctx, root, res, append(flags, args...)...); err != nil {
			failed = err
		}
	}
	return failed
}
