package proxy

import "context"

// Refresh looks at the card at once.
func (a *Agent) Refresh(ctx context.Context) bool { return a.refresh(ctx) }
