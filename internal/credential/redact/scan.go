package redact

import (
	"cmp"
	"slices"
)

// A thread is a pattern of which the text up to some place was the beginning.
type thread struct {
	start int64 // in the text
	pat   int32
	off   int32 // bytes of the pattern that were read
	lines uint8 // a line break was just looked past: 1 CR, 2 all of it
}

// A match is a pattern in the text.
type match struct {
	start, end int64
	pat        int32
}

const ringSize = 16

const _ = uint(ringSize - 1 - maxToken) // an escape never lands where it came from

// scan is where one text stands. Places are counted from its beginning.
//
//	          base          safe        pos
//	---------- held back --- | ---- read --- | not yet read
//	written                  the first thread's start
type scan struct {
	r     *Redactor
	arena []byte // while run runs

	buf  []byte // the text from base on
	base int64
	pos  int64 // up to here it was read

	ring    [ringSize][]thread // those that have read up to a place, by its number
	live    int                // threads in ring
	matches []match            // found, and not yet written
	matched int                // found, in all
	masked  int64              // up to here the text is covered by a mask that was written

	out   []byte
	tally []int // masks written, by name
}

func newScan(r *Redactor) *scan { return &scan{r: r, tally: make([]int, len(r.names))} }

func (s *scan) end() int64 { return s.base + int64(len(s.buf)) }

// run reads what there is. Where the text ends in what may be an escape that
// is cut, it stops in front of that, unless nothing more comes.
func (s *scan) run(arena []byte, last bool) {
	s.arena = arena
	defer func() { s.arena = nil }()
	for s.pos < s.end() {
		if s.live == 0 {
			s.pos += int64(s.r.skip(s.buf[s.pos-s.base:]))
		}
		if !s.step(last) {
			return
		}
	}
}

// step reads one byte at pos, and every escape that begins there.
func (s *scan) step(last bool) bool {
	text := s.buf[s.pos-s.base:]
	slot := &s.ring[s.pos%ringSize]
	var escapes tokens
	if trigger(text[0]) {
		escapes = read(text)
		if escapes.more && !last && (text[0] != '\r' || s.live > 0 || s.r.starts['\n'] != nil) {
			return false
		}
	}
	for _, t := range *slot {
		if s.advance(&t, text[0]) {
			s.place(s.pos+1, t)
		}
	}
	if s.r.skip(text[:min(len(text), 2)]) == 0 {
		for _, pat := range s.r.starts[text[0]] {
			s.place(s.pos+1, thread{start: s.pos, pat: pat, off: 1})
		}
	}
	for i := range escapes.n {
		s.escape(*slot, &escapes.list[i])
	}
	s.live -= len(*slot)
	*slot = (*slot)[:0]
	s.pos++
	return true
}

// escape reads what an escape at pos stands for.
func (s *scan) escape(threads []thread, e *token) {
	for _, t := range threads {
		s.follow(t, e)
	}
	for _, pat := range s.r.starts[e.bytes[0]] {
		s.follow(thread{start: s.pos, pat: pat}, e)
	}
}

func (s *scan) follow(t thread, e *token) {
	for _, b := range e.means() {
		if t.off == s.r.patterns[t.pat].len() || !s.advance(&t, b) {
			return
		}
	}
	s.place(s.pos+int64(e.n), t)
}

// advance reports whether the pattern goes on with b, and goes on.
func (s *scan) advance(t *thread, b byte) bool {
	p := &s.r.patterns[t.pat]
	want := s.arena[p.from+t.off]
	switch {
	case b == want, p.fold && b >= 'A' && b <= 'F' && b-'A'+'a' == want:
		t.off++
		t.lines = 0
		return true
	case !p.breaks || t.off == 0:
		return false
	case b == '\n' && t.lines < 2:
		t.lines = 2
		return true
	case b == '\r' && t.lines == 0:
		t.lines = 1
		return true
	}
	return false
}

// place notes that a thread has read up to a place. Of two that will do the
// same from there on, the one that began first is enough.
func (s *scan) place(at int64, t thread) {
	if t.off == s.r.patterns[t.pat].len() {
		s.matches = append(s.matches, match{t.start, at, t.pat})
		s.matched++
		return
	}
	slot := &s.ring[at%ringSize]
	for i := range *slot {
		if have := &(*slot)[i]; have.pat == t.pat && have.off == t.off && have.lines == t.lines {
			have.start = min(have.start, t.start)
			return
		}
	}
	*slot = append(*slot, t)
	s.live++
}

// safe is the place in front of which no match will begin any more.
func (s *scan) safe() int64 {
	safe := s.pos
	if s.live == 0 {
		return safe
	}
	for i := range s.ring {
		for _, t := range s.ring[i] {
			safe = min(safe, t.start)
		}
	}
	return safe
}

// emit writes to out what is settled: the text up to safe, with masks in it. A
// mask is written once nothing can begin in front of it or together with it,
// and then grows with whatever overlaps it.
func (s *scan) emit(last bool) {
	safe := s.end()
	if !last {
		safe = s.safe()
	}
	slices.SortFunc(s.matches, s.before)
	done := 0
	for _, m := range s.matches {
		if m.start >= safe {
			break
		}
		if m.start >= s.masked {
			s.keep(m.start)
			name := s.r.patterns[m.pat].name
			s.out = append(s.out, s.r.masks[name]...)
			s.tally[name]++
		}
		s.masked = max(s.masked, m.end)
		done++
	}
	s.matches = slices.Delete(s.matches, 0, done)
	s.keep(safe)
}

// before sorts matches by where they begin, the longest first.
func (s *scan) before(a, b match) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.pat, b.pat))
}

// keep writes the text up to a place, without what is under a mask, and lets
// go of it.
func (s *scan) keep(upto int64) {
	if from := max(s.base, s.masked); from < upto {
		s.out = append(s.out, s.buf[from-s.base:upto-s.base]...)
	}
	if upto > s.base {
		s.buf = s.buf[upto-s.base:]
		s.base = upto
	}
}

func (s *scan) counts() Counts {
	counts := Counts{}
	for i, n := range s.tally {
		if n > 0 {
			counts[s.r.names[i]] += n
		}
	}
	return counts
}
