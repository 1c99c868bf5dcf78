package telemetry_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/telemetry"
)

// exported returns the names that a package declares at its top and for which want holds.
func exported(t *testing.T, dir string, want func(ast.Spec) []string) (names []string) {
	t.Helper()
	pkgs, err := parser.ParseDir(token.NewFileSet(), dir, nil, 0) //nolint:staticcheck // one package without build tags
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range pkgs {
		for name, file := range pkg.Files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, d := range file.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					for _, spec := range g.Specs {
						names = append(names, want(spec)...)
					}
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
	slices.Sort(names)
	return names
}

// asked has every optional interface and keeps what it was asked.
type asked struct {
	agent.Agent
	what []string
}

func (a *asked) Accept(context.Context, *agent.Request) (*a2a.Message, error) {
	a.what = append(a.what, "Accept")
	return &a2a.Message{MessageID: "m"}, a2a.ErrUnsupportedOperation
}

func (a *asked) Canceled(_ context.Context, task *a2a.Task) {
	a.what = append(a.what, "Canceled "+task.ID)
}

func (a *asked) Restartable() bool {
	a.what = append(a.what, "Restartable")
	return true
}

// TestOptionalInterfaces: an agent answers after it was wrapped as before, also for what it does not have.
func TestOptionalInterfaces(t *testing.T) {
	known := []string{"Accepter", "Agent", "Canceler", "Restartable", "Sink"}
	got := exported(t, "../agent", func(s ast.Spec) []string {
		if ts, ok := s.(*ast.TypeSpec); ok {
			if _, ok := ts.Type.(*ast.InterfaceType); ok {
				return []string{ts.Name.Name}
			}
		}
		return nil
	})
	if diff := cmp.Diff(known, got); diff != "" {
		t.Errorf("package agent has other interfaces than telemetry.Agent knows; one that agents may implement needs a method there, then name it here:\n%s", diff)
	}
	type full interface {
		agent.Agent
		agent.Accepter
		agent.Canceler
		agent.Restartable
	}
	bare := telemetry.Agent(agent.Func(nil), telemetry.Options{}).(full)
	bare.Canceled(t.Context(), &a2a.Task{})
	if m, err := bare.Accept(t.Context(), &agent.Request{}); m != nil || err != nil || bare.Restartable() {
		t.Errorf("an agent that has nothing: Accept %v, %v, Restartable %v", m, err, bare.Restartable())
	}
	next := &asked{}
	has := telemetry.Agent(next, telemetry.Options{}).(full)
	has.Canceled(t.Context(), &a2a.Task{ID: "t"})
	m, err := has.Accept(t.Context(), &agent.Request{})
	if m == nil || !errors.Is(err, a2a.ErrUnsupportedOperation) || !has.Restartable() {
		t.Errorf("an agent that has all: Accept %v, %v", m, err)
	}
	if want := []string{"Canceled t", "Accept", "Restartable"}; !slices.Equal(next.what, want) {
		t.Errorf("asked %v, want %v", next.what, want)
	}
}

func TestRuns(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(agent.ErrCanceled)
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("a restart"))
	for name, c := range map[string]struct {
		ctx     context.Context
		err     error
		outcome string
	}{
		"fine":               {outcome: "ok"},
		"an error":           {err: errors.New("canary"), outcome: "INTERNAL_ERROR"},
		"an error of ours":   {err: a2a.Errorf(a2a.ErrUnavailable, "canary"), outcome: "UNAVAILABLE"},
		"canceled":           {ctx: canceled, err: context.Canceled, outcome: "CANCELED"},
		"canceled, no error": {ctx: canceled, outcome: "CANCELED"},
		"ended by the host":  {ctx: stopped, err: context.Canceled, outcome: "INTERRUPTED"},
		"a panic":            {err: errPanic, outcome: "INTERNAL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			s := newSignals()
			a := telemetry.Agent(agent.Func(func(context.Context, *agent.Request, *agent.Updater) error {
				if n := s.values(t, "a2a.agent.active_runs"); n[""] != 1 {
					t.Errorf("active runs %v, want 1", n)
				}
				if errors.Is(c.err, errPanic) {
					panic(c.err)
				}
				return c.err
			}), s.Options)
			err := func() (err error) {
				defer func() {
					if v := recover(); v != nil {
						err = v.(error)
					}
				}()
				return a.Handle(ctx, &agent.Request{Task: &a2a.Task{ID: "t", ContextID: "c"}}, nil)
			}()
			if err != c.err { //nolint:errorlint // it must be the same
				t.Errorf("error %v, want %v", err, c.err)
			}
			if got := s.values(t, "a2a.agent.run.duration"); got[c.outcome] != 1 || len(got) != 1 {
				t.Errorf("counted as %v, want %s", got, c.outcome)
			}
			if got := s.values(t, "a2a.agent.active_runs"); got[""] != 0 {
				t.Errorf("active runs %v, want 0", got)
			}
			span := attributes(s.span(t, "Handle").Attributes())
			if span["a2a.task.id"] != "t" || span["a2a.context.id"] != "c" || span["a2a.outcome"] != c.outcome {
				t.Errorf("span %v", span)
			}
			if sp := s.span(t, "Handle"); sp.Status().Description != "" || len(sp.Events()) > 0 {
				t.Errorf("the span says %+v %+v", sp.Status(), sp.Events())
			}
		})
	}
}

var errPanic = errors.New("canary")
