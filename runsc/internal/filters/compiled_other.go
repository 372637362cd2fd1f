//go:build !amd64

package filters

import "gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"

// compiled has nothing: the rules differ with the architecture, and can be
// compiled on it alone. gVisor compiles at every start, then.
func compiled() []precompiledseccomp.Program { return nil }
