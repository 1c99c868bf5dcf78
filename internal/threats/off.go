package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// edit takes a control away: in a file of the module the text old, which is there once, becomes with.
type edit struct{ file, old, with string }

// controls has for each row an edit, or a few, without which what the row says is no longer so. It is one of the row's
// controls, not all of them.
var controls = map[string][]edit{
	"A1": {
		{"server/run.go", "if r.known {", "if true {"},
		{"taskstore/memory.go", "	v := s.values[contextID]\n", `	v := s.values[contextID]
	for _, other := range m.scopes {
		if o := other.values[contextID]; o != nil {
			v = o
		}
	}
`},
	},
	"A2":  {{"push/deliver.go", "return p.limit(o.host).Allow()", "return p.limit(o.host).Allow() || true"}},
	"A3":  {{"delegation/client.go", "stripped(given.Header)", "given.Header"}},
	"A4":  {{"approval/approval.go", "if err := q.Within(from); err != nil {", "if err := q.Within(from); false && err != nil {"}},
	"A5":  {{"server/sweep.go", "if err != nil || !snap.Task.Status.State.Interrupted()", "if true || !snap.Task.Status.State.Interrupted()"}},
	"A6":  {{"client/card.go", "case r.Drift:", "case false && r.Drift:"}},
	"A7":  {{"agentcard/verify.go", `if h.jku != "" && h.jku != c.enrolled.URL {`, "if false {"}},
	"A8":  {{"limits/watch.go", "if info == nil || info.Caller.Anonymous() {", "if true {"}},
	"A9":  {{"client/integrity.go", "if !slices.Contains(", "if true || !slices.Contains("}},
	"A10": {{"server/send.go", "case conditional && want", "case false && conditional && want"}},
	"A11": {{"delegation/delegation.go", "case slices.Contains(chain, g.opts.Self):", "case false:"}},
	"B1": {
		{"server/server.go", "	c.info.Activated = nil\n", "	c.info.Activated = nil\n	scopesSeen.Store(c.scope, true)\n"},
		{"server/read.go", "	if errors.Is(err, taskstore.ErrNotFound) {\n		return snap, notFound(id)\n", `	if errors.Is(err, taskstore.ErrNotFound) {
		scopesSeen.Range(func(k, _ any) bool {
			other := k.(taskstore.Scope)
			if other.Agent == c.scope.Agent && other.Tenant == c.scope.Tenant {
				if found, ferr := s.store.Task(ctx, taskstore.Key{Scope: other, Task: id}, 0); ferr == nil {
					snap, err = found, nil
				}
			}
			return err != nil
		})
		if err == nil {
			return snap, nil
		}
		return snap, notFound(id)
`},
		{"server/turns.go", "\ntype turns struct {", "\nvar scopesSeen sync.Map\n\ntype turns struct {"},
	},
	"B2":  {{"internal/netguard/netguard.go", "c); err != nil {", "c); false && err != nil {"}},
	"B3":  {{"auth/client.go", "	list := t.creds.byOrigin[netguard.Origin(r.URL)]\n", "	var list []*bound\n	for _, l := range t.creds.byOrigin {\n		list = append(list, l...)\n	}\n"}},
	"B4":  {{"push/configs.go", `out.Token = ""`, "_ = out.Token"}},
	"B5":  {{"server/retry.go", "if err != nil || sent == nil {", "if sent = nil; sent == nil {"}},
	"B6":  {{"internal/jsonx/read.go", "	if dup {", "	if false && dup {"}},
	"B7":  {{"server/validate.go", "if m.Role != a2a.RoleUser {", "if false {"}},
	"B8":  {{"proxy/card.go", "return hide.ReplaceAllString(s, withheld)", "return s"}},
	"B9":  {{"limits/callers.go", "ok := who.streams < c.opts.Streams", "ok := true"}},
	"B10": {{"server/server.go", `if tenant != "" && tenant != s.cfg.Name {`, "if false {"}},
	"B11": {{"card.go", `if o := r.Header.Get("Origin"); o != "" {`, `if o := r.Header.Get("Origin"); false && o != "" {`}},
}

// overlay writes the changed files into dir, and with them what "go test -overlay" wants to be told.
func overlay(root, dir string, edits []edit) (string, error) {
	replace := map[string]string{}
	for i, e := range edits {
		text, err := e.apply(root)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(e.file))] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, b, 0o600)
}

// apply returns the file with the edit.
func (e edit) apply(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), e.old); n != 1 {
		return "", fmt.Errorf("%s has the control %q %d times: put into internal/threats what it is now", e.file, e.old, n)
	}
	return strings.Replace(string(b), e.old, e.with, 1), nil
}

// switchOff takes the controls of the rows away, one row after the other, and says what their tests make of it: the row's
// have to fail, and those of the root's for other rows must not.
func switchOff(ctx context.Context, out io.Writer, root string, rows []row, ids []string) error {
	chosen, err := pick(rows, ids)
	if err != nil {
		return err
	}
	say := func(args ...any) { _, _ = fmt.Fprintln(out, args...) }
	wrong := 0
	for _, r := range chosen {
		red, others, err := without(ctx, root, r, rows)
		switch {
		case err != nil:
			say(r.id, "off:", err)
		case len(red) == 0:
			say(r.id, "off: NOTHING FAILED")
		case len(others) > 0:
			say(r.id, "off: red", red, "and ALSO", others)
		default:
			say(r.id, "off: red", red)
			continue
		}
		wrong++
	}
	if wrong > 0 {
		return fmt.Errorf("%d rows are not held by their tests, or not by theirs alone", wrong)
	}
	return nil
}

// without runs the tests of a row, and those of the root's for others, without the row's control. It returns which failed.
func without(ctx context.Context, root string, r row, all []row) (red, others []string, err error) {
	if len(controls[r.id]) == 0 {
		return nil, nil, fmt.Errorf("there is no control to take away")
	}
	dir, err := os.MkdirTemp("", "threats")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	file, err := overlay(root, dir, controls[r.id])
	if err != nil {
		return nil, nil, err
	}
	flags := []string{"-overlay", file, "-vet=off", "-timeout", "3m"}
	if r.id != "A8" { // whose tests take their time
		flags = append(flags, "-short")
	}
	ran := []row{r}
	for _, o := range all {
		if o.id != r.id {
			o.tests = slices.DeleteFunc(slices.Clone(o.tests), func(t test) bool {
				return t.dir != "" || !strings.HasPrefix(t.name, "TestThreat") && t.name != "TestForeignTasks"
			})
			ran = append(ran, o)
		}
	}
	var out strings.Builder
	res := newResults(&out)
	_ = runNamed(ctx, root, res, ran, flags...) // what failed is in the results
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	var absent []string
	for i, row := range ran {
		for _, t := range row.tests {
			for _, s := range res.judge(t) {
				switch {
				case s == missing && i > 0:
					return nil, nil, fmt.Errorf("%s did not run: %s", t, out.String())
				case s == missing: // what fails may take the others along
					absent = append(absent, t.String())
				case s == failed && i == 0:
					red = append(red, t.String())
				case s == failed:
					others = append(others, row.id+" "+t.String())
				}
			}
		}
	}
	if len(red) == 0 && len(absent) > 0 {
		return nil, nil, fmt.Errorf("%v did not run: %s", absent, out.String())
	}
	return unique(red), unique(others), nil
}
