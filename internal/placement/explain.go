package placement

import (
	"fmt"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// explain says for each level what speaks for it and against it, and what
// would have to change, and for the cheaper ones the same in a line.
func explain(in Input, floor envelope.Level, verdicts []verdict, chosen int) (levels []Verdict, lines []string) {
	for i, v := range verdicts {
		out := Verdict{Level: v.offer.Level, Chosen: i == chosen, Worth: v.offer.Strength()}
		if v.offer.Emulated() {
			out.Weakness = v.offer.Weakness
		}
		out.For, out.Against = pro(in, floor, v), contra(v)
		if !out.Chosen {
			out.Change = changes(in, v, chosenOf(verdicts, chosen))
		}
		levels = append(levels, out)
		if chosen >= 0 && i != chosen && less(v.offer, verdicts[chosen].offer) {
			lines = append(lines, v.offer.Level.String()+": "+strings.Join(out.Change, "; and "))
		}
	}
	return levels, lines
}

func chosenOf(verdicts []verdict, chosen int) *verdict {
	if chosen < 0 {
		return nil
	}
	return &verdicts[chosen]
}

// less reports whether a would be the cheaper of two levels, if both would do.
// One that is worth less than its name is not cheap: it is weak.
func less(a, b Offer) bool {
	return !a.Emulated() && (cheaper(a, b) || a.Strength() == b.Strength() && a.Cost == b.Cost && a.Level < b.Level)
}

// pro is what speaks for a level.
func pro(in Input, floor envelope.Level, v verdict) (out []string) {
	switch v.offer.Level {
	case envelope.LevelLanguage:
		out = append(out, "the code sees no kernel, only what it is handed")
	case envelope.LevelContainer:
		out = append(out, "stops reads across calls and the exhaustion of resources")
	case envelope.LevelUserKernel:
		out = append(out, "the code's system calls are answered by a kernel that is not the host's")
	case envelope.LevelMicroVM:
		out = append(out, "a kernel of its own: one of the host's is not seen")
	}
	if v.below == "" {
		out = append(out, fmt.Sprintf("at or above the floor, %s", floor))
	}
	if v.offer.Strength() > v.offer.Level && v.offer.Weakness != "" {
		out = append(out, fmt.Sprintf("worth %s here: %s", v.offer.Strength(), v.offer.Weakness))
	}
	if len(v.unmet) == 0 && len(in.Needs) > 0 {
		out = append(out, "meets what the call needs")
	}
	if v.offer.Cost > 0 {
		out = append(out, fmt.Sprintf("%s for an empty call, measured on this host", v.offer.Cost))
	}
	return out
}

// contra is what speaks against a level.
func contra(v verdict) (out []string) {
	switch v.offer.Level {
	case envelope.LevelContainer:
		out = append(out, "shares the host's kernel: a bug in that is not stopped")
	case envelope.LevelUserKernel:
		out = append(out, "a sandbox of its own to start")
	case envelope.LevelMicroVM:
		out = append(out, "a machine of its own to start")
	}
	if v.below != "" {
		out = append(out, v.below)
	} else if v.offer.Emulated() {
		out = append(out, fmt.Sprintf("worth no more than %s here%s: never chosen by auto", v.offer.Strength(), inBrackets(v.offer.Weakness)))
	}
	if v.missing != "" {
		out = append(out, "not to be had here: "+v.missing)
	}
	for i, need := range v.unmet {
		out = append(out, fmt.Sprintf("the call needs %s: %s", wordingOf(need).noun, v.why[i]))
	}
	return out
}

// changes is what would have to change for the level to be chosen, all of it.
func changes(in Input, v verdict, chosen *verdict) (out []string) {
	if v.below != "" {
		out = append(out, changeFloor(in, v.offer.Strength()))
	}
	if v.missing != "" {
		out = append(out, "a host that has it: "+v.missing)
	}
	for _, need := range v.unmet {
		w := wordingOf(need)
		out = append(out, fmt.Sprintf("a call that does not need %s (%s)", w.noun, w.mend))
	}
	switch {
	case in.Ask != envelope.LevelAuto && in.Ask != v.offer.Level:
		out = append(out, "level: "+v.offer.Level.String()+" in the envelope, not "+in.Ask.String())
	case v.offer.Emulated() && in.Ask == envelope.LevelAuto:
		out = append(out, "to be asked for by name: auto never takes it")
	case v.fits() && chosen != nil && in.Ask == envelope.LevelAuto:
		out = append(out, "level: "+v.offer.Level.String()+" in the envelope; "+chosen.offer.Level.String()+" is cheaper")
	}
	return out
}

// changeFloor says how the floor could come down to strength.
func changeFloor(in Input, strength envelope.Level) string {
	var ways []string
	for trust := in.Trust - 1; trust.Valid() && in.Trust.Valid(); trust-- {
		if floorFor(in.Floors, trust) <= strength {
			way := "trust: " + trust.String()
			if trust == envelope.TrustReviewed {
				way += ", for code that people have read"
			}
			ways = append(ways, way)
			break
		}
	}
	if floorFor(in.Floors, in.Trust) > strength {
		ways = append(ways, fmt.Sprintf("floors: {%s: %s} in the operator's configuration", in.Trust, strength))
	} else {
		ways = nil // it is a need that stands in the way
	}
	text := strings.Join(ways, ", or ")
	for _, n := range in.Needs {
		if higher, _ := raised(in.Floors, n); higher > strength {
			text = joinWith(text, ", and ", "a call that does not need "+wordingOf(n).noun+" ("+wordingOf(n).mend+")")
		}
	}
	return text
}

func joinWith(a, sep, b string) string {
	if a == "" {
		return b
	}
	return a + sep + b
}
