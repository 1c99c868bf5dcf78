package taskstore_test

import (
	"testing"

	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) taskstore.Store { return taskstore.NewMemory(taskstore.MemoryOptions{}) })
}
