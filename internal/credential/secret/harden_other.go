//go:build !linux

package secret

import "errors"

// Harden is there on Linux alone.
func Harden() error { return errors.ErrUnsupported }
