package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
)

// pattern is one form of a value: a piece of the arena.
type pattern struct {
	from, to int32
	name     int32 // of Redactor.names
	fold     bool  // its letters are those of hex, in lower case, and stand for both cases
	breaks   bool  // a line break may stand between two of its bytes
}

func (p pattern) len() int32 { return p.to - p.from }

func (p pattern) in(arena []byte) []byte { return arena[p.from:p.to] }

// room is how many bytes all forms of values can take.
func room(values []Value) (total int) {
	for _, v := range values {
		n := v.Secret.Len()
		total += n + hex.EncodedLen(n) + 3*2*base64.RawStdEncoding.EncodedLen(n+2)
	}
	return total
}

// build writes every form of every value into the arena and returns how much
// of it that took.
func (r *Redactor) build(arena []byte, values []Value) (int, error) {
	at := 0
	for i, v := range values {
		add := func(fold, breaks bool, n int) {
			p := pattern{from: int32(at), to: int32(at + n), name: int32(i), fold: fold, breaks: breaks}
			if !r.has(arena, p) {
				r.patterns = append(r.patterns, p)
				at += n
			}
		}
		if !v.Secret.Reveal(func(value []byte) {
			add(false, false, copy(arena[at:], value))
			add(true, true, hex.Encode(arena[at:], value))
			for before := range 3 {
				add(false, true, inner64(arena[at:], value, before, '+', '/'))
				add(false, true, inner64(arena[at:], value, before, '-', '_'))
			}
		}) {
			return at, &Error{Name: v.Name, Err: ErrGone}
		}
	}
	return at, nil
}

// has reports whether p says what an earlier pattern says.
func (r *Redactor) has(arena []byte, p pattern) bool {
	for _, q := range r.patterns {
		if q.fold == p.fold && q.breaks == p.breaks && bytes.Equal(q.in(arena), p.in(arena)) {
			return true
		}
	}
	return false
}

// inner64 writes the characters of base64 that value alone decides where
// before bytes stand in front of it: those whose six bits are all its own.
func inner64(dst, value []byte, before int, c62, c63 byte) (n int) {
	first := (8*before + 5) / 6
	last := 8 * (before + len(value)) / 6
	for c := first; c < last; c++ {
		bit := 6*c - 8*before
		pair := uint(value[bit/8]) << 8
		if next := bit/8 + 1; next < len(value) {
			pair |= uint(value[next])
		}
		dst[n] = letter64(pair>>(10-bit%8)&63, c62, c63)
		n++
	}
	return n
}

func letter64(v uint, c62, c63 byte) byte {
	switch {
	case v < 26:
		return 'A' + byte(v)
	case v < 52:
		return 'a' + byte(v-26)
	case v < 62:
		return '0' + byte(v-52)
	case v == 62:
		return c62
	}
	return c63
}

// maxRepeats bounds how many beginnings of a pattern can be under way at once.
const maxRepeats = 16

// repeats reports whether some beginning of pattern ends in more than
// maxRepeats others: what is like aaaaaa or ababab for long. Looking for it
// would not be linear.
func repeats(pattern []byte) bool {
	// border[i] is the length of the longest beginning, shorter than i, that
	// pattern[:i] ends in; chain[i] is how many there are.
	border, chain := make([]int32, len(pattern)+1), make([]int32, len(pattern)+1)
	border[0] = -1
	for i := 1; i <= len(pattern); i++ {
		k := border[i-1]
		for k >= 0 && pattern[k] != pattern[i-1] {
			k = border[k]
		}
		k++
		if border[i] = k; k > 0 {
			chain[i] = chain[k] + 1
		}
		if chain[i] > maxRepeats {
			return true
		}
	}
	return false
}

// Ordinary reports whether value looks like what texts have in them anyhow: a
// lower-case word or a number of less than 12 characters. It is masked
// wherever it stands.
func Ordinary(value []byte) bool {
	if len(value) >= 12 {
		return false
	}
	letters, digits := true, true
	for _, b := range value {
		letters = letters && b >= 'a' && b <= 'z'
		digits = digits && b >= '0' && b <= '9'
	}
	return letters || digits
}
