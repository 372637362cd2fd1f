package redact

import (
	"errors"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/credential/secret"
)

// The bounds of what is looked for.
const (
	MinBytes  = 6         // of a value
	MaxValues = 64        // of one Redactor
	MaxTotal  = 128 << 10 // bytes of all values together
)

// A Value is what is looked for, and what its mask calls it.
type Value struct {
	Name   string
	Secret secret.Secret
}

// Counts are the masks that were written, by name.
type Counts map[string]int

// Total is the number of masks.
func (c Counts) Total() (n int) {
	for _, one := range c {
		n += one
	}
	return n
}

// Add adds the counts of other.
func (c Counts) Add(other Counts) {
	for name, n := range other {
		c[name] += n
	}
}

// Redactor masks the values that it was made for. It may be used by many
// goroutines. It holds copies of the values, encoded, as a secret is held,
// until Destroy.
type Redactor struct {
	names    []string
	masks    []string      // of names
	arena    secret.Secret // what patterns are pieces of
	patterns []pattern
	starts   [256][]int32               // patterns by their first byte, in either case where case does not matter
	pairs    [1 << 16 / wordBits]uint64 // set: two bytes that may begin a pattern, however spelt
}

// New returns a Redactor for values, which stay the caller's. Two values may
// be equal: the first name, in the order of the list, then stands for both.
// Without values it passes everything on. An error is an *Error.
func New(values []Value) (*Redactor, error) {
	r := &Redactor{}
	if len(values) == 0 {
		return r, nil
	}
	if err := check(values); err != nil {
		return nil, err
	}
	for _, v := range values {
		r.names = append(r.names, v.Name)
	}
	arena, err := secret.Make(room(values), func(arena []byte) (int, error) {
		n, err := r.build(arena, values)
		if err != nil {
			return 0, err
		}
		return n, r.finish(arena)
	})
	var fault *Error
	if err != nil && !errors.As(err, &fault) {
		err = &Error{Err: err}
	}
	if err != nil {
		return nil, err
	}
	r.arena = arena
	return r, nil
}

// check holds values to the bounds.
func check(values []Value) error {
	if len(values) > MaxValues {
		return &Error{Err: ErrTooMuch}
	}
	total := 0
	for _, v := range values {
		n := v.Secret.Len()
		switch {
		case !plainName(v.Name):
			return &Error{Err: ErrName}
		case n == 0:
			return &Error{Name: v.Name, Err: ErrGone}
		case n < MinBytes:
			return &Error{Name: v.Name, Err: ErrShort}
		}
		if total += n; total > MaxTotal {
			return &Error{Name: v.Name, Err: ErrTooMuch}
		}
	}
	return nil
}

func plainName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// finish makes the tables and the masks from the patterns.
func (r *Redactor) finish(arena []byte) error {
	for i, p := range r.patterns {
		bytes := p.in(arena)
		if repeats(bytes) {
			return &Error{Name: r.names[p.name], Err: ErrRepeats}
		}
		for _, first := range p.spellings(bytes[0]) {
			r.starts[first] = append(r.starts[first], int32(i))
		}
		r.admit(p, bytes)
	}
	return r.choose(arena)
}

// Destroy overwrites the copies of the values. Nothing comes out of the
// Redactor and its Writers any more. It may be called often.
func (r *Redactor) Destroy() { r.arena.Destroy() }

// idle reports whether there is nothing to look for.
func (r *Redactor) idle() bool { return len(r.names) == 0 }

// Bytes returns b with every value masked, and how many masks that took. It
// does not change b; without a value in it b itself is returned. After Destroy
// it returns nothing.
func (r *Redactor) Bytes(b []byte) ([]byte, Counts) {
	if r.idle() {
		return b, Counts{}
	}
	s := newScan(r)
	s.buf = b
	if !r.arena.Reveal(func(arena []byte) { s.run(arena, true) }) {
		return nil, Counts{}
	}
	if s.matched == 0 {
		return b, Counts{}
	}
	s.emit(true)
	return s.out, s.counts()
}

// String is Bytes of a string.
func (r *Redactor) String(text string) (string, Counts) {
	out, counts := r.Bytes([]byte(text))
	return string(out), counts
}

// Names are the names of the values, in the order of New.
func (r *Redactor) Names() []string { return slices.Clone(r.names) }
