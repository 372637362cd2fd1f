package gateway

import (
	"context"
	"time"
)

// The changes of Admin, seen by this gateway before they return.

// CreateTeam is Admin's.
func (g *Gateway) CreateTeam(ctx context.Context, t Team) (Team, error) {
	t, err := g.Admin.CreateTeam(ctx, t)
	return t, g.seen(ctx, err)
}

// SetTeam is Admin's.
func (g *Gateway) SetTeam(ctx context.Context, name string, c TeamChange) (Team, error) {
	t, err := g.Admin.SetTeam(ctx, name, c)
	return t, g.seen(ctx, err)
}

// CreateKey is Admin's.
func (g *Gateway) CreateKey(ctx context.Context, k Key) (Key, string, error) {
	k, text, err := g.Admin.CreateKey(ctx, k)
	return k, text, g.seen(ctx, err)
}

// RotateKey is Admin's.
func (g *Gateway) RotateKey(ctx context.Context, id string, overlap time.Duration) (Key, string, error) {
	k, text, err := g.Admin.RotateKey(ctx, id, overlap)
	return k, text, g.seen(ctx, err)
}

// RevokeKey is Admin's. Calls of the key that run are cancelled when it
// returns.
func (g *Gateway) RevokeKey(ctx context.Context, id string) (Key, error) {
	k, err := g.Admin.RevokeKey(ctx, id)
	return k, g.seen(ctx, err)
}

// seen reloads after a change. What is durable is done, whether or not it can
// be read back at once: the background work tries again.
func (g *Gateway) seen(ctx context.Context, err error) error {
	if err == nil && g.reload(context.WithoutCancel(ctx)) != nil {
		g.mu.Lock()
		g.generation = -1
		g.mu.Unlock()
	}
	return err
}
