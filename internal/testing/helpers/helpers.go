// Package helpers builds the helper binaries for tests, from the tree as it
// is: a test never runs what an earlier build left behind.
package helpers

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// InitFlags are the flags of the C compiler for callcell-init; the Makefile
// has the same.
const InitFlags = "-std=c11 -Os -Wall -Wextra -Werror -static -nostdlib -nostartfiles -ffreestanding -fno-stack-protector " +
	"-fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -fcf-protection=none -fno-pic -no-pie " +
	"-Wl,--build-id=none -Wl,-z,noseparate-code -s"

// Build builds callcell-launcher, callcell-egress and callcell-init, and with
// more also other commands of cmd (callcell-image), into dir.
func Build(dir string, more ...string) error {
	root := Root()
	if err := openSources(root); err != nil {
		return err
	}
	for _, cmd := range append([]string{"callcell-launcher", "callcell-egress"}, more...) {
		if err := Command(dir, cmd); err != nil {
			return err
		}
	}
	src := filepath.Join(root, "internal/launcher/init")
	args := append(strings.Fields(InitFlags), "-o", filepath.Join(dir, "callcell-init"), filepath.Join(src, "init.c"), filepath.Join(src, "reaper.c"))
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build callcell-init: %w\n%s", err, out)
	}
	return nil
}

// Command builds a command of cmd into dir.
func Command(dir, name string) error {
	c := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), "./cmd/"+name)
	c.Dir, c.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

// Probe builds callcell-egress-probe, which plays the egress process, into dir.
func Probe(dir string) error { return standIn(dir, "callcell-egress-probe", "probe") }

// Unpacker builds callcell-unpack-probe, which plays the unpacker, into dir.
func Unpacker(dir string) error { return standIn(dir, "callcell-unpack-probe", "unpacker") }

// standIn builds a program of the launcher's testdata.
func standIn(dir, name, source string) error {
	c := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), "./internal/launcher/testdata/"+source)
	c.Dir, c.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

// openSources opens the directories of what is built: go test remembers a
// result as long as what the test itself opened is as it was.
func openSources(root string) error {
	for _, dir := range []string{"cmd", "envelope", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// Tools builds the C programs of a directory, each from its one source, into
// dir.
func Tools(src, dir string) error {
	sources, err := filepath.Glob(filepath.Join(src, "*.c"))
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no tools in %s (%v)", src, err)
	}
	for _, name := range sources {
		out := filepath.Join(dir, strings.TrimSuffix(filepath.Base(name), ".c"))
		if text, err := exec.Command("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-static", "-o", out, name).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, text)
		}
	}
	return nil
}

// Root returns the module's root.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../..")
}
