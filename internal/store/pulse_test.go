package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPulseWrites: each of them is bytes in the file, also the second, which
// changes nothing.
func TestPulseWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callcell.db")
	d, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	last := size()
	for range 3 {
		if err := d.Pulse(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := size()
		if now <= last {
			t.Errorf("the log has %d bytes, and had %d", now, last)
		}
		last = now
	}
}
