package link

import "testing"

// TestGrownLauncher: what it is replaced for.
func TestGrownLauncher(t *testing.T) {
	for status, want := range map[string]bool{
		"": false, "VmRSS": false, "VmRSS:\tmany kB\n": false,
		"VmRSS:\t   90000 kB\nFDSize:\t128\n":  false,
		"VmRSS:\t  200000 kB\nFDSize:\t128\n":  true,
		"FDSize:\t2048\nVmRSS:\t   90000 kB\n": true,
		"Name:\tVmRSS\nVmSize:\t9999999 kB\n":  false,
	} {
		if got := sizeGrown(status, 4); got != want {
			t.Errorf("%q: %t", status, got)
		}
	}
	if sizeGrown("FDSize:\t2048\n", 64) {
		t.Error("a launcher of 64 cells has so many descriptors")
	}
}
