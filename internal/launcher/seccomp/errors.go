//go:build linux

package seccomp

import "errors"

var (
	// ErrPolicy: a policy that cannot be what its author meant, such as two
	// rules for one number or a condition that no argument meets.
	ErrPolicy = errors.New("seccomp: bad policy")
	// ErrTooLong: the filter is longer than the kernel takes.
	ErrTooLong = errors.New("seccomp: filter too long")
)
