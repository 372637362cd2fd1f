package container_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// smallRoot is the stream of a root with a shell, the usual small programs and
// a Python, out of this host's own; and whatever more.
func smallRoot(t testing.TB, more map[string]string) []byte {
	t.Helper()
	var programs, dirs []string
	for _, name := range []string{"sh", "bash", "cat", "env", "truncate", "kill", "ls", "head", "sleep", "yes", "setsid", "mkdir", "ln", "mkfifo", "rm", "id", "touch",
		"chmod", "stat", "su", "mount", "python3"} {
		programs = append(programs, "/usr/bin/"+name)
	}
	programs = append(programs, "/bin/sh", "/bin/cat")
	lib, err := filepath.Glob("/usr/lib/python3.*")
	if err != nil || len(lib) == 0 {
		t.Skip("this host has no Python to make a root of")
	}
	modules, err := filepath.Glob(lib[0] + "/*.py")
	if err != nil {
		t.Fatal(err)
	}
	dirs = append(dirs, modules...)
	for _, name := range []string{"encodings", "collections", "importlib", "lib-dynload", "re"} {
		if _, err := os.Stat(filepath.Join(lib[0], name)); err == nil {
			dirs = append(dirs, filepath.Join(lib[0], name))
		}
	}
	stream, err := helpers.Tree(programs, dirs, more)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// piped is the end of a pipe for reading on which a stream comes.
func piped(t testing.TB, stream []byte) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(w, bytes.NewReader(stream)) // an unpacker that does not want it says so
		w.Close()
	}()
	return r
}

var roomy = link.TreeRequest{Bytes: 512 << 20, Entries: 20_000, Dir: true, MountPoints: true}

// keepTree puts a tree into the store and returns its digest.
func keepTree(t testing.TB, r *container.Runtime, stream []byte, ask link.TreeRequest) string {
	t.Helper()
	u, staged, err := r.Trees().Unpack(context.Background(), piped(t, stream), ask)
	if err != nil {
		t.Fatal(err)
	}
	if err := staged.Keep(context.Background()); err != nil {
		t.Fatal(err)
	}
	return u.Digest
}

// treed is a runtime whose cells all have one root.
type treed struct {
	*container.Runtime
	root cell.Root
}

// Open implements cell.Runtime.
func (r treed) Open(ctx context.Context, s cell.Shape) (cell.Cell, error) {
	s.Root = r.root
	return r.Runtime.Open(ctx, s)
}

// TestConformanceOfATree: a cell whose root is a tree is a cell as all are.
func TestConformanceOfATree(t *testing.T) {
	stream := smallRoot(t, nil)
	celltest.Run(t, celltest.Harness{
		Runtime: func(t *testing.T) cell.Runtime {
			r := newGroundWith(t, link.Config{}, "cells = 64").runtime
			return treed{r, cell.Root{Tree: keepTree(t, r, stream, roomy)}}
		},
		Dialect:   celltest.Shell{},
		Processes: celltest.HostProcesses,
		Slow:      true, // what hangs on the root is tried all the same
		Wall:      unhurried() * 300 * time.Millisecond,
		Patience:  unhurried() * 30 * time.Second,
	})
}

// TestPostureOfATree compares a real cell of a tree with the golden list, line by
// line.
func TestPostureOfATree(t *testing.T) {
	r := newLoneGround(t).runtime
	s := shape()
	s.Root.Tree = keepTree(t, r, smallRoot(t, map[string]string{"etc/own": "own", "link": "-> /etc"}), roomy)
	s.Root.Added = keepTree(t, r, smallStream(t), roomy)
	out, x := insideShape(t, r, s, "python", postureProbe)
	lines := postureLines(t, out, x)
	for i, line := range lines {
		f := strings.Fields(line)
		if f[0] == "mount" && slices.Contains([]string{"/bin", "/etc", "/lib", "/lib64", "/opt", "/opt/callcell", "/sys", "/usr"}, f[1]) {
			lines[i] = strings.Join(append(f[:3], "FS"), " ") // of the disk that the store is on
		}
	}
	isPosture(t, "posture_tree.golden", lines)
}

func smallStream(t testing.TB) []byte {
	t.Helper()
	stream, err := helpers.Tree(nil, nil, map[string]string{"lib/marker": "added"})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// modelsDir is a directory of this host that is mounted.
func modelsDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "model"), []byte("a model"), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTreeIsSealed: what code inside can do with a root that others share.
func TestTreeIsSealed(t *testing.T) {
	r := newLoneGround(t).runtime
	s := shape()
	s.Root.Tree = keepTree(t, r, smallRoot(t, map[string]string{"etc/own": "own", "usr/lib/x/y": "y"}), roomy)
	out, _ := insideShape(t, r, s, "sh", `
for p in / /etc /usr /usr/lib/x /opt /opt/callcell /sys /.callcell /dev /bin; do touch $p/marker 2>/dev/null && echo "written: $p"; done
for f in /etc/own /usr/lib/x/y /usr/bin/sh /etc/passwd /etc/hosts; do
	(echo x >>$f) 2>/dev/null && echo "appended: $f"; chmod 777 $f 2>/dev/null && echo "mode: $f"; rm -f $f 2>/dev/null && echo "removed: $f"; ln $f /work/l 2>/dev/null && echo "linked: $f"
done
mount -o remount,rw / 2>/dev/null && echo remounted
su -c id 2>/dev/null && echo su
id -u
stat -c %A /usr/bin/su
cat /etc/own; echo
`)
	if want := "1000\n-rwxr-xr-x\nown\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// TestMountsAsTheEnvelopeHasThem: name and source must be launcher.conf's; what
// is missing there is said as a line to write.
func TestMountsAsTheEnvelopeHasThem(t *testing.T) {
	models := modelsDir(t)
	r := newGroundWith(t, link.Config{}, "cells = 8", "mount.models = "+models, "noexec.models = yes").runtime
	s := shape()
	s.Envelope.Files.Mounts = map[string]envelope.Mount{"models": {Source: models, Target: "/models", Why: "a test"}}
	out, x := insideShape(t, r, s, "sh", "cat /models/model; echo; (echo x >/models/model) 2>/dev/null || echo read-only")
	if out != "a model\nread-only\n" {
		t.Errorf("%q", out)
	}
	_, bare := insideShape(t, r, shape(), "sh", "test -e /models && echo there")
	if x.Enforced == bare.Enforced || x.Enforced == "" {
		t.Errorf("the digest of what is enforced does not cover mounts: %s", x.Enforced)
	}
	for name, tt := range map[string]struct{ mount, source, line string }{
		"another source": {"models", "/srv/other", "mount.models = /srv/other"},
		"not there":      {"data", "/srv/data", "mount.data = /srv/data"},
	} {
		s.Envelope.Files.Mounts = map[string]envelope.Mount{tt.mount: {Source: tt.source, Target: "/models", Why: "a test"}}
		refusedMount(t, r, s, name, tt.line)
	}
	s.Envelope.Files.Mounts = map[string]envelope.Mount{"models": {Source: models, Target: "/models", Why: "a test"}, "zoo": {Source: "/srv/zoo", Target: "/zoo", Why: "a test"}}
	refusedMount(t, r, s, "the second of two", "mount.zoo = /srv/zoo")
	s.Envelope.Files.Mounts = map[string]envelope.Mount{"models": {Source: models, Target: "/etc/x", Why: "a test"}}
	if _, err := r.Open(context.Background(), s); err == nil {
		t.Error("mounted below /etc")
	}
}

// refusedMount wants a refusal whose hint ends with a line of launcher.conf.
func refusedMount(t *testing.T, r *container.Runtime, s cell.Shape, name, line string) {
	t.Helper()
	_, err := r.Open(context.Background(), s)
	var refused *cell.Error
	var mount *link.MountError
	if !errors.As(err, &refused) || refused.Reason != envelope.ReasonPolicy || !errors.As(err, &mount) {
		t.Fatalf("%s: %v", name, err)
	}
	if !strings.HasSuffix(refused.Hint, ": "+line) {
		t.Errorf("%s: hint %q, want %s", name, refused.Hint, line)
	}
}

// TestTrees are kept, listed, opened and removed; a stream at fault is no tree.
func TestTrees(t *testing.T) {
	r := newLoneGround(t).runtime
	ctx, trees := context.Background(), r.Trees()
	if all, err := trees.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	both := roomy
	both.EROFS = true
	digest := keepTree(t, r, smallStream(t), both)
	all, err := trees.List(ctx)
	if err != nil || len(all) != 1 || all[0].Digest != digest || !all[0].Dir || !all[0].EROFS || all[0].Bytes < 4096 || time.Since(all[0].Kept) > time.Hour {
		t.Errorf("%+v, %v", all, err)
	}
	for file, want := range map[wire.TreeFile]string{wire.TreeListing: "marker", wire.TreeEROFS: "\xe2\xe1\xf5\xe0"} {
		f, err := trees.Open(ctx, digest, file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil || !strings.Contains(string(text), want) || f.Close() != nil {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	}
	s := shape()
	s.Root.Added = digest
	c, err := r.Open(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := trees.Remove(ctx, digest); !errors.Is(err, link.ErrInUse) {
		t.Errorf("while a cell has it: %v", err)
	}
	c.Close(ctx)
	if err := trees.Remove(ctx, digest); err != nil {
		t.Error(err)
	}
	if err := trees.Remove(ctx, digest); !errors.Is(err, link.ErrNoTree) {
		t.Errorf("twice: %v", err)
	}
	if _, err := r.Open(ctx, s); !errors.Is(err, link.ErrNoTree) {
		t.Errorf("a cell of a tree that is gone: %v", err)
	}
	if _, err := trees.Open(ctx, digest, wire.TreeEROFS); !errors.Is(err, link.ErrNoTree) {
		t.Errorf("a file of it: %v", err)
	}
	var fault *link.UnpackError
	_, _, err = trees.Unpack(ctx, piped(t, []byte(strings.Repeat("no tar", 500))), roomy)
	if !errors.As(err, &fault) || fault.Kind == "" || fault.Kind == "broken" {
		t.Errorf("no tar: %v", err)
	}
	small := roomy
	small.Bytes = 10
	_, _, err = trees.Unpack(ctx, piped(t, smallRoot(t, nil)), small)
	if !errors.As(err, &fault) {
		t.Errorf("too much: %v", err)
	}
	_, staged, err := trees.Unpack(ctx, piped(t, smallStream(t)), roomy)
	if err != nil {
		t.Fatal(err)
	}
	if err := staged.Drop(ctx); err != nil {
		t.Error(err)
	}
	if all, err := trees.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestUnpackIsCancelled: the unpacker ends with its context, and nothing is left.
func TestUnpackIsCancelled(t *testing.T) {
	g := newLoneGround(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, _, err := g.runtime.Trees().Unpack(ctx, r, roomy)
		done <- err
	}()
	head := smallRoot(t, nil)[:1<<20]
	if _, err := w.Write(head); err != nil { // most of it is read
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrClosed) && !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("somebody reads the stream: %v", err)
	}
	w.Close()
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(g.conf), "images", "staging")); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestFaultOfAStreamIsSaid, even where who writes it gives up when nobody reads.
func TestFaultOfAStreamIsSaid(t *testing.T) {
	runtime := newLoneGround(t).runtime
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := smallRoot(t, nil)
	go func() {
		if _, err := w.Write(stream); err != nil {
			cancel()
		}
		w.Close()
	}()
	small := roomy
	small.Bytes = 1 << 20
	var fault *link.UnpackError
	if _, _, err := runtime.Trees().Unpack(ctx, r, small); !errors.As(err, &fault) || fault.Kind != "bytes" {
		t.Errorf("%v", err)
	}
}

// TestStagedTreeGoesWithItsLauncher, and one launcher for one call waits for it.
func TestStagedTreeGoesWithItsLauncher(t *testing.T) {
	g := newGroundFor(t, true)
	ctx := context.Background()
	c, err := g.runtime.Open(ctx, shape())
	if err != nil {
		t.Fatal(err)
	}
	_, staged, err := g.runtime.Trees().Unpack(ctx, piped(t, smallStream(t)), roomy)
	if err != nil {
		t.Fatal(err)
	}
	c.Close(ctx) // the one call
	if err := staged.Keep(ctx); err != nil {
		t.Error(err)
	}
	trees, err := os.ReadDir(filepath.Join(filepath.Dir(g.conf), "images", "trees"))
	if err != nil || len(trees) != 1 {
		t.Errorf("%v, %v", trees, err)
	}
	g = newLoneGround(t)
	_, staged, err = g.runtime.Trees().Unpack(ctx, piped(t, smallStream(t)), roomy)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.runtime.Close(); err != nil {
		t.Error(err)
	}
	if err := staged.Keep(ctx); err == nil {
		t.Error("kept by a launcher that is gone")
	}
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(g.conf), "images", "staging")); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestImageWithoutATree is refused, and does not become the slice.
func TestImageWithoutATree(t *testing.T) {
	r := newRuntime(t)
	for _, root := range []cell.Root{{}, {Tree: "sha256:x"}, {Tree: "../" + strings.Repeat("a", 61)}, {Added: strings.Repeat("A", 64)}} {
		s := shape()
		s.Envelope.Image, s.Root = "oci:x", root
		if _, err := r.Open(context.Background(), s); err == nil {
			t.Errorf("%+v is a root", root)
		}
	}
}

// TestPackagesThatRunAtStart of an interpreter run in the cell that has them, and
// nowhere else: making, keeping and removing their tree executes nothing of it.
func TestPackagesThatRunAtStart(t *testing.T) {
	r := newLoneGround(t).runtime
	marker := filepath.Join(t.TempDir(), "marker")
	code := "import os\nfor p in ('" + marker + "', '/work/marker', '/marker', '/opt/callcell/marker'):\n  try: open(p, 'w').write(p)\n  except OSError: pass\n"
	lib, _ := filepath.Glob("/usr/lib/python3.*")
	if len(lib) == 0 {
		t.Skip("this host has no Python")
	}
	for name, text := range map[string]string{"usr/lib/python3/dist-packages/x.pth": "import os; exec(" + quote(code) + ")\n",
		lib[0][1:] + "/sitecustomize.py": code, lib[0][1:] + "/usercustomize.py": code} {
		s := shape()
		s.Root.Tree = keepTree(t, r, smallRoot(t, map[string]string{name: text, "etc/ld.so.preload": "/marker.so\n"}), roomy)
		out, _ := insideShape(t, r, s, "python", "import os; print('ran', os.path.exists('/work/marker'))")
		if !strings.Contains(out, "ran True") {
			t.Errorf("%s: %q", name, out)
		}
		if err := r.Trees().Remove(context.Background(), s.Root.Tree); err != nil {
			t.Error(err)
		}
		for _, p := range []string{marker, "/work/marker", "/marker", "/opt/callcell/marker"} {
			if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %s on the host: %v", name, p, err)
			}
		}
	}
}

func quote(code string) string {
	return "\"" + strings.NewReplacer("\n", "\\n", "\"", "\\\"").Replace(code) + "\""
}

// TestRootsAreInFeatures by name.
func TestRootsAreInFeatures(t *testing.T) {
	f := newRuntime(t).Features()
	for _, name := range []string{"roots", "mounts"} {
		if !slices.ContainsFunc(f.Enforced, func(e cell.Feature) bool { return e.Name == name && e.On }) {
			t.Errorf("%s: %+v", name, f.Enforced)
		}
	}
}
