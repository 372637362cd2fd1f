package template

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A root is a template that stands, and the thread in it.
type root struct {
	tid  int
	work chan func()
}

// build makes a template on a thread of its own, whose umask is as bad as can
// be.
func build(t *testing.T, point string, init []byte) (*root, error) {
	t.Helper()
	return buildOf(t, point, init, nil)
}

// buildOf is build of a layout.
func buildOf(t *testing.T, point string, init []byte, layout *Layout) (*root, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes mounts")
	}
	r := &root{work: make(chan func())}
	built := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		r.tid = unix.Gettid()
		err := unix.Unshare(unix.CLONE_FS)
		unix.Umask(0o777)
		built <- errors.Join(err, Build(point, init, layout))
		for f := range r.work {
			f()
		}
	}()
	err := <-built
	t.Cleanup(func() { close(r.work) })
	return r, err
}

// inside runs f on the template's thread.
func (r *root) inside(f func()) {
	done := make(chan struct{})
	r.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// mountsOf are the lines of a thread's mounts, its root's first.
func mountsOf(t *testing.T, tid int) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/mountinfo", tid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if lines = append(lines, f); f[4] == "/" {
			n := len(lines) - 1
			lines[0], lines[n] = lines[n], lines[0]
		}
	}
	if len(lines) == 0 {
		t.Fatal("no mounts")
	}
	return lines
}

func TestBuild(t *testing.T) {
	point := t.TempDir()
	r, err := build(t, point, []byte("init's text"))
	if err != nil {
		t.Fatal(err)
	}
	own := mountsOf(t, r.tid)
	for _, f := range mountsOf(t, unix.Gettid()) { // others mount beside us
		if f[2] == own[0][2] || f[4] == point || strings.HasPrefix(f[4], point+"/") {
			t.Errorf("the host has a mount of it: %q", f)
		}
	}
	if left, err := os.ReadDir(point); err != nil || len(left) != 0 {
		t.Errorf("left at the host's directory: %v, %v", left, err)
	}
	r.inside(func() {
		checkRoot(t)
		checkDevices(t)
		checkInit(t)
		checkFiles(t)
		checkSealed(t)
	})
	checkMounts(t, r.tid)
}

// checkRoot: what is not in a table is not there.
func checkRoot(t *testing.T) {
	want := append([]string{".callcell", "dev", "etc", "proc", "run", "tmp", "usr", "work"}, roots()...)
	for _, name := range names(t, "/") {
		if !slices.Contains(want, name) {
			t.Errorf("/%s is there", name)
		}
	}
	for _, name := range []string{"/root", "/home", "/var", "/opt", "/srv", "/sys", "/boot", "/mnt", "/media", "/etc/shadow", "/etc/ssl/private", "/etc/ssh", "/..//root"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var etc []string
	for _, f := range ours() {
		etc = append(etc, path.Base(f.name))
	}
	for _, l := range links() {
		etc = append(etc, path.Base(l[1]))
	}
	for _, e := range Slice() {
		if below, ok := strings.CutPrefix(e.Path, "/etc/"); ok {
			first, _, _ := strings.Cut(below, "/")
			etc = append(etc, first)
		}
	}
	for _, name := range names(t, "/etc") {
		if !slices.Contains(append(etc, "ssl"), name) {
			t.Errorf("/etc/%s is there", name)
		}
	}
}

// names lists a directory; on the template's thread that is the cell's.
func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func checkDevices(t *testing.T) {
	want := []string{"fd", "shm", "stderr", "stdin", "stdout"}
	for _, d := range devices() {
		var st unix.Stat_t
		if err := unix.Lstat("/dev/"+d.name, &st); err != nil || st.Mode != unix.S_IFCHR|0o666 || st.Rdev != unix.Mkdev(d.major, d.minor) {
			t.Errorf("/dev/%s: mode %#o, device %#x, %v", d.name, st.Mode, st.Rdev, err)
		}
		want = append(want, d.name)
	}
	slices.Sort(want)
	if got := names(t, "/dev"); !slices.Equal(got, want) {
		t.Errorf("/dev has %v, want %v", got, want)
	}
	if b, err := os.ReadFile("/dev/null"); err != nil || len(b) != 0 {
		t.Errorf("/dev/null does not work: %v", err)
	}
}

func checkInit(t *testing.T) {
	info, err := os.Stat(InitPath)
	if err != nil || info.Mode() != 0o111 {
		t.Errorf("init: %v, %v; it is to be executed and not read", info, err)
	}
	if text, err := os.ReadFile(InitPath); err != nil || string(text) != "init's text" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(path.Dir(InitPath)); err != nil || info.Mode().Perm() != 0o111 {
		t.Errorf("its directory: %v, %v", info, err)
	}
}

// checkFiles: every user can read them, whatever the launcher's umask was.
func checkFiles(t *testing.T) {
	for _, f := range ours() {
		info, err := os.Stat("/" + f.name)
		if err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", f.name, info, err)
		}
		if text, err := os.ReadFile("/" + f.name); err != nil || string(text) != f.text {
			t.Errorf("%s: %q, %v", f.name, text, err)
		}
	}
	for _, dir := range []string{"/", "/etc", "/etc/ssl", "/dev", "/proc", "/work", "/tmp", "/dev/shm", "/run", "/.callcell/net", EmptyRoot, ScratchPoint} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o755 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	if left := append(names(t, EmptyRoot), names(t, Run)...); len(left) > 0 {
		t.Errorf("in the empty root, or in %s: %v", Run, left)
	}
	for _, l := range links() {
		if target, err := os.Readlink("/" + l[1]); err != nil || target != l[0] {
			t.Errorf("%s: %s, %v", l[1], target, err)
		}
	}
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Error(err)
	}
}

// checkSealed: not even root writes anywhere, and there is no way up.
func checkSealed(t *testing.T) {
	for _, dir := range append([]string{"/", "/usr", "/usr/bin", "/etc", "/dev", "/dev/shm", "/tmp", "/work", "/run", "/proc", "/.callcell/net", EmptyRoot, ScratchPoint}, "/etc/ssl") {
		if f, err := os.Create(dir + "/made"); !errors.Is(err, syscall.EROFS) {
			t.Errorf("a file is made in %s: %v", dir, err)
			f.Close()
		}
	}
	if err := os.Remove("/etc/passwd"); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a file is removed: %v", err)
	}
	var up, top unix.Stat_t
	if err := errors.Join(unix.Stat("/../../..", &up), unix.Stat("/", &top)); err != nil || up.Ino != top.Ino || up.Dev != top.Dev {
		t.Errorf("above the root is something else, %v", err)
	}
}

// checkMounts: the flags of each mount.
func checkMounts(t *testing.T, tid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/mountinfo", tid))
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		point, flags := f[4], strings.Split(f[5], ",")
		points[point] = true
		want := []string{"ro", "nosuid", "nodev"}
		if point == "/dev" {
			want = []string{"ro", "nosuid", "noexec"}
		}
		for _, flag := range want {
			if !slices.Contains(flags, flag) {
				t.Errorf("%s is mounted %s, without %s", point, f[5], flag)
			}
		}
		if strings.Contains(line, "shared:") || strings.Contains(line, "master:") {
			t.Errorf("%s hears or says of others' mounts: %s", point, line)
		}
		if point != "/" && point != "/dev" && !strings.HasPrefix(point, "/usr") && !strings.HasPrefix(point, "/etc/") && !slices.Contains(roots(), point[1:]) {
			t.Errorf("%s is mounted", point)
		}
	}
	if !points["/"] || !points["/dev"] || !points["/usr"] {
		t.Errorf("mounts: %v", points)
	}
}

func TestBuildSaysWhatFailed(t *testing.T) {
	if _, err := build(t, "/nowhere", nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "template: root") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := build(t, file, nil); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("%v", err)
	}
}

func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "file")
	fifo := filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(at, make([]byte, maxCopy), 0o600), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	if text, err := readSmall(at); err != nil || len(text) != maxCopy {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if err := os.Truncate(at, maxCopy+1); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{at, dir, fifo, filepath.Join(dir, "none")} {
		if _, err := readSmall(name); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// TestTables hold the slice to what it says of itself.
func TestTables(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Slice() {
		if e.Why == "" || e.Path != path.Clean(e.Path) || seen[e.Path] || e.Kind != Bind && e.Kind != Copy {
			t.Errorf("%+v", e)
		}
		seen[e.Path] = true
		if e.Path != "/usr" && !strings.HasPrefix(e.Path, "/etc/") {
			t.Errorf("%s is of neither /usr nor /etc", e.Path)
		}
		for _, private := range []string{"shadow", "private", "ssh", "sudo", "passwd", "krb5", "cron", "systemd"} {
			if strings.Contains(e.Path, private) {
				t.Errorf("%s is not for every cell", e.Path)
			}
		}
		if e.Kind == Bind && strings.HasPrefix(e.Path, "/etc/") {
			checkPublic(t, e.Path)
		}
	}
	parts := map[string]bool{}
	for _, p := range Parts() {
		if parts[p.Dir] || strings.Contains(p.Dir, "/") || !path.IsAbs(p.Target) {
			t.Errorf("%+v", p)
		}
		parts[p.Dir] = true
	}
	own := map[string]bool{}
	for _, f := range ours() {
		own["/"+f.name] = true
	}
	for _, c := range Covers() {
		if !own[c.Source] || !own[c.Target] || path.Base(c.Source) != path.Base(c.Target) {
			t.Errorf("%+v: both are to be files of ours", c)
		}
	}
	if Parts()[0].Target != Work {
		t.Error("outputs are read from the first part, which is not the working directory")
	}
}

// checkPublic: what a cell sees of /etc any user of the host may read.
func checkPublic(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o004 == 0 {
			t.Errorf("%s is not public: %v", name, info.Mode())
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
