package main

import (
	"math"

	"golang.org/x/sys/unix"
)

// keepInherited keeps the descriptors that who started us left open, beside
// the first three, from the programs that we start. They stay open for us: a
// shell's <(...) names one of them as a file.
func keepInherited() error {
	return unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}
