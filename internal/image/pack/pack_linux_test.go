package pack

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
	"github.com/callcell/callcell/internal/testing/leak"
)

func bounds() Options { return Options{Bytes: 64 << 20, Entries: 1000} }

// check fails the test where one of several steps of its making failed.
func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func write(path, text string) error { return os.WriteFile(path, []byte(text), 0o640) }

// packed packs a directory to w.
func packed(t testing.TB, dir string, w io.Writer, o Options) (Result, error) {
	t.Helper()
	d, err := os.Open(dir)
	check(t, err)
	defer d.Close()
	r, err := Run(w, d, o)
	if e := (*fstree.Error)(nil); err != nil && !errors.As(err, &e) {
		t.Errorf("an error without a kind: %v", err)
	}
	return r, err
}

// members lists a stream: "type name mode time what".
func members(t testing.TB, stream io.Reader) (lines []string) {
	t.Helper()
	for tr := tar.NewReader(stream); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return lines
		}
		check(t, err)
		body, err := io.ReadAll(tr)
		check(t, err)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s has an owner: %+v", h.Name, h)
		}
		lines = append(lines, string(h.Typeflag)+" "+h.Name+" "+strconv.FormatInt(h.Mode, 8)+" "+strconv.FormatInt(h.ModTime.Unix(), 10)+" "+h.Linkname+string(body))
	}
}

// TestStream holds what is in a stream, and in which order.
func TestStream(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	check(t, os.MkdirAll(in("b/c"), 0o700), write(in("b/z"), "last"), write(in("a"), "run"), os.Chmod(in("a"), 0o4711),
		os.Link(in("a"), in("b/a")), os.Symlink("/etc/passwd", in("l")), os.Symlink("b", in("B")),
		write(in("\xff\n"), "bytes"), write(in(strings.Repeat("n", 200)), ""), unix.Mkfifo(in("p"), 0o600))
	l, err := net.Listen("unix", in("s"))
	check(t, err)
	defer l.Close()
	for _, name := range []string{"b/c", "b/z", "b", "a", "l", "B", "\xff\n", strings.Repeat("n", 200)} {
		times := []unix.Timespec{{Sec: 1700000000, Nsec: 999_999_999}, {Sec: 1700000000, Nsec: 999_999_999}}
		check(t, unix.UtimesNanoAt(unix.AT_FDCWD, in(name), times, unix.AT_SYMLINK_NOFOLLOW))
	}
	var first, second bytes.Buffer
	r, err := packed(t, dir, &first, bounds())
	check(t, err)
	if r.Entries != 11 || r.Bytes != 12 || len(r.Dropped) != 1 || r.Dropped[DroppedSpecial] != 2 {
		t.Errorf("%+v, want 11 entries, 12 bytes, 2 special ones dropped", r)
	}
	_, err = packed(t, dir, &second, bounds())
	check(t, err)
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same directory gave two streams")
	}
	want := []string{"2 B 777 1700000000 b", "0 a 755 1700000000 run", "5 b/ 755 1700000000 ", "1 b/a 755 1700000000 a", "5 b/c/ 755 1700000000 ", "0 b/z 644 1700000000 last",
		"2 l 777 1700000000 /etc/passwd", "0 " + strings.Repeat("n", 200) + " 644 1700000000 ", "0 \xff\n 644 1700000000 bytes"}
	if got := members(t, &first); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestBounds holds that each bound is one.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) error
		o    Options
		kind fstree.ErrKind
	}{
		{"bytes", func(dir string) error { return write(dir+"/f", "12345") }, Options{Bytes: 4, Entries: 10}, fstree.KindBytes},
		{"bytes of a sparse file", func(dir string) error { return errors.Join(write(dir+"/f", ""), os.Truncate(dir+"/f", 1<<40)) }, bounds(), fstree.KindBytes},
		{"entries", func(dir string) error { return errors.Join(write(dir+"/f", ""), write(dir+"/g", "")) }, Options{Bytes: 4, Entries: 1}, fstree.KindEntries},
		{"depth", func(dir string) error { return os.MkdirAll(dir+strings.Repeat("/d", fstree.MaxDepth+1), 0o700) }, bounds(), fstree.KindDepth},
		{"length", func(dir string) error { return deep(dir, strings.Repeat("n", 255), 17) }, bounds(), fstree.KindName},
	} {
		t.Run(c.name, func(t *testing.T) {
			leak.Check(t)
			dir := t.TempDir()
			check(t, c.make(dir))
			var out bytes.Buffer
			_, err := packed(t, dir, &out, c.o)
			if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != c.kind {
				t.Errorf("got %v, want %q", err, c.kind)
			}
		})
	}
}

// deep makes directories whose path is longer than a system call takes.
func deep(dir, name string, n int) error {
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	for range n {
		if err != nil {
			return err
		}
		var next int
		if err = unix.Mkdirat(fd, name, 0o700); err == nil {
			next, err = unix.Openat(fd, name, unix.O_PATH, 0)
		}
		unix.Close(fd)
		fd = next
	}
	return errors.Join(err, unix.Close(fd))
}

// A meddler changes something when the first bytes have been packed.
type meddler struct {
	bytes.Buffer
	meddle func()
}

func (m *meddler) Write(p []byte) (int, error) {
	if m.meddle != nil {
		m.meddle()
	}
	m.meddle = nil
	return m.Buffer.Write(p)
}

// TestChanged holds that what changes while it is read is an error, and the
// stream then no whole one.
func TestChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		meddle func(dir string) error
	}{
		{"the file grows", func(dir string) error { return os.Truncate(dir+"/m/big", 9<<20) }},
		{"the file shrinks", func(dir string) error { return os.Truncate(dir+"/m/big", 5<<20) }},
		{"the file is written to", func(dir string) error { return poke(dir + "/m/big") }},
		{"a file more", func(dir string) error { return write(dir+"/m/aa", "") }},
		{"a file less", func(dir string) error { return os.Remove(dir + "/m/last") }},
		{"a link in place of a file", func(dir string) error {
			return errors.Join(os.Remove(dir+"/m/last"), os.Symlink("/etc/passwd", dir+"/m/last"))
		}},
		{"a link in place of the directory", func(dir string) error {
			return errors.Join(os.Rename(dir+"/m", dir+"/n"), os.Symlink("/etc", dir+"/m"))
		}},
		{"a file less of a directory further up", func(dir string) error { return os.Remove(dir + "/z") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			leak.Check(t)
			dir := t.TempDir()
			check(t, os.Mkdir(dir+"/m", 0o700), write(dir+"/m/big", strings.Repeat("x", 8<<20)), write(dir+"/m/last", "1"), write(dir+"/z", ""))
			old := time.Now().Add(-time.Hour)
			for _, name := range []string{"/m/big", "/m/last", "/m", "/z", ""} {
				check(t, os.Chtimes(dir+name, old, old))
			}
			out := &meddler{meddle: func() { check(t, c.meddle(dir)) }}
			_, err := packed(t, dir, out, bounds())
			if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != fstree.KindChanged {
				t.Errorf("got %v, want %q", err, fstree.KindChanged)
			}
			if b := out.Bytes(); len(b) >= 1024 && len(bytes.Trim(b[len(b)-1024:], "\x00")) == 0 {
				t.Error("the stream has an end mark")
			}
		})
	}
}

// poke writes one byte into a file.
func poke(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("y"), 7<<20)
	return errors.Join(err, f.Close())
}

// TestFullPipe holds that a reader that is gone is an error.
func TestFullPipe(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	check(t, write(dir+"/f", strings.Repeat("x", 4<<20)))
	r, w := io.Pipe()
	check(t, r.Close())
	_, err := packed(t, dir, w, bounds())
	if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != fstree.KindDisk {
		t.Errorf("got %v, want %q", err, fstree.KindDisk)
	}
}
