package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersionIsThePin builds as `make build` does, and asks the binary.
func TestVersionIsThePin(t *testing.T) {
	pin := run(t, "go", "list", "-m", "-f", "{{.Version}}", "gvisor.dev/gvisor")
	out := filepath.Join(t.TempDir(), "runsc")
	t.Setenv("RUNSC_OUT", out)
	run(t, "../scripts/build-runsc")
	if said := run(t, "../scripts/build-runsc"); said != "" {
		t.Errorf("a second build is not quiet: %q", said)
	}
	if got, want := run(t, out, "--version"), "runsc version "+pin+"\n"; !strings.HasPrefix(got+"\n", want) {
		t.Errorf("it says %q, not %q", got, want)
	}
}

// TestCommands: what stock runsc needs to run, and nothing of what it can do
// besides.
func TestCommands(t *testing.T) {
	names := map[string]bool{}
	for c := range stock() {
		names[c.Name()] = true
	}
	for _, name := range []string{"run", "boot", "gofer", "umount", "kill", "delete", "list", "state"} {
		if !names[name] {
			t.Errorf("there is no command %q", name)
		}
		delete(names, name)
	}
	if len(names) > 0 {
		t.Errorf("there are also %v", names)
	}
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = os.Environ()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}
