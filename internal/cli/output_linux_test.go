package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
)

// TestOutputIsBounded has a program write 200 MB, all of which it may, and
// wants the command to hold little of it. It is looked at while it waits for us
// to read what it shows at the end: what a process says of its children counts
// the memory of who started them too.
func TestOutputIsBounded(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	file := filepath.Join(t.TempDir(), "envelope.yaml")
	if err := os.WriteFile(file, []byte("trust: reviewed\nresources: {output: {keep: 64Ki, total: 1Gi}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "run", "--envelope", file, "--", "head", "-c", "200M", "/dev/zero")
	out, theirs := smallPipe(t)
	var fault bytes.Buffer
	c.Stdout, c.Stderr = theirs, &fault
	if err := errors.Join(c.Start(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	n, _ := io.ReadFull(out, first)
	held := mostHeld(t, bin)
	rest, err := io.Copy(io.Discard, out)
	if err := errors.Join(err, c.Wait()); err != nil {
		t.Fatalf("%v: %s", err, fault.Bytes())
	}
	if got := n + int(rest); got != int(64*envelope.KiB) {
		t.Errorf("%d bytes came out, want what is kept", got)
	}
	if want := "callcell: stdout: 64.0 KiB of 200.0 MiB shown, head and tail\n"; fault.String() != want {
		t.Errorf("stderr %q, want %q", fault.String(), want)
	}
	if mine := held[c.Process.Pid]; mine == 0 {
		t.Error("the command was not there any more")
	}
	for pid, most := range held {
		if most > 64*envelope.MiB {
			t.Errorf("process %d of the command %d held %s", pid, c.Process.Pid, most)
		}
	}
}

// smallPipe is a pipe in which there is room for a page.
func smallPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := unix.FcntlInt(r.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// mostHeld is the most memory that each process of the binaries in bin has held.
func mostHeld(t *testing.T, bin string) map[int]envelope.Size {
	t.Helper()
	held := map[int]envelope.Size{}
	for _, pid := range processes(func(exe, _ string) bool { return strings.HasPrefix(exe, bin+"/") }) {
		status, _ := os.ReadFile("/proc/" + pid + "/status") // none where it has just ended
		for line := range strings.Lines(string(status)) {
			var kib envelope.Size
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
				number, err := strconv.Atoi(pid)
				if err != nil {
					t.Fatal(err)
				}
				held[number] = kib * envelope.KiB
			}
		}
	}
	return held
}

// TestFullDisk wants a command that could not say what the program wrote not to
// end as if it had.
func TestFullDisk(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	for _, how := range [][]string{{}, {"--json"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		args := append([]string{"--config", conf, "run", "--trust", "reviewed"}, how...)
		c := exec.Command(filepath.Join(bin, "callcell"), append(args, "--", "echo", "hello")...)
		var fault bytes.Buffer
		c.Stdout, c.Stderr = full, &fault
		_ = c.Run() // its status is looked at
		full.Close()
		if c.ProcessState.ExitCode() != 125 || !bytes.HasPrefix(fault.Bytes(), []byte("callcell: ")) {
			t.Errorf("%q: status %d, stderr %q", how, c.ProcessState.ExitCode(), fault.Bytes())
		}
	}
}
