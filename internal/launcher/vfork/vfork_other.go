//go:build linux && !amd64

package vfork

import (
	"errors"
	"fmt"
	"runtime"
)

// Supported says whether Start works on this architecture.
const Supported = false

// Start is refused: nobody has run it on this architecture yet.
func (p *Program) Start(uint64, int) (pid, pidfd int, err error) {
	return 0, -1, fmt.Errorf("vfork: %s: %w", runtime.GOARCH, errors.ErrUnsupported)
}
