package tap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// FormatVersion is the version of the files that a recorder writes. A change that a reader of an older one would
// misunderstand raises it.
const FormatVersion = 1

// The types of lines.
const (
	lineTap   = "tap"   // the first of every file
	lineBegin = "begin" // a request
	lineFrame = "frame" // a frame of its answer
	lineEnd   = "end"   // its answer, all but the frames
)

// line is one line of a file.
type line struct {
	Type      string `json:"type"`
	*Exchange        // of a frame, the id only
	Frame     *Frame `json:"frame,omitempty"`

	FormatVersion int       `json:"formatVersion,omitempty"`
	Part          int       `json:"part,omitempty"` // of the recording, from 1
	Begun         time.Time `json:"begun,omitzero"`
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// file is a recording that is being written, in parts.
type file struct {
	path   string
	rotate int64
	part   int
	f      *os.File
	w      *bufio.Writer
	size   int64
}

func create(path string, rotate int64) (*file, error) {
	if rotate <= 0 {
		rotate = DefaultRotate
	}
	f := &file{path: path, rotate: rotate}
	if err := f.next(); err != nil {
		return nil, err
	}
	return f, nil
}

// partPath returns where a part of a recording is: the second one of tap.jsonl is tap.2.jsonl.
func partPath(path string, part int) string {
	if part == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), part, ext)
}

func (f *file) name() string { return partPath(f.path, f.part) }

// next begins the next part.
func (f *file) next() error {
	if f.f != nil {
		if err := f.close(); err != nil {
			return err
		}
	}
	f.part++
	var err error
	if f.f, err = os.OpenFile(f.name(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return fmt.Errorf("tap: the recording: %w", err)
	}
	f.w, f.size = bufio.NewWriterSize(f.f, 64<<10), 0
	return f.write(&line{Type: lineTap, FormatVersion: FormatVersion, Part: f.part, Begun: time.Now()})
}

func (f *file) write(l *line) error {
	b, err := marshal(l)
	if err != nil {
		return fmt.Errorf("tap: the recording: %w", err)
	}
	b = append(b, '\n')
	if f.size > 0 && f.size+int64(len(b)) > f.rotate && l.Type != lineTap {
		if err := f.next(); err != nil {
			return err
		}
	}
	n, err := f.w.Write(b)
	f.size += int64(n)
	return err
}

func (f *file) flush() error { return f.w.Flush() }

func (f *file) close() error { return errors.Join(f.w.Flush(), f.f.Close()) }

// Read returns the exchanges of the recording at path, with all of its parts, in the order of their ids. An exchange that
// had not ended when the recording did is not Done. A last line that was cut off is left out.
func Read(path string) ([]*Exchange, error) {
	var all []*Exchange
	byID := map[int64]*Exchange{}
	for part := 1; ; part++ {
		name := partPath(path, part)
		f, err := os.Open(name)
		if part > 1 && errors.Is(err, fs.ErrNotExist) {
			slices.SortFunc(all, func(a, b *Exchange) int { return int(a.ID - b.ID) })
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("tap: the recording: %w", err)
		}
		err = readPart(f, part, func(l *line) {
			switch {
			case l.Type == lineBegin:
				byID[l.Exchange.ID] = l.Exchange
				all = append(all, l.Exchange)
			case l.Type == lineFrame && l.Frame != nil && byID[l.Exchange.ID] != nil:
				x := byID[l.Exchange.ID]
				x.Frames = append(x.Frames, *l.Frame)
			}
		}, byID)
		_ = f.Close() // it was read only
		if err != nil {
			return nil, fmt.Errorf("tap: %s: %w", name, err)
		}
	}
}

var errNoRecording = errors.New("this is no recording of parley tap")

func readPart(f io.Reader, part int, take func(*line), byID map[int64]*Exchange) error {
	in := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		b, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && n == 1 && part == 1 {
			return errNoRecording
		}
		if errors.Is(err, io.EOF) {
			return nil // what stands here was not written to its end
		}
		if err != nil {
			return err
		}
		var head struct {
			Type          string
			ID            int64
			FormatVersion int
			Part          int
		}
		err = json.Unmarshal(b, &head)
		switch {
		case n == 1 && (err != nil || head.Type != lineTap):
			return errNoRecording
		case err != nil:
		case head.Type == lineTap && head.FormatVersion > FormatVersion:
			return fmt.Errorf("the recording has format version %d, and this program reads up to %d: take a newer one", head.FormatVersion, FormatVersion)
		case n == 1 && head.Part != part:
			return fmt.Errorf("this is part %d of a recording, not part %d: name the first, all others are read with it", head.Part, part)
		case head.Type == lineEnd:
			if x := byID[head.ID]; x != nil {
				err = json.Unmarshal(b, x) // over what the request's line said
			}
		default:
			l := &line{Exchange: new(Exchange)}
			if err = json.Unmarshal(b, l); err == nil {
				take(l)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}
