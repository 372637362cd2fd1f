package store

import (
	"path/filepath"
	"testing"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
	"github.com/callcell/callcell/internal/testing/leak"
)

// open opens a store that the test closes.
func open(t testing.TB, path string) *DB {
	t.Helper()
	d, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// file returns the path of a store that is not there yet.
func file(t testing.TB) string { return filepath.Join(t.TempDir(), "state", "callcell.db") }

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) audit.Store {
		leak.Check(t)
		return open(t, file(t)).Audit()
	})
}
