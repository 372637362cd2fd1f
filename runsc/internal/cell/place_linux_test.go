package cell_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A place holds what the tests of the command start it with.
type place struct{ runsc, shim, image, probe string }

// uid is the sandboxes' on this host, and nobody is the same inside.
const (
	uid    = 212345
	nobody = 65534
)

// newPlace builds the binaries, and an image with the probe in it.
func newPlace(t *testing.T) place {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, as the launcher does")
	}
	mkfs, err := exec.LookPath("mkfs.erofs")
	if err != nil {
		t.Skip("needs mkfs.erofs (package erofs-utils)")
	}
	dir := t.TempDir()
	p := place{filepath.Join(dir, "runsc"), filepath.Join(dir, "shim"), filepath.Join(dir, "image"), filepath.Join(dir, "root", "probe")}
	for out, pkg := range map[string]string{p.runsc: "../..", p.shim: "./testdata/shim", p.probe: "./testdata/probe"} {
		c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		output(t, c)
	}
	for _, d := range []string{"proc", "sys", "dev", "tmp", "mnt"} {
		must(t, os.MkdirAll(filepath.Join(dir, "root", d), 0o755))
	}
	output(t, exec.Command(mkfs, "-d0", "-Enoinline_data", "--all-root", p.image, filepath.Join(dir, "root")))
	for _, d := range []string{dir, filepath.Dir(dir)} {
		must(t, os.Chmod(d, 0o755)) // the sandbox's user executes runsc
	}
	return p
}

func output(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bundle is the spec that runs the probe with these arguments.
func bundle(args ...string) *specs.Spec {
	return &specs.Spec{
		Version: specs.Version,
		Process: &specs.Process{
			User: specs.User{UID: 1000, GID: 1000}, Args: append([]string{"/probe"}, args...), Cwd: "/",
			Env: []string{"HOME=/tmp"}, NoNewPrivileges: true, Capabilities: &specs.LinuxCapabilities{},
		},
		Root:     &specs.Root{Path: "root", Readonly: true},
		Hostname: "cell",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"size=1m", "mode=1777"}},
		},
		Annotations: map[string]string{"dev.gvisor.spec.rootfs.source": "/image", "dev.gvisor.spec.rootfs.type": "erofs"},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace},
			{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace},
		}},
	}
}

// A sandbox is one run of the command. Its methods take what it says, in order.
type sandbox struct {
	cmd            *exec.Cmd
	channel        *os.File // the other end of the first process's descriptor 3
	status, stdout *os.File
	words          *os.File // what the sentry itself says
}

// start starts the command in its place; wrong names what the shim leaves out.
func (p place) start(t *testing.T, spec *specs.Spec, wrong string, flags ...string) *sandbox {
	t.Helper()
	config, err := os.Create(filepath.Join(t.TempDir(), "config.json"))
	must(t, err)
	must(t, json.NewEncoder(config).Encode(spec))
	statusR, statusW := pipe(t)
	outR, outW := pipe(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "channel"), os.NewFile(uintptr(pair[1]), "channel")
	image, null, runsc := open(t, p.image), open(t, "/dev/null"), open(t, p.runsc)
	words, err := os.Create(filepath.Join(t.TempDir(), "words"))
	must(t, err)

	files := []*os.File{config, image, statusW, null, outW, outW, theirs} // from 3 on
	args := []string{"cell", "-spec-fd=3", "-status-fd=5", "-stdio-fds=6,7,8", "-pass-fd=9:3", "-memory=268435456"}
	images, confs := "4", "erofs:none"
	for _, m := range spec.Mounts {
		if m.Type == "erofs" {
			images, confs = fmt.Sprintf("%s,%d", images, 3+len(files)), confs+",erofs:none"
			files = append(files, open(t, p.image))
		}
	}
	if spec.Process.Args[0] == "passed" {
		args = append(args, fmt.Sprintf("-exec-fd=%d", 3+len(files)))
		files = append(files, open(t, p.probe))
	}
	args = append(append(args, "-io-fds="+images, "-mount-confs="+confs), flags...)
	c := exec.Command(p.shim, append([]string{fmt.Sprint(3 + len(files)), wrong, "runsc"}, args...)...)
	c.Env, c.Stderr = []string{}, words
	c.ExtraFiles = append(files, runsc)
	c.SysProcAttr = attributes()
	must(t, c.Start())
	for _, f := range append(c.ExtraFiles, words) {
		f.Close()
	}
	s := &sandbox{cmd: c, channel: ours, status: statusR, stdout: outR, words: open(t, words.Name())}
	t.Cleanup(func() { c.Process.Kill(); c.Wait(); ours.Close(); statusR.Close(); outR.Close() })
	return s
}

// attributes are the namespaces, with what the shim still needs in them.
func attributes() *syscall.SysProcAttr {
	one := []syscall.SysProcIDMap{{ContainerID: nobody, HostID: uid, Size: 1}}
	return &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Credential:  &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true},
		UidMappings: one, GidMappings: one,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	return r, w
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDONLY, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// end waits for the command, and returns its exit status, all that is left to
// read of its reports, and of the program's output.
func (s *sandbox) end(t *testing.T) (code int, reports, out string) {
	t.Helper()
	reports, out = all(t, s.status), all(t, s.stdout)
	s.cmd.Wait()
	if code = s.cmd.ProcessState.ExitCode(); code > 1 || code < 0 {
		t.Logf("the sentry says: %s", all(t, s.words))
	}
	return code, reports, out
}

func all(t *testing.T, f *os.File) string {
	t.Helper()
	var b bytes.Buffer
	_, err := io.Copy(&b, f)
	must(t, err)
	return b.String()
}

// await reads up to a line.
func await(t *testing.T, f *os.File, line string) {
	t.Helper()
	var got []byte
	for b := make([]byte, 1); !strings.HasSuffix(string(got), line+"\n"); got = append(got, b[0]) {
		if _, err := f.Read(b); err != nil {
			t.Fatalf("waited for %q, got %q (%v)", line, got, err)
		}
	}
}

// ran runs the probe to its end.
func (p place) ran(t *testing.T, flags []string, args ...string) (reports, out string) {
	t.Helper()
	code, reports, out := p.start(t, bundle(args...), "", flags...).end(t)
	if code != 0 {
		t.Fatal(fmt.Errorf("exit status %d, %q", code, reports))
	}
	return reports, out
}
