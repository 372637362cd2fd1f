package cell_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// TestCell runs sandboxes, all from one build.
func TestCell(t *testing.T) {
	p := newPlace(t)
	t.Run("the end is reported", func(t *testing.T) { ends(t, p) })
	t.Run("a descriptor is passed", func(t *testing.T) { passes(t, p) })
	t.Run("a program is passed", func(t *testing.T) { executes(t, p) })
	t.Run("an image is mounted", func(t *testing.T) { mounts(t, p) })
	t.Run("loopback is all there is", func(t *testing.T) { loops(t, p) })
	t.Run("signals reach the first process", func(t *testing.T) { signals(t, p) })
	t.Run("nothing survives its death", func(t *testing.T) { dies(t, p) })
	t.Run("a wrong place is refused", func(t *testing.T) { refuses(t, p) })
	t.Run("a wrong spec is reported", func(t *testing.T) { misspelt(t, p) })
	t.Run("no filter is compiled", func(t *testing.T) { precompiled(t, p) })
	t.Run("posture", func(t *testing.T) { posture(t, p) })
}

func ends(t *testing.T, p place) {
	for _, r := range []struct{ args, reports, out string }{
		{"exit 0", "started\nexit 0\n", "out\nerr\n"},
		{"exit 3", "started\nexit 3\n", "out\nerr\n"},
		{"exit 255", "started\nexit 255\n", "out\nerr\n"},
		{"signal 9", "started\nsignal 9\n", ""},
		{"signal 15", "started\nsignal 15\n", ""},
	} {
		t.Run(r.args, func(t *testing.T) {
			reports, out := p.ran(t, nil, strings.Fields(r.args)...)
			if reports != r.reports || out != r.out {
				t.Errorf("reports %q, output %q", reports, out)
			}
		})
	}
}

func passes(t *testing.T, p place) {
	s := p.start(t, bundle("echo"), "")
	io.WriteString(s.channel, "hello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(s.channel, b); err != nil || string(b) != "HELLO" {
		t.Errorf("got %q (%v)", b, err)
	}
	s.channel.Close()
	if _, reports, _ := s.end(t); reports != "started\nexit 0\n" {
		t.Errorf("reports %q: it does not see the other end close", reports)
	}
}

// executes a program that is in no image.
func executes(t *testing.T, p place) {
	spec := bundle("exit", "5")
	spec.Process.Args[0] = "passed"
	if code, reports, out := p.start(t, spec, "").end(t); code != 0 || reports != "started\nexit 5\n" || out != "out\nerr\n" {
		t.Errorf("exit status %d, reports %q, output %q", code, reports, out)
	}
}

func mounts(t *testing.T, p place) {
	spec := bundle("exit", "4")
	spec.Process.Args[0] = "/mnt/probe"
	spec.Mounts = append(spec.Mounts, specs.Mount{Destination: "/mnt", Type: "erofs", Source: "/images/1", Options: []string{"ro"}})
	if code, reports, _ := p.start(t, spec, "").end(t); code != 0 || reports != "started\nexit 4\n" {
		t.Errorf("exit status %d, reports %q", code, reports)
	}
}

func loops(t *testing.T, p place) {
	addrs := []string{"127.0.0.1", "127.9.9.9", "198.18.7.9", "10.1.2.3"}
	_, out := p.ran(t, nil, append([]string{"net"}, addrs...)...)
	if want := "127.0.0.1 127.0.0.1:443\n127.9.9.9 127.9.9.9:443\n198.18.7.9 no\n10.1.2.3 no\n"; out != want {
		t.Errorf("got %q", out)
	}
	_, out = p.ran(t, []string{"-loopback=198.18.0.1/15,10.1.2.3/32"}, append([]string{"net"}, addrs...)...)
	if want := "198.18.7.9 198.18.7.9:443\n10.1.2.3 10.1.2.3:443\n"; !strings.HasSuffix(out, want) {
		t.Errorf("with more addresses: got %q", out)
	}
}

func signals(t *testing.T, p place) {
	s := p.start(t, bundle("wait"), "")
	await(t, s.stdout, "ready")
	must(t, s.cmd.Process.Signal(unix.SIGTERM))
	if _, reports, out := s.end(t); reports != "started\nexit 0\n" || out != "terminated\n" {
		t.Errorf("reports %q, output %q", reports, out)
	}
}

func dies(t *testing.T, p place) {
	s := p.start(t, bundle("wait"), "")
	await(t, s.stdout, "ready")
	pids := processes(t, s.cmd.Process.Pid)
	if len(pids) < 2 {
		t.Fatalf("it has no stubs: %v", pids)
	}
	must(t, s.cmd.Process.Kill())
	if code, reports, _ := s.end(t); code != -1 || reports != "started\n" {
		t.Errorf("exit status %d, reports %q", code, reports)
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, 0); err != unix.ESRCH {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

func refuses(t *testing.T, p place) {
	for _, r := range []struct{ wrong, why string }{
		{"bounding", "capability 0 in the bounding set"},
		{"capabilities", "capabilities"},
		{"privileges", "no_new_privs is 0"},
		{"writable", "the root can be written"},
		{"procfs", "/proc is not the root's own"},
		{"file", "/secret is there"},
		{"directory", "is a directory"},
		{"forgotten", "no flag names it"},
	} {
		t.Run(r.wrong, func(t *testing.T) {
			code, reports, _ := p.start(t, bundle("exit", "0"), r.wrong).end(t)
			if code != 1 || !strings.HasPrefix(reports, "failed not confined: ") || !strings.Contains(reports, r.why) {
				t.Errorf("exit status %d, %q", code, reports)
			}
		})
	}
}

func misspelt(t *testing.T, p place) {
	spec := bundle("exit", "0")
	spec.Process.Args = []string{"/nothing"}
	code, reports, _ := p.start(t, spec, "").end(t)
	if code != 1 || !strings.Contains(reports, "failed ") || slices.Contains(strings.Split(reports, "\n"), "started") {
		t.Errorf("exit status %d, %q", code, reports)
	}
}

// precompiled: gVisor says which it takes; without, a start takes half as long
// again, and nothing else would tell.
func precompiled(t *testing.T, p place) {
	for _, network := range []string{"none", "host"} {
		s := p.start(t, bundle("exit", "0"), "", "-debug", "-network="+network)
		if code, reports, _ := s.end(t); code != 0 {
			t.Fatalf("exit status %d, %q", code, reports)
		}
		if words := all(t, s.words); !strings.Contains(words, "precompiled seccomp program rendered") || strings.Contains(words, "building seccomp program from scratch") {
			t.Errorf("-network=%s: gVisor compiles a filter", network)
		}
	}
}
