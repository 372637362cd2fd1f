package audit

import (
	"slices"
	"time"

	"github.com/callcell/callcell/envelope"
)

// LostRecord is the body of a lost event.
type LostRecord struct {
	Instance string    `json:"instance"`         // that had the call
	Lease    time.Time `json:"lease,omitzero"`   // until when it was valid; zero: it was gone
	Intent   int64     `json:"intent,omitempty"` // sequence number of the call's intent
}

// PruneRecord is the body of a prune.
type PruneRecord struct {
	Why    string    `json:"why"`             // retention or erasure
	By     string    `json:"by,omitempty"`    // who asked
	Team   string    `json:"team,omitempty"`  // whose calls, for retention
	Before time.Time `json:"before,omitzero"` // calls that began before, for retention
	CallID string    `json:"call,omitempty"`  // which call, for erasure
	Calls  int64     `json:"calls"`           // how many
	Events []Range   `json:"events"`          // whose bodies are gone, ascending
}

// The words of PruneRecord.Why.
const (
	PruneRetention = "retention"
	PruneErasure   = "erasure"
)

// Range is sequence numbers from the first to the last, both included.
type Range [2]int64

// rangesOf gathers sequence numbers.
func rangesOf(seqs []int64) (list []Range) {
	slices.Sort(seqs)
	for _, seq := range slices.Compact(seqs) {
		if n := len(list); n > 0 && list[n-1][1]+1 == seq {
			list[n-1][1] = seq
		} else {
			list = append(list, Range{seq, seq})
		}
	}
	return list
}

// has reports whether a prune names an event.
func (p *PruneRecord) has(seq int64) bool {
	_, found := slices.BinarySearchFunc(p.Events, seq, func(r Range, seq int64) int {
		switch {
		case r[1] < seq:
			return -1
		case r[0] > seq:
			return 1
		}
		return 0
	})
	return found
}

// CounterRecord is the body of a counter: what happened in a window of time,
// too often for an event each.
type CounterRecord struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Counts []Count   `json:"counts"`
}

// Count is how often one thing happened. Key is "" for all keys that there was
// no room for.
type Count struct {
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"`
	N    int64  `json:"n"`
}

// MaxHosts is by how many hosts a call is found.
const MaxHosts = 256

// hostsOf returns the hosts that an ending says its call tried to reach, in
// order, at most MaxHosts.
func hostsOf(seen *envelope.Egress) (hosts []string) {
	if seen == nil {
		return nil
	}
	for _, a := range seen.Attempts {
		if a.Host != "" {
			hosts = append(hosts, a.Host)
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	return hosts[:min(len(hosts), MaxHosts)]
}
