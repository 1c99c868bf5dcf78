package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadBudgets(t *testing.T) {
	const head = "text\n<!-- budget -->\n| | allocations | ratio | since |\n|---|---|---|---|\n"
	got, err := readBudgets(head + "| W1 | 95 | 2.5 | the beginning |\n| W4 | 1500 | 1.2 | so |\n<!-- end -->\n")
	if err != nil || len(got) != 2 || got[0] != (budget{"W1", 95, 2.5}) || got[1] != (budget{"W4", 1500, 1.2}) {
		t.Errorf("got %v, %v", got, err)
	}
	for name, rows := range map[string]string{
		"no rows":   "",
		"no reason": "| W1 | 95 | 2.5 | |\n",
		"no number": "| W1 | many | 2.5 | so |\n",
	} {
		if got, err := readBudgets(head + rows + "<!-- end -->\n"); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

func TestReplaceBlock(t *testing.T) {
	const page = "a\n<!-- bench: x -->\nold\n<!-- end -->\nb\n<!-- bench: y -->\n<!-- end -->\n"
	got, err := replaceBlock(page, "x", "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := replaceBlock(page, "z", ""); err == nil {
		t.Error("a block that is not there: no error")
	}
}

// Every second run goes the other way round, and peers are left out of the later ones.
func TestPlan(t *testing.T) {
	var got []string
	for _, s := range plan([]workload{{name: "W", systems: []system{floor, memory, a2aGo}}}, 2, 1) {
		got = append(got, s.system.name)
	}
	if want := "floor, Parley, memory, a2a-go, Parley, memory, floor"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// The first and last points of each curve are within what it draws, and the pictures are XML.
func TestDraw(t *testing.T) {
	for _, c := range curves {
		var samples []sample
		for i := range c.series {
			s := &c.series[i]
			for k, x := range s.at {
				samples = append(samples, sample{Workload: c.key(s), X: x, CPU: float64(3 + k), CPUEvent: float64(3 + k)})
			}
		}
		plot, table := c.draw(samples)
		for d := xml.NewDecoder(strings.NewReader(plot)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if n := strings.Count(plot, "<path class=\"l"); n != len(c.series) {
			t.Errorf("%s: %d lines, want %d", c.name, n, len(c.series))
		}
		if n := strings.Count(table, "\n"); n != len(c.series)+2 {
			t.Errorf("%s: the table has %d lines, want %d:\n%s", c.name, n, len(c.series)+2, table)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0.0561: "0.06", 1.234: "1.23", 12.34: "12.3", 2: "2", 123.4: "123", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}
