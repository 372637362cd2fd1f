package launcher

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A host that has forbidden dumps altogether can start cells all the same.
func TestLimitsAreLoweredToTheHostsOwn(t *testing.T) {
	if got := withinHard(unix.RLIMIT_CORE, 1); got != 1 && got != 0 {
		t.Errorf("core: %d", got)
	}
	var hard unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &hard))
	if got := withinHard(unix.RLIMIT_NOFILE, 1<<60); uint64(got) != hard.Max {
		t.Errorf("files: %d, the hard limit is %d", got, hard.Max)
	}
	if got := withinHard(unix.RLIMIT_NOFILE, 7); got != 7 {
		t.Errorf("files: %d, want what was asked for", got)
	}
}
