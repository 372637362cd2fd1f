package cli_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/testing/helpers"
)

// product builds the product once, as it is shipped: the tests run the real
// command, and not this test's binary, because one that has cgo in it cannot
// give up its privileges.
var product = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "callcell-cli-")
	if err != nil {
		return "", err
	}
	return dir, helpers.Build(dir, "callcell", "callcell-image")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Geteuid() == 0 {
		if dir, err := product(); err == nil || dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// binaries returns the directory of the product's binaries, or skips where no
// cell can be built.
func binaries(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the real command builds real cells, which takes root")
	}
	dir, err := product()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// processes returns the numbers of the processes for which want is true of
// their executable and command line.
func processes(want func(exe, cmdline string) bool) (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if c := e.Name()[0]; c < '0' || c > '9' {
			continue
		}
		exe, _ := os.Readlink("/proc/" + e.Name() + "/exe")
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if want(exe, strings.ReplaceAll(string(cmdline), "\x00", " ")) {
			pids = append(pids, e.Name())
		}
	}
	return pids
}
