package golden

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPretty(t *testing.T) {
	long := strings.Repeat("x", width)
	for in, want := range map[string]string{
		`{"a":[1,{"b":"c,\":{"}],"d":null}`:     `{"a": [1, {"b": "c,\":{"}], "d": null}`,
		`[]`:                                    `[]`,
		`-1.5e3`:                                `-1.5e3`,
		`"a\\"`:                                 `"a\\"`,
		`{"a":"` + long + `","b":[1,2],"c":{}}`: "{\n  \"a\": \"" + long + "\",\n  \"b\": [1, 2],\n  \"c\": {}\n}",
		`[{"k":["` + long + `"]},[[]]]`:         "[\n  {\n    \"k\": [\n      \"" + long + "\"\n    ]\n  },\n  [[]]\n]",
	} {
		got := pretty(in)
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", in, got, want)
		}
		if !json.Valid([]byte(got)) || compact([]byte(got)) != in {
			t.Errorf("%s comes out as %s", in, compact([]byte(got)))
		}
	}
}

func TestMask(t *testing.T) {
	var n names
	const a, b = "0197b1a6-0000-7000-8000-00000000000a", "0197b1a6-0000-7000-8000-00000000000b"
	got := n.mask(`{"id":"` + a + `","contextId":"` + b + `","timestamp":"2026-01-31T12:00:00.000Z","text":"task ` + a + `","x":"` + b + `!"}`)
	const want = `{"id":"TASK-1","contextId":"CONTEXT-1","timestamp":"TIME","text":"task TASK-1","x":"CONTEXT-1!"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := n.mask(`{"taskId":"` + a + `","messageId":"m1","timestamp":"2026-01-31T12:00:00.1234Z"}`); got !=
		`{"taskId":"TASK-1","messageId":"m1","timestamp":"2026-01-31T12:00:00.1234Z"}` {
		t.Errorf("what a client made, or is no time of the protocol, must stay: %s", got)
	}
	if got := n.fill(`{"id":"{TASK-1}"}`); got != `{"id":"`+a+`"}` {
		t.Errorf("fill: %s", got)
	}
}

func TestArchive(t *testing.T) {
	const text = "what it shows\n-- 1 GetTask as bob --\n{}\n-- not a marker\n-- 1 result --\n-- open gate --\nend\n"
	comment, sections := parse(text)
	if comment != "what it shows\n" || len(sections) != 3 || sections[0].data != "{}\n-- not a marker\n" || sections[1].data != "" {
		t.Errorf("got %q, %+v", comment, sections)
	}
	if got := format(comment, sections); got != text {
		t.Errorf("format: %q", got)
	}
}

func TestDiff(t *testing.T) {
	if d := diff("a\nb\nc", "a\nb\nc"); d != "" {
		t.Errorf("equal texts differ: %q", d)
	}
	if d := diff("a\nb\nc\nd", "a\nx\nc\nd\ne"); d != "  a\n- b\n+ x\n  c\n  d\n+ e\n" {
		t.Errorf("got\n%s", d)
	}
}
