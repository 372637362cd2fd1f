package gateway

import "context"

// A watch is a context that ends with what it was given for.
type watch struct {
	key    string
	secret bool // hash is one that must be good too
	hash   Hash
	cancel context.CancelCauseFunc
}

// While returns a context that ends with ctx, and, with ErrRevoked as its cause,
// as soon as the key is revoked, or the secret of it that somebody came with is
// over; "" is the key alone. A change that this gateway makes is seen when it
// returns, one of another process within a poll. Where neither was good to begin
// with, the context has ended. The function must be called.
func (g *Gateway) While(ctx context.Context, key, secret string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{key: key, secret: secret != "", cancel: cancel}
	w.hash, _ = hashOf(secret) // of no secret: one that nobody has
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watches[w] = struct{}{}
	g.endWatchLocked(w)
	return ctx, func() {
		g.mu.Lock()
		delete(g.watches, w)
		g.mu.Unlock()
		cancel(nil)
	}
}

// endWatchesLocked ends the contexts of what is no longer good. It comes after
// every change of keys and secrets, and with time.
func (g *Gateway) endWatchesLocked() {
	for w := range g.watches {
		g.endWatchLocked(w)
	}
}

func (g *Gateway) endWatchLocked(w *watch) {
	k := g.keys[w.key]
	good := k != nil && k.Revoked.IsZero()
	if good && w.secret {
		s, ok := g.secrets[w.hash]
		good = ok && s.Key == w.key && s.valid(g.clock.Now())
	}
	if !good {
		delete(g.watches, w)
		w.cancel(ErrRevoked)
	}
}
