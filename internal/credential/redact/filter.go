package redact

// spellings are the bytes that stand for b as they are.
func (p pattern) spellings(b byte) []byte {
	if p.fold && b >= 'a' && b <= 'f' {
		return []byte{b, b - 'a' + 'A'}
	}
	return []byte{b}
}

// beginnings are the bytes that a spelling of b can begin with.
func (p pattern) beginnings(b byte) []byte {
	all := append(p.spellings(b), '%', '\\')
	switch b {
	case ' ':
		all = append(all, '+')
	case '\n':
		all = append(all, '\r')
	}
	return all
}

// admit marks the pairs of bytes that a pattern can begin with, however it is
// spelt. Where the first byte is spelt with an escape, any byte may follow.
func (r *Redactor) admit(p pattern, bytes []byte) {
	seconds := p.beginnings(bytes[1])
	if p.breaks {
		seconds = append(seconds, '\n', '\r')
	}
	for _, first := range p.spellings(bytes[0]) {
		for _, second := range seconds {
			r.mark(first, second)
		}
	}
	for _, first := range p.beginnings(bytes[0]) {
		if trigger(first) {
			for second := range 256 {
				r.mark(first, byte(second))
			}
		}
	}
}

const wordBits = 64

func (r *Redactor) mark(a, b byte) {
	at := uint(a)<<8 | uint(b)
	r.pairs[at/wordBits] |= 1 << (at % wordBits)
}

// skip returns how many bytes at the front of text begin no pattern, judged by
// pairs. The last byte is not judged.
func (r *Redactor) skip(text []byte) int {
	pairs := &r.pairs
	for i := 1; i < len(text); i++ {
		at := uint(text[i-1])<<8 | uint(text[i])
		if pairs[at/wordBits]>>(at%wordBits)&1 != 0 {
			return i - 1
		}
	}
	return len(text) - 1
}
