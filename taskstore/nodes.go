package taskstore

import (
	"context"
	"errors"
)

// ErrUnavailable is in the errors of a store that cannot be reached or has no room, for now. A caller may try again.
var ErrUnavailable = errors.New("taskstore: nothing can be recorded now")

// Nodes is what a [Store] is besides that several processes share. A process takes part in it under names, its nodes,
// which hold leases and webhooks for as long as they live. What a node that is gone has left is found by Unsettled and
// TakeWebhooks.
type Nodes interface {
	// Join makes a node, under a name that no node has had, and keeps it alive until Leave or the end of the store. lost
	// is closed when that fails: some time before another node may seize what this one holds. From then on its writes
	// are refused with ErrFenced, for good.
	Join(ctx context.Context, node string) (lost <-chan struct{}, err error)
	// Leave ends a node. Others may seize what it holds at once.
	Leave(ctx context.Context, node string) error
	// Latched returns the tasks that the node holds and that somebody asked to cancel, on whatever node.
	Latched(ctx context.Context, node string) ([]Key, error)
	// TakeWebhooks gives the node webhooks of the agent's tasks that are not done and that no other node has, or one
	// that is gone, and returns them: at most limit, none when there are no more.
	TakeWebhooks(ctx context.Context, agent, node string, limit int) ([]Webhook, error)
}

// As returns what a store is besides, such as [Nodes]: itself, or a store that it wraps and says so by a method
// Unwrap() Store.
func As[T any](s Store) (found T, ok bool) {
	for s != nil {
		if found, ok = s.(T); ok {
			return found, true
		}
		w, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			break
		}
		s = w.Unwrap()
	}
	return found, false
}
