// Package placement chooses the level of isolation for one call, and says why.
//
// It is pure: what it decides follows from its Input alone, and it imports
// nothing but the standard library and the vocabulary. It knows six rules:
//
//  1. A floor stands under each trust. A level below it is refused, however it
//     is asked for. What is compared is the strength a level really has on
//     this host: an emulated microVM is worth a container.
//  2. Needs narrow. A need rules out the levels that cannot meet it, or raises
//     the floor (code of third parties, secrets of a tenant); none lowers one.
//  3. A level that is asked for by name is that level or a refusal. There is
//     no next-best.
//  4. auto takes the cheapest level that satisfies the floor and the needs:
//     the weakest that will do, and among equally strong ones the one that
//     costs least. So asking for more, or being trusted less, never runs a
//     call at something weaker.
//  5. auto never takes a level that is weaker than its name.
//  6. A level that is not to be had here is never chosen, and the refusal says
//     how to get it.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Input is all that a decision rests on. It is not changed.
type Input struct {
	Ask   envelope.Level // LevelAuto, or one level by name
	Trust envelope.Trust
	Needs []Need // see NeedsOf; in any order
	// Host is what this host offers, one Offer a level, in any order. A level
	// without an Offer, or with two, is not to be had.
	Host []Offer
	// Floors is the lowest strength allowed for each trust; nil is
	// DefaultFloors. A trust that is not in it stands under LevelMicroVM.
	Floors map[envelope.Trust]envelope.Level
}

// Offer is one level on this host.
type Offer struct {
	Level     envelope.Level
	Available bool
	Why       string // where not Available: what is missing and how to get it
	// Effective is the strength that the level really has here; zero means
	// that of its name. See Worth.
	Effective envelope.Level
	Weakness  string          // where Effective is less than the name: why
	Cost      time.Duration   // measured, of one empty call; zero where unknown
	Cannot    map[Need]string // needs that it cannot meet here, each with why
}

// Strength returns what the level is worth here.
func (o Offer) Strength() envelope.Level {
	if o.Effective.Valid() {
		return o.Effective
	}
	return o.Level
}

// Emulated reports whether the level is worth less here than its name says.
func (o Offer) Emulated() bool { return o.Strength() < o.Level }

// Traits are what of a host makes a level worth something else than its name.
type Traits struct {
	Emulated    bool // a virtual machine without hardware under it
	HostNetwork bool // a userkernel whose network is the host's own
	Workers     bool // language engines that run in jailed worker processes
}

// Worth returns the strength of a level on a host with these traits, and why
// where it is not that of its name.
func Worth(level envelope.Level, t Traits) (envelope.Level, string) {
	switch {
	case level == envelope.LevelMicroVM && t.Emulated:
		return envelope.LevelContainer, "emulated, without hardware: the emulator is a program like any other"
	case level == envelope.LevelUserKernel && t.HostNetwork:
		return envelope.LevelContainer, "its network is the host's: that part of the host's kernel is seen"
	case level == envelope.LevelLanguage && t.Workers:
		return envelope.LevelUserKernel, "its engines run in jailed workers"
	}
	return level, ""
}

// Decision is the level and the reasons, or a refusal and the reasons.
type Decision struct {
	Level   envelope.Level // zero where refused
	Reasons []string       // one for each level, weakest first: why this one, why not that one
	Refusal *envelope.Refusal

	Floor    envelope.Level // the strength that was required
	FloorWhy string
	Levels   []Verdict // one for each level, weakest first
	// Cheaper says, a line for each level that is cheaper than the one chosen,
	// what would have to change for it to be chosen.
	Cheaper []string
}

// Verdict is all that is to be said of one level for one call.
type Verdict struct {
	Level  envelope.Level `json:"level"`  // that is spoken of
	Chosen bool           `json:"chosen"` // whether it is the one
	Worth  envelope.Level `json:"worth"`  // the strength that it has here
	// Weakness is why, where that is less than the name.
	Weakness string   `json:"weakness,omitempty"`
	For      []string `json:"for,omitempty"`     // what speaks for it
	Against  []string `json:"against,omitempty"` // what speaks against it
	// Change is what would have to change for it to be chosen, all of it;
	// nil where it was chosen.
	Change []string `json:"change,omitempty"`
}

// DefaultFloors returns the floors that hold where the operator set none.
func DefaultFloors() map[envelope.Trust]envelope.Level {
	return map[envelope.Trust]envelope.Level{
		envelope.TrustReviewed:   envelope.LevelContainer,
		envelope.TrustModel:      envelope.LevelUserKernel,
		envelope.TrustThirdParty: envelope.LevelUserKernel,
		envelope.TrustHostile:    envelope.LevelMicroVM,
	}
}

// Decide chooses a level.
func Decide(in Input) Decision {
	if in.Floors == nil {
		in.Floors = DefaultFloors()
	}
	in.Needs = sorted(in.Needs)
	floor, why := floorOf(in)
	verdicts := make([]verdict, 0, len(envelope.Levels()))
	for _, level := range envelope.Levels() {
		verdicts = append(verdicts, judge(in, floor, why, level))
	}
	chosen := choose(in.Ask, verdicts)
	d := Decision{Reasons: reasons(in.Ask, verdicts, chosen), Floor: floor, FloorWhy: why}
	if chosen >= 0 {
		d.Level = verdicts[chosen].offer.Level
	} else {
		d.Refusal = refuse(in, floor, verdicts)
	}
	d.Levels, d.Cheaper = explain(in, floor, verdicts, chosen)
	return d
}

// floorOf returns the strength that is required, and why: that of the trust,
// or a higher one that a need asks for.
func floorOf(in Input) (envelope.Level, string) {
	floor, why := floorFor(in.Floors, in.Trust), fmt.Sprintf("%s code", in.Trust)
	for _, n := range in.Needs {
		if higher, because := raised(in.Floors, n); higher > floor {
			floor, why = higher, fmt.Sprintf("%s code, and %s:", in.Trust, because)
		}
	}
	return floor, why
}

// floorFor returns the floor of a trust. What nobody has said stands under the
// strongest.
func floorFor(floors map[envelope.Trust]envelope.Level, trust envelope.Trust) envelope.Level {
	if floor, ok := floors[trust]; ok && floor.Valid() && trust.Valid() {
		return floor
	}
	return envelope.LevelMicroVM
}

// A verdict is what is to be said about one level for one call. Each fault is
// a sentence, or "" where there is none.
type verdict struct {
	offer   Offer
	below   string // the floor
	missing string // on this host
	unmet   []Need // needs, in the order of the set
	why     []string
}

func (v verdict) fits() bool { return v.below == "" && v.missing == "" && len(v.unmet) == 0 }

func judge(in Input, floor envelope.Level, why string, level envelope.Level) verdict {
	v := verdict{offer: offerOf(in.Host, level)}
	if v.offer.Strength() < floor {
		v.below = fmt.Sprintf("below the floor: %s needs the strength of %s", why, floor)
		if v.offer.Emulated() {
			v.below += fmt.Sprintf(", and here this is worth no more than %s%s", v.offer.Strength(), inBrackets(v.offer.Weakness))
		}
	}
	if !v.offer.Available {
		v.missing = cmp.Or(v.offer.Why, "this host does not offer it")
	}
	for _, need := range in.Needs {
		if fault, ok := v.offer.cannot(need); ok {
			v.unmet, v.why = append(v.unmet, need), append(v.why, fault)
		}
	}
	return v
}

// unmetText is what is said of the first need that is not met.
func (v verdict) unmetText() string {
	if len(v.unmet) == 0 {
		return ""
	}
	return fmt.Sprintf("the call needs %s: %s", wordingOf(v.unmet[0]).noun, v.why[0])
}

// offerOf returns the one offer for level. Of two nobody could say which is
// meant, so then there is none.
func offerOf(host []Offer, level envelope.Level) Offer {
	found, offers := Offer{Level: level}, 0
	for _, o := range host {
		if o.Level == level {
			found = o
			offers++
		}
	}
	if offers > 1 {
		return Offer{Level: level, Why: "it is offered twice: a mistake in how this daemon was put together"}
	}
	return found
}

func (o Offer) cannot(need Need) (string, bool) {
	if why := beyond(o.Level, need); why != "" {
		return why, true
	}
	why, ok := o.Cannot[need]
	return cmp.Or(why, "it cannot meet that here"), ok
}

// choose returns the index of the verdict that was chosen, or -1.
func choose(ask envelope.Level, verdicts []verdict) int {
	chosen := -1
	for i, v := range verdicts {
		if !v.fits() {
			continue
		}
		if ask == v.offer.Level {
			return i
		}
		if ask != envelope.LevelAuto || v.offer.Emulated() {
			continue
		}
		if chosen < 0 || cheaper(v.offer, verdicts[chosen].offer) {
			chosen = i
		}
	}
	return chosen
}

func cheaper(a, b Offer) bool {
	if a.Strength() != b.Strength() {
		return a.Strength() < b.Strength()
	}
	return a.Cost < b.Cost
}

func sorted(needs []Need) []Need {
	set := map[Need]bool{}
	for _, n := range needs {
		set[n] = true
	}
	return slices.Sorted(maps.Keys(set))
}
