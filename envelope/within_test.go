package envelope

import (
	"testing"

	"pgregory.net/rapid"
)

func TestWithinIsAnOrder(t *testing.T) {
	related := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawEnvelope(t), drawEnvelope(t), drawEnvelope(t)
		if rapid.Bool().Draw(t, "related") {
			// Three that have much in common, so that the order says something.
			b, c = a.Clone(), a.Clone()
			b.Network.Allow, c.Network.Allow = drawAllow(t), drawAllow(t)
			b.Level, c.Level, b.Trust = drawLevel(t), drawLevel(t), drawTrust(t)
			b.CoResidency = rapid.SampledFrom(coResidencies()).Draw(t, "coResidency")
		}
		for _, e := range []Envelope{a, b, c} {
			if !Within(e, e) {
				t.Fatalf("not reflexive: %+v", e)
			}
		}
		all := []Envelope{a, b, c}
		for _, x := range all {
			for _, y := range all {
				for _, z := range all {
					if Within(x, y) && Within(y, z) {
						related++
						if !Within(x, z) {
							t.Fatalf("not transitive:\n%+v\n%+v\n%+v", x, y, z)
						}
					}
				}
			}
		}
		if a.Digest() == b.Digest() && (!Within(a, b) || !Within(b, a)) {
			t.Fatalf("one digest, and not the same in the order:\n%+v\n%+v", a, b)
		}
	})
	if related == 0 {
		t.Error("no two envelopes were related")
	}
}

// No field is left out of the order: what differs in one is not within each
// other both ways.
func TestWithinSeesEveryField(t *testing.T) {
	e := full()
	for _, m := range mutants(e) {
		if Within(m.env, e) && Within(e, m.env) {
			t.Errorf("%s is not compared", m.path)
		}
	}
}

func TestWithinOfWhatIsInvalid(t *testing.T) {
	e := full()
	for _, level := range []Level{0, LevelNone, 99} {
		bad := full()
		bad.Level = level
		if !Within(bad, bad) || Within(bad, e) || Within(e, bad) {
			t.Errorf("level %d is related to others than itself", level)
		}
	}
}

func TestWithinCoResidency(t *testing.T) {
	words := coResidencies()
	for i, a := range words {
		for j, p := range words {
			if got := withinCoResidency(a, p); got != (i >= j) {
				t.Errorf("%s within %s: %v", a, p, got)
			}
		}
		if withinCoResidency(a, "other") || withinCoResidency("other", a) {
			t.Errorf("%s is related to a word that is none", a)
		}
	}
}

func TestCovers(t *testing.T) {
	cases := []struct {
		entry, host string
		want        bool
	}{
		{"api.test", "api.test", true},
		{"api.test", "a.api.test", false},
		{"*.api.test", "api.test", false},
		{"*.api.test", "a.api.test", true},
		{"*.api.test", "a.b.api.test", true},
		{"*.api.test", "*.api.test", true},
		{"*.api.test", "*.b.api.test", true},
		{"*.b.api.test", "*.api.test", false},
		{"*.api.test", "xapi.test", false},
		{"*.api.test", "", false},
		{"*.api.test", ".api.test", false},
		{"a.api.test", "*.api.test", false},
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.4", false},
		{"10.1.2.3", "a.10.1.2.3", false},
		{"2001:db8::1", "2001:db8::1", true},
		{"2001:db8::1", "2001:db8::11", false},
		{"*.api.test", "2001:db8::1", false},
	}
	for _, c := range cases {
		if got := (Allow{Host: c.entry}).Covers(c.host); got != c.want {
			t.Errorf("%s covers %q: %v", c.entry, c.host, got)
		}
		if got := labelsWithin(c.host, c.entry); got != c.want && c.host != ".api.test" {
			t.Errorf("by labels, %s covers %q: %v", c.entry, c.host, got)
		}
	}
}
