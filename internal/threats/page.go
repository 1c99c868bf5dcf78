package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

const (
	module   = "github.com/parley-a2a/parley"
	pagePath = "docs/threats.md"
	wireTest = "TestWire" // plays the conversations of testdata/wire
)

// bindings are the names of the bindings in a line, by those of subtests in small letters.
var bindings = map[string]string{"jsonrpc": "jsonrpc", "rest": "rest", "http+json": "rest", "grpc": "grpc"}

// row is a line of the page's table.
type row struct {
	id    string // such as A1
	tests []test
}

// test is a test that a row names.
type test struct {
	dir  string // of its package in the module; empty: the root's
	name string // with those of its subtests, such as TestWire/contexts
}

// pkg returns the import path of the test's package.
func (t test) pkg() string {
	if t.dir == "" {
		return module
	}
	return module + "/" + t.dir
}

func (t test) String() string {
	if t.dir == "" {
		return t.name
	}
	return t.dir + "." + t.name
}

// onWire reports whether a row is one that every binding shows: one with a test of the root's.
func (r *row) onWire() bool {
	return slices.ContainsFunc(r.tests, func(t test) bool { return t.dir == "" })
}

var (
	rowLine = regexp.MustCompile(`(?m)^\| ([AB]\d+) \|.*\| ([^|]*) \|$`)
	named   = regexp.MustCompile("`(?:(wire)/([\\w-]+)|(?:([\\w/]+)\\.)?(Test\\w+))`")
)

// readPage returns the rows of the page, in its order.
func readPage(path string) ([]row, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows := parsePage(string(page))
	if len(rows) == 0 {
		return nil, errors.New(pagePath + " has no table of threats")
	}
	return rows, nil
}

func parsePage(page string) []row {
	var rows []row
	for _, line := range rowLine.FindAllStringSubmatch(page, -1) {
		r := row{id: line[1]}
		for _, m := range named.FindAllStringSubmatch(line[2], -1) {
			t := test{dir: m[3], name: m[4]}
			if m[1] != "" {
				t.name = wireTest + "/" + m[2]
			}
			r.tests = append(r.tests, t)
		}
		rows = append(rows, r)
	}
	return rows
}

// pick returns the rows with the given ids, all of them if there are none.
func pick(rows []row, ids []string) ([]row, error) {
	if len(ids) == 0 {
		return rows, nil
	}
	var out []row
	for _, id := range ids {
		i := slices.IndexFunc(rows, func(r row) bool { return r.id == id })
		if i < 0 {
			return nil, fmt.Errorf("%s has no row %s", pagePath, id)
		}
		out = append(out, rows[i])
	}
	return out, nil
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// alternatives returns the names as alternatives of a regular expression.
func alternatives(names []string) string { return strings.Join(unique(names), "|") }
