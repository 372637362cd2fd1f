package userkernel_test

import (
	"errors"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
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
		Wall:    600 * time.Millisecond * unhurried(), Patience: 30 * time.Second * unhurried(),
	})
}

// TestConformanceOfSpares does so with cells that were made before they were
// asked for.
func TestConformanceOfSpares(t *testing.T) {
	celltest.Run(t, celltest.Harness{
		Runtime: func(t *testing.T) cell.Runtime { return newGround(t, "spares = 1").Runtime },
		Dialect: celltest.Shell{},
		Slow:    true,
		Wall:    600 * time.Millisecond * unhurried(), Patience: 30 * time.Second * unhurried(),
	})
}

// TestOtherRootsAreRefused: who asks for an image that nobody has made trees of,
// or for mounts, does not get a cell with another root.
func TestOtherRootsAreRefused(t *testing.T) {
	g := newGround(t)
	for name, c := range map[string]struct {
		adjust func(*envelope.Envelope)
		reason envelope.Reason
	}{
		"an image": {func(e *envelope.Envelope) { e.Image = "build:data" }, envelope.ReasonSetup},
		"mounts": {func(e *envelope.Envelope) {
			e.Files.Mounts = map[string]envelope.Mount{"m": {Source: "/usr/share", Target: "/models", Why: "it is large"}}
		}, envelope.ReasonUnsupported},
	} {
		s := shape()
		c.adjust(&s.Envelope)
		var refused *cell.Error
		if _, err := g.Open(t.Context(), s); !errors.As(err, &refused) || refused.Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := g.cellGroups(); len(left) > 0 {
		t.Errorf("%v", left)
	}
}
