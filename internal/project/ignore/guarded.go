package ignore

import (
	"strings"
)

// Dir is the directory in a tree that is ours, while changes are applied.
const Dir = ".callcell"

// Guarded says why nothing may be written at a name through a tree, or "". A
// repository's own directory holds what git runs: hooks, filters, monitors; it
// is known in every spelling that some file system takes for it.
func Guarded(name string) string {
	for part := range strings.SplitSeq(name, "/") {
		switch plain(part) {
		case ".git", "git~1":
			return "it is git's own, and what is in it is run by git"
		case Dir, "callce~1":
			return "it is callcell's own"
		}
	}
	return ""
}

// plain is a component as a file system may see it that knows no case, drops
// what cannot be seen, takes a colon for the beginning of a stream and drops
// dots and spaces at the end.
func plain(part string) string {
	part, _, _ = strings.Cut(part, ":")
	part = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0xad:
			return -1
		case r == 0x130, r == 0x131: // of Turkish: an i in every other place
			return 'i'
		}
		return r
	}, part)
	return strings.TrimRight(strings.ToLower(part), ". ")
}
