package webhook

import (
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/callcell/callcell/envelope"
)

// The kinds of events.
const (
	Refusal    = "refusal"    // a call was refused: nothing ran
	Denied     = "denied"     // a call tried to reach what its policy does not allow
	Escape     = "escape"     // it did what looks like a try to get out: envelope.Signs
	Ceiling    = "ceiling"    // it met a ceiling
	Broken     = "broken"     // the cell's own machinery died
	Leftover   = "leftover"   // its teardown was not complete
	Unrecorded = "unrecorded" // its row has no ending
	Fault      = "fault"      // a mistake of ours
	Key        = "key"        // somebody has no good key
)

// Event is one thing that happened.
type Event struct {
	Kind   string
	At     time.Time
	Caller string // "key:k_...", or for Key the network that it came from
	Team   string
	Call   Call
	Counts map[string]int64 // by reason, sign or outcome; words of closed sets
	// Addresses were not to be reached: of networks, never names.
	Addresses []string
}

// Call is the call that an event is of; the zero value is none.
type Call struct {
	ID      string `json:"id"`
	Task    string `json:"task,omitempty"` // what the caller calls his work, where it was taken
	Tool    string `json:"tool,omitempty"`
	Level   string `json:"level,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Refusal string `json:"refusal,omitempty"` // its reason
}

// Of returns the events of a call that has ended. It keeps nothing of what it is
// given.
func Of(at time.Time, caller, team string, call *envelope.Call, r *envelope.Result) (list []Event) {
	c := callOf(call, r)
	add := func(kind string, counts map[string]int64, addresses ...string) {
		list = append(list, Event{Kind: kind, At: at, Caller: caller, Team: team, Call: c, Counts: counts, Addresses: addresses})
	}
	if r.Refusal != nil {
		add(Refusal, map[string]int64{r.Refusal.Reason.String(): 1})
	}
	signs, met := map[string]int64{}, map[string]int64{}
	for _, e := range r.Events {
		if e.Sign() {
			signs[e.Kind] += e.Count
		} else {
			met[e.Kind] += e.Count
		}
	}
	if len(signs) > 0 {
		add(Escape, signs, addressesOf(r.Egress)...)
	}
	if len(met) > 0 {
		add(Ceiling, met)
	}
	if r.Egress != nil && r.Egress.Denied > 0 {
		add(Denied, map[string]int64{"denied": r.Egress.Denied})
	}
	if r.Outcome == envelope.OutcomeBroken {
		add(Broken, map[string]int64{"broken": 1})
	}
	if r.Teardown != nil && !r.Teardown.Complete {
		add(Leftover, map[string]int64{"leftover": 1})
	}
	return list
}

func callOf(call *envelope.Call, r *envelope.Result) Call {
	c := Call{ID: r.ID}
	if r.Level.Valid() {
		c.Level = r.Level.String()
	}
	if r.Refusal != nil {
		c.Refusal = r.Refusal.Reason.String()
	} else if r.Outcome.Valid() {
		c.Outcome = r.Outcome.String()
	}
	if call != nil && (r.Refusal == nil || r.Refusal.Reason != envelope.ReasonRequest) { // else nobody has checked them
		c.Task, c.Tool = line(call.Task), line(call.Tool)
	}
	return c
}

// maxLine bounds a text of a caller's, in bytes.
const maxLine = 256

// line is a text that can stand in a message to people: one line, no control
// characters or marks that turn text around. What is none is left out.
func line(text string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(text) > maxLine || strings.ContainsFunc(text, odd) {
		return ""
	}
	return text
}

// maxAddresses bounds those of one delivery.
const maxAddresses = 8

// addressesOf returns the addresses that a call was denied, each once.
func addressesOf(seen *envelope.Egress) (list []string) {
	if seen == nil {
		return nil
	}
	for _, a := range seen.Attempts {
		if a.Verdict != envelope.VerdictDenied {
			continue
		}
		for _, text := range []string{a.Blocked, a.Host} {
			if addr, err := netip.ParseAddr(text); err == nil { // a name is the program's word
				list = join(list, addr.WithZone("").String())
				break
			}
		}
	}
	return list
}

// join adds an address that is not there yet, where there is room.
func join(list []string, addr string) []string {
	for _, have := range list {
		if have == addr {
			return list
		}
	}
	if len(list) >= maxAddresses {
		return list
	}
	return append(list, addr)
}
