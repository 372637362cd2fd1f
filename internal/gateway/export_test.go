package gateway

import "context"

// Watched is how many contexts hang on keys.
func (g *Gateway) Watched() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.watches)
}

// Poll does what is done every poll.
func (g *Gateway) Poll(ctx context.Context) error { return g.look(ctx) }
