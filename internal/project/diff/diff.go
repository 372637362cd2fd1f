// Package diff shows what a call made of a tree: as unified diffs, raw for
// programs and rendered for people. What is in a file is a program's: on the
// way to a terminal every line goes through package render.
package diff

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// The bounds of what is compared line by line. A file beyond them is said to
// be large, with its sizes.
const (
	maxBytes = 1 << 20
	maxLines = 50_000
)

// File is the diff of one file.
type File struct {
	Name           string
	Kind           envelope.ChangeKind
	Executable     bool
	Note           string // "" or why there are no hunks
	Mode           string // "" or what became of its execute bits, beside its bytes
	Hunks          string // of a unified diff, raw
	Plus, Minus    int    // lines
	Before, Behind int64  // sizes, in bytes

	old, now []byte
	ran      bool // whether the old one could be executed
}

// Of compares what went in with a change. old is nil where the file is new; ran
// says whether what went in could be executed.
func Of(old []byte, ran bool, c *envelope.Change) File {
	f := File{Name: c.Name, Kind: c.Kind, Executable: c.Executable, Before: int64(len(old)), Behind: int64(len(c.Data)), old: old, ran: ran, now: c.Data}
	mode := "may not be executed any more"
	if c.Executable {
		mode = "may be executed now"
	}
	if c.Kind == envelope.ChangeChanged && c.Executable != ran {
		f.Mode = mode
	}
	switch {
	case c.Kind == envelope.ChangeMode:
		f.Note = mode
	case binary(old) || binary(c.Data):
		f.Note = fmt.Sprintf("binary, %s -> %s", render.Bytes(f.Before), render.Bytes(f.Behind))
	case len(old)+len(c.Data) > maxBytes || bytes.Count(old, []byte("\n"))+bytes.Count(c.Data, []byte("\n")) > maxLines:
		f.Note = fmt.Sprintf("too large to be compared by lines, %s -> %s", render.Bytes(f.Before), render.Bytes(f.Behind))
	default:
		f.compare(string(old), string(c.Data))
	}
	return f
}

func (f *File) compare(old, now string) {
	text, err := udiff.ToUnified("a", "b", old, udiff.Lines(old, now), udiff.DefaultContextLines)
	if err != nil {
		f.Note = "it cannot be compared by lines"
		return
	}
	if _, rest, ok := strings.Cut(text, "\n"); ok { // --- and +++, which hold names
		_, f.Hunks, _ = strings.Cut(rest, "\n")
	}
	for line := range strings.SplitSeq(f.Hunks, "\n") {
		switch {
		case strings.HasPrefix(line, "+"):
			f.Plus++
		case strings.HasPrefix(line, "-"):
			f.Minus++
		}
	}
}

// binary reports whether data is no text: it has a NUL or is not UTF-8.
func binary(data []byte) bool { return bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) }

// head are the lines before the hunks.
func (f *File) head() []string {
	name := render.Name(f.Name)
	from, to := "a/"+name, "b/"+name
	switch f.Kind {
	case envelope.ChangeAdded:
		from = "/dev/null"
	case envelope.ChangeRemoved:
		to = "/dev/null"
	}
	list := []string{"--- " + from, "+++ " + to}
	for _, note := range []string{f.Mode, f.Note} {
		if note != "" {
			list = append(list, "    "+note)
		}
	}
	return list
}

// Raw is the diff as a text to be read, by programs: Patch is for what applies it.
// Names in it are rendered, lines are not.
func (f *File) Raw() string { return strings.Join(f.head(), "\n") + "\n" + f.Hunks }

// The colours of a terminal.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
)

// Show is the diff as lines for people, each neutralised, in colour where that
// is wanted, and at most most of them.
func (f *File) Show(colour bool, most int) []string {
	var out []string
	paint := func(code, text string) {
		if colour {
			text = code + text + plain
		}
		out = append(out, text)
	}
	for _, line := range f.head() {
		paint(bold, render.Line(line, 0))
	}
	lines := strings.Split(strings.TrimSuffix(f.Hunks, "\n"), "\n")
	for i, line := range lines {
		if line == "" && i == len(lines)-1 {
			break
		}
		if i >= most {
			out = append(out, fmt.Sprintf("... %d lines more", len(lines)-i))
			break
		}
		code := map[byte]string{'+': green, '-': red, '@': cyan}[(line + " ")[0]]
		text := strings.TrimSuffix(render.Text([]byte(line), render.Options{Max: maxShown}), "\n")
		if code == "" {
			out = append(out, text)
		} else {
			paint(code, text)
		}
	}
	return out
}

// maxShown is how much of a line is shown, in bytes.
const maxShown = 4096

// Summary is one line about all files.
func Summary(files []File) string {
	counts := map[envelope.ChangeKind]int{}
	plus, minus := 0, 0
	for _, f := range files {
		counts[f.Kind]++
		plus, minus = plus+f.Plus, minus+f.Minus
	}
	var parts []string
	for _, kind := range []envelope.ChangeKind{envelope.ChangeAdded, envelope.ChangeChanged, envelope.ChangeMode, envelope.ChangeRemoved} {
		if counts[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
		}
	}
	if len(parts) == 0 {
		return "no changes"
	}
	return fmt.Sprintf("%s, +%d -%d lines", strings.Join(parts, ", "), plus, minus)
}
