package push

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/taskstore"
)

const (
	// takeEvery is about how often a node of a shared store looks for webhooks of nodes that are gone.
	takeEvery = 2 * time.Second
	// rejoinEvery is the pause between attempts to join anew.
	rejoinEvery = time.Second
)

// join makes this Push a node, under a new name, of a store that several processes share: each webhook is delivered by
// one of them, the one where it was registered, and when that is gone by another.
func (p *Push) join(ctx context.Context) (lost <-chan struct{}, err error) {
	node := uuid.NewString()
	if lost, err = p.nodes.Join(ctx, node); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = node
	return lost, nil
}

func (p *Push) nodeName() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// mine reports whether a webhook is delivered here; the caller holds p.mu.
func (p *Push) mine(h *taskstore.Webhook) bool {
	return p.nodes == nil || p.node != "" && h.Node == p.node
}

// rejoin ends all deliveries, before others may take the webhooks, and joins anew when the store can be reached; nil:
// the Push ended first.
func (p *Push) rejoin() <-chan struct{} {
	p.mu.Lock()
	p.node = ""
	var all []*delivery
	for _, ds := range p.tasks {
		all = append(all, ds...)
	}
	for _, d := range all {
		p.remove(d)
	}
	p.mu.Unlock()
	p.log.Error("this node has lost the store: its webhooks wait", "webhooks", len(all))
	for {
		lost, err := p.join(p.ctx)
		if err == nil {
			return lost
		}
		select {
		case <-p.ctx.Done():
			return nil
		case <-time.After(rejoinEvery):
		}
	}
}

// until returns a context that ends when the node is lost, or this Push ends.
func (p *Push) until(lost <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(p.ctx)
	if lost != nil {
		go func() {
			select {
			case <-lost:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// take takes up the webhooks that no node delivers.
func (p *Push) take(ctx context.Context) error {
	const page = 256
	node := p.nodeName()
	for {
		hooks, err := p.nodes.TakeWebhooks(ctx, p.opts.Agent, node, page)
		for i := range hooks {
			p.add(hooks[i])
		}
		if err != nil || len(hooks) < page {
			return err
		}
	}
}

// untilTake is how long to wait before the next look; nobody looks where there are no nodes.
func (p *Push) untilTake() <-chan time.Time {
	if p.nodes == nil {
		return nil
	}
	return time.After(takeEvery*3/4 + rand.N(takeEvery/2)) //nolint:gosec // to spread the nodes needs no secret numbers
}

// still reports whether a webhook is as this node knows it: on another node it may have been removed or replaced.
func (p *Push) still(ctx context.Context, d *delivery) (bool, error) {
	if p.nodes == nil {
		return true, nil
	}
	hooks, err := p.store.Webhooks(ctx, d.key)
	for i := range hooks {
		if h := &hooks[i]; h.Config.ID == d.id {
			return h.Registration == d.registration && h.Node == d.hook.Node, err
		}
	}
	return false, err
}
