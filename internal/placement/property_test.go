package placement_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/placement"
)

func allNeeds() []placement.Need { return envelope.Needs() }

func drawOffer(t *rapid.T, level envelope.Level) placement.Offer {
	o := placement.Offer{
		Level:     level,
		Available: rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "available"),
		Effective: rapid.SampledFrom(append(envelope.Levels(), 0, 0, 0, 0)).Draw(t, "effective"),
		Cost:      time.Duration(rapid.IntRange(0, 5).Draw(t, "cost")) * time.Millisecond,
		Cannot:    map[placement.Need]string{},
	}
	for _, n := range rapid.SliceOfN(rapid.SampledFrom(allNeeds()), 0, 2).Draw(t, "cannot") {
		o.Cannot[n] = "not here"
	}
	return o
}

func drawInput(t *rapid.T) placement.Input {
	in := placement.Input{
		Ask:    rapid.SampledFrom(append(envelope.Levels(), envelope.LevelAuto, envelope.LevelAuto, envelope.LevelAuto)).Draw(t, "ask"),
		Trust:  envelope.Trust(rapid.IntRange(1, 4).Draw(t, "trust")),
		Needs:  rapid.SliceOfN(rapid.SampledFrom(allNeeds()), 0, 2).Draw(t, "needs"),
		Floors: placement.DefaultFloors(),
	}
	// Floors of an operator that rise as trust falls, as Validate demands.
	floor := envelope.LevelLanguage
	for trust := envelope.TrustReviewed; trust <= envelope.TrustHostile; trust++ {
		floor = max(floor, rapid.SampledFrom(envelope.Levels()).Draw(t, "floor")-1, envelope.LevelLanguage)
		in.Floors[trust] = floor
	}
	for _, level := range envelope.Levels() {
		for range rapid.SampledFrom([]int{1, 1, 1, 1, 0, 2}).Draw(t, "offers") {
			in.Host = append(in.Host, drawOffer(t, level))
		}
	}
	return in
}

// strength returns what the decision is worth, and 0 for a refusal: nothing
// runs, so nothing runs weaker.
func strength(in placement.Input, d placement.Decision) envelope.Level {
	var best envelope.Level
	for _, o := range in.Host {
		if o.Level == d.Level && o.Available {
			best = max(best, o.Strength())
		}
	}
	return best
}

// stricter returns every input that is stricter than in by one step: one trust
// less, one floor higher, one need more.
func stricter(in placement.Input) []placement.Input {
	var out []placement.Input
	for trust := in.Trust + 1; trust <= envelope.TrustHostile; trust++ {
		next := in
		next.Trust = trust
		out = append(out, next)
	}
	for level := in.Floors[in.Trust] + 1; level <= envelope.LevelMicroVM; level++ {
		next := in
		next.Floors = maps.Clone(in.Floors)
		next.Floors[in.Trust] = level
		out = append(out, next)
	}
	for _, need := range allNeeds() {
		next := in
		next.Needs = append(slices.Clone(in.Needs), need)
		out = append(out, next)
	}
	return out
}

// TestStricterIsNeverWeaker is the property the package is for: less trust, a
// higher floor or more needs give the same strength, more, or a refusal.
func TestStricterIsNeverWeaker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 8 { // most inputs are refused either way
			in := drawInput(t)
			for _, next := range stricter(in) {
				checkStricter(t, in, next)
			}
		}
	})
}

func checkStricter(t *rapid.T, in, next placement.Input) {
	was, is := placement.Decide(in), placement.Decide(next)
	if was.Refusal != nil && is.Refusal == nil {
		t.Fatalf("%+v runs at %s; less strict it was refused: %v", next, is.Level, was.Refusal)
	}
	if is.Refusal == nil && strength(next, is) < strength(in, was) {
		t.Fatalf("%+v runs at %s (%s); less strict at %s (%s)", next, is.Level, strength(next, is), was.Level, strength(in, was))
	}
}

// TestEveryDecisionIsSound checks what holds for each decision by itself.
func TestEveryDecisionIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		d := placement.Decide(in)
		if (d.Refusal == nil) != d.Level.Valid() || len(d.Reasons) != len(envelope.Levels()) {
			t.Fatalf("neither a level nor a refusal, or reasons are missing: %+v", d)
		}
		if d.Refusal != nil {
			if d.Refusal.Hint == "" || d.Refusal.Message == "" {
				t.Fatalf("a refusal without help: %+v", d.Refusal)
			}
			return
		}
		if in.Ask != envelope.LevelAuto && d.Level != in.Ask {
			t.Fatalf("asked for %s, got %s", in.Ask, d.Level)
		}
		if !offered(in, d.Level) {
			t.Fatalf("%s is not to be had here", d.Level)
		}
		if got := strength(in, d); got < in.Floors[in.Trust] || got < d.Floor || in.Ask == envelope.LevelAuto && got < d.Level {
			t.Fatalf("%s is worth %s; the floor is %s", d.Level, got, in.Floors[in.Trust])
		}
		shuffled := in
		shuffled.Host = rapid.Permutation(in.Host).Draw(t, "host")
		shuffled.Needs = rapid.Permutation(in.Needs).Draw(t, "order")
		if again := placement.Decide(shuffled); again.Level != d.Level {
			t.Fatalf("the order of the input matters: %s, then %s", d.Level, again.Level)
		}
		if !reflect.DeepEqual(placement.Decide(in), d) {
			t.Fatal("the same input, another decision")
		}
		checkExplained(t, d)
	})
}

func offered(in placement.Input, level envelope.Level) bool {
	n := 0
	for _, o := range in.Host {
		if o.Level == level && o.Available {
			n++
		}
	}
	return n == 1
}

// checkExplained: every level has its verdict, of which the chosen one alone
// needs no change, and every other says one.
func checkExplained(t *rapid.T, d placement.Decision) {
	for i, v := range d.Levels {
		if v.Level != envelope.Levels()[i] || v.Chosen != (v.Level == d.Level) || !v.Worth.Valid() || v.Chosen != (len(v.Change) == 0) || len(v.For) == 0 {
			t.Fatalf("%+v", v)
		}
		if slices.Contains(v.Change, "") {
			t.Fatalf("an empty change: %+v", v)
		}
	}
	if len(d.Levels) != len(envelope.Levels()) || len(d.Cheaper) >= len(d.Levels) {
		t.Fatalf("%+v", d)
	}
}
