package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// childEnv has this program write to loadFile, in its folder, instead of running tests.
const (
	childEnv = "PARLEY_SQLITE_LOAD"
	loadFile = "a.db"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := load(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// load writes tasks until it is killed, and one line to the standard output for every commit that was
// acknowledged: the task's id, the generation, and what was committed.
func load() error {
	s, err := Open(context.Background(), loadFile, Options{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range 32 {
		go func() {
			for {
				if err := loadTask(s, newID()); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func loadTask(s *Store, id string) error {
	k := key(id)
	var epoch int64
	commit := func(what string, c taskstore.Change) error {
		c.Key = k
		if !c.Create {
			c.Epoch = epoch
		}
		r, err := s.Commit(context.Background(), c)
		if err != nil {
			return err
		}
		epoch = r.Epoch
		_, err = fmt.Fprintf(os.Stdout, "%s %d %s\n", id, r.Generation, what)
		return err
	}
	now := now()
	first := taskRecord(k, now)
	first.Request = []byte("request of " + id)
	err := commit("create", taskstore.Change{
		Create: true, Claim: "node", Sent: testSent("m-" + id), Webhook: testWebhook("w", "r-"+id),
		Records: []taskstore.Record{first, statusRecord(k, a2a.TaskStateWorking, now)},
	})
	for i := range rand.IntN(6) {
		if err == nil {
			err = commit("chunk", taskstore.Change{Records: []taskstore.Record{chunkRecord(k, fmt.Sprint(i+3, ";"), i > 0)}})
		}
	}
	if err == nil {
		err = commit("values", taskstore.Change{Values: map[string]string{"task": id}})
	}
	if err == nil {
		h := testWebhook("w", "r-"+id)
		h.Delivered, h.Begun, h.Due, h.Attempts, h.Failure = 2, true, now, 1, "refused"
		err = commit("delivered", taskstore.Change{Delivered: h})
	}
	if err == nil {
		only := taskstore.Change{Key: taskstore.Key{Scope: alice}, Sent: testSent("only-" + id)}
		if _, err = s.Commit(context.Background(), only); err == nil {
			_, err = fmt.Fprintf(os.Stdout, "%s 0 sent\n", id)
		}
	}
	if err != nil {
		return err
	}
	switch rand.IntN(3) {
	case 0:
		return commit("latch", taskstore.Change{Latch: true})
	case 1:
		return commit("park", taskstore.Change{Release: true, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateInputRequired, now)}})
	default:
		return commit("complete", taskstore.Change{Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCompleted, now)}})
	}
}

// acknowledged is what the child said of a task.
type acknowledged struct {
	generation int64
	what       []string
}

// TestKill kills a process in the middle of its commits, again and again on the same file, and looks for every
// commit that it had acknowledged.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	const rounds = 6
	commits := 0
	all := map[string]*acknowledged{}
	for round := range rounds {
		said := killed(t, dir, 200+rand.IntN(800))
		for _, a := range said {
			commits += len(a.what)
		}
		maps.Copy(all, said)
		if round == rounds-1 { // what earlier rounds wrote outlives every later crash
			said = all
		}
		s := open(t, filepath.Join(dir, loadFile), Options{})
		lost := audit(t, s, said)
		t.Logf("round %d: %d tasks and %d commits acknowledged so far, %d tasks looked at, %d of them lost something", round, len(all), commits, len(said), lost)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if wrong, err := Check(t.Context(), s.path, nil); err != nil || len(wrong) > 0 {
			t.Errorf("round %d: Check: %q, %v", round, wrong, err)
		}
	}
}

// killed starts the load, kills it after about n lines, and returns all that it said.
func killed(t *testing.T, dir string, n int) map[string]*acknowledged {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[string]*acknowledged{}
	in := bufio.NewReader(out)
	for i := 0; ; i++ {
		line, err := in.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break // a line that was cut is no acknowledgement
		}
		f := strings.Fields(line)
		a := said[f[0]]
		if a == nil {
			a = new(acknowledged)
			said[f[0]] = a
		}
		g, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		a.generation = max(a.generation, g)
		a.what = append(a.what, f[2])
		if i == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the load ended by itself: %v", cmd.ProcessState)
	}
	return said
}

// audit looks for everything that was acknowledged and returns how many tasks miss something.
func audit(t *testing.T, s *Store, all map[string]*acknowledged) (lost int) {
	for id, a := range all {
		if err := auditTask(t, s, id, a); err != nil {
			t.Errorf("task %s: %v", id, err)
			if lost++; lost > 10 {
				t.Fatal("and more")
			}
		}
	}
	return lost
}

func auditTask(t *testing.T, s *Store, id string, a *acknowledged) error {
	log, err := s.Entries(t.Context(), key(id), 0, 1000)
	if err != nil {
		return err
	}
	var st taskstore.State
	text := ""
	for i, r := range log {
		if r.Generation != int64(i+1) {
			return fmt.Errorf("record %d has the generation %d", i, r.Generation)
		}
		if ev, ok := r.Event.(*a2a.TaskArtifactUpdateEvent); ok {
			text += ev.Artifact.Text()
			if want := fmt.Sprint(r.Generation, ";"); ev.Artifact.Text() != want {
				return fmt.Errorf("chunk %d is %q", r.Generation, ev.Artifact.Text())
			}
		}
		st.Apply(r)
	}
	if st.Generation < a.generation {
		return fmt.Errorf("the log ends at %d, %d was acknowledged", st.Generation, a.generation)
	}
	snap, err := s.Task(t.Context(), key(id), 0)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(&st.Task, snap.Task); diff != "" || snap.Generation != st.Generation || snap.StatusGeneration != st.StatusGeneration {
		return fmt.Errorf("the task is not its log:\n%s", diff)
	}
	if text != "" && snap.Task.Artifacts[0].Text() != text {
		return fmt.Errorf("the artifact is %q, want %q", snap.Task.Artifacts[0].Text(), text)
	}
	values, err := s.Values(t.Context(), alice, "c-"+id)
	if err != nil {
		return err
	}
	state := snap.Task.Status.State
	hooks, err := s.Webhooks(t.Context(), key(id))
	if err != nil {
		return err
	}
	taken, err := s.Sent(t.Context(), alice, "m-"+id)
	if err != nil {
		return err
	}
	only, err := s.Sent(t.Context(), alice, "only-"+id)
	if err != nil {
		return err
	}
	whole := len(hooks) == 1 && hooks[0].Registration == "r-"+id && hooks[0].Config.URL == testWebhook("w", "").Config.URL
	for what, ok := range map[string]bool{
		"create": snap.Epoch == 1 && (snap.Node != "" || state != a2a.TaskStateWorking) && whole &&
			string(log[0].Request) == "request of "+id && taken != nil && taken.Task == id && taken.Generation == 2,
		"values":    values["task"] == id,
		"delivered": whole && hooks[0].Begun && hooks[0].Failure == "refused" && hooks[0].Delivered == 2,
		"sent":      only != nil && only.Hash == testSent("only-"+id).Hash,
		"latch":     snap.Latched,
		"park":      state == a2a.TaskStateInputRequired && snap.Node == "",
		"complete":  state == a2a.TaskStateCompleted && snap.Node == "",
	} {
		if !ok && slices.Contains(a.what, what) {
			return fmt.Errorf("%s was acknowledged: %v %+v %v", what, state, snap, values)
		}
	}
	return nil
}

// checkCounters compares the counters with the tasks.
func checkCounters(t *testing.T, s *Store) {
	t.Helper()
	for name, q := range countersWrong {
		var wrong int64
		err := s.read(t.Context(), func(c *conn) error {
			return c.ask(t.Context(), q, readInt(&wrong))
		})
		if err != nil {
			t.Fatal(err)
		}
		if wrong != 0 {
			t.Errorf("%d counters of %s are wrong", wrong, name)
		}
	}
}

// TestReopen finds everything again after Close and in a copy of the files of a store that was not closed.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	s := open(t, path, Options{})
	ids := make([]string, 20)
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = newID()
		wg.Go(func() {
			if i%2 == 0 {
				oneTask(t, s, ids[i])
				return
			}
			k := key(ids[i])
			r := commit(t, s, taskstore.Change{Key: k, Create: true, Claim: "node", Records: []taskstore.Record{taskRecord(k, now())}})
			commit(t, s, taskstore.Change{Key: k, Epoch: r.Epoch, Values: map[string]string{"task": ids[i]}, Latch: true})
		})
	}
	wg.Wait()
	read := func(s *Store) (out []any) {
		for _, id := range ids {
			snap, err := s.Task(t.Context(), key(id), 0)
			out = append(out, id, snap, err)
			values, err := s.Values(t.Context(), alice, "c-"+id)
			out = append(out, values, err)
		}
		page, err := s.List(t.Context(), taskstore.Query{Scope: alice, PageSize: 100, HistoryLength: -1, Artifacts: true})
		out = append(out, page, err)
		n, err := s.Count(t.Context(), alice, a2a.TaskStateSubmitted, a2a.TaskStateCompleted)
		return append(out, n, err)
	}
	before := read(s)

	// The files as they are, as after the end of the process: a program of its own copies them, because to
	// open and close them here would end SQLite's locks.
	crashed := filepath.Join(dir, "crashed.db")
	for _, suffix := range []string{"", "-wal"} {
		if out, err := exec.CommandContext(t.Context(), "cp", path+suffix, crashed+suffix).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"closed": path, "crashed": crashed} {
		s := open(t, path, Options{})
		if diff := cmp.Diff(before, read(s), cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
			t.Errorf("%s: something else was read after it was opened anew:\n%s", name, diff)
		}
		checkCounters(t, s)
		for i, id := range ids { // the rules go on where they were
			if i%2 == 0 {
				if _, err := s.Commit(t.Context(), taskstore.Change{Key: key(id), Claim: "n"}); !errors.Is(err, taskstore.ErrTerminal) {
					t.Errorf("%s: Claim of a finished task: %v", name, err)
				}
				continue
			}
			c := taskstore.Change{Key: key(id), Epoch: 1, Records: []taskstore.Record{statusRecord(key(id), a2a.TaskStateCompleted, now())}}
			if _, err := s.Commit(t.Context(), c); !errors.Is(err, taskstore.ErrLatched) {
				t.Errorf("%s: COMPLETED after a latch: %v", name, err)
			}
		}
		oneTask(t, s, newID())
	}
}
