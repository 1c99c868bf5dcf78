package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestPage: the tests that the page names are there, before anything is run.
func TestPage(t *testing.T) {
	rows, err := readPage(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.id)
		if len(r.tests) == 0 {
			t.Errorf("%s names no test", r.id)
		}
		for _, named := range r.tests {
			if !exists(named) {
				t.Errorf("%s: there is no test %s", r.id, named)
			}
		}
	}
	want := []string{
		"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the rows are %v", ids)
	}
}

func exists(named test) bool {
	if conversation, ok := strings.CutPrefix(named.name, wireTest+"/"); ok {
		_, err := os.Stat(filepath.Join(root, "testdata/wire", conversation+".txtar"))
		return err == nil
	}
	files, _ := filepath.Glob(filepath.Join(root, named.dir, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(source), "func "+named.name+"(")
	})
}

// TestControls: each row has a control that -off can take away.
func TestControls(t *testing.T) {
	rows, err := readPage(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if len(controls[r.id]) == 0 {
			t.Errorf("%s: there is no control", r.id)
		}
		for _, e := range controls[r.id] {
			if _, err := e.apply(root); err != nil {
				t.Errorf("%s: %v", r.id, err)
			}
		}
	}
	file, err := overlay(root, t.TempDir(), controls["A2"])
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), `push/deliver.go":"`) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestTable: what the lines of a page's rows say of a run.
func TestTable(t *testing.T) {
	page := strings.Join([]string{
		"| A1 | all | is | well | `TestOne`, `wire/talk`, `auth.TestKeys` |",
		"| A2 | a | binding | fails | `TestTwo` |",
		"| A3 | a | binding | is not there | `auth.TestThree` |",
		"| A4 | a | test | is skipped | `push.TestFour`, `push.TestFourToo` |",
		"| A5 | a | test | is not there | `push.TestNever` |",
		"| A6 | no | test | is named | open |",
		"| A7 | it fails | as a | whole | `TestSeven` |",
		"| A8 | it never | ends | at all | `push.TestEight` |",
		"| A9 | a part | of it | is skipped | `push.TestNine` |",
	}, "\n")
	var events strings.Builder
	say := func(action, pkg string, names ...string) {
		for _, name := range names {
			b, err := json.Marshal(event{Action: action, Package: strings.TrimSuffix(module+"/"+pkg, "/"), Test: name})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&events, "%s\n", b)
		}
	}
	say("pass", "", "TestOne/jsonrpc", "TestOne/rest", "TestOne/grpc", "TestOne", "TestWire/talk/grpc", "TestWire/talk")
	say("pass", "auth", "TestKeys")
	say("pass", "", "TestTwo/a/jsonrpc", "TestTwo/a/grpc")
	say("fail", "", "TestTwo/a/rest", "TestTwo/a", "TestTwo")
	say("pass", "auth", "TestThree/JSONRPC", "TestThree/HTTP+JSON", "TestThree")
	say("pass", "push", "TestFour")
	say("skip", "push", "TestFourToo")
	say("pass", "", "TestSeven/jsonrpc", "TestSeven/rest", "TestSeven/grpc")
	say("fail", "", "TestSeven")
	say("run", "push", "TestEight")
	say("skip", "push", "TestNine/x")
	say("pass", "push", "TestNine")
	res := newResults(t.Output())
	if err := res.read(strings.NewReader(events.String())); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if res.table(&table, parsePage(page)) {
		t.Error("the page passed")
	}
	const want = `A1 jsonrpc pass
A1 rest pass
A1 grpc pass
A1 auth pass
A2 jsonrpc pass
A2 rest fail: TestTwo
A2 grpc pass
A3 jsonrpc pass
A3 rest pass
A3 grpc missing: no test of this binding
A4 push skip: push.TestFourToo
A5 push missing: push.TestNever
A6 - missing: no test is named
A7 jsonrpc fail: TestSeven
A7 rest fail: TestSeven
A7 grpc fail: TestSeven
A8 push fail: push.TestEight
A9 push skip: push.TestNine
`
	if table.String() != want {
		t.Errorf("got\n%swant\n%s", table.String(), want)
	}
	if rows := parsePage(page)[:1]; !res.table(&table, rows) {
		t.Error("the first row alone did not pass")
	}
}

// TestShown: a run looks as go test has it look, without what passed.
func TestShown(t *testing.T) {
	var out strings.Builder
	err := newResults(&out).read(strings.NewReader(`{"Action":"build-output","ImportPath":"x","Output":"x.go:1: no\n"}
not an event
{"Action":"output","Package":"p","Test":"TestGood","Output":"    good_test.go:1: noise\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1s\n"}
{"Action":"pass","Package":"p"}
{"Action":"output","Package":"q","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"q","Test":"TestBad","Output":"    bad_test.go:1: why\n"}
{"Action":"fail","Package":"q","Test":"TestBad"}
{"Action":"output","Package":"q","Test":"TestGood","Output":"    good_test.go:1: noise\n"}
{"Action":"pass","Package":"q","Test":"TestGood"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t1s\n"}
{"Action":"fail","Package":"q"}
`))
	want := "x.go:1: no\nnot an event\nok  \tp\t1s\n    bad_test.go:1: why\nFAIL\tq\t1s\n"
	if err != nil || out.String() != want {
		t.Errorf("got\n%swant\n%s%v", out.String(), want, err)
	}
}
