package placement_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/placement"
)

func allNeeds() []placement.Need {
	return []placement.Need{placement.NeedNative, placement.NeedPython, placement.NeedNode, placement.NeedNetwork,
		placement.NeedMounts, placement.NeedCredentials, placement.NeedImage, placement.NeedAlone}
}

func drawOffer(t *rapid.T, level envelope.Level) placement.Offer {
	o := placement.Offer{
		Level:     level,
		Available: rapid.Bool().Draw(t, "available"),
		Effective: rapid.SampledFrom(append(envelope.Levels(), 0)).Draw(t, "effective"),
		Cost:      time.Duration(rapid.IntRange(0, 5).Draw(t, "cost")) * time.Millisecond,
		Cannot:    map[placement.Need]string{},
	}
	for _, n := range rapid.SliceOfN(rapid.SampledFrom(allNeeds()), 0, 3).Draw(t, "cannot") {
		o.Cannot[n] = "not here"
	}
	return o
}

func drawInput(t *rapid.T) placement.Input {
	in := placement.Input{
		Ask:    rapid.SampledFrom(append(envelope.Levels(), envelope.LevelAuto, envelope.LevelAuto, envelope.LevelAuto)).Draw(t, "ask"),
		Trust:  envelope.Trust(rapid.IntRange(1, 4).Draw(t, "trust")),
		Needs:  rapid.SliceOfN(rapid.SampledFrom(allNeeds()), 0, 4).Draw(t, "needs"),
		Floors: placement.DefaultFloors(),
	}
	// Floors of an operator that rise as trust falls, as Validate demands.
	floor := envelope.LevelLanguage
	for trust := envelope.TrustReviewed; trust <= envelope.TrustHostile; trust++ {
		floor = rapid.SampledFrom(envelope.Levels()[floor-envelope.LevelLanguage:]).Draw(t, "floor")
		in.Floors[trust] = floor
	}
	for _, level := range envelope.Levels() {
		for range rapid.IntRange(0, 2).Draw(t, "offers") {
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

// TestStricterIsNeverWeaker is the property the package is for: less trust, a
// higher floor or more needs give the same strength, more, or a refusal.
func TestStricterIsNeverWeaker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		stricter := in
		switch rapid.SampledFrom([]string{"trust", "floor", "needs"}).Draw(t, "turn") {
		case "trust":
			stricter.Trust = envelope.Trust(rapid.IntRange(int(in.Trust), 4).Draw(t, "less trust"))
		case "floor":
			stricter.Floors = map[envelope.Trust]envelope.Level{}
			for trust, floor := range in.Floors {
				stricter.Floors[trust] = max(floor, envelope.Level(rapid.IntRange(int(floor), int(envelope.LevelMicroVM)).Draw(t, "higher")))
			}
		case "needs":
			stricter.Needs = append(slices.Clone(in.Needs), rapid.SampledFrom(allNeeds()).Draw(t, "need"))
		}
		was, is := placement.Decide(in), placement.Decide(stricter)
		if was.Refusal != nil && is.Refusal == nil {
			t.Fatalf("the stricter call runs at %s, the other one was refused: %v", is.Level, was.Refusal)
		}
		if is.Refusal == nil && strength(stricter, is) < strength(in, was) {
			t.Fatalf("stricter runs at %s (%s), the other at %s (%s)", is.Level, strength(stricter, is), was.Level, strength(in, was))
		}
	})
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
		if got := strength(in, d); got < in.Floors[in.Trust] || in.Ask == envelope.LevelAuto && got < d.Level {
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
	})
}
