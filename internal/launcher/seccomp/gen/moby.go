//go:build linux

package main

import (
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// standing is what the profile says of a name, spelled as the constants of
// the package that is written.
type standing string

const (
	absent      standing = "absent"
	allowed     standing = "allowed"
	conditional standing = "conditional"
)

// kernel is the kernel that rules with a minimum are evaluated for: any 6.x.
// The host that runs gen must not matter.
var kernel = seccomp.KernelVersion{Kernel: 6}

// moby evaluates the default profile for a process without capabilities on
// arch: the names that it allows, and how, and every name that it mentions.
func moby(arch string) (names map[string]standing, mentioned []string, err error) {
	names = make(map[string]standing)
	for _, call := range seccomp.DefaultProfile().Syscalls {
		mentioned = append(mentioned, call.Names...)
		if !applies(call, arch) {
			continue
		}
		if call.Action != specs.ActAllow {
			// clone3 is answered ENOSYS; we have that in our own table.
			if !slices.Equal(call.Names, []string{"clone3"}) {
				return nil, nil, fmt.Errorf("moby: %v: %s is a new kind of rule", call.Names, call.Action)
			}
			continue
		}
		for _, name := range call.Names {
			switch {
			case len(call.Args) == 0:
				names[name] = allowed
			case names[name] != allowed:
				names[name] = conditional
			}
		}
	}
	return names, mentioned, nil
}

// applies reports whether a rule counts for a process without capabilities.
func applies(call *seccomp.Syscall, arch string) bool {
	if f := call.Includes; f != nil {
		switch {
		case len(f.Caps) > 0,
			len(f.Arches) > 0 && !slices.Contains(f.Arches, arch),
			f.MinKernel != nil && !reached(*f.MinKernel):
			return false
		}
	}
	if f := call.Excludes; f != nil {
		switch {
		case slices.Contains(f.Arches, arch),
			f.MinKernel != nil && reached(*f.MinKernel):
			return false
		}
	}
	return true
}

// reached reports whether kernel is at least v.
func reached(v seccomp.KernelVersion) bool {
	return kernel.Kernel > v.Kernel || kernel.Kernel == v.Kernel && kernel.Major >= v.Major
}
