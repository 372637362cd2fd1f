package vfork

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

// TestExecFD: an open file is executed, although no path leads to it any more,
// and its descriptor goes with the exec.
func TestExecFD(t *testing.T) {
	leak.Check(t)
	fd, err := unix.Open("/bin/sh", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := New()
	p.Call("elsewhere", unix.SYS_CHDIR, []Arg{"/proc"})
	p.Call("descriptor 1", unix.SYS_DUP3, []Arg{int(w.Fd()), 1, 0})
	p.ExecFD(fd, "sh", []string{"a name", "-c", fmt.Sprintf("echo $0 $A; test -e /proc/$$/fd/%d || echo gone", fd)}, []string{"A=1", "PATH=/usr/bin:/bin"})
	ws := run(t, p)
	w.Close()
	if text, err := io.ReadAll(r); err != nil || !ws.Exited() || ws.ExitStatus() != 0 || string(text) != "a name 1\ngone\n" {
		t.Errorf("status %v, says %q, %v", ws, text, err)
	}
	childless(t)
}

// TestExecFDOfNoProgram names the step.
func TestExecFDOfNoProgram(t *testing.T) {
	leak.Check(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p := New()
	p.ExecFD(int(null.Fd()), "null", []string{"x"}, nil)
	_, _, err = start(p, 0, -1)
	var step *StepError
	if !errors.As(err, &step) || step.Name != "exec null" || !errors.Is(err, unix.EACCES) {
		t.Errorf("%v", err)
	}
	childless(t)
}
