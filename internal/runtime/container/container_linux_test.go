package container_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/testing/helpers"
)

func TestMain(m *testing.M) {
	if os.Getenv("CALLCELL_TEST_HELPERS") != "" { // built outside, to be profiled
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "callcell-helpers-")
	if err == nil {
		err = helpers.Build(dir, "callcell-image")
	}
	if err == nil {
		err = helpers.Probe(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("CALLCELL_TEST_HELPERS", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func newRuntime(t testing.TB) *container.Runtime { return newRuntimeOf(t, 0) }

// newRuntimeOf returns a runtime with so many launchers at most. Who looks for
// leaks wants one: another is started when there is much to do.
func newRuntimeOf(t testing.TB, launchers int) *container.Runtime {
	t.Helper()
	r := start(link.Config{Helpers: os.Getenv("CALLCELL_TEST_HELPERS"), Launchers: launchers})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start starts a runtime that waits for the launchers of an emulated machine.
func start(config link.Config) *container.Runtime {
	r := container.Start(config)
	if unhurried() > 1 {
		r.SetPatience(time.Minute * unhurried())
	}
	return r
}

func shape() cell.Shape {
	return cell.Shape{ID: uuid.Must(uuid.NewV7()).String(), Envelope: envelope.Default()}
}

func environ() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/work", "LANG=C.UTF-8"}
}

// unhurried is how many times as long as elsewhere a step may take. Where
// CALLCELL_TEST_SLOW is set the machine itself is emulated.
func unhurried() time.Duration {
	if os.Getenv("CALLCELL_TEST_SLOW") != "" {
		return 4
	}
	return 1
}

// TestFeatures: what the kernel lacks is said.
func TestFeatures(t *testing.T) {
	const versionFlag = 1
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, versionFlag)
	if errno != 0 {
		abi = 0
	}
	r := newRuntime(t)
	f := r.Features()
	if want := fmt.Sprintf("ABI %d", abi); !f.Available || f.Versions["landlock"] != want {
		t.Errorf("%+v, want Landlock's %s", f, want)
	}
	said := slices.ContainsFunc(r.Warnings(), func(w string) bool { return strings.HasPrefix(w, "landlock: ") })
	if weak := abi < 6; said != weak {
		t.Errorf("Landlock is weaker: %t; of the warnings it says so: %t", weak, said)
	}
	on := slices.ContainsFunc(f.Enforced, func(e cell.Feature) bool { return e.Name == "landlock" && e.On })
	if on != (abi > 0) {
		t.Errorf("ABI %d, and Landlock is enforced: %t", abi, on)
	}
}
