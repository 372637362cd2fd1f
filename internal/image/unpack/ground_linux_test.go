package unpack

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/image/fstree"
	"github.com/callcell/callcell/internal/testing/leak"
)

// small is enough for every archive of these tests.
func small() Options { return Options{Bytes: 16 << 20, Entries: 1000, Dir: true, Image: true} }

// at is the time of every member.
func at() time.Time { return time.Unix(1_700_000_000, 0) }

// archive returns a whole archive of members.
func archive(t testing.TB, members ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		body := m.Linkname // of a file
		if m.Typeflag == tar.TypeReg {
			m.Linkname = ""
			m.Size = int64(len(body))
		}
		if m.ModTime.IsZero() {
			m.ModTime = at()
		}
		if err := w.WriteHeader(&m); err != nil {
			t.Fatal(err)
		}
		if m.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name, body string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: body, Mode: 0o644}
}
func prog(name, body string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: body, Mode: 0o700}
}
func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o777} }
func sym(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}
}
func hard(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}
}

// raw is one member whose name is not the tar writer's to judge, with its
// header alone, or with its contents. A size below 0 is one beyond 63 bits.
func raw(kind byte, name, link, body string, size int64) []byte {
	b := make([]byte, 512)
	copy(b, name)
	octal := func(at, n int, v int64) {
		for i := n - 2; i >= 0; i-- {
			b[at+i] = byte('0' + v&7)
			v >>= 3
		}
	}
	octal(100, 8, 0o644)
	octal(108, 8, 0)
	octal(116, 8, 0)
	if octal(124, 12, size); size < 0 {
		copy(b[124:], "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	octal(136, 12, at().Unix())
	b[156] = kind
	copy(b[157:], link)
	copy(b[257:], "ustar\x0000")
	for i := 148; i < 156; i++ {
		b[i] = ' '
	}
	sum := int64(0)
	for _, c := range b {
		sum += int64(c)
	}
	octal(148, 7, sum)
	b[154] = 0
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&511)...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func end() []byte { return make([]byte, endMark) }

// A ground is a staging directory beside what nobody may touch: ../../outside
// for a link in its root/.
type ground struct {
	staging, outside string
	canary           fs.FileInfo
	watch            int
}

// newGround makes one. When the test ends, what is outside must be as it was,
// and nobody has opened it.
func newGround(t testing.TB) *ground {
	t.Helper()
	leak.Check(t)
	return makeGround(t)
}

func makeGround(t testing.TB) *ground {
	t.Helper()
	top := t.TempDir()
	g := &ground{staging: filepath.Join(top, "staging"), outside: filepath.Join(top, "outside")}
	for _, dir := range []string{g.staging, g.outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	canary := filepath.Join(g.outside, "canary")
	if err := os.WriteFile(canary, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if g.canary, err = os.Lstat(canary); err != nil {
		t.Fatal(err)
	}
	if g.watch, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.InotifyAddWatch(g.watch, g.outside, unix.IN_ALL_EVENTS); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.untouched(t)
		unix.Close(g.watch)
	})
	return g
}

// untouched fails the test where something outside is not as it was.
func (g *ground) untouched(t testing.TB) {
	t.Helper()
	if what := g.touched(); what != "" {
		t.Error(what)
	}
}

// touched says what has become of what is outside, or "".
func (g *ground) touched() string {
	if n, err := unix.Read(g.watch, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		return fmt.Sprintf("something outside was touched: %d bytes of events, %v", n, err)
	}
	now, err := os.Lstat(filepath.Join(g.outside, "canary"))
	if err != nil || !os.SameFile(now, g.canary) || now.Mode() != g.canary.Mode() || !now.ModTime().Equal(g.canary.ModTime()) {
		return fmt.Sprintf("the canary has changed: %v, %v", now, err)
	}
	return ""
}

// TestGroundGoesRed holds that a look at what is outside would be seen.
func TestGroundGoesRed(t *testing.T) {
	for name, touch := range map[string]func(outside string) error{
		"read":    func(outside string) error { _, err := os.ReadFile(outside + "/canary"); return err },
		"written": func(outside string) error { return os.WriteFile(outside+"/born", nil, 0o600) },
		"chmod":   func(outside string) error { return os.Chmod(outside+"/canary", 0o644) },
		"listed":  func(outside string) error { _, err := os.ReadDir(outside); return err },
	} {
		g := makeGround(t)
		if err := touch(g.outside); err != nil || g.touched() == "" {
			t.Errorf("%s: not seen (%v)", name, err)
		}
		if err := os.Chmod(g.outside+"/canary", 0o600); err != nil { // for the test's end
			t.Fatal(err)
		}
		for strings.HasPrefix(g.touched(), "something") {
		}
	}
}

// unpack runs an archive beneath the ground. What Check says of it must be the
// same tree.
func (g *ground) unpack(t testing.TB, data []byte, o Options) (Result, error) {
	t.Helper()
	staging, err := os.Open(g.staging)
	if err != nil {
		t.Fatal(err)
	}
	defer staging.Close()
	r, err := Run(bytes.NewReader(data), staging, o)
	if e := (*fstree.Error)(nil); err != nil && (!errors.As(err, &e) || e.Kind == "") {
		t.Errorf("an error without a kind: %v", err)
	}
	if err == nil {
		g.checked(t, staging, o, strings.TrimPrefix(r.Digest, "sha256:"))
	}
	return r, err
}

func (g *ground) checked(t testing.TB, staging *os.File, o Options, digest string) {
	t.Helper()
	want := Found{digest, digest}
	if !o.Dir {
		want.Dir = ""
	}
	if !o.Image {
		want.Image = ""
	}
	o.Entries += int64(len(mountDirs()) + len(mountFiles()))
	if found, err := Check(staging, o); err != nil || found != want {
		t.Errorf("%+v, %v; it is %+v", found, err, want)
	}
}

// tree is what the directory root/ has: "name type what", sorted by name.
func (g *ground) tree(t testing.TB) []string {
	t.Helper()
	var lines []string
	root := filepath.Join(g.staging, RootName)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, root+"/") + " "
		switch mode := info.Mode(); {
		case mode == fs.ModeDir|0o755:
			line += "dir"
		case mode.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += "-> " + target
		case mode == 0o644 || mode == 0o755:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += mode.String()[1:4] + " " + string(data)
		default:
			line += "must not be: " + mode.String()
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// listed is the tree's listing, decoded.
func (g *ground) listed(t testing.TB) (doc struct{ Version int }) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.staging, ListingName))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
