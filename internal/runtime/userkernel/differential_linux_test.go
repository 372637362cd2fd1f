package userkernel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/runtime/container"
)

// TestDifferential holds the level against the container: the same programs do
// the same.
func TestDifferential(t *testing.T) {
	g := newGround(t)
	celltest.Differential(t, container.New(g.launchers), g.Runtime)
}

// said runs a program and returns what it printed and how it ended.
func said(t *testing.T, rt cell.Runtime, code string) (string, cell.Exit) {
	t.Helper()
	s := shape()
	s.Envelope.Resources.Pids = 32
	c, err := rt.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	var out buffer
	x, err := c.Exec(context.Background(), cell.Command{Argv: []string{"/usr/bin/python3", "-c", code}, Env: environ(), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out.data)), x
}

// TestDifferences are the ways in which the level is another than the container
// one. docs/levels.md lists them by these names.
func TestDifferences(t *testing.T) {
	g := newGround(t)
	host := container.New(g.launchers)
	for _, tc := range []struct{ name, code, container, userkernel string }{
		{"another kernel", `import os; print("gvisor" in os.uname().release)`, "False", "True"},
		{"a /sys that is empty of devices", `import os; print(os.path.isdir("/sys/kernel"))`, "False", "True"},
		{"all of /proc, of the cell's own kernel", `import os; print(os.path.exists("/proc/meminfo"))`, "False", "True"},
		{"memory is what the call asked for", `
try: print([l.split()[1] for l in open("/proc/meminfo") if l.startswith("MemTotal")][0])
except OSError: print("none")`, "none", "262144"},
		{"pseudo terminals", `
import os
try: os.openpty(); print("got one")
except OSError as e: print("none")`, "none", "got one"},
		{"user namespaces", `
import ctypes; c = ctypes.CDLL(None, use_errno=True)
print(c.unshare(0x10000000))`, "-1", "0"},
		{"a debugger may trace its own children", `
import ctypes, os, signal; c = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    os._exit(c.ptrace(0, 0, 0, 0) & 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`, "1", "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _ := said(t, host, tc.code); got != tc.container {
				t.Errorf("container says %q, want %q", got, tc.container)
			}
			if got, _ := said(t, g.Runtime, tc.code); got != tc.userkernel {
				t.Errorf("userkernel says %q, want %q", got, tc.userkernel)
			}
		})
	}
	t.Run("threads that were refused, and are gone at the end, are not told of", func(t *testing.T) {
		const bomb = `
import os, threading, time
try:
    while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
except RuntimeError: print("stopped", flush=True); os._exit(0)`
		for _, rt := range []cell.Runtime{host, g.Runtime} {
			_, x := said(t, rt, bomb)
			if told, want := len(x.Events) > 0, rt.Level() == envelope.LevelContainer; told != want {
				t.Errorf("%s: events %+v", rt.Level(), x.Events)
			}
		}
	})
}
