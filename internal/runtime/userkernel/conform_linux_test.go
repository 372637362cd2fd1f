package userkernel_test

import (
	"testing"
	"time"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
)

// TestConformance holds the level to what every runtime must do. The processes
// of a cell are none of the host's.
func TestConformance(t *testing.T) {
	celltest.Run(t, celltest.Harness{
		Runtime: func(t *testing.T) cell.Runtime { return newGround(t).Runtime },
		Dialect: celltest.Shell{},
		Slow:    true,
		Wall:    600 * time.Millisecond,
	})
}

// TestConformanceOfSpares does so with cells that were made before they were
// asked for.
func TestConformanceOfSpares(t *testing.T) {
	celltest.Run(t, celltest.Harness{
		Runtime: func(t *testing.T) cell.Runtime { return newGround(t, "spares = 1").Runtime },
		Dialect: celltest.Shell{},
		Slow:    true,
		Wall:    600 * time.Millisecond,
	})
}
