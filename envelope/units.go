package envelope

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The quantities of an envelope. Each has one text form that carries its unit
// and that its own parser reads back; a negative one cannot be written. A
// parser that fails returns a *ValueError and leaves the zero value.

// Size is a number of bytes. Its text carries a unit: 512B, 64Ki, 1Gi. A bare
// number is an error, because nobody can tell what it meant.
type Size int64

// The units of Size.
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
	TiB       = 1024 * GiB
)

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

type sizeUnit struct {
	name string
	size Size
}

func sizeUnits() []sizeUnit {
	return []sizeUnit{{"Ti", TiB}, {"Gi", GiB}, {"Mi", MiB}, {"Ki", KiB}, {"B", Byte}}
}

// ParseSize parses a size with its unit.
func ParseSize(text string) (Size, error) {
	for _, u := range sizeUnits() {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, ok := parseDigits(digits)
		if !ok || n > math.MaxInt64/int64(u.size) {
			break
		}
		return Size(n) * u.size, nil
	}
	return 0, badQuantity(kindSize, text)
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return quantityText(kindSize, int64(s), s.String()) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(b []byte) (err error) { *s, err = ParseSize(string(b)); return err }

// Duration is a time with its unit in the text, as time.ParseDuration reads
// it: 30s, 10m, 1h30m. A bare number is an error, and so is a bare 0.
type Duration time.Duration

// String returns the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// ParseDuration parses a duration that is not negative. What is too small to
// be told from nothing is an error, not nothing.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || strings.ContainsAny(text, "+-") || text == "0" {
		return 0, badQuantity(kindDuration, text)
	}
	if d == 0 && strings.ContainsAny(text, "123456789") {
		return 0, badQuantity(kindDuration, text)
	}
	return Duration(d), nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	return quantityText(kindDuration, int64(d), d.String())
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDuration(string(b))
	return err
}

// Count is a number of things. In text it may carry k (thousand) or M
// (million); in JSON it is a number or such a string.
type Count int64

// String returns the plain number.
func (c Count) String() string { return strconv.FormatInt(int64(c), 10) }

// ParseCount parses a whole number, with k or M behind it or not.
func ParseCount(text string) (Count, error) {
	digits, unit := text, int64(1)
	if d, ok := strings.CutSuffix(text, "k"); ok {
		digits, unit = d, 1_000
	} else if d, ok := strings.CutSuffix(text, "M"); ok {
		digits, unit = d, 1_000_000
	}
	n, ok := parseDigits(digits)
	if !ok || n > math.MaxInt64/unit {
		return 0, badQuantity(kindCount, text)
	}
	return Count(n * unit), nil
}

// MarshalJSON implements json.Marshaler.
func (c Count) MarshalJSON() ([]byte, error) { return c.MarshalText() }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(b []byte) (err error) {
	*c, err = parseJSON(b, ParseCount)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (c Count) MarshalText() ([]byte, error) { return quantityText(kindCount, int64(c), c.String()) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Count) UnmarshalText(b []byte) (err error) { *c, err = ParseCount(string(b)); return err }

// CPU is processing power in thousandths of one CPU. In text it is the number
// of CPUs: 1, 0.5, 2; in JSON it is that number, or the same in a string.
type CPU int64

// String returns the number of CPUs.
func (c CPU) String() string {
	whole := strconv.FormatInt(int64(c/1000), 10)
	frac := int64(c % 1000)
	if c < 0 {
		whole, frac = "-"+strings.TrimPrefix(whole, "-"), -frac
	}
	if frac == 0 {
		return whole
	}
	return whole + "." + strings.TrimRight(strconv.FormatInt(1000+frac, 10)[1:], "0")
}

// ParseCPU parses a number of CPUs with at most three decimals.
func ParseCPU(text string) (CPU, error) {
	whole, frac, dot := strings.Cut(text, ".")
	if !dot {
		frac = "0"
	}
	if len(frac) == 0 || len(frac) > 3 {
		return 0, badQuantity(kindCPU, text)
	}
	n, ok := parseDigits(whole)
	f, fok := parseDigits(frac + "000"[len(frac):])
	if !ok || !fok || n > math.MaxInt64/1000-1 {
		return 0, badQuantity(kindCPU, text)
	}
	return CPU(n*1000 + f), nil
}

// MarshalJSON implements json.Marshaler.
func (c CPU) MarshalJSON() ([]byte, error) { return c.MarshalText() }

// UnmarshalJSON implements json.Unmarshaler.
func (c *CPU) UnmarshalJSON(b []byte) (err error) {
	*c, err = parseJSON(b, ParseCPU)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (c CPU) MarshalText() ([]byte, error) { return quantityText(kindCPU, int64(c), c.String()) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CPU) UnmarshalText(b []byte) (err error) { *c, err = ParseCPU(string(b)); return err }

// MarshalText implements encoding.TextMarshaler: standard base64 with
// padding. No data is the empty text, never null.
func (d Data) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode([]byte{}, d), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It takes one spelling of
// each value: no line breaks, no stray bits, padding where it belongs.
func (d *Data) UnmarshalText(b []byte) error {
	*d = nil
	out, err := base64.StdEncoding.Strict().AppendDecode([]byte{}, b)
	if err != nil || strings.ContainsAny(string(b), "\r\n") {
		return &ValueError{Kind: "data", Value: string(b[:min(len(b), 65)]), Want: []string{"standard base64 with padding"},
			Hint: "encode the bytes as base64 (RFC 4648, section 4), without line breaks"}
	}
	*d = out
	return nil
}

// parseJSON parses a quantity from a JSON number or a JSON string.
func parseJSON[T any](b []byte, parse func(string) (T, error)) (T, error) {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			var zero T
			return zero, err
		}
	}
	return parse(text)
}

// quantityText is text, or an error for a negative quantity: no parser here
// would read it back.
func quantityText(k kind, n int64, text string) ([]byte, error) {
	if n < 0 {
		return nil, badQuantity(k, text)
	}
	return []byte(text), nil
}

// parseDigits parses digits alone: no sign, no space, no exponent, and at
// most 18 of them.
func parseDigits(text string) (int64, bool) {
	if text == "" || len(text) > 18 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
