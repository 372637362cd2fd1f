package launcher

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// shellTree puts a small root into the store: a shell and a few programs.
func (c *client) shellTree(t testing.TB, n int, more map[string]string) string {
	t.Helper()
	var programs []string
	for _, name := range []string{"sh", "ls", "cat", "touch", "id", "env", "rm", "readlink"} {
		programs = append(programs, "/bin/"+name)
	}
	stream, err := helpers.Tree(programs, nil, more)
	must(t, err)
	m := request(n)
	m.EROFS = false
	return c.tree(t, m, stream)
}

// runs runs a shell's script in a cell and returns what it says.
func (c *client) runs(t testing.TB, s wire.Spec, script string) []string {
	t.Helper()
	slot := c.open(t, s)
	p := c.start(t, slot, "/bin/sh", "-c", script)
	var said []string
	for line := range p.stdout {
		said = append(said, line)
	}
	p.exit(t)
	c.close(t, slot)
	return said
}

func mounted(name, source, target string) wire.Mount {
	return wire.Mount{Name: name, Source: sha256.Sum256([]byte(source)), Target: target}
}

// TestTreeIsTheRoot of a cell, read-only, with what every cell has of ours and
// nothing of the host's.
func TestTreeIsTheRoot(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.Tree = c.shellTree(t, 1, map[string]string{
		"etc/passwd": "theirs:x:0:0::/:/bin/sh\n", "etc/own": "own", "tmp": "-> /etc", "opt/x/y": "y", "dev/null": "no device",
		"etc/hosts": "-> /work/hosts", ".callcell/init": "theirs", "away": "-> ../../../../etc/hostname", "a file": "text",
	})
	for script, want := range map[string]string{
		"ls -A / | tr '\\n' ' '":                        "",
		"cat /etc/own":                                  "own",
		"cat /etc/passwd | { read x; echo $x; }":        "root:x:0:0:root:/:/usr/sbin/nologin",
		"cat /etc/hosts | { read x; echo $x; }":         "127.0.0.1 localhost cell",
		"cat '/a file'":                                 "text",
		"cat /opt/x/y":                                  "y",
		"cat /away":                                     "cell",
		"id -u":                                         "1000",
		"echo x >/dev/null && echo a device":            "a device",
		"cd /tmp && echo x >f && cat f":                 "x",
		"cat /.callcell/init; echo $?":                  "cat: /.callcell/init: Permission denied",
		"readlink /tmp; ls -A /tmp /run /dev/shm /work": "/dev/shm:",
		"touch /x /etc/own /opt/x /usr/x; echo nothing": "touch: cannot touch '/x': Read-only file system",
		"rm -f /etc/own; cat /etc/own":                  "rm: cannot remove '/etc/own': Read-only file system",
		"test -e /var -o -e /home -o -e /root; echo $?": "1",
		"cat /proc/1/root/etc/shadow; echo":             "cat: /proc/1/root/etc/shadow: No such file or directory",
		"cat /etc/resolv.conf":                          "# no names but those of /etc/hosts",
		"ls -A /opt/callcell; echo empty":               "empty",
	} {
		if got := c.runs(t, s, script); want != "" && (len(got) == 0 || got[0] != want) {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	want := []string{".callcell", "a file", "away", "bin", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sys", "tmp", "work"}
	if got := c.runs(t, s, "ls -A /"); !slices.Equal(slices.DeleteFunc(got, func(n string) bool { return n == "usr" }), want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i, line := range c.runs(t, s, "cat /proc/self/mountinfo") {
		if f := strings.Fields(line); !strings.HasPrefix(f[5], "ro,") && !slices.Contains([]string{"/proc", "/work", "/tmp", "/run", "/dev/shm", "/.callcell/scratch"}, f[4]) ||
			!strings.Contains(f[5], "nosuid") || !strings.Contains(f[5], "nodev") && f[4] != "/dev" {
			t.Errorf("mount %d: %s", i, line)
		}
	}
	c.done(t, &wire.Remove{Digest: s.Tree, Owner: treeOwner})
	noGroups(t, c)
}

// TestNetworkInATree: names are asked for where a socket of ours is.
func TestNetworkInATree(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.Tree, s.Ports = c.shellTree(t, 1, nil), []uint16{443}
	slot, fds := c.gate(t, s)
	closeAll(fds)
	p := c.start(t, slot, "/bin/cat", "/etc/resolv.conf")
	p.says(t, "nameserver 127.0.0.53")
	p.exit(t)
	c.close(t, slot)
}

// TestAddedTree stands at its place, over a tree and beside the slice, where
// there is nothing without one.
func TestAddedTree(t *testing.T) {
	c := dial(t, newPlace(t))
	added := c.tree(t, request(1), tarOf(t, member{name: "lib/x", text: "added"}))
	bare := request(2)
	bare.Mountpoints = false
	stream, err := helpers.Tree([]string{"/bin/sh", "/bin/cat", "/bin/ls"}, nil, map[string]string{"opt/theirs/x": "theirs", "opt/l": "-> theirs/x"})
	must(t, err)
	for name, tree := range map[string]string{"the slice": "", "a tree": c.shellTree(t, 3, nil), "a tree without a place for it": c.tree(t, bare, stream)} {
		s := spec()
		s.Tree, s.Added = tree, added
		if got := c.runs(t, s, "cat /opt/callcell/lib/x; echo; echo x >/opt/callcell/lib/x"); len(got) == 0 || got[0] != "added" || !strings.Contains(strings.Join(got, " "), "Read-only file system") {
			t.Errorf("%s: %q", name, got)
		}
		s.Added = ""
		if got := c.runs(t, s, "cat /opt/callcell/lib/x; echo $?"); len(got) < 2 || got[len(got)-1] != "1" {
			t.Errorf("%s without it: %q", name, got)
		}
		if name == "a tree without a place for it" {
			s.Added = added
			if got := c.runs(t, s, "cat /opt/l; echo; ls /opt"); !slices.Equal(got, []string{"theirs", "callcell", "l", "theirs"}) {
				t.Errorf("what else is there: %q", got)
			}
		}
	}
	s := spec()
	if got := c.runs(t, s, "ls -d /opt; echo $?"); got[len(got)-1] != "2" {
		t.Errorf("the slice has /opt: %q", got)
	}
}

// TestTreeWithNoPlace is no root, and says where.
func TestTreeWithNoPlace(t *testing.T) {
	c := dial(t, newPlace(t, "mount.m = "+realDir(t)))
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("etc/f%d", i)] = "x"
	}
	added := c.tree(t, request(99), tarOf(t, member{name: "x"}))
	for i, tt := range []struct {
		more  map[string]string
		added string
		want  string
	}{
		{map[string]string{"etc": "-> usr"}, "", `"/etc"`},
		{map[string]string{"etc": "a file"}, "", `"/etc"`},
		{map[string]string{"etc/hosts/x": "a directory"}, "", `"/etc/hosts"`},
		{many, "", `"/etc": more than`},
		{map[string]string{"opt": "-> /work"}, added, `"/opt"`},
		{map[string]string{"opt/callcell": "-> /etc"}, added, `"/opt/callcell"`},
	} {
		m := request(i)
		m.Mountpoints, m.EROFS = false, false
		stream, err := helpers.Tree([]string{"/bin/sh"}, nil, tt.more)
		must(t, err)
		s := spec()
		s.Tree, s.Added = c.tree(t, m, stream), tt.added
		if f := c.refused(t, wire.KindTree, &wire.Open{Spec: s}); !strings.Contains(f.Step, tt.want) {
			t.Errorf("%s, want %s", f.Step, tt.want)
		}
	}
	noGroups(t, c)
	c.close(t, c.open(t, spec()))
}

// realDir is a directory of this test's to which no link leads.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

// TestMounts are what launcher.conf says, read-only, at the place that the front
// says, in a tree and beside the slice.
func TestMounts(t *testing.T) {
	models, tools := realDir(t), realDir(t)
	must(t, os.WriteFile(filepath.Join(models, "m"), []byte("a model\n"), 0o600), os.Chmod(models, 0o755), os.Chmod(filepath.Join(models, "m"), 0o644))
	text, err := os.ReadFile(helper("nothing"))
	must(t, err, os.WriteFile(filepath.Join(tools, "nothing"), text, 0o755), os.Chmod(tools, 0o755))
	c := dial(t, newPlace(t, "mount.models = "+models, "mount.tools = "+tools, "noexec.tools = yes", "mount.more = "+tools))
	for _, tree := range []string{"", c.shellTree(t, 1, map[string]string{"mnt/t": "theirs", "data/x": "hidden"})} {
		s := spec()
		s.Tree = tree
		s.Mounts = []wire.Mount{mounted("models", models, "/mnt/models"), mounted("more", tools, "/data"), mounted("tools", tools, "/tools")}
		got := c.runs(t, s, "cat /mnt/models/m; echo x >/mnt/models/m; touch /mnt/models/x; /data/nothing; echo $?; /tools/nothing; echo $?; ls /data; cat /mnt/t")
		all := strings.Join(got, "\n")
		if got[0] != "a model" || strings.Count(all, "Read-only file system") != 2 || !strings.Contains(all, "\n126\nnothing") || strings.Contains(all, "hidden") || strings.Contains(all, "theirs") != (tree != "") {
			t.Errorf("tree %.8q: %q", tree, got)
		}
		if strings.Count(all, "126") != 1 {
			t.Errorf("tree %.8q: noexec holds for another mount too: %q", tree, got)
		}
	}
	noGroups(t, c)
}

// TestMountsAreTheLaunchers: what its configuration does not have, or has
// otherwise, is not mounted; neither is what became a link.
func TestMountsAreTheLaunchers(t *testing.T) {
	dir, other := realDir(t), realDir(t)
	must(t, os.Symlink(other, filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "d"), 0o755), os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	c := dial(t, newPlace(t, "mount.d = "+dir+"/d", "mount.link = "+dir+"/link", "mount.below = "+dir+"/link/x", "mount.file = "+dir+"/file", "mount.gone = "+dir+"/gone"))
	for name, tt := range map[string]struct {
		mount wire.Mount
		want  string
	}{
		"not there":      {mounted("etc", "/etc", "/m"), "etc is not in launcher.conf"},
		"another source": {mounted("d", "/etc", "/m"), "d: launcher.conf has another source"},
		"a link":         {mounted("link", dir+"/link", "/m"), "link"},
		"below a link":   {mounted("below", dir+"/link/x", "/m"), "link"},
		"no directory":   {mounted("file", dir+"/file", "/m"), "no directory"},
		"gone":           {mounted("gone", dir+"/gone", "/m"), "no such file"},
	} {
		s := spec()
		s.Mounts = []wire.Mount{tt.mount}
		if f := c.refused(t, wire.KindMount, &wire.Open{Spec: s}); !strings.Contains(f.Step, tt.want) {
			t.Errorf("%s: %s, want %s", name, f.Step, tt.want)
		}
	}
	for _, target := range append(wire.Places(), "/", "m", "/m/../etc", "/etc/x", "/opt", "/m\x00") {
		s := spec()
		s.Mounts = []wire.Mount{mounted("d", dir+"/d", target)}
		c.refused(t, wire.KindSpec, &wire.Open{Spec: s})
	}
	s := spec()
	s.Mounts = []wire.Mount{mounted("d", dir+"/d", "/m")}
	must(t, os.WriteFile(dir+"/d/x", []byte("first\n"), 0o644))
	if got := c.runs(t, s, "cat /m/x"); !slices.Equal(got, []string{"first"}) {
		t.Errorf("%q", got)
	}
	must(t, os.Rename(dir+"/d", dir+"/old"), os.Mkdir(dir+"/d", 0o755), os.WriteFile(dir+"/d/x", []byte("second\n"), 0o644))
	if got := c.runs(t, s, "cat /m/x"); !slices.Equal(got, []string{"second"}) { // not what a kept template has
		t.Errorf("%q", got)
	}
	must(t, os.RemoveAll(dir+"/d"), os.Symlink("/etc", dir+"/d"))
	c.refused(t, wire.KindMount, &wire.Open{Spec: s})
}

// templates is how many threads of the launcher are in a root of cells.
func (c *client) templates(t testing.TB) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", c.pid))
	must(t, err)
	n := 0
	for _, task := range tasks {
		if bound := procField(number(filepath.Base(task)), "CapBnd"); bound == "0000000000000000" {
			n++
		}
	}
	return n
}

// TestTemplatesAreKept for a while, so many of them, and those that cells use
// for as long.
func TestTemplatesAreKept(t *testing.T) {
	c := dial(t, newPlace(t))
	base := c.shellTree(t, 1, nil)
	var specs []wire.Spec
	for i := range mostGrounds + 3 {
		s := spec()
		s.Tree, s.Added = base, c.tree(t, request(10+i), tarOf(t, member{name: "x", text: itoa(i)}))
		specs = append(specs, s)
	}
	for i, s := range specs {
		if got := c.runs(t, s, "cat /opt/callcell/x"); !slices.Equal(got, []string{itoa(i)}) {
			t.Errorf("%d: %q", i, got)
		}
		want := 1 + min(i+1, mostGrounds) // the thread of one that is dropped ends a little later
		eventually(t, fmt.Sprintf("%d templates after %d", want, i+1), func() bool { return c.templates(t) == want })
	}
	var slots []uint32
	for _, s := range specs {
		slots = append(slots, c.open(t, s))
	}
	eventually(t, "templates for all the cells", func() bool { return c.templates(t) == 1+len(specs) })
	for i, slot := range slots {
		if e := c.start(t, slot, "/bin/cat", "/opt/callcell/x").exit(t); !e.Known || e.Status != 0 {
			t.Errorf("%d: %+v", i, e)
		}
		c.close(t, slot)
	}
	eventually(t, "the others are dropped", func() bool { return c.templates(t) == 1+mostGrounds })
}

// TestRemoveRespectsCells, of this launcher and of another, and no spare.
func TestRemoveRespectsCells(t *testing.T) {
	p := newPlace(t, "spares = 1")
	a, b := dial(t, p), dial(t, p)
	s := spec()
	s.Tree = a.shellTree(t, 1, nil)
	slot := a.open(t, s)
	a.refused(t, wire.KindBusy, &wire.Remove{Digest: s.Tree, Owner: treeOwner})
	b.refused(t, wire.KindBusy, &wire.Remove{Digest: s.Tree, Owner: treeOwner})
	if e := a.start(t, slot, "/bin/id").exit(t); !e.Known || e.Status != 0 {
		t.Errorf("%+v", e)
	}
	a.close(t, slot)
	a.close(t, a.open(t, s))
	eventually(t, "a spare's init is there", func() bool { return len(members(p.parent)) == 1 })
	b.close(t, b.open(t, s)) // it keeps a template
	a.done(t, &wire.Remove{Digest: s.Tree, Owner: treeOwner})
	a.refused(t, wire.KindAbsent, &wire.Open{Spec: s})
	b.refused(t, wire.KindAbsent, &wire.Open{Spec: s})
	if left := p.inStore(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
	b.shellTree(t, 1, nil) // the same
	if got := b.runs(t, s, "id -u"); !slices.Equal(got, []string{"1000"}) {
		t.Errorf("what is kept of the tree that is gone: %q", got)
	}
}

// TestSparesOfATree are of that tree and no other, and enforced alike.
func TestSparesOfATree(t *testing.T) {
	c := dial(t, newPlace(t, "spares = 1"))
	one, other := spec(), spec()
	one.Tree, other.Tree = c.shellTree(t, 1, map[string]string{"name": "one"}), c.shellTree(t, 2, map[string]string{"name": "other"})
	digests := map[[32]byte]bool{}
	for i := range 9 {
		s, want := one, "one"
		if i%3 == 2 {
			s, want = other, "other"
		}
		o := c.call(t, &wire.Open{Spec: s}).body.(*wire.Opened)
		digests[o.Enforced] = true
		p := c.start(t, o.Slot, "/bin/cat", "/name")
		p.says(t, want)
		p.exit(t)
		c.close(t, o.Slot)
	}
	if len(digests) != 2 {
		t.Errorf("%d digests of what is enforced, want one for each tree", len(digests))
	}
}

// TestCellsOfATreeEnd with the launcher, by whatever that ends.
func TestCellsOfATreeEnd(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.Tree = c.shellTree(t, 1, nil)
	p := c.start(t, c.open(t, s), "/bin/sh", "-c", "echo ready; read x")
	p.says(t, "ready")
	pids := members(c.parent)
	kill(t, c.pid)
	dead(t, soon, pids)
	await(t, "the end of launcher and reaper", c.over)
	await(t, "the launcher's exit", c.exited) // with it its locks go
	next := dial(t, c.place)
	if got := next.runs(t, s, "id -u"); !slices.Equal(got, []string{"1000"}) {
		t.Errorf("%q", got)
	}
	next.done(t, &wire.Remove{Digest: s.Tree, Owner: treeOwner})
}

// TestHammerTrees: cells of several roots at once, while trees come and go and
// are asked to go. Each cell has its root whole, or is refused in words.
func TestHammerTrees(t *testing.T) {
	c := dial(t, newPlace(t, "spares = 2"))
	var trees []string
	for i := range 4 {
		trees = append(trees, c.shellTree(t, 1+i, map[string]string{"name": itoa(i) + "\n"}))
	}
	before := targets(fdsOf(t, c.pid))
	var all sync.WaitGroup
	ran, refused := make(chan bool, 200), make(chan wire.Kind, 200)
	for worker := range 4 {
		all.Go(func() {
			for i := range 12 {
				n := (worker + i*i) % len(trees)
				s := smallSpec()
				s.ID, s.Tree = treeID(worker*100+i), trees[n]
				a, ok := <-c.ask(&wire.Open{Spec: s})
				o, opened := a.body.(*wire.Opened)
				if f, failed := a.body.(*wire.Failed); ok && failed {
					refused <- f.Kind
					continue
				}
				if !ok || !opened {
					t.Errorf("open: %+v", a.body)
					return
				}
				p := c.start(t, o.Slot, "/bin/cat", "/name")
				if line, ok := <-p.stdout; ok && line != itoa(n) {
					t.Errorf("root %d has the name %q", n, line)
				}
				<-p.answer
				<-c.ask(&wire.Close{Slot: o.Slot})
				ran <- true
			}
		})
	}
	all.Go(func() {
		for i := range 8 {
			c.store(500+i, itoa(i%2))
			<-c.ask(&wire.Remove{Digest: trees[3], Owner: treeOwner}) // it is in use, or goes
		}
	})
	all.Wait()
	close(ran)
	close(refused)
	if len(ran) == 0 {
		t.Error("no cell ran")
	}
	for kind := range refused {
		if kind != wire.KindAbsent {
			t.Errorf("refused for %d", kind)
		}
	}
	for i, digest := range trees { // the last may be gone
		eventually(t, "the tree can be removed", func() bool {
			a := <-c.ask(&wire.Remove{Digest: digest, Owner: treeOwner})
			f, failed := a.body.(*wire.Failed)
			return isDone(a.body) || i == 3 && failed && f.Kind == wire.KindAbsent
		})
	}
	eventually(t, "no template but the slice's", func() bool { return c.templates(t) <= 2 }) // and that of the tree that went while it was in use
	eventually(t, "no tree is open", func() bool {
		return !slices.ContainsFunc(targets(fdsOf(t, c.pid)), func(fd string) bool {
			return strings.Contains(fd, "/images/") && count(before, fd) == 0 && !strings.Contains(fd, "deleted")
		})
	})
	eventually(t, "no spare of a tree that is gone", func() bool { return len(c.groups()) == 0 })
}
