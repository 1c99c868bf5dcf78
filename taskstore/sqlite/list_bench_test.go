//go:build unix

package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// BenchmarkListBusy reads a page and its total where the counters of whole hours help least: so many tasks ended
// within one hour, at its middle, and a tenth of them are in one context.
func BenchmarkListBusy(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		s := open(b, filepath.Join(b.TempDir(), "a.db"), Options{Durability: Normal})
		hour := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Hour)
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 256 {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					busyTask(b, s, i, hour.Add(time.Hour/time.Duration(n+1)*time.Duration(i)))
				}
			})
		}
		wg.Wait()
		for _, c := range []struct {
			name string
			q    taskstore.Query
		}{
			{"all", taskstore.Query{}},
			{"after", taskstore.Query{After: hour.Add(30 * time.Minute)}},
			{"state-after", taskstore.Query{Status: a2a.TaskStateCompleted, After: hour.Add(time.Minute)}},
			{"context", taskstore.Query{ContextID: "busy"}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				c.q.Scope, c.q.PageSize, c.q.HistoryLength = alice, 50, -1
				start := cpu()
				for b.Loop() {
					if p, err := s.List(b.Context(), c.q); err != nil || len(p.Tasks) != 50 {
						b.Fatal(err, len(p.Tasks))
					}
				}
				b.ReportMetric(float64(cpu()-start)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
			})
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// busyTask writes a finished task in one change.
func busyTask(b *testing.B, s *Store, i int64, at time.Time) {
	k := key(newID())
	task := taskRecord(k, at)
	if i%10 == 0 {
		task.Event.(*a2a.Task).ContextID = "busy" //nolint:forcetypeassert // it is one
	}
	commit(b, s, taskstore.Change{Key: k, Create: true, Records: []taskstore.Record{task, statusRecord(k, a2a.TaskStateCompleted, at)}})
}
