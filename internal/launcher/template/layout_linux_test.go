package template

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// plant makes files below a directory: a text, a link ("-> "), or a directory
// where the name ends in a slash.
func plant(t *testing.T, files map[string]string) int {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = errors.Join(err, os.Symlink(target, at))
		} else if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.MkdirAll(at, 0o755))
		} else {
			err = errors.Join(err, os.WriteFile(at, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// whole is a tree with a place for everything of ours.
func whole(more map[string]string) map[string]string {
	all := map[string]string{"usr/bin/x": "x", "opt/callcell/": "", "bin": "-> usr/bin"}
	for _, name := range covered() {
		all[name] = "theirs"
	}
	for name, text := range more {
		all[name] = text
	}
	return all
}

// TestRootOfATree: what of it is seen, and that nothing of it is followed.
func TestRootOfATree(t *testing.T) {
	tree := plant(t, whole(map[string]string{
		"etc/own": "own", "top": "a file", "proc": "-> /etc", "dev/x": "hidden", ".callcell/x": "hidden", "work": "a file",
		"away": "-> /etc/shadow", "a\nb": "odd", "mnt/theirs": "theirs", "empty/": "",
	}))
	added, mount := plant(t, map[string]string{"x": "added"}), plant(t, map[string]string{"x": "mounted", "sub/y": "y"})
	layout, err := Lay(Root{Tree: tree, Added: added, Mounts: []Mount{{mount, "/mnt/m", false}, {mount, "/new/deep/m", true}, {mount, "/empty", false}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := buildOf(t, t.TempDir(), []byte("init"), layout)
	if err != nil {
		t.Fatal(err)
	}
	r.inside(func() {
		want := []string{".callcell", "a\nb", "away", "bin", "dev", "empty", "etc", "mnt", "new", "opt", "proc", "run", "tmp", "top", "usr", "work"}
		if got := names(t, "/"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for name, want := range map[string]string{
			"/etc/own": "own", "/etc/hostname": "cell\n", "/top": "a file", "/bin/x": "x", "/opt/callcell/x": "added", "/mnt/theirs": "theirs",
			"/mnt/m/x": "mounted", "/new/deep/m/sub/y": "y", "/empty/x": "mounted", "/a\nb": "odd", NSSwitch: ours()[len(ours())-1].text,
		} {
			if text, err := os.ReadFile(name); err != nil || string(text) != want {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		for _, name := range []string{"/away", "/dev/x", "/.callcell/x", "/etc/shadow"} {
			if text, err := os.ReadFile(name); err == nil {
				t.Errorf("%s: %q", name, text)
			}
		}
		for _, name := range []string{"/x", "/etc/x", "/mnt/x", "/mnt/m/x", "/opt/x", "/opt/callcell/x", "/new/x", "/usr/x", "/etc/hosts"} {
			if err := os.WriteFile(name, nil, 0o644); !errors.Is(err, unix.EROFS) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/mountinfo", r.tid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if !strings.HasPrefix(f[5], "ro,nosuid") || f[4] != "/dev" && !strings.Contains(f[5], "nodev") || strings.Contains(f[5], "noexec") != (f[4] == "/dev" || f[4] == "/new/deep/m") {
			t.Error(line)
		}
	}
}

// TestLayTakesApartNoMoreThanItMust: every mount is copied for every cell.
func TestLayTakesApartNoMoreThanItMust(t *testing.T) {
	tree := plant(t, whole(map[string]string{"srv/a/": "", "srv/b": "b"}))
	for name, tt := range map[string]struct {
		mounts []Mount
		dirs   []string
	}{
		"nothing": {nil, nil}, "a place that is there": {[]Mount{{tree, "/srv/a", false}}, nil}, "one that is not": {[]Mount{{tree, "/srv/c/d", false}}, []string{"srv"}},
		"at the top": {[]Mount{{tree, "/c", false}}, nil},
	} {
		l, err := Lay(Root{Tree: tree, Added: -1, Mounts: tt.mounts})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(l.dirs, tt.dirs) {
			t.Errorf("%s: %q is taken apart, want %q", name, l.dirs, tt.dirs)
		}
		l.Close()
	}
}

// TestLayRefuses a tree in which something of ours has no place. No mount stays.
func TestLayRefuses(t *testing.T) {
	many := whole(nil)
	delete(many, "etc/hosts")
	wide := whole(nil)
	for i := range maxEntries + 1 {
		many[fmt.Sprintf("etc/%d", i)], wide[fmt.Sprintf("t%d", i)] = "x", "x"
	}
	for name, tt := range map[string]struct {
		files  map[string]string
		target string
	}{
		"etc is a link":          {map[string]string{"etc": "-> usr"}, ""},
		"etc is a file":          {map[string]string{"etc": "x"}, ""},
		"hosts is a directory":   {map[string]string{"etc/hosts/": ""}, ""},
		"a wide etc without one": {many, ""},
		"a wide root":            {wide, ""},
		"a link on the way":      {whole(map[string]string{"data": "-> usr"}), "/data/x"},
		"a link there":           {whole(map[string]string{"data": "-> /etc"}), "/data"},
		"a link below":           {whole(map[string]string{"data/x": "-> /etc"}), "/data/x/y"},
		"a file there":           {whole(map[string]string{"data": "x"}), "/data"},
		"a file below":           {whole(map[string]string{"data/x": "x"}), "/data/x/y"},
	} {
		root := Root{Tree: plant(t, tt.files), Added: -1}
		if tt.target != "" {
			root.Mounts = []Mount{{root.Tree, tt.target, false}}
		}
		before := len(descriptors(t))
		var point *PointError
		if l, err := Lay(root); l != nil || !errors.As(err, &point) || point.Path == "" && name != "a wide root" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
		if after := len(descriptors(t)); after > before {
			t.Errorf("%s: %d descriptors, and were %d", name, after, before)
		}
	}
}

func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	return all
}

// TestPlacesAgree: what the front may not mount on is what a root has of ours.
func TestPlacesAgree(t *testing.T) {
	if AddedDir != wire.AddedDir {
		t.Errorf("%s and %s", AddedDir, wire.AddedDir)
	}
	for _, name := range append(reserved(), "etc", AddedDir[1:]) {
		if !slices.Contains(wire.Places(), "/"+name) {
			t.Errorf("/%s can be mounted on", name)
		}
	}
	for _, name := range covered() {
		if !slices.ContainsFunc(ours(), func(f file) bool { return f.name == name }) {
			t.Errorf("%s is covered by nothing", name)
		}
	}
}
