package fake_test

import (
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestConformance(t *testing.T) {
	leak.Check(t)
	celltest.Run(t, celltest.Harness{
		Runtime: func(t *testing.T) cell.Runtime {
			rt := fake.New(envelope.LevelContainer, nil)
			t.Cleanup(func() {
				if n := rt.Cells(); n != 0 {
					t.Errorf("%d cells are still open", n)
				}
			})
			return rt
		},
		Dialect: fake.Dialect{},
		Wall:    50 * time.Millisecond,
	})
}

func TestEveryKindIsAProgram(t *testing.T) {
	for _, kind := range celltest.Kinds() {
		if argv := (celltest.Shell{}).Script(kind); len(argv) == 0 {
			t.Errorf("the shell cannot write %s", kind)
		}
	}
}
