package acp

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/parley-a2a/parley/a2a"
)

// checkParts refuses what cannot be passed on to an agent.
func checkParts(parts []*a2a.Part) error {
	for i, p := range parts {
		if c, ok := p.Content.(a2a.URL); ok {
			if u, err := url.Parse(string(c)); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
				return a2a.Errorf(a2a.ErrContentTypeNotSupported, "message.parts[%d].url: only http and https addresses are passed on to the agent", i)
			}
		}
	}
	return nil
}

// prompter turns the parts of a message into the blocks of a prompt.
type prompter struct {
	can  promptCapabilities
	dir  string // the session's
	name string // of a directory in it, made where files are needed
	made bool
}

func (p *prompter) blocks(parts []*a2a.Part) ([]block, error) {
	blocks := make([]block, 0, len(parts))
	for i, part := range parts {
		b, err := p.block(i, part)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func (p *prompter) block(i int, part *a2a.Part) (block, error) {
	name, uri := part.Filename, fmt.Sprintf("a2a:part/%d", i)
	if name == "" {
		name = fmt.Sprintf("part-%d", i)
	}
	switch c := part.Content.(type) {
	case a2a.Text:
		return block{Type: "text", Text: string(c)}, nil
	case a2a.URL:
		return block{Type: "resource_link", URI: string(c), Name: name, MimeType: part.MediaType}, nil
	case a2a.Data:
		text := string(c)
		if !p.can.EmbeddedContext {
			return block{Type: "text", Text: text}, nil
		}
		return block{Type: "resource", Resource: &resource{URI: uri, MimeType: "application/json", Text: &text}}, nil
	case a2a.Raw:
		kind, _, _ := strings.Cut(part.MediaType, "/")
		data := base64.StdEncoding.EncodeToString(c)
		switch {
		case kind == "image" && p.can.Image, kind == "audio" && p.can.Audio:
			return block{Type: kind, Data: data, MimeType: part.MediaType}, nil
		case kind != "image" && kind != "audio" && p.can.EmbeddedContext:
			return block{Type: "resource", Resource: &resource{URI: uri, MimeType: part.MediaType, Blob: data}}, nil
		case kind == "text":
			return block{Type: "text", Text: strings.ToValidUTF8(string(c), "\uFFFD")}, nil
		}
		return p.file(i, name, part.MediaType, c)
	}
	return block{}, a2a.Errorf(a2a.ErrContentTypeNotSupported, "message.parts[%d]: it has no content that can be passed on", i)
}

// file puts content into the session's directory, for an agent that takes it in no other way.
func (p *prompter) file(i int, name, kind string, content []byte) (block, error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return block{}, fmt.Errorf("acp: the session's directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is lost with it
	if err := root.MkdirAll(p.name, 0o700); err != nil {
		return block{}, fmt.Errorf("acp: a file for the agent: %w", err)
	}
	p.made = true
	file := path.Join(p.name, fmt.Sprintf("%d-%s", i, safeName(name)))
	if err := root.WriteFile(file, content, 0o600); err != nil {
		return block{}, fmt.Errorf("acp: a file for the agent: %w", err)
	}
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(p.dir, file))}
	return block{Type: "resource_link", URI: uri.String(), Name: name, MimeType: kind}, nil
}

// clean removes the files.
func (p *prompter) clean() {
	if !p.made {
		return
	}
	if root, err := os.OpenRoot(p.dir); err == nil {
		_ = root.RemoveAll(p.name) // what is left is small and named
		_ = root.Remove(path.Dir(p.name))
		root.Close() //nolint:errcheck // nothing is lost with it
	}
}

// safeName makes a name of a file that is nothing else, of at most 100 bytes.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	return strings.TrimLeft(name[max(0, len(name)-100):], ".")
}

// part returns a block of an agent as a part, nil where it is of an unknown kind.
func (b *block) part() *a2a.Part {
	switch b.Type {
	case "text":
		return a2a.TextPart(b.Text)
	case "image", "audio":
		if raw, err := base64.StdEncoding.DecodeString(b.Data); err == nil {
			return &a2a.Part{Content: a2a.Raw(raw), MediaType: b.MimeType}
		}
	case "resource_link":
		return &a2a.Part{Content: a2a.URL(b.URI), Filename: b.Name, MediaType: b.MimeType}
	case "resource":
		switch r := b.Resource; {
		case r == nil:
		case r.Text != nil:
			return &a2a.Part{Content: a2a.Text(*r.Text), MediaType: r.MimeType, Filename: path.Base(r.URI)}
		default:
			if raw, err := base64.StdEncoding.DecodeString(r.Blob); err == nil {
				return &a2a.Part{Content: a2a.Raw(raw), MediaType: r.MimeType, Filename: path.Base(r.URI)}
			}
		}
	}
	return nil
}
