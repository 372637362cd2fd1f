package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// reasons returns one sentence for each level: "container: chosen, ...".
func reasons(ask envelope.Level, verdicts []verdict, chosen int) []string {
	out := make([]string, 0, len(verdicts))
	for i, v := range verdicts {
		out = append(out, v.offer.Level.String()+": "+reason(ask, v, i == chosen))
	}
	return out
}

func reason(ask envelope.Level, v verdict, chosen bool) string {
	switch {
	case chosen && ask == envelope.LevelAuto:
		return "chosen: the cheapest that satisfies the call" + costOf(v.offer)
	case chosen && v.offer.Emulated():
		return fmt.Sprintf("chosen: asked for by name. It is worth no more than %s here%s", v.offer.Strength(), inBrackets(v.offer.Weakness))
	case chosen:
		return "chosen: asked for by name" + costOf(v.offer)
	case !v.fits():
		return strings.Join(v.faults(), "; ")
	case ask != envelope.LevelAuto:
		return fmt.Sprintf("not asked for: the call names %s", ask)
	case v.offer.Emulated():
		return fmt.Sprintf("worth no more than %s here%s: never chosen by auto", v.offer.Strength(), inBrackets(v.offer.Weakness))
	}
	return "would do, and is not needed" + costOf(v.offer)
}

func (v verdict) faults() []string {
	return slices.DeleteFunc([]string{v.below, v.missing, v.unmetText()}, func(s string) bool { return s == "" })
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func costOf(o Offer) string {
	if o.Cost <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%s for an empty call here)", o.Cost)
}

// refuse says why no level was chosen, and what would mend it.
func refuse(in Input, floor envelope.Level, verdicts []verdict) *envelope.Refusal {
	if in.Ask != envelope.LevelAuto {
		for _, v := range verdicts {
			if v.offer.Level == in.Ask {
				return refuseAsked(in, v)
			}
		}
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "level",
			Message: fmt.Sprintf("%s is no level at which code can run", in.Ask),
			Hint:    "ask for auto, language, container, userkernel or microvm"}
	}
	return refuseAuto(in, floor, verdicts)
}

func refuseAsked(in Input, v verdict) *envelope.Refusal {
	name := v.offer.Level.String()
	switch {
	case v.below != "":
		return &envelope.Refusal{Reason: envelope.ReasonIsolation, Field: "level",
			Message: name + " is " + v.below, Hint: hintBelow(in, v.offer.Strength())}
	case v.missing != "":
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "level",
			Message: name + " is not to be had here", Hint: v.missing}
	}
	return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "level",
		Message: name + " cannot run this: " + v.unmetText(), Hint: "ask for auto, or leave out what the level cannot give"}
}

// hintBelow says under which trust strength would do.
func hintBelow(in Input, strength envelope.Level) string {
	stronger := "ask for a stronger level, or for auto"
	reviewed := in
	reviewed.Trust = envelope.TrustReviewed
	if floor, _ := floorOf(reviewed); in.Trust == envelope.TrustReviewed || strength < floor {
		return stronger
	}
	return "for code that you have read yourself, and where the profile lets you: --trust reviewed; otherwise " + stronger
}

func refuseAuto(in Input, floor envelope.Level, verdicts []verdict) *envelope.Refusal {
	var get, unmet []string
	_, why := floorOf(in)
	usable := false // a level at or above the floor, if for the needs
	for _, v := range verdicts {
		if v.below != "" {
			continue
		}
		name := v.offer.Level.String()
		switch {
		case v.missing != "":
			get = append(get, name+": "+v.missing)
		case len(v.unmet) > 0:
			usable = true
			unmet = append(unmet, name+": "+v.unmetText())
		default: // weaker than its name, and strong enough all the same
			get = append(get, name+": it is worth less than its name here, and then only asked for by name")
		}
	}
	if usable {
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "level",
			Message: "no level here can run this: " + strings.Join(unmet, "; "),
			Hint:    hintGet(in, verdicts, get)}
	}
	return &envelope.Refusal{Reason: envelope.ReasonIsolation, Field: "level",
		Message: fmt.Sprintf("%s needs the strength of %s, and no level of that strength is to be had here", why, floor),
		Hint:    hintGet(in, verdicts, get)}
}

// hintGet says how a level could be had, and under which trust one that is
// there would do.
func hintGet(in Input, verdicts []verdict, get []string) string {
	hints := get
	reviewed := in
	reviewed.Trust = envelope.TrustReviewed
	floor, _ := floorOf(reviewed)
	for _, v := range verdicts {
		if in.Trust != envelope.TrustReviewed && v.below != "" && v.missing == "" && len(v.unmet) == 0 &&
			!v.offer.Emulated() && v.offer.Strength() >= floor {
			hints = append([]string{"for code that you have read yourself, and where the profile lets you: --trust reviewed (then " +
				v.offer.Level.String() + " will do)"}, hints...)
			break
		}
	}
	if len(hints) == 0 {
		hints = []string{"it takes a host whose levels are worth their names: see callcell levels"}
	}
	return strings.Join(hints, "; ")
}
