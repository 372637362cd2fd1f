package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/testing/leak"
)

const scratchUID = 70001

// scratchOf makes a scratch and returns it with a path of its root, by which
// tests do what the code of a cell does.
func scratchOf(t testing.TB, size, inodes int64) (*scratch, string) {
	t.Helper()
	needRoot(t)
	s, err := newScratch(size, inodes, scratchUID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s, fmt.Sprintf("/proc/self/fd/%d", s.root)
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// readScratch opens a name as Get does, and reads it.
func readScratch(s *scratch, name string) (string, error) {
	fd, st, err := s.open(name)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	text, err := io.ReadAll(f)
	if err == nil && int64(len(text)) != st.Size {
		err = fmt.Errorf("%d bytes, but a size of %d", len(text), st.Size)
	}
	return string(text), err
}

func TestScratchParts(t *testing.T) {
	leak.Check(t)
	_, root := scratchOf(t, 1<<20, 100)
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != len(template.Parts()) {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, part := range template.Parts() {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(root, part.Dir), &st))
		if st.Mode != unix.S_IFDIR|part.Mode || st.Uid != scratchUID || st.Gid != scratchUID {
			t.Errorf("%s: mode %#o of %d:%d", part.Dir, st.Mode, st.Uid, st.Gid)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(root, &st))
	if st.Mode != unix.S_IFDIR|0o755 || st.Uid != 0 || st.Gid != 0 {
		t.Errorf("root: mode %#o of %d:%d; it is nobody's to write", st.Mode, st.Uid, st.Gid)
	}
}

func TestScratchIsAttachedNowhere(t *testing.T) {
	_, root := scratchOf(t, 1<<20, 100)
	var st unix.Stat_t
	must(t, unix.Stat(root, &st))
	device := fmt.Sprintf(" %d:%d ", unix.Major(st.Dev), unix.Minor(st.Dev)) // its own: others mount beside us
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if len(mounts) == 0 || bytes.Contains(mounts, []byte(device)) {
		t.Errorf("%s is among the host's mounts:\n%s", device, mounts)
	}
}

func TestScratchHoldsItsSize(t *testing.T) {
	leak.Check(t)
	const size = 256 << 10
	s, root := scratchOf(t, size, 100)
	f, err := os.Create(filepath.Join(root, "work/big"))
	must(t, err)
	defer f.Close()
	written := 0
	for err == nil {
		var n int
		n, err = f.Write(make([]byte, 4096))
		written += n
	}
	if !errors.Is(err, syscall.ENOSPC) || written > size {
		t.Errorf("%d bytes, then %v; want ENOSPC at %d at most", written, err, size)
	}
	if _, err := os.Create(filepath.Join(root, "tmp/other")); err != nil {
		t.Error(err)
	} else if err := os.WriteFile(filepath.Join(root, "tmp/other"), []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("another part: %v; they share one limit", err)
	}
	if sp := s.space(); sp.bytes != size || sp.maxBytes != size {
		t.Errorf("%+v, want %d of %d bytes", sp, size, size)
	}
}

func TestScratchHoldsItsInodes(t *testing.T) {
	leak.Check(t)
	const inodes = 50
	s, root := scratchOf(t, 1<<20, inodes+reservedInodes)
	if sp := s.space(); sp.inodes != reservedInodes || sp.maxInodes != inodes+reservedInodes {
		t.Errorf("fresh: %+v; the parts take %d", sp, reservedInodes)
	}
	made := 0
	var err error
	for ; err == nil; made++ {
		err = os.Mkdir(filepath.Join(root, "work", itoa(made)), 0o700)
	}
	if !errors.Is(err, syscall.ENOSPC) || made-1 != inodes {
		t.Errorf("%d made, then %v; want %d", made-1, err, inodes)
	}
}

func TestScratchHasNoDevicesAndNoSetUID(t *testing.T) {
	_, root := scratchOf(t, 1<<20, 100)
	var st unix.Statfs_t
	must(t, unix.Statfs(root, &st))
	if want := int64(unix.ST_NOSUID | unix.ST_NODEV); st.Flags&want != want {
		t.Errorf("flags %#x", st.Flags)
	}
	null := filepath.Join(root, "work/null")
	must(t, unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	if _, err := os.Open(null); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a device is opened: %v", err)
	}
}

// outside is what no name must ever lead to.
const outside = "outside"

// populate fills a scratch as hostile code does.
func populate(t testing.TB, root string) {
	t.Helper()
	work := filepath.Join(root, "work")
	in := func(name string) string { return filepath.Join(work, name) }
	must(t,
		os.WriteFile(filepath.Join(root, "tmp/secret"), []byte(outside), 0o600),
		os.WriteFile(in("plain"), []byte("plain"), 0o600),
		os.WriteFile(in("unreadable"), []byte("unreadable"), 0),
		os.WriteFile(in("run"), []byte("run"), 0o700),
		os.MkdirAll(in("d/e"), 0o700),
		os.WriteFile(in("d/e/deep"), []byte("deep"), 0o600),
		os.Mkdir(in("closed"), 0),
		os.WriteFile(in("closed/file"), []byte("closed"), 0),
		os.Link(in("plain"), in("hard")),
		os.Symlink("plain", in("link")),
		os.Symlink("/etc/passwd", in("absolute")),
		os.Symlink("../tmp/secret", in("up")),
		os.Symlink("d", in("dirlink")),
		os.Symlink("..", in("above")),
		os.Symlink(".", in("loop")),
		os.Symlink("itself", in("itself")),
		os.Symlink("/proc/self/fd/0", in("magic")),
		unix.Mkfifo(in("fifo"), 0o600),
		unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		unix.Mknod(in("disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))),
		unix.Mknod(in("socket"), unix.S_IFSOCK|0o600, 0),
	)
	for _, name := range oddNames() {
		must(t, os.WriteFile(in(name), []byte("odd"), 0o600))
	}
}

// oddNames are what a file may be called. What becomes of such names is the
// front's to say; here they are bytes.
func oddNames() []string {
	return []string{"new\nline", "\x1b[31mred", "\x07", "\u202egpj.exe", "\xff\xfe", "sp ace", "-rf", "...", ".hidden", strings.Repeat("n", 255), strings.Repeat("\u00e9", 127)}
}

func TestScratchOpen(t *testing.T) {
	leak.Check(t)
	s, root := scratchOf(t, 4<<20, 1000)
	populate(t, root)
	for _, c := range []struct {
		name string
		says string
		err  error // nil: says
	}{
		{"plain", "plain", nil},
		{"./plain", "plain", nil},
		{"d/../plain", "plain", nil}, // never leaves, at no step
		{"d//e/./deep", "deep", nil},
		{"unreadable", "unreadable", nil}, // the owner may have closed it to itself
		{"closed/file", "closed", nil},
		{"hard", "plain", nil}, // all in one file system: its own
		{"link", "", errNotRegular},
		{"absolute", "", errNotRegular},
		{"up", "", errNotRegular},
		{"itself", "", errNotRegular},
		{"magic", "", errNotRegular},
		{"dirlink", "", errNotRegular},
		{"dirlink/e/deep", "", unix.ELOOP},
		{"loop/plain", "", unix.ELOOP},
		{"loop/loop/loop/plain", "", unix.ELOOP},
		{"above/tmp/secret", "", unix.ELOOP},
		{"d", "", errNotRegular},
		{"d/", "", errNotRegular},
		{".", "", errNotRegular},
		{"fifo", "", errNotRegular},
		{"socket", "", errNotRegular},
		{"null", "", errNotRegular},
		{"disk", "", errNotRegular},
		{"plain/", "", unix.ENOTDIR},
		{"plain/x", "", unix.ENOTDIR},
		{"missing", "", unix.ENOENT},
		{"missing/x", "", unix.ENOENT},
		{"", "", unix.ENOENT},
		{"..", "", unix.EXDEV},
		{"../tmp/secret", "", unix.EXDEV},
		{"d/../../tmp/secret", "", unix.EXDEV},
		{"../work/plain", "", unix.EXDEV},
		{"/", "", unix.EXDEV},
		{"/etc/passwd", "", unix.EXDEV},
		{"/work/plain", "", unix.EXDEV},
		{"//plain", "", unix.EXDEV},
		{"pl\x00ain", "", unix.EINVAL},
		{strings.Repeat("n", 256), "", unix.ENAMETOOLONG},
		{strings.Repeat("d/../", 900) + "plain", "", unix.ENAMETOOLONG},
	} {
		t.Run(fmt.Sprintf("%.40q", c.name), func(t *testing.T) {
			got, err := readScratch(s, c.name)
			if c.err == nil && (err != nil || got != c.says) || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, c.says, c.err)
			}
			if got == outside {
				t.Error("it is outside")
			}
			if c.err != nil && fileWords(err) == "" {
				t.Error("no words for it")
			}
		})
	}
	for _, name := range oddNames() {
		if got, err := readScratch(s, name); got != "odd" {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

func TestScratchOpenSaysHowLong(t *testing.T) {
	leak.Check(t)
	s, root := scratchOf(t, 1<<20, 100)
	const huge = 1 << 42
	must(t, os.WriteFile(filepath.Join(root, "work/sparse"), nil, 0o755), os.Truncate(filepath.Join(root, "work/sparse"), huge))
	fd, st, err := s.open("sparse")
	must(t, err)
	defer unix.Close(fd)
	if st.Size != huge || st.Mode&0o100 == 0 {
		t.Errorf("size %d, mode %#o", st.Size, st.Mode)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY {
		t.Errorf("flags %#x, %v: it is to be read alone", flags, err)
	}
}

func TestNamesFile(t *testing.T) {
	leak.Check(t)
	fd, size, err := namesFile([]entry{{name: "a", regular: true, size: 7}, {name: "\xff\n"}, {name: "c/d:e", regular: true, executable: true}})
	must(t, err)
	f := os.NewFile(uintptr(fd), "names")
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, size+1))
	if want := "+7:a\x00-0:\xff\n\x00*0:c/d:e\x00"; err != nil || string(text) != want || size != int64(len(want)) {
		t.Errorf("%q, %d, %v", text, size, err)
	}
}

func TestClosedScratch(t *testing.T) {
	leak.Check(t)
	s, root := scratchOf(t, 1<<20, 100)
	must(t, os.WriteFile(filepath.Join(root, "work/file"), nil, 0o600))
	s.close()
	s.close()
	if _, _, err := s.open("file"); !errors.Is(err, unix.EBADF) {
		t.Errorf("open: %v, want EBADF", err)
	}
	if _, _, err := s.list(".", 1); !errors.Is(err, unix.EBADF) {
		t.Errorf("list: %v, want EBADF", err)
	}
	if sp := s.space(); sp != (space{-1, -1, -1, -1}) {
		t.Errorf("space: %+v", sp)
	}
}

// TestScratchNeverShowsAnothers reads while scratches come and go: a
// descriptor's number is used again at once.
func TestScratchNeverShowsAnothers(t *testing.T) {
	leak.Check(t)
	needRoot(t)
	const cells = 200
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range cells {
		s, err := newScratch(1<<20, 100, scratchUID)
		must(t, err)
		own := itoa(i)
		must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/work/file", s.root), []byte(own), 0o600))
		for range 4 {
			readers.Go(func() {
				for {
					got, err := readScratch(s, "file")
					if errors.Is(err, unix.EBADF) {
						return
					}
					if err != nil || got != own {
						t.Errorf("cell %s reads %q, %v", own, got, err)
						return
					}
					if found, _, err := s.list(".", 10); err == nil && len(found) != 1 || err != nil && !errors.Is(err, unix.EBADF) {
						t.Errorf("cell %s lists %+v, %v", own, found, err)
					}
					s.space()
				}
			})
		}
		s.close()
	}
}
