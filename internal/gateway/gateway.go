package gateway

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// poll is how often a gateway looks for what other processes have changed, and
// writes what could not be written before.
const poll = 250 * time.Millisecond

// Options are the settings of a Gateway.
type Options struct {
	Tiers   map[string]Tier // nil: DefaultTiers
	Limits  Limits          // what is 0 is DefaultLimits'
	Counter Counter         // must be there
	Clock   Clock           // nil: this host's
	// Count is told of each denial: its reason, and the key. It must not block.
	// nil: nobody is told.
	Count func(what, who string)
	// Failed is told what the background work could not do, which it tries
	// again. It is called from one goroutine. nil: nobody is told.
	Failed func(error)
}

// Gateway meters calls. Its methods may be called concurrently.
type Gateway struct {
	*Admin
	counter Counter
	limits  Limits
	failed  func(error)
	count   func(what, who string)
	zero    time.Time // rates are measured from here
	stop    context.CancelFunc
	done    chan struct{}

	// mu guards what follows, and the states that hang on it. It is not held
	// while the store is called or a tokenizer works.
	mu         sync.Mutex
	closed     bool
	generation int64
	teams      map[string]*teamState
	keys       map[string]*keyState
	secrets    map[Hash]Secret
	tasks      map[taskID]*taskState
	atOnce     int          // calls that have a turn
	ring       []*teamState // that have calls waiting
	turn       int          // of ring
	pending    map[string]Settlement
	settled    time.Time // when the last call was settled
	folded     time.Time // when the last fold began
	lost       int       // reservations that were settled at the start
	watches    map[*watch]struct{}
}

// keyState is a key and what it does.
type keyState struct {
	Key
	rate    window
	noted   window // denials that were worth a row
	atOnce  int
	tickets map[*Ticket]struct{} // that wait or run
}

// teamState is a team and what it does.
type teamState struct {
	Team
	tier    Tier
	atOnce  int
	waiting []*Ticket // first come, first served
	purses  map[Month]*purse
}

// Open returns a Gateway over a store that no other Gateway uses: the caller
// holds its lock. Reservations of a daemon that died are settled. Close ends
// it.
func Open(ctx context.Context, store Store, o Options) (*Gateway, error) {
	if o.Tiers == nil {
		o.Tiers = DefaultTiers()
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Count == nil {
		o.Count = func(string, string) {}
	}
	g := &Gateway{
		Admin: NewAdmin(store, o.Tiers, o.Clock), counter: o.Counter, limits: o.Limits.orDefaults(), failed: o.Failed, count: o.Count,
		done: make(chan struct{}), teams: map[string]*teamState{}, keys: map[string]*keyState{}, tasks: map[taskID]*taskState{},
		pending: map[string]Settlement{}, watches: map[*watch]struct{}{},
	}
	g.zero = g.clock.Now()
	if err := g.recover(ctx); err != nil {
		return nil, fmt.Errorf("open the gateway: %w", err)
	}
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	go g.background(ctx)
	return g, nil
}

// Lost is how many reservations of dead daemons were settled by Open.
func (g *Gateway) Lost() int { return g.lost }

// Close stops the background work and writes what is still to be written. Calls
// that wait are refused; the caller has ended those that run. It does not close
// the store.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	was := g.closed
	g.closed = true
	g.dispatchLocked()
	g.mu.Unlock()
	if was {
		return nil
	}
	g.stop()
	<-g.done
	return g.write(ctx, true)
}

// reading is now as rates measure it.
func (g *Gateway) reading(t time.Time) int64 { return int64(t.Sub(g.zero)) }

// reload takes over what the store says of teams and keys. Calls of keys that
// are revoked are cancelled.
func (g *Gateway) reload(ctx context.Context) error {
	dir, err := g.store.Directory(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if dir.Generation < g.generation {
		return nil // a newer one was read meanwhile
	}
	g.generation = dir.Generation
	dir.count(g.now())
	g.takeTeamsLocked(dir)
	g.takeKeysLocked(dir)
	g.secrets = make(map[Hash]Secret, len(dir.Secrets))
	for _, s := range dir.Secrets {
		g.secrets[s.Hash] = s
	}
	g.endWatchesLocked()
	g.dispatchLocked()
	return nil
}

func (g *Gateway) takeTeamsLocked(dir *Directory) {
	for _, t := range dir.Teams {
		s := g.teams[t.Name]
		if s == nil {
			s = &teamState{purses: map[Month]*purse{}}
			g.teams[t.Name] = s
		}
		s.Team, s.tier = t, g.tiers[t.Tier] // of a tier that is gone: nothing
	}
}

func (g *Gateway) takeKeysLocked(dir *Directory) {
	for _, k := range dir.Keys {
		s := g.keys[k.ID]
		if s == nil {
			s = &keyState{tickets: map[*Ticket]struct{}{}, noted: window{limit: notedRows}}
			g.keys[k.ID] = s
		}
		s.Key = k
		if t := g.teams[k.Team]; t != nil {
			s.rate.resize(int(t.tier.Rate))
		}
		if !k.Revoked.IsZero() {
			for t := range maps.Clone(s.tickets) {
				t.cancelLocked()
			}
		}
	}
}

// Identify returns the key that a secret belongs to, and whether it is one that
// is valid now.
func (g *Gateway) Identify(secret string) (Key, bool) {
	hash, ok := hashOf(secret)
	if !ok {
		return Key{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.secrets[hash]
	if !ok || !s.valid(g.clock.Now()) {
		return Key{}, false
	}
	k := g.keys[s.Key]
	if k == nil || !k.Revoked.IsZero() {
		return Key{}, false
	}
	return k.Key, true
}

// Retention returns for how long the rows of a team are kept; 0 for a team that
// there is not.
func (g *Gateway) Retention(team string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.teams[team]
	if t == nil {
		return 0
	}
	return t.tier.Retention.Std()
}

// Standing is how a key stands with its rate.
type Standing struct {
	Limit     int           // calls in any 60 seconds
	Remaining int           // now
	Reset     time.Duration // until one more is free; 0 where none is used
}

// Standing returns how a key stands.
func (g *Gateway) Standing(key string) Standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	if k == nil {
		return Standing{}
	}
	n, reset := k.rate.used(g.reading(g.clock.Now()))
	return Standing{Limit: k.rate.limit, Remaining: max(k.rate.limit-n, 0), Reset: reset}
}

// Load is what runs and waits now.
type Load struct {
	Running int `json:"running"` // calls that run, or whose answer is being taken
	Waiting int `json:"waiting"` // calls that wait for their turn
	AtOnce  int `json:"atOnce"`  // calls at once, at most
}

// Load returns what runs and waits now.
func (g *Gateway) Load() Load {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := Load{Running: g.atOnce, AtOnce: int(g.limits.AtOnce)}
	for _, t := range g.ring {
		l.Waiting += len(t.waiting)
	}
	return l
}
