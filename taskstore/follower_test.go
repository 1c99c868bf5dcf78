package taskstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

// late is a store whose first answer was read before the last record was written.
type late struct {
	taskstore.Store
	between func()
	asked   int
}

func (s *late) Notify(func(string)) (stop func()) { return func() {} }

func (s *late) Entries(_ context.Context, _ taskstore.Key, after int64, _ int) ([]taskstore.Record, error) {
	s.asked++
	if s.asked == 1 {
		s.between()
		return nil, nil
	}
	if after > 0 {
		return nil, nil
	}
	return []taskstore.Record{{Entry: a2a.Entry{Generation: 1}}}, nil
}

// TestCloseTellsAll closes a follower just after a record was written that a reader has not read yet: it comes before the
// end, or a stream of a task that ended as its host did would miss how.
func TestCloseTellsAll(t *testing.T) {
	over := errors.New("over")
	s := new(late)
	f := taskstore.NewFollower(s, 1<<40)
	s.between = func() { f.Close(over) }
	var got []int64
	for rec, err := range f.Follow(t.Context(), taskstore.Key{Task: "t"}, 0) {
		if err != nil {
			if !errors.Is(err, over) {
				t.Error(err)
			}
			break
		}
		got = append(got, rec.Generation)
	}
	if len(got) != 1 {
		t.Errorf("read %v before the end, want 1", got)
	}
}
