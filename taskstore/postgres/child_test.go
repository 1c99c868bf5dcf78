//go:build unix

package postgres

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// childURL has the test binary be a node on this database instead of running tests.
const childURL = "PARLEY_TEST_CHILD"

// child makes tasks until it is killed, and says which are recorded.
func child(url string) {
	ctx := context.Background()
	s, err := Open(ctx, url, Options{Log: quiet})
	if err == nil {
		_, err = s.Join(ctx, "child")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	for range 16 {
		go func() {
			for {
				k := key(newID())
				_, err := s.Commit(ctx, taskstore.Change{Key: k, Create: true, Claim: "child", Records: []taskstore.Record{
					taskRecord(k, now()), statusRecord(k, a2a.TaskStateWorking, now()),
				}})
				if err == nil {
					_, err = s.Commit(ctx, chunk(k.Task, 1, "1"))
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				_, _ = os.Stdout.WriteString(k.Task + "\n")
				mu.Unlock()
			}
		}()
	}
	select {}
}

// TestKill kills a node in the middle of its work: what it acknowledged is there, and another node gets all of it.
func TestKill(t *testing.T) {
	c := need(t)
	url := c.URL(c.Dir, c.database(t))
	s := open(t, url, Options{})
	join(t, s, "me")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if acknowledged = append(acknowledged, lines.Text()); len(acknowledged) == 300 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	killed := time.Now()
	if len(acknowledged) < 300 {
		t.Fatalf("the node ended by itself after %d tasks", len(acknowledged))
	}
	for _, id := range acknowledged {
		if snap := task(t, s, id); snap.Generation != 3 || snap.Task.Artifacts[0].Text() != "1" || snap.Node != "child" {
			t.Fatalf("task %s was acknowledged, and is %+v", id, snap)
		}
	}
	var found []string
	for tick := time.NewTicker(200 * time.Millisecond); len(found) == 0; <-tick.C {
		if time.Since(killed) > 15*time.Second {
			t.Fatal("its tasks are not found within 15 s")
		}
		found = unsettled(t, s, "me")
	}
	for len(found) > 0 {
		for _, id := range found {
			if i := slices.Index(acknowledged, id); i >= 0 {
				acknowledged = slices.Delete(acknowledged, i, i+1)
			}
			commit(t, s, taskstore.Change{Key: key(id), Claim: "me", Seize: "child", Records: []taskstore.Record{statusRecord(key(id), a2a.TaskStateFailed, now())}})
		}
		found = unsettled(t, s, "me")
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d tasks of the node were not found", len(acknowledged))
	}
	counted(t, s)
}
