package cli

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// partSpec is a part of a message as the command line names it.
type partSpec struct {
	flag      string // text, file or data
	value     string
	mediaType string // empty: not said
}

// partSpecs are the parts of a message in the order of their flags.
type partSpecs []partSpec

func (ps *partSpecs) register(fs *pflag.FlagSet) {
	fs.Var(partFlag{ps, "text"}, "text", "text part; parts repeat and keep their order")
	fs.Var(partFlag{ps, "file"}, "file", "file part: the content of a `PATH`, or an http(s) URL")
	fs.Var(partFlag{ps, "data"}, "data", "data part: the JSON in the file `PATH`, or - for stdin")
	fs.Var(mediaTypeFlag{ps}, "media-type", "media type of the part before it (default: inferred)")
}

// partFlag is the value of a flag that adds a part.
type partFlag struct {
	parts *partSpecs
	name  string
}

func (f partFlag) Set(v string) error {
	*f.parts = append(*f.parts, partSpec{flag: f.name, value: v})
	return nil
}

func (partFlag) String() string { return "" }

// Type returns the placeholder that the help shows.
func (f partFlag) Type() string { return strings.ToUpper(f.name) }

// mediaTypeFlag sets the media type of the part before it.
type mediaTypeFlag struct{ parts *partSpecs }

func (f mediaTypeFlag) Set(v string) error {
	if len(*f.parts) == 0 {
		return usage("it has no --text, --file or --data before it")
	}
	last := &(*f.parts)[len(*f.parts)-1]
	if last.mediaType != "" {
		return usage("the --%s before it has the media type %s already", last.flag, last.mediaType)
	}
	if _, _, err := mime.ParseMediaType(v); err != nil || !strings.Contains(v, "/") {
		return usage("want a type such as text/markdown")
	}
	last.mediaType = v
	return nil
}

func (mediaTypeFlag) String() string { return "" }
func (mediaTypeFlag) Type() string   { return "TYPE" }

// build reads what the parts name and returns them.
func (ps partSpecs) build(stdin io.Reader) ([]*a2a.Part, error) {
	if err := ps.check(); err != nil {
		return nil, err
	}
	parts := make([]*a2a.Part, 0, len(ps))
	for _, p := range ps {
		var part *a2a.Part
		var err error
		switch p.flag {
		case "file":
			part, err = filePart(p.value)
		case "data":
			part, err = dataPart(p.value, stdin)
		default:
			part, err = textPart(p.value)
		}
		if err != nil {
			return nil, err
		}
		if p.mediaType != "" {
			part.MediaType = p.mediaType
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// check refuses what no reading would mend.
func (ps partSpecs) check() error {
	stdin := 0
	for _, p := range ps {
		if p.flag == "data" && p.value == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return usage("--data -: stdin can be read only once")
	}
	return nil
}

func textPart(s string) (*a2a.Part, error) {
	if !utf8.ValidString(s) {
		return nil, usage("--text: it is not UTF-8; send it with --file")
	}
	return a2a.TextPart(s), nil
}

// filePart returns a part with the content of a file, or one that points to a URL.
func filePart(value string) (*a2a.Part, error) {
	if u, err := url.Parse(value); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if u.Host == "" {
			return nil, usage("--file %s: the URL names no host", value)
		}
		name := filepath.Base(filepath.FromSlash(u.Path))
		if u.Path == "" || strings.HasSuffix(u.Path, "/") {
			name = ""
		}
		return &a2a.Part{Content: a2a.URL(value), Filename: name, MediaType: typeByName(name)}, nil
	}
	content, err := readFile("file", value)
	if err != nil {
		return nil, err
	}
	part := &a2a.Part{Content: a2a.Raw(content), Filename: filepath.Base(value), MediaType: typeByName(value)}
	if part.MediaType == "" {
		part.MediaType = typeByContent(content)
	}
	return part, nil
}

func readFile(flag, path string) ([]byte, error) {
	path = strings.TrimPrefix(path, "file://")
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, usage("--%s %s: it is a directory", flag, path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("--%s: %s", flag, err.Error())
	}
	return content, nil
}

func typeByName(name string) string {
	t, _, err := mime.ParseMediaType(mime.TypeByExtension(filepath.Ext(name)))
	if err != nil {
		return ""
	}
	return t
}

func typeByContent(content []byte) string {
	t, _, err := mime.ParseMediaType(http.DetectContentType(content))
	switch {
	case err != nil, t == "application/octet-stream":
		if utf8.Valid(content) && !bytes.ContainsRune(content, 0) {
			return "text/plain"
		}
		return "application/octet-stream"
	}
	return t
}

// dataPart returns a part with the JSON of a file, or of stdin.
func dataPart(value string, stdin io.Reader) (*a2a.Part, error) {
	var content []byte
	var err error
	if value == "-" {
		if content, err = io.ReadAll(stdin); err != nil {
			return nil, usage("--data -: %s", err.Error())
		}
	} else if content, err = readFile("data", value); err != nil {
		if strings.ContainsAny(value, "{}[]\"") {
			f := failureOf(err)
			f.hint = "--data takes a file; for JSON on the command line: echo '{…}' | parley send --data -"
		}
		return nil, err
	}
	content = bytes.TrimSpace(bytes.TrimPrefix(content, []byte("\ufeff")))
	if err := jsonx.Valid(content); err != nil {
		return nil, usage("--data %s: no JSON that an agent takes: %s", value, err.Error())
	}
	return &a2a.Part{Content: a2a.Data(content)}, nil
}
