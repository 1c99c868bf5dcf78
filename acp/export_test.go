package acp

// Live returns how many programs run, by the agent's own count.
func (a *Agent) Live() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live
}
