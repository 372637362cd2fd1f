//go:build linux

package seccomp

import "errors"

// foreignCall: many arm64 machines cannot run 32-bit code at all.
func foreignCall() error { return errors.ErrUnsupported }
