package gateway

import "github.com/callcell/callcell/envelope"

// notedRows is how many denials of a key in any 60 seconds are worth a row
// each. More are counted: what a stranger can multiply must not fill the log.
const notedRows = 10

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
	} else if _, ok := k.noted.take(g.reading(g.clock.Now())); !ok {
		d.Quiet = true
	}
	g.count(why.Reason.String(), key)
	return d
}
