package inside_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// patience is how long a test waits for what must come.
const patience = 3 * time.Minute

// A place is where a guest stands: under this host's kernel in namespaces of
// its own, which is quick, or in a sandbox of gVisor, which is where it belongs.
type place struct {
	start  func(t testing.TB, channel *os.File) *exec.Cmd
	gvisor bool
}

// root is the directory that the binaries are in, and the root of a cell.
type root struct{ dir, cell, image string }

// build builds the guest and the probe, and lays out a root.
func build(t testing.TB) root {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a guest is root inside: needs root, as the launcher does")
	}
	dir := t.TempDir()
	r := root{dir: dir, cell: filepath.Join(dir, "cell"), image: filepath.Join(dir, "image")}
	for _, d := range []string{"bin", "dev", "proc", "sys", "tmp", "work", "run", "etc"} {
		must(t, os.MkdirAll(filepath.Join(r.cell, d), 0o755))
	}
	must(t, unix.Mknod(filepath.Join(r.cell, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	must(t, os.Chmod(filepath.Join(r.cell, "dev/null"), 0o666))
	for _, f := range []string{"etc/resolv.conf", "etc/passwd"} {
		must(t, os.WriteFile(filepath.Join(r.cell, f), []byte("of the image\n"), 0o644))
	}
	goBuild(t, helpers.Root(), filepath.Join(dir, "callcell-guest"), "./cmd/callcell-guest")
	goBuild(t, helpers.Root(), filepath.Join(r.cell, "bin/probe"), "./internal/guest/inside/testdata/probe")
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755)) // the sandbox's user executes what is here
	}
	return r
}

func goBuild(t testing.TB, dir, out, pkg string) {
	t.Helper()
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	run(t, c)
}

func run(t testing.TB, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onHost is a place under this host's kernel. The scratch and all else stand
// in a mount namespace of the guest's.
func onHost(t testing.TB, r root) place {
	t.Helper()
	guestAt := filepath.Join(r.cell, "callcell-guest")
	must(t, os.Link(filepath.Join(r.dir, "callcell-guest"), guestAt))
	return place{start: func(t testing.TB, channel *os.File) *exec.Cmd {
		c := exec.Command("/callcell-guest")
		c.Dir, c.Env, c.ExtraFiles, c.Stderr = "/", []string{}, []*os.File{channel}, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{
			Chroot: r.cell, Unshareflags: unix.CLONE_NEWNS, Setsid: true, Pdeathsig: unix.SIGKILL,
			Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
		}
		return c
	}}
}

// Where the tests' sandboxes are on this host.
const (
	sandboxUID = 212346
	nobody     = 65534
)

// capabilities are those that the guest has in a sandbox; package inside says
// what for.
func capabilities() []string {
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP",
		"CAP_NET_BIND_SERVICE", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"}
}

// spec is a sandbox's whose first process is the guest.
func spec() map[string]any {
	return map[string]any{
		"ociVersion": "1.2.0", "hostname": "cell",
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "args": []string{"callcell-guest"}, "cwd": "/", "env": []string{}, "noNewPrivileges": true,
			"capabilities": map[string]any{"bounding": capabilities(), "effective": capabilities(), "permitted": capabilities()},
		},
		"root":        map[string]any{"path": "root", "readonly": true},
		"mounts":      []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"annotations": map[string]string{"dev.gvisor.spec.rootfs.source": "/image", "dev.gvisor.spec.rootfs.type": "erofs"},
		"linux":       map[string]any{"namespaces": []map[string]string{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}}},
	}
}

// inSandbox is a place in a sandbox of gVisor, as runsc/internal/cell has it.
func inSandbox(t testing.TB, r root) place {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs.erofs")
	if err != nil {
		t.Skip("needs mkfs.erofs (package erofs-utils)")
	}
	runsc, shim := filepath.Join(r.dir, "runsc"), filepath.Join(r.dir, "shim")
	c := exec.Command("scripts/build-runsc")
	c.Dir, c.Env = helpers.Root(), append(os.Environ(), "RUNSC_OUT="+runsc)
	run(t, c)
	goBuild(t, filepath.Join(helpers.Root(), "runsc"), shim, "./internal/cell/testdata/shim")
	run(t, exec.Command(mkfs, "-d0", "-Enoinline_data", "--all-root", r.image, r.cell))
	return place{gvisor: true, start: func(t testing.TB, channel *os.File) *exec.Cmd {
		config, err := os.Create(filepath.Join(t.TempDir(), "config.json"))
		must(t, err)
		must(t, json.NewEncoder(config).Encode(spec()))
		status, err := os.OpenFile(filepath.Join(t.TempDir(), "status"), os.O_CREATE|os.O_RDWR, 0o600)
		must(t, err)
		in, out, err := os.Pipe()
		must(t, err)
		t.Cleanup(func() {
			if b, _ := os.ReadFile(status.Name()); t.Failed() {
				t.Logf("the sandbox reports %q", b)
			}
		})
		files := []*os.File{config, open(t, r.image), status, in, out, out, channel, open(t, filepath.Join(r.dir, "callcell-guest")), open(t, runsc)}
		args := []string{"11", "", "runsc", "cell", "-spec-fd=3", "-io-fds=4", "-mount-confs=erofs:none", "-status-fd=5", "-stdio-fds=6,7,8",
			"-pass-fd=9:3", "-exec-fd=10", "-memory=536870912", "-loopback=198.18.0.1/15"}
		c := exec.Command(shim, args...)
		c.Env, c.Stderr, c.ExtraFiles, c.SysProcAttr = []string{}, os.Stderr, files, attributes()
		t.Cleanup(func() {
			for _, f := range files {
				f.Close()
			}
		})
		return c
	}}
}

// attributes are the namespaces, with what the shim still needs in them.
func attributes() *syscall.SysProcAttr {
	one := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: sandboxUID, Size: 1}}
	return &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Credential:  &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true},
		UidMappings: one, GidMappings: one,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
	}
}

func open(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	return f
}

// A stand is one guest, and the host's side of it.
type stand struct {
	*guest.Host
	t     testing.TB
	place place
	ctx   context.Context
	ended chan error // how the guest's process ended
}

// stand starts a guest.
func (p place) stand(t testing.TB) *stand {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetNonblock(pair[0], true))
	ours, its := os.NewFile(uintptr(pair[0]), "channel"), os.NewFile(uintptr(pair[1]), "channel")
	c := p.start(t, its)
	must(t, c.Start())
	must(t, its.Close())
	s := &stand{t: t, place: p, ended: make(chan error, 1)}
	go func() { s.ended <- c.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.ctx = ctx
	t.Cleanup(func() {
		cancel()
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Error("the guest does not end")
			_ = c.Process.Kill()
		}
	})
	h, err := guest.Dial(ctx, ours)
	must(t, err)
	s.Host = h
	t.Cleanup(func() { _ = h.Close() })
	return s
}

// prepared starts a guest and has it make a place.
func (p place) prepared(t testing.TB, room guest.Place) *stand {
	t.Helper()
	s := p.stand(t)
	if room.Scratch == 0 {
		room.Scratch, room.Inodes = 64<<20, 1024
	}
	must(t, s.Prepare(s.ctx, room))
	return s
}

// probe runs the probe and returns what it wrote.
func (s *stand) probe(args ...string) (guest.Exit, string, string) {
	s.t.Helper()
	return s.exec(guest.Command{}, args...)
}

func (s *stand) exec(c guest.Command, args ...string) (guest.Exit, string, string) {
	s.t.Helper()
	var out, err strings.Builder
	c.Argv, c.Stdout, c.Stderr = append([]string{"probe"}, args...), &out, &err
	if c.Env == nil {
		c.Env = []string{"PATH=/bin", "A=1"}
	}
	exit, failed := s.Exec(s.ctx, c)
	if failed != nil {
		s.t.Fatalf("%v: %v", args, failed)
	}
	return exit, out.String(), err.String()
}

// each runs a test at both places. The sandbox's is left out of short runs.
func each(t *testing.T, tests map[string]func(*testing.T, place)) {
	r := build(t)
	for name, make := range map[string]func(testing.TB, root) place{"host": onHost, "gvisor": inSandbox} {
		t.Run(name, func(t *testing.T) {
			p := make(t, r)
			for name, test := range tests {
				t.Run(name, func(t *testing.T) { test(t, p) })
			}
		})
	}
}
