package container_test

import (
	"testing"
	"time"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
)

// TestConformance holds the level to what every runtime must do.
func TestConformance(t *testing.T) {
	celltest.Run(t, celltest.Harness{
		Runtime:   func(t *testing.T) cell.Runtime { return newRuntime(t) },
		Dialect:   celltest.Shell{},
		Processes: celltest.HostProcesses,
		Slow:      unhurried() > 1,
		Wall:      unhurried() * 300 * time.Millisecond,
		Patience:  unhurried() * 30 * time.Second,
	})
}
