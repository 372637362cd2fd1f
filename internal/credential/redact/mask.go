package redact

import (
	"bytes"
	"slices"
)

// choose picks a mask for each name that no value can be told into: no form of
// a value is in it, has it in itself, or could begin or end in a part of it.
// So what a mask stands next to never makes a value together with it.
func (r *Redactor) choose(arena []byte) error {
	for _, name := range r.names {
		mask, culprit := r.maskFor(arena, name)
		if mask == "" {
			return &Error{Name: r.names[culprit], Err: ErrMask}
		}
		r.masks = append(r.masks, mask)
	}
	return nil
}

// maskFor returns the first mask that goes, or who is in the way of the last.
func (r *Redactor) maskFor(arena []byte, name string) (mask string, culprit int32) {
	for _, inside := range []string{"redacted:" + name, "redacted", "***"} {
		for _, around := range []string{"[]", "<>", "{}", "()", "||", "~~"} {
			mask = around[:1] + inside + around[1:]
			at := slices.IndexFunc(r.patterns, func(p pattern) bool { return clashes(p.in(arena), mask, p.fold) })
			if at < 0 {
				return mask, 0
			}
			culprit = r.patterns[at].name
		}
	}
	return "", culprit
}

// clashes reports whether pattern and mask can overlap. The mask has neither
// escapes nor line breaks in it.
func clashes(pattern []byte, mask string, fold bool) bool {
	m := []byte(mask)
	if fold {
		m = bytes.ToLower(m)
	}
	if bytes.Contains(pattern, m) || bytes.Contains(m, pattern) {
		return true
	}
	for k := 1; k <= min(len(pattern), len(m)); k++ {
		if bytes.HasSuffix(pattern, m[:k]) || bytes.HasPrefix(pattern, m[len(m)-k:]) {
			return true
		}
	}
	return false
}
