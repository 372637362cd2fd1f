package gateway

import (
	"time"

	"github.com/callcell/callcell/envelope"
)

// notedRows is how many denials of a key in any 60 seconds are worth a row
// each. More are counted: what a stranger can multiply must not fill the log.
const notedRows = 10

// maxTallies bounds the counts that are not written yet. More are counted for
// everybody else together.
const maxTallies = 4096

type tallyKey struct {
	hour      int64
	what, who string
}

// everybodyElse is who is counted where there are too many to tell apart.
const everybodyElse = "others"

func (g *Gateway) deny(key string, why envelope.Refusal) *Denial {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denyLocked(g.keys[key], key, why)
}

// denyLocked makes a denial and counts it.
func (g *Gateway) denyLocked(k *keyState, key string, why envelope.Refusal) *Denial {
	d := &Denial{Why: why}
	if k == nil {
		d.Quiet = true
		key = everybodyElse
	} else if _, ok := k.noted.take(g.reading(g.clock.Now())); !ok {
		d.Quiet = true
	}
	g.tallyLocked(why.Reason.String(), key)
	return d
}

// Count counts something that a stranger has tried: what in a word, and from
// where.
func (g *Gateway) Count(what, who string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tallyLocked(what, who)
}

func (g *Gateway) tallyLocked(what, who string) {
	k := tallyKey{g.now().Truncate(time.Hour).Unix(), what, who}
	if _, ok := g.tallies[k]; !ok && len(g.tallies) >= maxTallies {
		k.who = everybodyElse
	}
	g.tallies[k]++
}
