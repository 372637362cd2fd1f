package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/helpers"
	"github.com/callcell/callcell/internal/testing/world"
)

// shared is what every test uses: the product, built from the tree, and a
// world.
type shared struct {
	bin   string // the binaries
	tools string // the C programs of testdata
	world *world.World

	snapshot sync.Once              // of this host, where the level needs one
	ordinary func() (string, error) // the state directory that ownKernelImage is in, pulled once
	data     func() (*dataHouse, error)
}

var (
	sharedDir string
	made      *shared // nil as long as nobody has asked
	together  = sync.OnceValues(assemble)
)

func TestMain(m *testing.M) {
	var err error
	if sharedDir, err = os.MkdirTemp("", "callcell-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if left := leftOver(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes that are left: %q\n", left)
		code = 1
	}
	if made != nil && made.world != nil {
		if err := made.forgetImages(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if err := made.world.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.RemoveAll(sharedDir)
	os.Exit(code)
}

// leftOver are the processes of what was built that are still there after some
// seconds.
func leftOver() (left []string) {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if left = running(sharedDir); len(left) == 0 {
			return nil
		}
		select {
		case <-deadline:
			return left
		case <-tick.C:
		}
	}
}

// running are the processes whose program is below a directory.
func running(dir string) (list []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if exe, err := os.Readlink(l); err == nil && strings.HasPrefix(exe, dir+"/") {
			list = append(list, l+" "+exe)
		}
	}
	return list
}

func assemble() (*shared, error) {
	s := &shared{bin: filepath.Join(sharedDir, "bin"), tools: filepath.Join(sharedDir, "tools")}
	s.ordinary = sync.OnceValues(func() (string, error) { return pullOrdinary(s) })
	s.data = sync.OnceValues(func() (*dataHouse, error) { return buildData(s) })
	made = s
	for _, dir := range []string{s.bin, s.tools} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := helpers.Build(s.bin, "callcell", "callcell-guest", "callcell-image"); err != nil {
		return nil, err
	}
	if level() == "userkernel" {
		if err := errors.Join(helpers.Runsc(s.bin), os.Chmod(sharedDir, 0o755)); err != nil { // its users read it
			return nil, err
		}
	}
	if err := helpers.Tools("testdata", s.tools); err != nil {
		return nil, err
	}
	var err error
	s.world, err = world.Open()
	return s, err
}

// get returns what is shared, made when it is first asked for.
func get(t testing.TB) *shared {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes cells and network namespaces")
	}
	s, err := together()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
