//go:build linux

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestProfilesAreUpToDate(t *testing.T) {
	src, err := locate()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures() {
		want, _, err := src.profile(arch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", arch.file()))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what gen makes: run go generate ./internal/launcher/seccomp, and look at what changed", arch.file())
		}
	}
}

// What moby allows and x/sys has no number for is of other architectures. A
// new name here would be one that quietly stays refused.
func TestUnnumberedNamesAreOfOtherArchitectures(t *testing.T) {
	src, err := locate()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := make(map[string]bool)
	for _, goarch := range []string{"386", "arm", "amd64", "arm64", "riscv64", "ppc64le"} {
		numbers, err := src.numbers(goarch)
		if err != nil {
			t.Fatal(err)
		}
		for name := range numbers {
			elsewhere[name] = true
		}
	}
	// Names of libseccomp's that no kernel has under that name.
	aliases := []string{"arm_fadvise64_64", "breakpoint", "cacheflush", "fcntl64", "fadvise64_64", "set_tls"}
	for _, arch := range architectures() {
		_, unnumbered, err := src.profile(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range unnumbered {
			if !elsewhere[name] && !slices.Contains(aliases, name) {
				t.Errorf("%s: moby allows %s, and nothing has a number for it", arch.goarch, name)
			}
		}
	}
}

// Our evaluation of the profile is moby's own, where both can be had.
func TestEvaluationIsMobys(t *testing.T) {
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	theirs, err := seccomp.GetDefaultProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for _, call := range theirs.Syscalls {
		for _, name := range call.Names {
			if call.Action == specs.ActAllow {
				want[name] = true
			}
		}
	}
	names, _, err := moby(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for name := range names {
		if !want[name] {
			t.Errorf("%s is allowed by us only", name)
		}
	}
	for name := range want {
		if names[name] == "" {
			t.Errorf("%s is allowed by moby only", name)
		}
	}
}
