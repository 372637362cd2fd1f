package vm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An entry is what a reader of the format finds.
type entry struct {
	name         string
	mode         uint64
	data         string
	major, minor uint64
}

func (e entry) String() string {
	return fmt.Sprintf("%s %o %q %d:%d", e.name, e.mode, e.data, e.major, e.minor)
}

// entries reads an archive as the kernel does.
func entries(t *testing.T, b []byte) (all []entry) {
	t.Helper()
	for at := 0; ; {
		if at%4 != 0 || len(b) < at+110 || string(b[at:at+6]) != "070701" {
			t.Fatalf("no header at %d of %d", at, len(b))
		}
		var n [13]uint64
		for i := range n {
			v, err := strconv.ParseUint(string(b[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			n[i] = v
		}
		name := string(b[at+110 : at+110+int(n[11])])
		at = (at + 110 + int(n[11]) + 3) &^ 3
		data := string(b[at : at+int(n[6])])
		at = (at + int(n[6]) + 3) &^ 3
		plain, ok := strings.CutSuffix(name, "\x00")
		if !ok || strings.Contains(plain, "\x00") {
			t.Fatalf("the name %q does not end with its only NUL", name)
		}
		if plain == "TRAILER!!!" {
			if at != len(b) {
				t.Fatalf("%d bytes after the end", len(b)-at)
			}
			return all
		}
		all = append(all, entry{plain, n[1], data, n[9], n[10]})
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := NewArchive(&b)
	a.Device("dev/console", 0o600, 5, 1)
	a.File("/usr/bin/x", 0o755, []byte("text"))
	a.File("usr/./bin/../bin/x", 0o644, []byte("another"))
	for n := range 5 {
		a.File("pad/"+strings.Repeat("n", n+1), 0o600, bytes.Repeat([]byte("d"), n))
	}
	a.Link("bin", "usr/bin")
	a.Dir("tmp", 0o1777)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a.Size() != int64(b.Len()) || !a.Has("/usr/bin") || a.Has("usr/bin/y") {
		t.Errorf("%d bytes of %d; %v", a.Size(), b.Len(), a.names)
	}
	want := []entry{
		{"dev", 0o40755, "", 0, 0}, {"dev/console", 0o20600, "", 5, 1},
		{"usr", 0o40755, "", 0, 0}, {"usr/bin", 0o40755, "", 0, 0}, {"usr/bin/x", 0o100755, "text", 0, 0},
		{"pad", 0o40755, "", 0, 0}, {"pad/n", 0o100600, "", 0, 0}, {"pad/nn", 0o100600, "d", 0, 0}, {"pad/nnn", 0o100600, "dd", 0, 0},
		{"pad/nnnn", 0o100600, "ddd", 0, 0}, {"pad/nnnnn", 0o100600, "dddd", 0, 0},
		{"bin", 0o120777, "usr/bin", 0, 0}, {"tmp", 0o41777, "", 0, 0},
	}
	if got := entries(t, b.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestArchiveIsReadByOthers has the usual tool list it.
func TestArchiveIsReadByOthers(t *testing.T) {
	tool, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("this host has no cpio")
	}
	var b bytes.Buffer
	a := NewArchive(&b)
	a.File("a/b", 0o644, []byte("1"))
	a.Link("c", "a/b")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, "--list", "--quiet")
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "a\na/b\nc\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// full is a disk with little room.
type full struct{ room int }

var errFull = errors.New("full")

func (f *full) Write(b []byte) (int, error) {
	f.room -= len(b)
	if f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestArchiveOnAFullDisk(t *testing.T) {
	for room := 0; room < 300; room += 7 {
		a := NewArchive(&full{room})
		a.File("a", 0o644, make([]byte, 100))
		a.File("b", 0o644, nil)
		if err := a.Close(); !errors.Is(err, errFull) {
			t.Fatalf("room for %d: %v", room, err)
		}
	}
	if err := NewArchive(io.Discard).Close(); err != nil {
		t.Error(err)
	}
}
