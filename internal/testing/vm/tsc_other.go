//go:build !amd64

package vm

// TSCRate is 0: only amd64 has this counter.
func TSCRate() int { return 0 }
