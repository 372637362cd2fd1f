package storetest

import (
	"testing"

	"github.com/callcell/callcell/internal/audit"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) audit.Store { return new(Memory) })
}
