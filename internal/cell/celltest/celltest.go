// Package celltest is the one test suite for all runtimes. A runtime passes it
// or is not assembled.
//
//	func TestConformance(t *testing.T) {
//		celltest.Run(t, celltest.Harness{
//			Runtime: func(t *testing.T) cell.Runtime { return container.New(...) },
//			Dialect: celltest.Shell{},
//		})
//	}
//
// Its cases say what a program does, by Kind, and the harness's Dialect says
// how that is written where the runtime's programs come from: a line of shell,
// or the name of a Go function in the fake. So the same cases hold the
// in-memory fake and the real levels.
package celltest

import (
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// Harness is a runtime under test.
type Harness struct {
	// Runtime returns the runtime, ready. It is called once for each
	// section; what it takes is given back by t.Cleanup.
	Runtime func(t *testing.T) cell.Runtime
	// Dialect writes the programs.
	Dialect Dialect
	// Lacks names the kinds of program that this level cannot have at all,
	// each with why. Their cases are skipped with that text.
	Lacks map[Kind]string
	// Adjust changes the envelope of each cell before it is opened; nil
	// leaves it: envelope.Default() with smaller numbers.
	Adjust func(*envelope.Envelope)
	// Elsewhere is set by a runtime without isolation, in which the working
	// directory is not cell.WorkDir and temporary files are shared. Nothing
	// that is shipped sets it.
	Elsewhere bool
	// Slow samples what is otherwise tried in full, for levels whose cells
	// take long to start.
	Slow bool
	// Wall is the wall time of programs that are to meet it; 0 is 300ms. It
	// must be long enough for a program to start.
	Wall time.Duration
	// Patience bounds each step; 0 is 30s.
	Patience time.Duration
	// Processes counts the processes of the host whose arguments have mark
	// in them; nil where they cannot be seen from outside. See
	// HostProcesses.
	Processes func(mark string) int
}

// Run runs every section.
func Run(t *testing.T, h Harness) {
	h = h.complete()
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			rt := h.Runtime(t)
			for _, c := range s.cases {
				t.Run(c.name, func(t *testing.T) { c.run(&bench{T: t, h: h, rt: rt}) })
			}
		})
	}
}

type section struct {
	name  string
	cases []testCase
}

type testCase struct {
	name string
	run  func(*bench)
}

func sections() []section {
	return []section{
		{"conformance", conformance()},
	}
}

func conformance() []testCase {
	var all []testCase
	for _, part := range [][]testCase{orderCases(), programCases(), endCases(), fileCases(), collectCases(), listCases(), closeCases()} {
		all = append(all, part...)
	}
	return all
}

func (h Harness) complete() Harness {
	if h.Wall == 0 {
		h.Wall = 300 * time.Millisecond
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	return h
}
