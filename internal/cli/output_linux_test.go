package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestOutputIsBounded has a program write 200 MB, all of which it may, and
// wants the command to hold little of it.
func TestOutputIsBounded(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	file := filepath.Join(t.TempDir(), "envelope.yaml")
	if err := os.WriteFile(file, []byte("trust: reviewed\nresources: {output: {keep: 64Ki, total: 1Gi}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "run", "--envelope", file, "--", "head", "-c", "200M", "/dev/zero")
	var out, fault bytes.Buffer
	c.Stdout, c.Stderr = &out, &fault
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, fault.Bytes())
	}
	if got := out.Len(); got != int(64*envelope.KiB) {
		t.Errorf("%d bytes came out, want what is kept", got)
	}
	if want := "callcell: stdout: 64.0 KiB of 200.0 MiB shown, head and tail\n"; fault.String() != want {
		t.Errorf("stderr %q, want %q", fault.String(), want)
	}
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no usage")
	}
	if held := envelope.Size(usage.Maxrss) * envelope.KiB; held > 64*envelope.MiB {
		t.Errorf("the command or one of its processes held %s", held)
	}
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
