package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/internal/child"
)

// testRun is one run of a repository's tests, in a scratch folder that is removed after it.
type testRun struct {
	job
	source  string
	scratch string
	limits  limits
	u       *agent.Updater
	log     bounded
	count   atomic.Value // string: how far the tests are
}

// do opens the repository and runs its tests. Tests that fail are no error.
func (r *testRun) do(ctx context.Context) (*summary, error) {
	r.log.limit = r.limits.log
	if err := r.u.Progress(a2a.TextPart("opening " + r.Repository + " at " + r.Commit)); err != nil {
		return nil, err
	}
	dir := filepath.Join(r.scratch, "repository")
	commit, err := r.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := &summary{Repository: r.Repository, Commit: commit, Failures: []failure{}}
	if err := r.u.Progress(a2a.TextPart("running the tests at " + commit[:12])); err != nil {
		return nil, err
	}
	defer r.tell()()
	start := time.Now()
	err = r.test(ctx, dir, s)
	s.Seconds = time.Since(start).Round(time.Millisecond).Seconds()
	return s, err
}

// open checks the commit out in dir and returns its full id.
func (r *testRun) open(ctx context.Context, dir string) (string, error) {
	if _, err := r.program(ctx, r.scratch, nil, "git", "clone", "--quiet", "--no-checkout", "--no-hardlinks", r.source, dir); err != nil {
		return "", fmt.Errorf("the repository %s could not be opened", r.Repository)
	}
	for _, name := range []string{r.Commit, "origin/" + r.Commit} {
		out, err := r.program(ctx, dir, nil, "git", "rev-parse", "--quiet", "--verify", "--end-of-options", name+"^{commit}")
		if err != nil {
			continue
		}
		commit := strings.TrimSpace(out)
		if _, err := r.program(ctx, dir, nil, "git", "checkout", "--quiet", "--detach", commit); err != nil {
			return "", fmt.Errorf("the commit %s could not be checked out", r.Commit)
		}
		return commit, nil
	}
	return "", fmt.Errorf("the repository %s has no commit %s", r.Repository, r.Commit)
}

// test runs the tests by what the repository is made with.
func (r *testRun) test(ctx context.Context, dir string, s *summary) error {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			_, err := os.Stat(filepath.Join(dir, n))
			return err == nil
		})
	}
	switch {
	case has("go.mod"):
		return r.goTest(ctx, dir, s)
	case has("pyproject.toml", "pytest.ini", "setup.py", "setup.cfg", "tox.ini"):
		return r.pytest(ctx, dir, s)
	case has("package.json"):
		return r.npmTest(ctx, dir, s)
	}
	return errors.New("there is no go.mod, pyproject.toml or package.json at the top of the repository: I know no other tests")
}

// program runs a program in dir, until ctx ends. each reads what it writes; where each is nil, it is returned. The error
// says that it could not run, or how it ended.
func (r *testRun) program(ctx context.Context, dir string, each func(io.Reader) error, args ...string) (string, error) {
	p, err := child.Start(child.Program{
		Args: args, Dir: dir, Memory: r.limits.memory,
		Env: child.Environment("GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOFLAGS",
			"PIP_*", "npm_config_*", "NODE_EXTRA_CA_CERTS",
			"TMPDIR="+r.scratch, "CI=1", "GIT_TERMINAL_PROMPT=0", "PYTHONDONTWRITEBYTECODE=1"),
	})
	if err != nil {
		return "", err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, p.Stop)()
	_ = p.Stdin.Close()
	var out bounded
	out.limit = 64 << 10
	if each == nil {
		_, err = io.Copy(&out, p.Stdout)
	} else {
		err = each(p.Stdout)
	}
	if err != nil {
		p.Close()
	}
	if end := p.Err(); err == nil {
		err = end
	}
	if tail := p.Tail(); tail != "" {
		_, _ = r.log.Write([]byte(tail + "\n"))
	}
	if errors.Is(err, child.ErrMemory) {
		err = fmt.Errorf("the tests used more than %d MiB of memory", r.limits.memory>>20)
	}
	return out.String(), err
}

// testsFailed reports whether a program has ended in the way that says so, and nothing worse.
func testsFailed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

// bounded keeps the first and the last half of what is written to it.
type bounded struct {
	limit      int
	head, tail []byte
	lost       int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.limit/2 - len(b.head); room > 0 {
		k := min(room, len(p))
		b.head, p = append(b.head, p[:k]...), p[k:]
	}
	b.tail = append(b.tail, p...)
	if more := len(b.tail) - b.limit/2; more > b.limit/2 { // not for every line
		b.tail, b.lost = append(b.tail[:0], b.tail[more:]...), b.lost+more
	}
	return n, nil
}

func (b *bounded) String() string {
	tail, lost := b.tail, b.lost
	if more := len(tail) - b.limit/2; more > 0 {
		tail, lost = tail[more:], lost+more
	}
	if lost == 0 {
		return string(b.head) + string(tail)
	}
	return fmt.Sprintf("%s\n[%d bytes are left out]\n%s", b.head, lost, tail)
}
