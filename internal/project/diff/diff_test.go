package diff_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/diff"
	"github.com/callcell/callcell/internal/testing/spent"
)

func change(kind envelope.ChangeKind, data string) *envelope.Change {
	return &envelope.Change{Name: "dir/a b.txt", Kind: kind, Data: []byte(data)}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name, old string
		change    *envelope.Change
		want      string
	}{
		{"one line of three", "a\nb\nc\n", change(envelope.ChangeChanged, "a\nB\nc\n"), "--- a/\"dir/a b.txt\"\n+++ b/\"dir/a b.txt\"\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"new", "", change(envelope.ChangeAdded, "x\n"), "--- /dev/null\n+++ b/\"dir/a b.txt\"\n@@ -0,0 +1 @@\n+x\n"},
		{"gone", "x\n", change(envelope.ChangeRemoved, ""), "--- a/\"dir/a b.txt\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"},
		{"empty and new", "", change(envelope.ChangeAdded, ""), "--- /dev/null\n+++ b/\"dir/a b.txt\"\n"},
		{"no end of line", "a", change(envelope.ChangeChanged, "b"), "--- a/\"dir/a b.txt\"\n+++ b/\"dir/a b.txt\"\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"},
		{"binary", "a\n", change(envelope.ChangeChanged, "a\x00"), "--- a/\"dir/a b.txt\"\n+++ b/\"dir/a b.txt\"\n    binary, 2 B -> 2 B\n"},
		{"not UTF-8", "a\n", change(envelope.ChangeChanged, "\xff"), "--- a/\"dir/a b.txt\"\n+++ b/\"dir/a b.txt\"\n    binary, 2 B -> 1 B\n"},
		{"mode", "a\n", change(envelope.ChangeMode, "a\n"), "--- a/\"dir/a b.txt\"\n+++ b/\"dir/a b.txt\"\n    may not be executed any more\n"},
		{"bytes and mode", "a\n", &envelope.Change{Name: "x", Kind: envelope.ChangeChanged, Data: []byte("b\n"), Executable: true}, "--- a/x\n+++ b/x\n    may be executed now\n@@ -1 +1 @@\n-a\n+b\n"},
		{"large", "a\n", change(envelope.ChangeChanged, strings.Repeat("x", 2<<20)), "--- a/\"dir/a b.txt\"\n+++ b/\"dir/a b.txt\"\n    too large to be compared by lines, 2 B -> 2.0 MiB\n"},
	} {
		f := diff.Of([]byte(c.old), false, c.change)
		if got := f.Raw(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestTwoLinesOfMany: what is shown is what was changed, whatever the size.
func TestTwoLinesOfMany(t *testing.T) {
	var old, now strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&old, "line %d\n", i)
		if i == 77 || i == 19_000 {
			fmt.Fprintf(&now, "LINE %d\n", i)
		} else {
			fmt.Fprintf(&now, "line %d\n", i)
		}
	}
	f := diff.Of([]byte(old.String()), false, change(envelope.ChangeChanged, now.String()))
	if f.Plus != 2 || f.Minus != 2 || strings.Count(f.Hunks, "@@ -") != 2 {
		t.Errorf("+%d -%d:\n%s", f.Plus, f.Minus, f.Hunks)
	}
}

// TestWorstCaseIsBounded: files without a line in common take no time.
func TestWorstCaseIsBounded(t *testing.T) {
	var old, now strings.Builder
	for i := range 24_000 {
		fmt.Fprintf(&old, "a%d\n", i)
		fmt.Fprintf(&now, "b%d\n", i*7%24_000)
	}
	before := spent.CPU()
	f := diff.Of([]byte(old.String()), false, change(envelope.ChangeChanged, now.String()))
	if took := spent.CPU() - before; took > 10*time.Second || f.Plus != 24_000 {
		t.Errorf("+%d after %v", f.Plus, took)
	}
}

// FuzzShow: whatever is in a file, a terminal is told nothing but our colours.
func FuzzShow(f *testing.F) {
	f.Add("a\n", "\x1b]0;title\x07b\n", "x.txt")
	f.Add("\u202eabc\n", "c\r\rd\n", "\x1b[2Jname")
	f.Add("a\x9bb", "\u2028", "bi\u202edi\n")
	f.Fuzz(func(t *testing.T, old, now, name string) {
		c := &envelope.Change{Name: name, Kind: envelope.ChangeChanged, Data: []byte(now)}
		d := diff.Of([]byte(old), false, c)
		for _, line := range d.Show(false, 100) {
			if strings.ContainsAny(line, "\n\r\x1b\a\b") || !utf8.ValidString(line) {
				t.Fatalf("%q", line)
			}
		}
		for _, line := range d.Show(true, 100) {
			if n := bytes.Count([]byte(line), []byte("\x1b")); n != 0 && (n != 2 || !strings.HasSuffix(line, "\x1b[0m")) {
				t.Fatalf("%q", line)
			}
		}
	})
}

func TestShowIsCut(t *testing.T) {
	d := diff.Of(nil, false, change(envelope.ChangeAdded, strings.Repeat("x\n", 1000)))
	if lines := d.Show(false, 10); len(lines) != 13 || !strings.Contains(lines[12], "991 lines more") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if got := diff.Summary([]diff.File{d, {Kind: envelope.ChangeRemoved, Minus: 3}}); got != "1 added, 1 removed, +1000 -3 lines" {
		t.Error(got)
	}
}
