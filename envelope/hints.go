package envelope

import (
	"strings"
	"time"
)

// kind is what a quantity is called in errors.
type kind string

const (
	kindSize     kind = "size"
	kindDuration kind = "duration"
	kindCount    kind = "count"
	kindCPU      kind = "cpu"
)

// want says what the text of a quantity looks like.
func (k kind) want() string {
	switch k {
	case kindSize:
		return "a whole number with a unit: B, Ki, Mi, Gi or Ti (64Mi)"
	case kindDuration:
		return "a number with a unit: ms, s, m or h (30s)"
	case kindCPU:
		return "a number of CPUs with at most three decimals (1, 0.5)"
	default:
		return "a whole number, with k or M behind it or not (64, 16k)"
	}
}

func badQuantity(k kind, text string) *ValueError {
	return &ValueError{Kind: string(k), Value: text, Want: []string{k.want()}, Hint: quantityHint(k, text)}
}

// quantityHint guesses what was meant. It never guesses in the value's place:
// the text stays an error.
func quantityHint(k kind, text string) string {
	switch strings.ToLower(text) {
	case "unlimited", "none", "inf", "infinity", "infinite", "max", "no", "off", "-1":
		return "there is no unlimited: write a ceiling"
	case "":
		return "leave the key out to keep the default"
	}
	if strings.HasPrefix(text, "-") {
		return "it cannot be negative"
	}
	switch n, digits := parseDigits(text); {
	case digits && k == kindSize && 0 < n && n < 1<<10: // few mean so few bytes
		return "give the unit: \"" + text + "Mi\", or \"" + text + "B\""
	case digits && k == kindSize:
		return "write \"" + Size(n).String() + "\", not " + text
	case digits && k == kindDuration && n <= int64(24*time.Hour/time.Second):
		return "write \"" + text + "s\", not " + text
	case digits && k == kindDuration:
		return "give the unit: \"" + text + "ms\" or \"" + text + "s\""
	}
	return unitHint(k, text)
}

// unitHint mends a unit that is written as others write it.
func unitHint(k kind, text string) string {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(text[len(number):]))
	n, ok := parseDigits(number)
	if !ok {
		return ""
	}
	switch {
	case k == kindSize && unit != "" && strings.Contains("kmgt", unit[:1]):
		return "units are powers of 1024: write \"" + number + strings.ToUpper(unit[:1]) + "i\""
	case k == kindDuration && strings.HasPrefix(unit, "d") && n < 1_000_000:
		return "the longest unit is h: write \"" + Count(n*24).String() + "h\""
	case k == kindDuration && strings.HasPrefix(unit, "min"):
		return "write \"" + number + "m\""
	case k == kindDuration && strings.HasPrefix(unit, "sec"):
		return "write \"" + number + "s\""
	case k == kindCount && (unit == "m" || unit == "k"):
		return "k is a thousand and M a million"
	case k == kindCPU && unit == "m":
		return "write CPUs, not thousandths: " + CPU(n).String()
	}
	return ""
}
