package launcher

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// treeID is the id of a tree in the making.
func treeID(n int) string { return fmt.Sprintf("01923f6c-0000-7000-8000-%012x", n) }

// treeOwner has all trees of these tests.
const treeOwner = "0a"

// request asks for a small tree.
func request(n int) *wire.Unpack {
	return &wire.Unpack{ID: treeID(n), Bytes: 64 << 20, Entries: 10_000, Dir: true, EROFS: true, Mountpoints: true}
}

// An unpacking is an unpacker that runs, or has.
type unpacking struct {
	stream *os.File // our end
	says   <-chan string
	answer <-chan answered
}

// unpack starts an unpacker.
func (c *client) unpack(t testing.TB, m *wire.Unpack) *unpacking {
	t.Helper()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	u := &unpacking{stream: inW, says: lines(outR), answer: c.ask(m, int(inR.Fd()), int(outW.Fd()))}
	inR.Close()
	outW.Close()
	return u
}

// tell gives the stand-in a command and returns what comes of it.
func (u *unpacking) tell(t testing.TB, command string) string {
	t.Helper()
	_, err := u.stream.WriteString(command + "\n")
	must(t, err)
	line, ok := await(t, command, u.says)
	if !ok {
		return ""
	}
	return strings.TrimPrefix(line, command+": ")
}

// end ends the stream and returns the answer.
func (u *unpacking) end(t testing.TB) wire.Body {
	t.Helper()
	must(t, u.stream.Close())
	return u.ended(t)
}

func (u *unpacking) ended(t testing.TB) wire.Body {
	t.Helper()
	a, ok := await(t, "the unpacker's end", u.answer)
	if !ok {
		t.Fatal("no answer: the launcher hung up")
	}
	return a.body
}

// withStandIn makes a place whose unpacker is the one of testdata.
func withStandIn(t testing.TB, settings ...string) place {
	t.Helper()
	return newPlace(t, append([]string{"image.path = " + helper("callcell-unpack-probe")}, settings...)...)
}

// entry is one member of a tar stream.
type member struct {
	name, link, text string
	mode             int64
	kind             byte
}

func tarOf(t testing.TB, members ...member) []byte {
	t.Helper()
	stream, err := streamOf(members...)
	must(t, err)
	return stream
}

func streamOf(members ...member) ([]byte, error) {
	var b bytes.Buffer
	var errs []error
	w := tar.NewWriter(&b)
	for _, m := range members {
		kind, mode := m.kind, m.mode
		if kind == 0 {
			kind = tar.TypeReg
		}
		if mode == 0 {
			mode = 0o644
		}
		errs = append(errs, w.WriteHeader(&tar.Header{Name: m.name, Linkname: m.link, Size: int64(len(m.text)), Mode: mode, Typeflag: kind}))
		_, err := w.Write([]byte(m.text))
		errs = append(errs, err)
	}
	err := errors.Join(append(errs, w.Close())...)
	return b.Bytes(), err
}

// addedStream is a small tree to be added, one of as many as there are words.
func addedStream(word string) []byte {
	stream, err := streamOf(member{name: "more/x", text: "added\n"}, member{name: "word", text: word}, member{name: "more/big", text: strings.Repeat("x", 1<<20)})
	if err != nil {
		panic(err) // of memory
	}
	return stream
}

// tree puts a tree into the store of a launcher with the real unpacker, and
// returns its digest.
func (c *client) tree(t testing.TB, m *wire.Unpack, stream []byte) string {
	t.Helper()
	u := c.unpack(t, m)
	go func() {
		_, _ = u.stream.Write(stream) // an unpacker that does not want it says so
		u.stream.Close()
	}()
	line, _ := awaitFor(t, 6*patience, "the unpacker's result", u.says)
	var result struct{ Digest string }
	body := u.ended(t)
	if got, ok := body.(*wire.Unpacked); !ok || got.Status != 0 || json.Unmarshal([]byte(line), &result) != nil {
		t.Fatalf("%+v, %s", body, line)
	}
	digest := strings.TrimPrefix(result.Digest, "sha256:")
	c.done(t, &wire.Keep{ID: m.ID, Digest: digest, Owner: treeOwner})
	return digest
}

// done makes a request that is answered by Done.
func (c *client) done(t testing.TB, body wire.Body) {
	t.Helper()
	if a := c.call(t, body); !isDone(a.body) {
		t.Fatalf("%T: %+v", body, a.body)
	}
}

func isDone(b wire.Body) bool { _, ok := b.(*wire.Done); return ok }

// inStore are the names of the store, in its directories too.
func (p place) inStore(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"staging", "trees"} {
		entries, err := os.ReadDir(filepath.Join(p.images(), dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, dir+"/"+e.Name())
		}
	}
	return all
}

// TestUnpackPlan pins the list that makes an unpacker.
func TestUnpackPlan(t *testing.T) {
	p := &unpackPlan{jail: pinnedJail(), ceilings: conf.Default().Image, request: *request(1)}
	pinned(t, "unpack.golden", p.compile())
	inOrder(t, p.compile(), "enter the process's group", [][3]string{
		{"attach the staging", "make it the root", "there would be nothing in it"},
		{"make it the root", "let go of the old root", "it would be let go of under our feet"},
		{"let go of the old root", "set uid", "letting go takes root"},
		{"close all others", "landlock rules", "the rules would be closed"},
		{"drop capability 40 from the bounding set", "set uid", "dropping takes a capability"},
		{"drop groups", "set uid", "the host's groups could not be dropped any more"},
		{"set gid", "set uid", "the gid could not be set any more"},
		{"set uid", "open /", "the rule's directory is opened with nothing but the uid's rights"},
		{"set uid", "die with the launcher", "a change of credentials clears it"},
		{"no new privileges", "filter system calls", "the filter takes it"},
		{"no new privileges", "landlock", "the rules take it"},
	})
	want := "callcell-image unpack -bytes=67108864 -entries=10000 -dir=true -erofs=true -mountpoints=true"
	if got := strings.Join(p.argv(), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestUnpack is one tree's way into the store, and out of it, with the tool that
// is shipped.
func TestUnpack(t *testing.T) {
	c := dial(t, newPlace(t))
	stream := tarOf(t, member{name: "bin/x", text: "text", mode: 0o4755}, member{name: "null", kind: tar.TypeChar}, member{name: "l", link: "/etc/passwd", kind: tar.TypeSymlink})
	digest := c.tree(t, request(1), stream)
	if left := c.inStore(t); !slices.Equal(left, []string{"trees/" + digest}) {
		t.Errorf("%v", left)
	}
	top := filepath.Join(c.images(), "trees", digest)
	must(t, filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || st.Gid != 0 || info.Mode()&(fs.ModeSetuid|fs.ModeDevice) != 0 {
			t.Errorf("%s: %v of %d:%d", path, info.Mode(), st.Uid, st.Gid)
		}
		return nil
	}))
	if text := contents(t, filepath.Join(top, "root/bin/x")); text != "text" {
		t.Errorf("%q", text)
	}
	list := c.found(t, &wire.Trees{})
	f := strings.Fields(list)
	if len(f) != 7 || f[0] != digest || f[3] != "d" || f[4] != "e" || number(f[1]) < 4096 || number(f[2]) < 10 {
		t.Errorf("%q", list)
	}
	if text := c.found(t, &wire.OpenTree{Digest: digest, File: wire.TreeListing}); !strings.Contains(text, "bin") {
		t.Errorf("the listing: %q", text)
	}
	if text := c.found(t, &wire.OpenTree{Digest: digest, File: wire.TreeEROFS}); len(text) < 1028 || text[1024:1028] != "\xe2\xe1\xf5\xe0" {
		t.Errorf("%d bytes are no EROFS image", len(text))
	}
	if again := c.tree(t, request(1), stream); again != digest {
		t.Errorf("the same stream is %s, and was %s", again, digest)
	}
	if left := c.inStore(t); !slices.Equal(left, []string{"trees/" + digest}) {
		t.Errorf("kept twice: %v", left)
	}
	c.done(t, &wire.Remove{Digest: digest, Owner: treeOwner})
	c.refused(t, wire.KindAbsent, &wire.Remove{Digest: digest, Owner: treeOwner})
	c.refused(t, wire.KindAbsent, &wire.OpenTree{Digest: digest, File: wire.TreeEROFS})
	if left := c.inStore(t); len(left) != 0 || c.found(t, &wire.Trees{Owner: treeOwner}) != "" {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}

// found returns the content of a file that comes.
func (c *client) found(t testing.TB, body wire.Body) string {
	t.Helper()
	a := c.call(t, body)
	f, ok := a.body.(*wire.Found)
	if !ok || len(a.fds) != 1 {
		t.Fatalf("%T: %+v", body, a.body)
	}
	b := make([]byte, f.Size)
	n, err := unix.Pread(a.fds[0], b, 0)
	if err != nil || n != len(b) {
		t.Fatalf("%d of %d bytes, %v", n, len(b), err)
	}
	if _, err := unix.Write(a.fds[0], []byte("x")); err == nil && body.Type() == wire.TypeOpenTree {
		t.Error("a tree's file can be written")
	}
	return string(b)
}

// TestUnpackInOneForm has what was asked for alone.
func TestUnpackInOneForm(t *testing.T) {
	c := dial(t, newPlace(t))
	dir, image := request(1), request(2)
	dir.EROFS, image.Dir = false, false
	for want, m := range map[string]*wire.Unpack{"d -": dir, "- e": image} {
		digest := c.tree(t, m, tarOf(t, member{name: "x"}))
		if list := c.found(t, &wire.Trees{}); !strings.Contains(list, want) {
			t.Errorf("%q, want %s in it", list, want)
		}
		if !m.EROFS {
			c.refused(t, wire.KindAbsent, &wire.OpenTree{Digest: digest, File: wire.TreeEROFS})
		} else {
			s := spec()
			s.Tree = digest
			c.refused(t, wire.KindAbsent, &wire.Open{Spec: s})
		}
		c.done(t, &wire.Remove{Digest: digest, Owner: treeOwner})
	}
}

// TestUnpackRefusesAStream: the tool says what is wrong, and nothing is left.
func TestUnpackRefusesAStream(t *testing.T) {
	c := dial(t, newPlace(t))
	for name, stream := range map[string][]byte{
		"no tar": []byte(strings.Repeat("x", 1024)), "outside": tarOf(t, member{name: "../x"}), "cut short": tarOf(t, member{name: "x", text: "text"})[:600],
	} {
		u := c.unpack(t, request(1))
		_, err := u.stream.Write(stream)
		must(t, err)
		body := u.end(t)
		line, _ := await(t, "the result", u.says)
		got, ok := body.(*wire.Unpacked)
		if !ok || syscall.WaitStatus(got.Status).ExitStatus() != 1 || got.Cause != wire.CauseNone || !strings.Contains(line, `"kind"`) {
			t.Errorf("%s: %+v, %s", name, body, line)
		}
		c.refused(t, wire.KindState, &wire.Keep{ID: treeID(1), Digest: strings.Repeat("a", 64), Owner: treeOwner})
	}
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}

// TestUnpackDoesNothingElse: what an unpacker has no use for is refused to it.
func TestUnpackDoesNothingElse(t *testing.T) {
	c := dial(t, withStandIn(t))
	u := c.unpack(t, request(1))
	for command, want := range map[string]string{
		"pid": "1", "try": "refused", "run /bin/sh": "no such file or directory", "open /etc/passwd": "no such file or directory",
		"open /proc/self/exe": "no such file or directory", "environ": "GOMAXPROCS=2 GOMEMLIMIT=402653184",
		"args": "callcell-image unpack -bytes=67108864 -entries=10000 -dir=true -erofs=true -mountpoints=true",
	} {
		if got := u.tell(t, command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got, ok := u.end(t).(*wire.Failed); !ok || got.Kind != wire.KindTree {
		t.Errorf("nothing was made: %+v", got)
	}
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}

// TestUnpackerThatWasTakenOver: what no unpacker makes is not taken from one,
// and nothing of it is left, however deep it is.
func TestUnpackerThatWasTakenOver(t *testing.T) {
	c := dial(t, withStandIn(t))
	for name, tt := range map[string]struct {
		commands []string
		want     string // in the failure; "": none
	}{
		"a good tree":           {[]string{"dir root", "file root/x 100", "hard root/y root/x", "link root/l /etc/shadow", "list"}, ""},
		"another's listing":     {[]string{"dir root", "file root/x 100", "list", "file root/x 101"}, "hold the tree to its listing"},
		"one file more":         {[]string{"dir root", "list", "file root/x 1"}, "hold the tree to its listing"},
		"an image of its own":   {[]string{"dir root", "list", "file root.erofs 1"}, "hold the tree to its listing"},
		"an image as well":      {[]string{"dir root", "list", "file root.erofs 8192"}, "hold the tree to its listing"},
		"no listing":            {[]string{"dir root", "file root/x 1"}, "tree.json"},
		"a listing of nothing":  {[]string{"file tree.json 10"}, "nothing that it is of"},
		"something else":        {[]string{"dir root", "file tree.json 10", "file more 1"}, "more"},
		"ours":                  {[]string{"dir root", "file tree.json 10", "file kept 1"}, "kept"},
		"a root that is a link": {[]string{"link root /etc", "file tree.json 10"}, "root"},
		"a root that is a file": {[]string{"file root 1", "file tree.json 10"}, "root"},
		"a listing that is one": {[]string{"dir root", "link tree.json /etc/shadow"}, "tree.json"},
		"a set-uid bit":         {[]string{"dir root", "file tree.json 10", "setuid root/s"}, "type and mode"},
		"128 names":             {[]string{"dir root", "deep 128", "list"}, ""},
		"129 names":             {[]string{"dir root", "file tree.json 10", "deep 129"}, "deep"},
	} {
		t.Run(name, func(t *testing.T) {
			m := request(1)
			m.EROFS = false
			u := c.unpack(t, m)
			for _, command := range tt.commands {
				if got := u.tell(t, command); !strings.HasPrefix(got, "ok") {
					t.Fatalf("%s: %q", command, got)
				}
			}
			body := u.end(t)
			f, failed := body.(*wire.Failed)
			if failed != (tt.want != "") || failed && (f.Kind != wire.KindTree || !strings.Contains(f.Step, tt.want)) {
				t.Errorf("%+v", body)
			}
			if !failed {
				c.done(t, &wire.Drop{ID: treeID(1)})
			}
			if left := c.inStore(t); len(left) != 0 {
				t.Errorf("%v", left)
			}
		})
	}
	noGroups(t, c)
}

// TestUnpackFileSize: one file is bounded by the kernel.
func TestUnpackFileSize(t *testing.T) {
	c := dial(t, withStandIn(t))
	small := request(1)
	small.Bytes, small.Entries = 1, 1
	u := c.unpack(t, small)
	if got := u.tell(t, fmt.Sprintf("file x %d", perTree+1<<20)); got != "file too large" {
		t.Errorf("a file over the bound: %q", got)
	}
	u.end(t)
}

// TestUnpackBounds: of entries, of memory, of time.
func TestUnpackBounds(t *testing.T) {
	c := dial(t, withStandIn(t, "image.memory = 96Mi"))
	few := request(1)
	few.Entries = 16
	u := c.unpack(t, few)
	for _, command := range []string{"dir root", "file tree.json 1"} {
		u.tell(t, command)
	}
	var files strings.Builder
	for i := range few.Entries + mountPoints {
		fmt.Fprintf(&files, "file root/%d 1\n", i)
	}
	_, err := u.stream.WriteString(files.String()) // at once: it is ended on the way
	must(t, err)
	if got, ok := u.ended(t).(*wire.Unpacked); !ok || got.Cause != wire.CauseOutput { // it would wait for more
		t.Errorf("%+v", got)
	}
	u = c.unpack(t, request(1))
	_, err = fmt.Fprintln(u.stream, "eat 200")
	must(t, err)
	if got, ok := u.ended(t).(*wire.Unpacked); !ok || got.Cause != wire.CauseMemory || got.OOMKills == 0 {
		t.Errorf("memory: %+v", got)
	}
	hurried := dial(t, withStandIn(t, "image.wall = 1s"))
	if got, ok := hurried.unpack(t, request(1)).ended(t).(*wire.Unpacked); !ok || got.Cause != wire.CauseWall || got.Wall < 1e9 {
		t.Errorf("time: %+v", got)
	}
	u = c.unpack(t, request(1))
	_, err = fmt.Fprintln(u.stream, "panic of \x1b the stand-in")
	must(t, err)
	if got, ok := u.ended(t).(*wire.Unpacked); !ok || got.Status == 0 || !strings.Contains(got.Words, "of   the stand-in") {
		t.Errorf("words: %+v", got)
	}
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	noGroups(t, c)
}
