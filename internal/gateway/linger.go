package gateway

import "sync"

// Linger counts one more call at once for a key, as long as a caller takes what a
// call of it has left, whose turn is over: what that holds is memory which the
// next call is to find free. It waits for nobody, so that for a moment there may
// be twice as many as the key, its team and the host have. end takes it back.
func (g *Gateway) Linger(key string) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	if k == nil || g.teams[k.Team] == nil {
		return func() {}
	}
	team := g.teams[k.Team]
	count := func(n int) {
		g.atOnce += n
		team.atOnce += n
		k.atOnce += n
	}
	count(1)
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		count(-1)
		g.dispatchLocked()
	})
}
