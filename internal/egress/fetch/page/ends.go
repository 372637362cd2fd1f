package page

import (
	"slices"

	"golang.org/x/net/html/atom"
)

// end takes an end tag. One that ends nothing is left out.
func (b *builder) end(a atom.Atom) {
	if b.skip != 0 {
		if a == b.skip {
			if b.nested--; b.nested < 0 {
				b.skip = 0
			}
		}
		return
	}
	r := roleOf(a)
	if b.beyond[a] > 0 {
		b.beyond[a]--
		if r.is(block) {
			b.text = append(b.text, string(lineBreak)...)
		}
		return
	}
	if !r.is(kept) || r.is(void) {
		if r.is(block) || a == atom.Br {
			b.text = append(b.text, string(lineBreak)...)
		}
		return
	}
	meant := []atom.Atom{a}
	if heading(a) {
		meant = []atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}
	}
	b.close(endBounds(a, r), meant...)
}

// endBounds returns what an end tag does not reach beyond.
func endBounds(a atom.Atom, r role) func(atom.Atom) bool {
	switch {
	case a == atom.Table:
		return func(atom.Atom) bool { return false }
	case r.is(rowish):
		return func(open atom.Atom) bool { return open == atom.Table }
	case a == atom.Li:
		return func(open atom.Atom) bool { return roleOf(open).is(cell) || open == atom.Ul || open == atom.Ol }
	}
	return func(open atom.Atom) bool { return roleOf(open).is(cell) }
}

// close ends the innermost open element of one of the names, and what is
// within it. It looks no further than to the first bound.
func (b *builder) close(bound func(atom.Atom) bool, names ...atom.Atom) {
	if !slices.ContainsFunc(names, func(a atom.Atom) bool { return b.opened[a] > 0 }) {
		return
	}
	for i := len(b.open) - 1; i > 0; i-- {
		switch a := b.open[i].DataAtom; {
		case slices.Contains(names, a):
			b.pop(i)
			return
		case bound(a):
			return
		}
	}
}

// imply ends what the start of an element ends without saying so.
func (b *builder) imply(a atom.Atom, r role) {
	inCell := func(open atom.Atom) bool { return roleOf(open).is(cell) || open == atom.Button }
	inItem := func(open atom.Atom) bool { return roleOf(open).is(special | cell) }
	inTable := func(open atom.Atom) bool { return open == atom.Table }
	switch {
	case a == atom.Li:
		b.close(inItem, atom.Li)
	case a == atom.Dt, a == atom.Dd:
		b.close(inItem, atom.Dt, atom.Dd)
	case a == atom.Td, a == atom.Th, a == atom.Caption:
		b.close(inTable, atom.Td, atom.Th, atom.Caption)
	case a == atom.Tr:
		b.close(inTable, atom.Tr, atom.Caption)
	case a == atom.Thead, a == atom.Tbody, a == atom.Tfoot:
		b.close(inTable, atom.Thead, atom.Tbody, atom.Tfoot, atom.Caption)
	case a == atom.A, a == atom.Button:
		b.close(inCell, a)
	case heading(a) && heading(b.top().DataAtom):
		b.pop(len(b.open) - 1)
	}
	if r.is(endsP) {
		b.close(inCell, atom.P)
	}
}
