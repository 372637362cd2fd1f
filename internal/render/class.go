package render

import "unicode"

// A class says how the scanner treats a character.
type class uint8

const (
	classHidden   class = iota // shown as an escape
	classPlain                 // seen as it is
	classBreak                 // \n and \t: pass, and nothing combines across them
	classMark                  // combines with what is before it
	classSelector              // asks for a form of the emoji before it
	classJoiner                // joins, or keeps apart, its neighbours
)

const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

func classOf(r rune) class {
	switch {
	case r == '\n' || r == '\t':
		return classBreak
	case r >= ' ' && r <= '~':
		return classPlain
	case r == '\ufe0e' || r == '\ufe0f':
		return classSelector
	case r == zwnj || r == zwj:
		return classJoiner
	case invisible(r):
		return classHidden
	case unicode.Is(unicode.M, r):
		return classMark
	case unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Zs):
		return classPlain
	}
	return classHidden // Cc, Cf, Co, Cs, Zl, Zp, and what is not assigned
}

// invisible reports whether r has a category of things that are seen and yet
// shows nothing.
func invisible(r rune) bool {
	switch r {
	case '\u2800', // BRAILLE PATTERN BLANK
		'\U0001d159', // MUSICAL SYMBOL NULL NOTEHEAD
		'\U00016fe4': // KHITAN SMALL SCRIPT FILLER
		return true
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// takesSelector reports whether an emoji's variation selector may stand behind
// r. It is a little wider than Unicode's list, which the standard library does
// not have: symbols, digits and punctuation, and U+2139, the only letter.
func takesSelector(r rune) bool {
	return r == '\u2139' || unicode.In(r, unicode.S, unicode.N, unicode.P)
}

// joins reports whether the joiner j may stand between base and next.
func joins(base, j, next rune) bool {
	switch classOf(next) {
	case classPlain, classMark:
	default:
		return false
	}
	if j == zwj && emoji(base) && emoji(next) && !unicode.Is(unicode.Sk, next) {
		return true
	}
	script := joinedScript(base)
	return script != nil && unicode.In(next, unicode.L, unicode.M) && unicode.Is(script, next)
}

func emoji(r rune) bool {
	return r >= '\u2190' && unicode.In(r, unicode.So, unicode.Sm, unicode.Sk)
}

// joinedScript returns the script of the letter r where that script is written
// with zero-width joiners and non-joiners, else nil.
func joinedScript(r rune) *unicode.RangeTable {
	if r < '\u0600' || !unicode.IsLetter(r) {
		return nil
	}
	for _, script := range []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
		unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala,
	} {
		if unicode.Is(script, r) {
			return script
		}
	}
	return nil
}
