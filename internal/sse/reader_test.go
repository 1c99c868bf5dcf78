package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns the events of a stream, one a line, and the error that ended it.
func readAll(r io.Reader, maxEvent int) (events []string, err error) {
	for ev, err := range Read(r, maxEvent) {
		if err != nil {
			return events, err
		}
		events = append(events, fmt.Sprintf("%s|%s|%s", ev.ID, ev.Type, ev.Data))
	}
	return events, nil
}

func TestRead(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"one", "data: {}\n\n", []string{"||{}"}},
		{"no space", "data:{}\n\n", []string{"||{}"}},
		{"only one space goes", "data:  x\n\n", []string{"|| x"}},
		{"id and type", "event: e\nid: 7\ndata: x\n\n", []string{"7|e|x"}},
		{"an id is the event's own", "id: 7\ndata: x\n\ndata: y\n\n", []string{"7||x", "||y"}},
		{"an id with NUL is none", "id: 7\x00\ndata: x\n\n", []string{"||x"}},
		{"two data lines", "data: {\"a\":\ndata: 1}\n\n", []string{"||{\"a\":\n1}"}},
		{"comments, bare id, bare retry", ": hello\n\nid: 3\n\nretry: 5\n\n:\n\ndata: x\n: between\n\n", []string{"||x"}},
		{"CRLF", "id: 1\r\ndata: x\r\n\r\ndata: y\r\n\r\n", []string{"1||x", "||y"}},
		{"lone CR", "id: 1\rdata: x\r\rdata: y\r\r", []string{"1||x", "||y"}},
		{"mixed ends", "data: x\r\n\ndata: y\r\r\ndata: z\n\r", []string{"||x", "||y", "||z"}},
		{"BOM", "\ufeffdata: x\n\n", []string{"||x"}},
		{"BOM only at the start", "data: x\n\n\ufeffdata: y\n\n", []string{"||x"}},
		{"field without a colon", "data\n\ndata: x\ndata\n\n", []string{"||", "||x\n"}},
		{"empty data is an event", "data:\n\n", []string{"||"}},
		{"unknown field", "foo: bar\ndata: x\n\n", []string{"||x"}},
		{"a name is exact", "Data: x\n\n data: y\n\n", nil},
		{"unfinished", "data: x\n\ndata: y\n", []string{"||x"}},
		{"colons in the value", "data: a:b: c\n\n", []string{"||a:b: c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"at once":        strings.NewReader(tt.in),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(tt.in)),
				"data with EOF":  iotest.DataErrReader(strings.NewReader(tt.in)),
				"half at a time": iotest.HalfReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(r, 0)
				if err != nil || !slices.Equal(got, tt.want) {
					t.Errorf("%s: got %q, %v, want %q", name, got, err, tt.want)
				}
			}
		})
	}
}

// An event must come out when its last byte is there, not when the next byte arrives.
func TestReadDoesNotWait(t *testing.T) {
	for _, frame := range []string{"data: x\n\n", "data: x\r\r", "data: x\r\n\r"} {
		pr, pw := io.Pipe()
		go func() { _, _ = io.WriteString(pw, frame) }()
		for ev, err := range Read(pr, 0) {
			if err != nil || string(ev.Data) != "x" {
				t.Errorf("%q: got %q, %v", frame, ev.Data, err)
			}
			break
		}
		pr.Close()
	}
}

func TestReadLimit(t *testing.T) {
	tests := []struct {
		name, in string
		tooLarge bool
	}{
		{"in the limit", "data: " + strings.Repeat("x", 50) + "\n\n", false},
		{"a line", "data: " + strings.Repeat("x", 100) + "\n\n", true},
		{"a line that does not end", strings.Repeat("x", 101), true},
		{"a comment", ":" + strings.Repeat("x", 101) + "\n\n", true},
		{"many lines", strings.Repeat("data: xxxxxxxxx\n", 11) + "\n", true},
		{"many empty lines", strings.Repeat("data\n", 102) + "\n", true},
		{"many events", strings.Repeat("data: xxxxxxxxx\n\n", 50), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readAll(strings.NewReader(tt.in), 100)
			var e *TooLargeError
			if errors.As(err, &e) != tt.tooLarge || tt.tooLarge && e.Limit != 100 {
				t.Errorf("got %v", err)
			}
		})
	}
}

// endless is a server that never ends its line. It counts what was taken from it.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.n += len(p)
	return len(p), nil
}

func TestReadEndlessLine(t *testing.T) {
	r := new(endless)
	_, err := readAll(r, 1<<20)
	var e *TooLargeError
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if r.n > 1<<20+2*chunkSize {
		t.Errorf("%d bytes were read for a limit of 1 MiB", r.n)
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	got, err := readAll(io.MultiReader(strings.NewReader("data: x\n\ndata: y\n"), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"||x"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzRead holds the reader to a plain reading of the standard, however the bytes are cut.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\ufeffid: 1\r\ndata: x\rdata:y\n\n:c\n\nevent\ndata\n\n"), []byte{1, 2, 3})
	f.Add([]byte("data: x\r\n\r\ndata: y\n\r"), []byte{9, 1, 1})
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		want := oracle(string(in))
		got, err := readAll(&cutReader{rest: in, cuts: cuts}, 1<<20)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q cut at %v: got %q, %v, want %q", in, cuts, got, err, want)
		}
	})
}

type cutReader struct{ rest, cuts []byte }

func (c *cutReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := len(p)
	if len(c.cuts) > 0 {
		n = min(n, int(c.cuts[0]))
		c.cuts = c.cuts[1:]
	}
	n = copy(p[:n], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// oracle reads a whole stream as the standard describes it.
func oracle(in string) (events []string) {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	lines := strings.Split(in, "\n")
	var id, typ string
	var data []string
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				events = append(events, fmt.Sprintf("%s|%s|%s", id, typ, strings.Join(data, "\n")))
			}
			id, typ, data = "", "", nil
		case name == "data":
			data = append(data, value)
		case name == "event":
			typ = value
		case name == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return events
}

func BenchmarkRead(b *testing.B) {
	frame := []byte("id: 12345\ndata: " + strings.Repeat("x", 300) + "\n\n")
	stream := bytes.Repeat(frame, 1000)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		n := 0
		for range Read(bytes.NewReader(stream), 0) {
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}
