// Package placement chooses the level of isolation for one call, and says why.
//
// It is pure: what it decides follows from its Input alone, and it imports
// nothing but the standard library and the vocabulary. It knows five rules:
//
//  1. A floor stands under each trust. A level below it is refused, however it
//     is asked for. What is compared is the strength a level really has on
//     this host: an emulated microVM is worth a container.
//  2. A level that is asked for by name is that level or a refusal. There is
//     no next-best.
//  3. auto takes the cheapest level that satisfies the floor and the needs:
//     the weakest that will do, and among equally strong ones the one that
//     costs least. So asking for more, or being trusted less, never runs a
//     call at something weaker.
//  4. auto never takes a level that is weaker than its name.
//  5. A level that is not to be had here is never chosen, and the refusal says
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
	// that of its name. LevelContainer for a microVM without KVM or a
	// userkernel with the host's network; LevelUserKernel for a language
	// engine in jailed workers.
	Effective envelope.Level
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

// Decision is the level and the reasons, or a refusal and the reasons.
type Decision struct {
	Level   envelope.Level // zero where refused
	Reasons []string       // one for each level, weakest first: why this one, why not that one
	Refusal *envelope.Refusal
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
	floor := floorOf(in)
	verdicts := make([]verdict, 0, len(envelope.Levels()))
	for _, level := range envelope.Levels() {
		verdicts = append(verdicts, judge(in, floor, level))
	}
	chosen := choose(in.Ask, verdicts)
	d := Decision{Reasons: reasons(in.Ask, verdicts, chosen)}
	if chosen >= 0 {
		d.Level = verdicts[chosen].offer.Level
	} else {
		d.Refusal = refuse(in, floor, verdicts)
	}
	return d
}

// floorOf returns the strength that is required. What nobody has said stands
// under the strongest.
func floorOf(in Input) envelope.Level {
	floors := in.Floors
	if floors == nil {
		floors = DefaultFloors()
	}
	if floor, ok := floors[in.Trust]; ok && floor.Valid() && in.Trust.Valid() {
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
	unmet   string // a need
}

func (v verdict) fits() bool { return v.below == "" && v.missing == "" && v.unmet == "" }

func judge(in Input, floor, level envelope.Level) verdict {
	v := verdict{offer: offerOf(in.Host, level)}
	if v.offer.Strength() < floor {
		v.below = fmt.Sprintf("below the floor: %s code needs the strength of %s", in.Trust, floor)
		if v.offer.Emulated() {
			v.below += fmt.Sprintf(", and here this is worth no more than %s", v.offer.Strength())
		}
	}
	if !v.offer.Available {
		v.missing = cmp.Or(v.offer.Why, "this host does not offer it")
	}
	for _, need := range sorted(in.Needs) {
		if why, ok := v.offer.cannot(need); ok {
			v.unmet = fmt.Sprintf("the call needs %s: %s", need, why)
			break
		}
	}
	return v
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
	if o.Level == envelope.LevelLanguage && need == NeedNative {
		return "an engine of this level runs no native program", true
	}
	why, ok := o.Cannot[need]
	return why, ok
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
