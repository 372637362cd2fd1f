package conf

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/config/guarded"
)

// example returns the file that the package doc shows, which has every
// default.
func example(t testing.TB) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(file.Doc.Text()) {
		if setting, ok := strings.CutPrefix(line, "\t"); ok {
			setting, _, _ = strings.Cut(setting, "  ")
			lines = append(lines, strings.TrimSpace(setting))
		}
	}
	if len(lines) == 0 {
		t.Fatal("the package doc shows no file")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestDocHasTheDefaults(t *testing.T) {
	text := example(t)
	got, err := Parse("doc.go", []byte(text))
	if err != nil || !reflect.DeepEqual(got, Default()) {
		t.Errorf("the doc's file is %+v, %v, want %+v", got, err, Default())
	}
	c := Default()
	for _, s := range c.settings() {
		if !strings.Contains(text, s.key+" = ") {
			t.Errorf("%s is not in the doc", s.key)
		}
	}
}

func TestParse(t *testing.T) {
	text := "# callcell\n\n  uids.first\t=\t200000 \nuids.count=1000\ncgroup.root = /cg\ncgroup.parent = a.slice/b\nrun.dir = /run/x\ncells = 7\nspares = 0\n" +
		"ceiling.memory = 512Mi\nceiling.pids = 5\nceiling.cpu = 0.5\nceiling.scratch = 4096B\nceiling.inodes = 6\nceiling.wall = 2h\n" +
		"ceiling.openFiles = 64\nceiling.fileSize = 1Ti\n" +
		"egress.path = /opt/callcell/egress\negress.memory = 64Mi\negress.pids = 20\negress.cpu = 1.5\negress.openFiles = 1024\n" +
		"image.dir = /srv/images\nimage.path = unpacker\nimage.memory = 64Mi\nimage.pids = 16\nimage.cpu = 0.5\nimage.wall = 90s\nimage.bytes = 1Gi\nimage.entries = 100\n" +
		"noexec.b-2 = yes\nmount.b-2 = /srv/b\nmount.A_1 = /data/x/a\n" +
		"runsc.path = /opt/runsc\nrunsc.version = v1\nrunsc.guest = g\nrunsc.root = /srv/host.erofs\nrunsc.memory = 1Gi\nrunsc.pids = 99\nrunsc.network = host"
	want := Config{
		UIDsFirst: 200000, UIDsCount: 1000, CgroupRoot: "/cg", CgroupParent: "a.slice/b", RunDir: "/run/x", Cells: 7,
		Ceilings: Ceilings{Memory: 512 * mi, Pids: 5, CPU: 500, Scratch: 4096, Inodes: 6, Wall: 7200 * second, OpenFiles: 64, FileSize: ti},
		Egress:   Egress{Path: "/opt/callcell/egress", Memory: 64 * mi, Pids: 20, CPU: 1500, OpenFiles: 1024},
		Image:    Image{Dir: "/srv/images", Path: "unpacker", Memory: 64 * mi, Pids: 16, CPU: 500, Wall: 90 * second, Bytes: gi, Entries: 100},
		Mounts:   []Mount{{Name: "A_1", Source: "/data/x/a"}, {Name: "b-2", Source: "/srv/b", NoExec: true}},
		Runsc:    Runsc{Path: "/opt/runsc", Version: "v1", Guest: "g", Root: "/srv/host.erofs", Memory: gi, Pids: 99, Network: NetworkHost},
	}
	if got, err := Parse("f", []byte(text)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, empty := range []string{"", "\n", "# only this"} {
		if got, err := Parse("f", []byte(empty)); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%q: %+v, %v, want the defaults", empty, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"\nx = 1":                             "f:2: x: unknown key",
		"Cells = 1":                           "f:1: Cells: unknown key",
		"cells = 1\n#\ncells = 1":             "f:3: cells: comes twice, first in line 1",
		"cells":                               "f:1: want KEY = VALUE",
		"cells =":                             "f:1: want KEY = VALUE",
		"= 1":                                 "f:1: want KEY = VALUE",
		"cells = 1 # not a comment":           "f:1: want KEY = VALUE",
		"cells = 1\r":                         "f:1: want KEY = VALUE",
		"run.dir = /run/\xff":                 "f:1: want KEY = VALUE",
		"run.dir = /run/\x00":                 "f:1: want KEY = VALUE",
		"cells = 0":                           "f:1: cells: want a whole number from 1",
		"cells = +1":                          "f:1: cells: want a whole number",
		"cells = 010":                         "f:1: cells: want a whole number",
		"cells = 1e3":                         "f:1: cells: want a whole number",
		"spares = 65":                         "f:1: spares: want a whole number",
		"cells = 65537":                       "f:1: cells: want a whole number",
		"cells = 99999999999999999999":        "f:1: cells: want a whole number",
		"uids.first = 0":                      "f:1: uids.first: want a whole number from 65536",
		"uids.first = 1000":                   "f:1: uids.first: want a whole number from 65536",
		"uids.first = 2147483647":             "f: uids.count: the range ends above 2147483647",
		"uids.first = 70000\nuids.count = 10": "f:2: uids.count: fewer uids than cells (512)",
		"ceiling.memory = 64":                 "f:1: ceiling.memory: want a size with a unit",
		"ceiling.memory = 64MB":               "f:1: ceiling.memory: want a size with a unit",
		"ceiling.memory = 64K":                "f:1: ceiling.memory: want a size with a unit",
		"ceiling.memory = 1.5Gi":              "f:1: ceiling.memory: want a size with a unit",
		"ceiling.memory = 1B":                 "f:1: ceiling.memory: want a size with a unit",
		"ceiling.memory = 9999999999Ti":       "f:1: ceiling.memory: want a size with a unit",
		"ceiling.wall = 60":                   "f:1: ceiling.wall: want a time with a unit",
		"ceiling.wall = 0s":                   "f:1: ceiling.wall: want a time with a unit",
		"ceiling.wall = 1d":                   "f:1: ceiling.wall: want a time with a unit",
		"ceiling.cpu = 0":                     "f:1: ceiling.cpu: want a number of CPUs",
		"ceiling.cpu = 0.0005":                "f:1: ceiling.cpu: want a number of CPUs",
		"ceiling.cpu = 1.":                    "f:1: ceiling.cpu: want a number of CPUs",
		"ceiling.cpu = .5":                    "f:1: ceiling.cpu: want a number of CPUs",
		"ceiling.cpu = 1.-5":                  "f:1: ceiling.cpu: want a number of CPUs",
		"ceiling.cpu = 65536":                 "f:1: ceiling.cpu: want a number of CPUs",
		"cgroup.root = sys":                   "f:1: cgroup.root: want a path from / on",
		"cgroup.root = /":                     "f:1: cgroup.root: want a path from / on",
		"run.dir = /run/../etc":               "f:1: run.dir: want a path from / on",
		"run.dir = /run//x":                   "f:1: run.dir: want a path from / on",
		"cgroup.parent = /callcell":           "f:1: cgroup.parent: want a path without a / in front",
		"cgroup.parent = ../x":                "f:1: cgroup.parent: want a path without a / in front",
		"egress.path = ..":                    "f:1: egress.path: want a path from / on",
		"egress.path = ./x":                   "f:1: egress.path: want a path from / on",
		"egress.path = a/b":                   "f:1: egress.path: want a path from / on",
		"egress.path = /a/../b":               "f:1: egress.path: want a path from / on",
		"egress.memory = 31Mi":                "f:1: egress.memory: want a size with a unit",
		"egress.pids = 15":                    "f:1: egress.pids: want a whole number from 16",
		"egress.cpu = 0":                      "f:1: egress.cpu: want a number of CPUs",
		"runsc.path = a/b":                    "f:1: runsc.path: want a path from / on",
		"runsc.root = host.erofs":             "f:1: runsc.root: want a path from / on",
		"runsc.memory = 1Mi":                  "f:1: runsc.memory: want a size with a unit",
		"runsc.pids = 31":                     "f:1: runsc.pids: want a whole number from 32",
		"runsc.network = none":                "f:1: runsc.network: want sandbox or host",
		"runsc.network = Host":                "f:1: runsc.network: want sandbox or host",
		"egress.openFiles = 255":              "f:1: egress.openFiles: want a whole number from 256",
		"image.dir = images":                  "f:1: image.dir: want a path from / on",
		"image.path = a/b":                    "f:1: image.path: want a path from / on",
		"image.wall = 25h":                    "f:1: image.wall: want a time with a unit",
		"image.bytes = 1000B":                 "f:1: image.bytes: want a size with a unit",
		"image.entries = 15":                  "f:1: image.entries: want a whole number from 16",
		"mount. = /srv/x":                     "f:1: mount.: a mount has a name of letters",
		"mount.a.b = /srv/x":                  "f:1: mount.a.b: a mount has a name of letters",
		"mount.a = srv":                       "f:1: mount.a: want a path from / on",
		"mount.a = /srv/../etc":               "f:1: mount.a: want a path from / on",
		"mount.a = /srv\nmount.a = /srv":      "f:2: mount.a: comes twice, first in line 1",
		"noexec.a = no":                       "f:1: noexec.a: want yes",
		"noexec.a = yes":                      "f:1: noexec.a: there is no mount.a",
		"mount.a = /":                         "f:1: mount.a: want a path from / on",
		"mount.a = /etc":                      "f:1: mount.a: /etc is, or has in it, /etc",
		"mount.a = /etc/ssl":                  "f:1: mount.a: /etc/ssl is, or has in it, /etc",
		"mount.a = /var":                      "f:1: mount.a: /var is, or has in it, /var/run",
		"mount.a = /var/lib":                  "f:1: mount.a: /var/lib is, or has in it, /var/lib",
		"mount.a = /var/lib/callcell/blobs":   "f:1: mount.a: /var/lib/callcell/blobs is, or has in it, /var/lib/callcell",
		"mount.a = /x/i\nimage.dir = /x/i/j":  "f:1: mount.a: /x/i is, or has in it, /x/i/j",
		"image.dir = /x/i\nmount.a = /x/i/j":  "f:2: mount.a: /x/i/j is, or has in it, /x/i",
		"run.dir = /x/run\nmount.a = /x/run":  "f:2: mount.a: /x/run is, or has in it, /x/run",
		"mount.a = /run/user":                 "f:1: mount.a: /run/user is, or has in it, /run",
		"mount.a = /home":                     "f:1: mount.a: /home is, or has in it, /home",
		"mount.a = /usr":                      "f:1: mount.a: /usr is, or has in it, /usr",
		"mount.a = /root/models":              "f:1: mount.a: /root/models is, or has in it, /root",
	} {
		got, err := Parse("f", []byte(in))
		var fault *Error
		if !reflect.DeepEqual(got, Config{}) || !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %s", in, got, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launcher.conf")
	if c, err := Load(path); !errors.Is(err, fs.ErrNotExist) || !reflect.DeepEqual(c, Config{}) {
		t.Errorf("a named file that is not there: %+v, %v", c, err)
	}
	if err := os.WriteFile(path, []byte("cells = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(path); err != nil || c.Cells != 3 {
		t.Errorf("got %+v, %v", c, err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(path); !errors.Is(err, guarded.ErrUnsafe) || !reflect.DeepEqual(c, Config{}) {
		t.Errorf("a file that a group can write: %+v, %v", c, err)
	}
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, guarded.ErrSize) {
		t.Errorf("a file over the cap: %v", err)
	}
}

// FuzzParse: an error gives nothing; what is accepted is within the bounds
// that the launcher relies on.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example(f)))
	for _, seed := range []string{"", "#\n", "cells = 1\n", "uids.first = 70000\nuids.count = 600\n", "ceiling.cpu = 0.125", "run.dir = /a/b", "egress.path = /a/b", "egress.path = b", "x", "cells = 1\ncells = 1", "mount.a = /srv/a\nnoexec.a = yes", "mount.a = /etc", "image.dir = /a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			if !reflect.DeepEqual(c, Config{}) {
				t.Fatalf("an error and %+v: %v", c, err)
			}
			return
		}
		if c.UIDsFirst < lowestUID || c.UIDsFirst+c.UIDsCount-1 > highestUID || int64(c.UIDsCount) < c.Cells || c.Cells < 1 {
			t.Fatalf("uids of %+v", c)
		}
		for _, n := range []int64{c.Ceilings.Memory, c.Ceilings.Pids, c.Ceilings.CPU, c.Ceilings.Scratch, c.Ceilings.Inodes, c.Ceilings.Wall, c.Ceilings.OpenFiles, c.Ceilings.FileSize,
			c.Egress.Memory, c.Egress.Pids, c.Egress.CPU, c.Egress.OpenFiles, c.Image.Memory, c.Image.Pids, c.Image.CPU, c.Image.Wall, c.Image.Bytes, c.Image.Entries} {
			if n < 1 {
				t.Fatalf("ceilings of %+v", c)
			}
		}
		if c.Egress.Path != filepath.Base(c.Egress.Path) && c.Egress.Path != filepath.Clean(c.Egress.Path) || c.Egress.Path == "/" || c.Egress.Path == ".." {
			t.Fatalf("program of %+v", c)
		}
		for _, m := range c.Mounts {
			if !mountName(m.Name) || filepath.Clean(m.Source) != m.Source || !filepath.IsAbs(m.Source) || m.Source == "/" ||
				strings.HasPrefix(m.Source+"/", "/etc/") || strings.HasPrefix(m.Source+"/", c.Image.Dir+"/") || strings.HasPrefix(c.Image.Dir+"/", m.Source+"/") {
				t.Fatalf("mount %+v", m)
			}
		}
		if filepath.Clean(c.RunDir) != c.RunDir || filepath.Clean("/"+c.CgroupParent) != "/"+c.CgroupParent || !filepath.IsLocal(c.CgroupParent) || !filepath.IsAbs(c.CgroupRoot) {
			t.Fatalf("paths of %+v", c)
		}
	})
}
