package container_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/runtime/userkernel"
	"github.com/callcell/callcell/internal/testing/helpers"
)

// TestCasesAtUserkernel plays the groups of cases where cells have a kernel of
// their own.
func TestCasesAtUserkernel(t *testing.T) {
	for _, group := range []struct {
		name string
		play func(*testing.T, maker)
	}{
		{"A files", filesCases},
		{"D privilege", privilegeCases},
		{"F ceilings", ceilingCases},
		{"G cleanup", cleanupCases},
		{"G deaths", deathCases},
		{"H output", outputCases},
		{"I processes", processCases},
		{"M everyday", everydayCases},
	} {
		t.Run(group.name, func(t *testing.T) { group.play(t, ownKernels) })
	}
}

// ownKernels starts grounds whose cells have a kernel of their own, and the
// programs of this host that the rows run.
func ownKernels(t *testing.T, config link.Config) *ground {
	t.Helper()
	if err := ownRoot(); err != nil {
		t.Fatal(err)
	}
	g := newGroundWith(t, config, "cells = 64", "runsc.root = "+filepath.Join(os.Getenv("CALLCELL_TEST_HELPERS"), "root.erofs"))
	g.own = userkernel.New(g.runtime.Own())
	return g
}

// ownRoot makes what such cells are made of, once.
var ownRoot = sync.OnceValue(func() error {
	dir := os.Getenv("CALLCELL_TEST_HELPERS")
	err := errors.Join(helpers.Command(dir, "callcell-guest"), helpers.Runsc(dir), os.Chmod(dir, 0o755)) // cells are made of what their users can read
	if err == nil {
		_, err = helpers.Image(dir, rootPrograms(), rootDirectories())
	}
	return err
})

// rootPrograms are the programs of rows, as far as this host has them.
func rootPrograms() []string {
	names := []string{"apt-get", "awk", "bash", "bzip2", "cat", "chmod", "chown", "cut", "date", "dd", "df", "diff", "echo", "env", "find", "flock", "gcc", "getent", "git", "git-upload-pack", "grep", "gzip", "head", "id",
		"java", "kill", "ln", "ls", "make", "mkdir", "mkfifo", "mktemp", "mknod", "mount", "mv", "nice", "node", "nohup", "paste", "perl", "printenv", "printf", "ps", "python3", "rm", "rmdir", "sed", "seq", "setsid", "sh",
		"sleep", "sort", "stat", "su", "tail", "tar", "test", "timeout", "touch", "tr", "true", "truncate", "uname", "uniq", "unshare", "wc", "xargs", "xz", "yes", "curl", "as", "ld"}
	names = slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat("/usr/bin/" + name)
		return err != nil
	})
	for _, pattern := range []string{"/usr/lib/python3*/lib-dynload/*.so", "/usr/lib/gcc/*/*/cc1", "/usr/lib/gcc/*/*/collect2", "/usr/lib/apt/methods/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a pattern of ours
		}
		names = append(names, found...)
	}
	return names
}

func rootDirectories() (dirs []string) {
	for _, pattern := range []string{"/usr/lib/python3.*", "/usr/lib/git-core", "/usr/share/git-core", "/usr/lib/locale", "/usr/share/zoneinfo", "/usr/lib/node_modules", "/usr/share/nodejs", "/usr/bin/npm",
		"/usr/share/perl/*", "/usr/lib/*/perl*", "/usr/lib/apt",
		"/usr/lib/gcc/*/*/include", "/usr/lib/gcc/*/*/*.[ao]", "/usr/lib/gcc/*/*/libgcc*", "/usr/lib/gcc/*/*/liblto_plugin.so", "/usr/include/*.h", "/usr/include/linux", "/usr/include/asm-generic", "/usr/include/*/bits", "/usr/include/*/sys", "/usr/include/*/gnu", "/usr/include/*/asm", "/usr/share/dpkg", "/etc/ld.so.cache", "/etc/services", "/etc/bash.bashrc", "/etc/profile*",
		"/usr/lib/*/lib[cm].*", "/usr/lib/*/*crt*.o", "/usr/lib/*/libpthread.*", "/usr/lib/*/libc_nonshared.a", "/usr/lib/*/libmvec*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a pattern of ours
		}
		dirs = append(dirs, found...)
	}
	if java, err := filepath.EvalSymlinks("/usr/bin/java"); err == nil {
		home := filepath.Dir(filepath.Dir(java))
		dirs = append(dirs, home+"/lib", home+"/conf", "/etc/"+filepath.Base(strings.TrimSuffix(home, "-amd64")))
	}
	return slices.DeleteFunc(dirs, func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	})
}
