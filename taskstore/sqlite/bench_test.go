//go:build unix

package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func BenchmarkTasks(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		for _, kind := range []string{"memory", "full", "normal"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				var s taskstore.Store
				switch kind {
				case "memory":
					s = taskstore.NewMemory(taskstore.MemoryOptions{})
				case "full":
					s = open(b, filepath.Join(b.TempDir(), "a.db"), Options{})
				case "normal":
					s = open(b, filepath.Join(b.TempDir(), "a.db"), Options{Durability: Normal})
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				start := cpu()
				for range n {
					wg.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							oneTask(b, s, newID())
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(cpu()-start)/float64(time.Microsecond)/float64(b.N), "cpu-µs/task")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
				if s, ok := s.(*Store); ok {
					b.ReportMetric(float64(s.transactions.Load())/float64(b.N), "tx/task")
				}
			})
		}
	}
}

// BenchmarkChunks has 16 streams of so many chunks each, with one chunk or several in a change: the cost of a chunk
// does not grow with the task.
func BenchmarkChunks(b *testing.B) {
	for _, c := range []struct{ n, each int }{{100, 1}, {1000, 1}, {10_000, 1}, {1000, 4}, {1000, 16}} {
		for _, kind := range []string{"memory", "full"} {
			b.Run(fmt.Sprintf("%s/%dx%d", kind, c.n, c.each), func(b *testing.B) {
				var s taskstore.Store = taskstore.NewMemory(taskstore.MemoryOptions{})
				if kind == "full" {
					s = openNew(b, Options{})
				}
				chunks := 0
				start := cpu()
				for b.Loop() {
					var wg sync.WaitGroup
					for range 16 {
						wg.Go(func() { stream(b, s, c.n, c.each) })
					}
					wg.Wait()
					chunks += 16 * c.n
				}
				b.ReportMetric(float64(cpu()-start)/float64(time.Microsecond)/float64(chunks), "cpu-µs/chunk")
				b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(chunks), "µs/chunk")
				if s, ok := s.(*Store); ok {
					b.ReportMetric(float64(s.transactions.Load())/float64(chunks), "tx/chunk")
				}
			})
		}
	}
}

// stream writes a task of n chunks.
func stream(b *testing.B, s taskstore.Store, n, each int) {
	k := key(newID())
	r := commit(b, s, taskstore.Change{Key: k, Create: true, Claim: "node", Records: []taskstore.Record{taskRecord(k, now())}})
	for i := 0; i < n; i += each {
		records := make([]taskstore.Record, each)
		for j := range records {
			records[j] = chunkRecord(k, "01234567890123456789012345678901", i+j > 0)
		}
		commit(b, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: records})
	}
	commit(b, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{statusRecord(k, a2a.TaskStateCompleted, now())}})
}

// BenchmarkReads reads from a store with many finished tasks, PARLEY_TASKS if that is set, after it was opened
// anew: first reads come from the file.
func BenchmarkReads(b *testing.B) {
	n := 10_000
	if v := os.Getenv("PARLEY_TASKS"); v != "" {
		n, _ = strconv.Atoi(v)
	}
	path := filepath.Join(b.TempDir(), "a.db")
	s := open(b, path, Options{Durability: Normal})
	ids := make([]string, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				ids[i-1] = newID()
				oneTask(b, s, ids[i-1])
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	half := uuid.MustParse(ids[n/2])
	sec, _ := half.Time().UnixTime()
	middle := time.Unix(sec, 0)
	for _, cache := range []int64{1, 64 << 20} {
		s := open(b, path, Options{CacheBytes: cache})
		list := func(name string, q taskstore.Query) {
			q.Scope, q.PageSize = alice, 50
			b.Run(fmt.Sprintf("%s/cache=%d", name, cache), func(b *testing.B) {
				b.ReportAllocs()
				start := cpu()
				for b.Loop() {
					p, err := s.List(b.Context(), q)
					if err != nil || len(p.Tasks) != 50 {
						b.Fatal(err, len(p.Tasks))
					}
				}
				b.ReportMetric(float64(cpu()-start)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
			})
		}
		list("List", taskstore.Query{HistoryLength: -1})
		list("ListDeep", taskstore.Query{HistoryLength: -1, After: middle})
		list("ListState", taskstore.Query{HistoryLength: -1, Status: a2a.TaskStateCompleted})
		b.Run(fmt.Sprintf("Task/cache=%d", cache), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			start := cpu()
			for b.Loop() {
				if _, err := s.Task(b.Context(), key(ids[rng.IntN(n)]), 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-start)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
		})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExpire has a steady load of commits, with and without Expire deleting finished tasks beside, PARLEY_TASKS
// or 10,000 of them.
func BenchmarkExpire(b *testing.B) {
	n := 10_000
	if v := os.Getenv("PARLEY_TASKS"); v != "" {
		n, _ = strconv.Atoi(v)
	}
	for b.Loop() {
		s := openNew(b, Options{})
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 256 {
			wg.Go(func() {
				for next.Add(1) <= int64(n) {
					oneTask(b, s, newID())
				}
			})
		}
		wg.Wait()
		begin := time.Now()
		stop := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(stop) })
		p50, p99, most := latencies(b, s, stop)
		b.ReportMetric(p50, "alone-p50-µs")
		b.ReportMetric(p99, "alone-p99-µs")
		b.ReportMetric(most, "alone-max-µs")

		stop = make(chan struct{})
		deleted := 0
		wg.Go(func() {
			defer close(stop)
			for {
				e, err := s.Expire(b.Context(), taskstore.Retention{Tasks: begin, Limit: 1000})
				if err != nil {
					b.Error(err)
				}
				if deleted += e.Tasks; !e.More || err != nil {
					return
				}
			}
		})
		start := time.Now()
		p50, p99, most = latencies(b, s, stop)
		wg.Wait()
		b.ReportMetric(p50, "beside-p50-µs")
		b.ReportMetric(p99, "beside-p99-µs")
		b.ReportMetric(most, "beside-max-µs")
		b.ReportMetric(float64(deleted)/time.Since(start).Seconds(), "deleted/s")
		if deleted != n {
			b.Errorf("%d tasks were deleted", deleted)
		}
	}
}

// latencies has 16 tasks at work with 20 commits a second each, until stop, and returns the median, the 99th
// percentile and the largest of what a commit took, in microseconds.
func latencies(b *testing.B, s *Store, stop <-chan struct{}) (p50, p99, most float64) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []time.Duration
	for range 16 {
		wg.Go(func() {
			k := key(newID())
			r := commit(b, s, taskstore.Change{Key: k, Create: true, Claim: "node", Records: []taskstore.Record{taskRecord(k, now())}})
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for more := false; ; more = true {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				start := time.Now()
				commit(b, s, taskstore.Change{Key: k, Epoch: r.Epoch, Records: []taskstore.Record{chunkRecord(k, "0123456789", more)}})
				d := time.Since(start)
				mu.Lock()
				all = append(all, d)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return us(all[len(all)/2]), us(all[len(all)*99/100]), us(all[len(all)-1])
}
