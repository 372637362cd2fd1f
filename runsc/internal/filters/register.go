package filters

import (
	"fmt"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	"gvisor.dev/gvisor/runsc/boot/filter"
	"gvisor.dev/gvisor/runsc/boot/filter/config"
)

// gVisor's table of precompiled programs, by the options that rule them. It has
// no exported way in: its own build writes a Go file that fills it.
//
//go:linkname programs gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var programs map[string]precompiledseccomp.Program

// Register puts the programs of this package where gVisor looks for them. It
// is to be called once, before the sandbox starts.
func Register() {
	filter.GetPrecompiled("") // makes the table, once, and would make it anew after us
	for _, p := range compiled() {
		programs[p.Name] = p
	}
}

// PID is the sentry's in its namespace, which the programs take for granted.
const PID = 1

// Platform is the one that sandboxes run on.
const Platform = "systrap"

// Options are those of the filters that callcell starts sandboxes with: no host
// file system, no devices, and a network of its own or the host's.
func Options() ([]config.Options, error) {
	p, err := platform.Lookup(Platform)
	if err != nil {
		return nil, fmt.Errorf("filters: %w", err)
	}
	var opts []config.Options
	for _, info := range p.PrecompiledSeccompInfo() {
		opts = append(opts, config.Options{Platform: info}, config.Options{Platform: info, HostNetwork: true})
	}
	return opts, nil
}
