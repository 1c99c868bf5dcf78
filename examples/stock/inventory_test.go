package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReserveAtOnce: of many who want the last goods, only as many get them as there are, and a task gets them once.
func TestReserveAtOnce(t *testing.T) {
	goods, err := openInventory(t.Context(), filepath.Join(t.TempDir(), "a folder? 100%#.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = goods.Close() }()
	o := order{sku: "PMP-20071", warehouse: "SBY-01", reserve: true, quantity: 1}
	var got atomic.Int32
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			switch _, err := goods.reserve(t.Context(), fmt.Sprint("task ", i), "acme", o); {
			case err == nil:
				got.Add(1)
			case !errors.Is(err, errTooFew):
				t.Error(err)
			}
		})
	}
	wait.Wait()
	l, err := goods.level(t.Context(), "acme", o.sku, o.warehouse)
	if err != nil || got.Load() != 6 || l.Available != 0 || l.Reserved != 8 {
		t.Errorf("%d got one of 6, and then %+v, %v", got.Load(), l, err)
	}

	o.sku = "BRG-10422"
	if _, err := goods.reserve(t.Context(), "a task", "acme", o); err != nil {
		t.Fatal(err)
	}
	if _, err := goods.reserve(t.Context(), "a task", "acme", o); err == nil {
		t.Error("a task reserves twice")
	}
	if l, err = goods.level(t.Context(), "acme", o.sku, o.warehouse); err != nil || l.Reserved != 121 {
		t.Errorf("reserved once: %+v, %v", l, err)
	}
	o = order{sku: "VLV-3300", warehouse: "JKT-02", reserve: true, quantity: 1}
	if _, err := goods.reserve(t.Context(), "another task", "acme", o); !errors.Is(err, errTooFew) {
		t.Errorf("another partner's goods: %v", err)
	}
}
