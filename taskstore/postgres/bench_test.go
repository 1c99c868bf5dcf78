//go:build unix

package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// cpu is what this process has used.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// cpu is what the server's processes have used, 0 where /proc does not tell.
func (c *cluster) cpu() (used time.Duration) {
	b, _ := os.ReadFile(filepath.Join(c.Data(), "postmaster.pid"))
	postmaster, _, _ := strings.Cut(string(b), "\n")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		if len(f) < 15 || f[1] != postmaster && filepath.Base(filepath.Dir(name)) != postmaster {
			continue
		}
		for _, ticks := range f[11:13] {
			n, _ := strconv.Atoi(ticks)
			used += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return used
}

// BenchmarkTasks writes whole tasks, as the server does for a SendMessage, in one run on each of the stores.
func BenchmarkTasks(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		for _, kind := range []string{"memory", "sqlite", "postgres", "postgres-2-nodes"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				var stores []taskstore.Store
				var pg *Store
				switch kind {
				case "memory":
					stores = append(stores, taskstore.NewMemory(taskstore.MemoryOptions{}))
				case "sqlite":
					s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "a.db"), sqlite.Options{Log: quiet})
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					stores = append(stores, s)
				case "postgres":
					pg = openNew(b, Options{})
					stores = append(stores, pg)
				default:
					pg = openNew(b, Options{})
					stores = append(stores, pg, open(b, pg.pool.Config().ConnString(), Options{}))
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				start := cpu()
				serverStart := time.Duration(0)
				if pg != nil {
					serverStart = server.cpu()
				}
				b.ResetTimer()
				for w := range n {
					wg.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							oneTask(b, stores[w%len(stores)], newID())
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(cpu()-start)/float64(time.Microsecond)/float64(b.N), "cpu-µs/task")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
				if pg != nil {
					b.ReportMetric(float64(server.cpu()-serverStart)/float64(time.Microsecond)/float64(b.N), "server-cpu-µs/task")
				}
			})
		}
	}
}

// oneTask writes what the server writes for a SendMessage: task and WORKING in one change, an artifact,
// COMPLETED; and reads the end.
func oneTask(tb testing.TB, s taskstore.Store, id string) {
	k := key(id)
	now := now()
	r, err := s.Commit(tb.Context(), taskstore.Change{Key: k, Create: true, Claim: "node", Records: []taskstore.Record{
		taskRecord(k, now), statusRecord(k, a2a.TaskStateWorking, now),
	}})
	if err == nil {
		_, err = s.Commit(tb.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, "0123456789", false)}})
	}
	if err == nil {
		r, err = s.Commit(tb.Context(), taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCompleted, now)}})
	}
	if err == nil {
		_, err = s.Task(tb.Context(), k, r.Generation)
	}
	if err != nil {
		tb.Error(err)
	}
}

// BenchmarkHint is the time from a commit on one node to the record on another.
func BenchmarkHint(b *testing.B) {
	c := need(b)
	url := c.URL(c.Dir, c.database(b))
	one, two := open(b, url, Options{}), open(b, url, Options{})
	fl := taskstore.NewFollower(two, time.Second)
	defer fl.Close(context.Canceled)
	r := begin(b, one, "t", "node")
	got := make(chan struct{})
	go func() {
		for _, err := range fl.Follow(b.Context(), key("t"), 2) {
			if err != nil {
				return
			}
			got <- struct{}{}
		}
	}()
	commit(b, one, chunk("t", r.Epoch, "x")) // by the poll: LISTEN may not have begun
	<-got
	for b.Loop() {
		commit(b, one, chunk("t", r.Epoch, "x"))
		<-got
	}
}
