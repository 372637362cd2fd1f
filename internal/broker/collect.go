package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// maxMisses bounds how many misses a result lists: a program can make a
// directory of any number of things that cannot be taken.
const maxMisses = 256

// A sieve holds what a cell hands out against what was asked and against the
// caps. At the stronger levels the guest, which may be an attacker's by now,
// has a hand in what comes.
type sieve struct {
	asked  []string
	caps   envelope.OutputCaps
	bytes  envelope.Size
	files  []envelope.File
	misses []envelope.Miss
	seen   map[string]bool
	odd    int // of what nobody who plays by the rules hands out
}

// sift returns the files that keep to the rules, and a miss for each that does
// not and for each name that was asked for and not answered. odd is how many were
// something else than files, or came unasked.
func sift(asked []string, caps envelope.OutputCaps, files []envelope.File, misses []envelope.Miss) (kept []envelope.File, missed []envelope.Miss, odd int) {
	s := &sieve{asked: asked, caps: caps, seen: map[string]bool{}}
	for _, f := range files {
		if why := s.wrong(f); why != "" {
			s.miss(f.Name, why)
			continue
		}
		s.seen[f.Name] = true
		s.bytes += envelope.Size(len(f.Data))
		s.files = append(s.files, f)
	}
	for _, m := range misses {
		if m.Why == cell.MissIrregular {
			s.odd++
		}
		s.miss(m.Name, m.Why)
	}
	for _, name := range asked {
		if !s.seen[name] && !strings.HasSuffix(name, "/") {
			s.miss(name, "the cell did not answer for it")
		}
	}
	return s.files, s.short(), s.odd
}

// wrong says why a file is not handed on, or "".
func (s *sieve) wrong(f envelope.File) string {
	switch {
	case envelope.CheckName(f.Name) != nil:
		s.odd++
		return "not a name that can be handed on"
	case !Wanted(s.asked, f.Name):
		s.odd++
		return "not asked for"
	case s.seen[f.Name]:
		return "there already"
	case envelope.Count(len(s.files)) >= s.caps.Count:
		return fmt.Sprintf("over the cap of %s files", s.caps.Count)
	case s.bytes+envelope.Size(len(f.Data)) > s.caps.Bytes:
		return fmt.Sprintf("over the cap of %s", s.caps.Bytes)
	}
	return ""
}

// Wanted reports whether a file is one of the outputs that were asked for, or in a
// directory that was.
func Wanted(asked []string, name string) bool {
	return slices.ContainsFunc(asked, func(a string) bool {
		return a == name || strings.HasSuffix(a, "/") && strings.HasPrefix(name, a)
	})
}

// miss notes a miss. A name that could not be a file's is shown as quoted
// ASCII: it came from the program.
func (s *sieve) miss(name, why string) {
	s.seen[name] = true
	if envelope.CheckName(strings.TrimSuffix(name, "/")) != nil {
		name = strconv.QuoteToASCII(name[:min(len(name), 64)])
	}
	s.misses = append(s.misses, envelope.Miss{Name: name, Why: why})
}

// short returns the misses, with a word for those that are too many.
func (s *sieve) short() []envelope.Miss {
	if len(s.misses) <= maxMisses {
		return s.misses
	}
	rest := len(s.misses) - maxMisses
	return append(s.misses[:maxMisses:maxMisses], envelope.Miss{Name: "...", Why: fmt.Sprintf("and %d more", rest)})
}
