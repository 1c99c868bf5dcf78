package command

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/jsonx"
)

// maxFiles is how many files a turn may leave.
const maxFiles = 256

// files makes an artifact of every file that the program left, in the order of their names. Links are not followed.
func (t *turn) files() error {
	root, err := os.OpenRoot(t.out)
	if errors.Is(err, fs.ErrNotExist) { // the program took it away
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is lost with it
	n := 0
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if n++; n > maxFiles {
			return agent.Errorf("the program left more than %d files: have it pack them into one", maxFiles)
		}
		return t.file(root, name)
	})
}

func (t *turn) file(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing is lost with it
	content, err := io.ReadAll(io.LimitReader(f, t.left+1))
	if err != nil {
		return err
	}
	if _, err := t.spend(content); err != nil {
		return err
	}
	return t.u.Artifact(a2a.Artifact{Name: name, Parts: []*a2a.Part{filePart(name, content)}})
}

// filePart returns the part that says most of a file: JSON as data, other text as text, all else as bytes.
func filePart(name string, content []byte) *a2a.Part {
	kind, ok := mediaTypes[strings.ToLower(path.Ext(name))]
	if !ok {
		kind = http.DetectContentType(content)
	}
	p := &a2a.Part{Filename: path.Base(name), MediaType: kind}
	switch {
	case kind == "application/json" && jsonx.Valid(content) == nil:
		p.Content = a2a.Data(content)
	case isText(kind) && utf8.Valid(content):
		p.Content = a2a.Text(content)
	default:
		p.Content = a2a.Raw(content)
	}
	return p
}

func isText(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.HasPrefix(kind, "application/") &&
		(strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "jsonl") || strings.HasSuffix(kind, "yaml") || strings.HasSuffix(kind, "xml"))
}

// mediaTypes are those of files that programs write, by their names: tables of the system differ from machine to machine.
var mediaTypes = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".html": "text/html",
	".xml": "application/xml", ".json": "application/json", ".jsonl": "application/jsonl", ".yaml": "application/yaml",
	".yml": "application/yaml", ".diff": "text/x-diff", ".patch": "text/x-diff", ".svg": "image/svg+xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".wav": "audio/wav", ".mp3": "audio/mpeg",
}
