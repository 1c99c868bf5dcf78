package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley/a2a"
)

// downloadCommand saves what a task made (specification 7.1).
type downloadCommand struct {
	id        string
	dir       string
	artifacts []string
	overwrite bool
}

func (a *app) taskDownload() *cobra.Command {
	c := new(downloadCommand)
	cmd := &cobra.Command{
		Use:   "download TASK_ID",
		Short: "Save a task's artifacts as files",
		Long: `Save a task's artifacts as files: each text, file and data part one. Names that an
agent gives are made safe, and stay inside the folder. What an agent only links to
is named and not fetched.`,
		Example: `  parley task download TASK_ID --dir results
  parley task download TASK_ID --artifact report --overwrite`,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&c.dir, "dir", ".", "folder for the files; it is made where it is missing (`DIR`)")
	fs.StringArrayVar(&c.artifacts, "artifact", nil, "only this artifact, by its `ID` or name; repeatable")
	fs.BoolVar(&c.overwrite, "overwrite", false, "replace files that are there already")
	return a.client(cmd, c)
}

func (c *downloadCommand) check(cmd *cobra.Command, _ *clientFlags, args []string) (err error) {
	if c.dir == "" {
		return usage("--dir is empty: name a folder")
	}
	c.id, err = oneID(cmd, args)
	return err
}

func (c *downloadCommand) run(ctx context.Context, s *session) error {
	s.taskID = c.id
	ctx, err := s.connect(ctx)
	if err != nil {
		return err
	}
	none := int32(0)
	task, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: c.id, HistoryLength: &none})
	if err != nil {
		return err
	}
	artifacts, err := c.choose(task)
	if err != nil {
		return err
	}
	files, links := filesOf(artifacts)
	if err := c.save(ctx, s, files); err != nil {
		return err
	}
	for _, link := range links {
		s.warn("not fetched: %s", link)
	}
	if len(files) == 0 {
		s.warn("the task has nothing to save")
	}
	if !settled(task.Status.State) {
		s.warn("the task goes on: there may be more to come")
	}
	if s.json {
		for _, f := range files {
			s.note("Saved: " + f.String())
		}
		return s.line(task.AppendJSON(nil))
	}
	return s.print(func(t *text) {
		t.header(task.ID, task.ContextID, task.Status, s.resume(task))
		for _, f := range files {
			t.field("Saved", f.String())
		}
	})
}

// choose returns the artifacts that were asked for.
func (c *downloadCommand) choose(task *a2a.Task) ([]*a2a.Artifact, error) {
	if c.artifacts == nil {
		return task.Artifacts, nil
	}
	var out []*a2a.Artifact
	for _, name := range c.artifacts {
		n := len(out)
		for _, a := range task.Artifacts {
			if a.ArtifactID == name || a.Name == name {
				out = append(out, a)
			}
		}
		if len(out) == n {
			var names []string
			for _, a := range task.Artifacts {
				names = append(names, cmp.Or(a.Name, a.ArtifactID))
			}
			return nil, usage("--artifact %q: the task has %s", name, cmp.Or(strings.Join(names, ", "), "no artifact"))
		}
	}
	return out, nil
}

// savedFile is a file that a task's artifact is saved as.
type savedFile struct {
	name      string // in its folder, and safe
	path      string // with the folder, once it is saved
	mediaType string
	content   []byte
}

func (f *savedFile) String() string {
	return f.path + inParentheses(f.mediaType, fmt.Sprintf("%d bytes", len(f.content)))
}

// filesOf returns a file for each part of the artifacts, texts that follow one another being one, and in words what they
// link to.
func filesOf(artifacts []*a2a.Artifact) (files []*savedFile, links []string) {
	for _, a := range artifacts {
		var text *savedFile // the last part's, where it is a text without a name of its own
		for _, p := range a.Parts {
			f := &savedFile{name: p.Filename, mediaType: p.MediaType}
			switch c := p.Content.(type) {
			case a2a.Text:
				if text != nil && p.Filename == "" {
					text.content = append(text.content, c...)
					continue
				}
				f.content, f.mediaType = []byte(c), cmp.Or(p.MediaType, "text/plain")
			case a2a.Data:
				f.content, f.mediaType = c, cmp.Or(p.MediaType, "application/json")
			case a2a.Raw:
				f.content = c
			case a2a.URL:
				links = append(links, fileName(p)+inParentheses(p.MediaType)+" at "+string(c))
				text = nil
				continue
			default:
				continue // nothing in it
			}
			f.name = safeName(cmp.Or(p.Filename, cmp.Or(a.Name, a.ArtifactID, "artifact")+extension(f.mediaType)))
			files = append(files, f)
			text = nil
			if _, ok := p.Content.(a2a.Text); ok && p.Filename == "" {
				text = f
			}
		}
	}
	apart(files)
	return files, links
}

// apart gives files of the same name different ones, also where the file system does not tell capitals apart.
func apart(files []*savedFile) {
	taken := map[string]bool{}
	for _, f := range files {
		ext := filepath.Ext(f.name)
		stem := strings.TrimSuffix(f.name, ext)
		for n := 2; taken[strings.ToLower(f.name)]; n++ {
			f.name = fmt.Sprintf("%s-%d%s", stem, n, ext)
		}
		taken[strings.ToLower(f.name)] = true
	}
}

// extensions are those of the types that artifacts mostly have; the system's table differs from machine to machine.
var extensions = map[string]string{
	"text/plain": ".txt", "text/markdown": ".md", "text/html": ".html", "text/csv": ".csv", "application/json": ".json",
	"application/pdf": ".pdf", "application/xml": ".xml", "image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg",
}

// extension returns the end of a name for a media type.
func extension(mediaType string) string {
	essence, _, _ := strings.Cut(mediaType, ";")
	return cmp.Or(extensions[strings.ToLower(strings.TrimSpace(essence))], ".bin")
}

// maxName is how many bytes of a name are kept: file systems take 255.
const maxName = 200

// deviceNames are no names of files on Windows, whatever their extension.
var deviceNames = []string{
	"CON", "PRN", "AUX", "NUL", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9",
	"LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9",
}

// safeName makes the name of a file of what an agent says: without folders, not hidden, and harmless on every system.
func safeName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if hidden(r) || r == '\t' || r == utf8.RuneError || strings.ContainsRune(`<>:"|?*`, r) {
			return '_'
		}
		return r
	}, name)
	name = strings.TrimRight(strings.TrimSpace(name), ". ")
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") { // hidden, or a flag to the next command
		name = "_" + name[1:]
	}
	stem, _, _ := strings.Cut(name, ".")
	if slices.Contains(deviceNames, strings.ToUpper(strings.TrimSpace(stem))) {
		name = "_" + name
	}
	if len(name) > maxName {
		ext := filepath.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		cut := maxName - len(ext)
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + ext
	}
	return cmp.Or(name, "unnamed")
}

// save writes the files into the folder. Unless they may be replaced none is written where one is there already.
func (c *downloadCommand) save(ctx context.Context, s *session, files []*savedFile) error {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o750); err != nil {
		return usage("--dir: %s", err.Error())
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return usage("--dir: %s", err.Error())
	}
	defer func() { _ = root.Close() }() // what was written is closed
	for _, f := range files {
		f.path = filepath.Join(c.dir, f.name)
		if _, err := root.Lstat(f.name); err == nil && !c.overwrite {
			f := usage("%s is there already", f.path)
			f.hint = "--overwrite replaces it, --dir names another folder"
			return f
		}
	}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.bar.show(fmt.Sprintf("Saving %d of %d: %s", i+1, len(files), f.path), false)
		if err := c.write(root, f); err != nil {
			return fail(errInternal, "", "%s could not be saved: %s", f.path, err.Error())
		}
	}
	return nil
}

func (c *downloadCommand) write(root *os.Root, f *savedFile) error {
	if c.overwrite {
		if err := root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w, err := root.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(f.content)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = root.Remove(f.name) // half a file is none
	}
	return err
}
