//go:build linux

package seccomp

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// The few instructions of classic BPF that a filter is made of. A load is of
// one 32-bit word of struct seccomp_data.
const (
	opLoad   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opAnd    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opJump   = unix.BPF_JMP | unix.BPF_JA
	opIfEq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opIfGe   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opReturn = unix.BPF_RET | unix.BPF_K
)

// Offsets in struct seccomp_data. The arguments are 64 bits each, the low
// word first: both architectures that have a profile are little-endian.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

// maxBranch is the farthest that a conditional jump reaches.
const maxBranch = 255

// Compile turns a policy into a filter for seccomp(2).
//
// The filter is a binary search over ranges of numbers that share a verdict,
// so that a call costs about log2 of the ranges; a chain with one comparison
// per allowed name costs the call, and the kernel at installation (it runs
// the filter for every number to fill its cache of allowed ones), several
// times as much.
//
// # Errors
//
// ErrPolicy if the policy cannot be meant; ErrTooLong if the filter has more
// than the 4096 instructions that the kernel takes.
func Compile(p Policy) ([]unix.SockFilter, error) {
	p.Rules = p.byNumber()
	if err := p.check(); err != nil {
		return nil, err
	}
	filter := append(prologue(p.Arch), search(p.spans())...)
	if len(filter) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("%w: %d instructions", ErrTooLong, len(filter))
	}
	return filter, nil
}

// prologue refuses other architectures and leaves the number loaded.
func prologue(arch uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: opLoad, K: offArch},
		{Code: opIfEq, K: arch, Jt: 1},
		{Code: opReturn, K: uint32(KillProcess)},
		{Code: opLoad, K: offNr},
	}
}

// span is a run of numbers, from one up to the next span's, with one verdict.
type span struct {
	from   uint32
	action Action
	cases  []Case
}

// spans covers all numbers with rules that are sorted by number. The first
// span begins at 0, and neighbours differ.
func (p Policy) spans() []span {
	out := make([]span, 0, len(p.Rules))
	add := func(s span) {
		if n := len(out); n > 0 && out[n-1].cases == nil && s.cases == nil && out[n-1].action == s.action {
			return
		}
		out = append(out, s)
	}
	// unnamed adds the numbers from one up to another, which no rule names.
	unnamed := func(from, to uint64) {
		if newer := uint64(p.Newest) + 1; from < newer {
			if from < to {
				add(span{from: uint32(from), action: p.Default})
			}
			from = newer
		}
		if from < to {
			add(span{from: uint32(from), action: p.Newer})
		}
	}
	next := uint64(0)
	for i := range p.Rules {
		r := &p.Rules[i]
		unnamed(next, uint64(r.Nr))
		add(span{from: r.Nr, action: r.Action, cases: r.Cases})
		next = uint64(r.Nr) + 1
	}
	unnamed(next, 1<<32)
	return out
}

// search is the code that finds the span of the loaded number and gives its
// verdict.
func search(spans []span) []unix.SockFilter {
	if len(spans) == 1 {
		return verdict(spans[0].action, spans[0].cases)
	}
	middle := len(spans) / 2
	lower, upper := search(spans[:middle]), search(spans[middle:])
	return slices.Concat(skipIfGe(spans[middle].from, len(lower)), lower, upper)
}

// skipIfGe skips n instructions if what is loaded is at least k.
func skipIfGe(k uint32, n int) []unix.SockFilter {
	if n <= maxBranch {
		return []unix.SockFilter{{Code: opIfGe, K: k, Jt: uint8(n)}}
	}
	return []unix.SockFilter{{Code: opIfGe, K: k, Jf: 1}, {Code: opJump, K: uint32(n)}}
}

// verdict tries the cases in order and ends in a return.
func verdict(otherwise Action, cases []Case) []unix.SockFilter {
	var out []unix.SockFilter
	for _, c := range cases {
		tests := comparisons(c.When)
		for i := range tests {
			if tests[i].Code == opIfEq {
				// To the first instruction after this case's return.
				tests[i].Jf = uint8(len(tests) - i)
			}
		}
		out = append(out, tests...)
		out = append(out, unix.SockFilter{Code: opReturn, K: uint32(c.Then)})
	}
	return append(out, unix.SockFilter{Code: opReturn, K: uint32(otherwise)})
}

// comparisons is the code that looks at the words of each condition, with the
// ways out of it left open.
func comparisons(conds []Cond) []unix.SockFilter {
	var out []unix.SockFilter
	for _, c := range conds {
		for word := range 2 {
			mask, value := uint32(c.Mask>>(32*word)), uint32(c.Value>>(32*word))
			if mask == 0 {
				continue
			}
			out = append(out, unix.SockFilter{Code: opLoad, K: uint32(offArgs + 8*c.Arg + 4*word)})
			if mask != low32 {
				out = append(out, unix.SockFilter{Code: opAnd, K: mask})
			}
			out = append(out, unix.SockFilter{Code: opIfEq, K: value})
		}
	}
	return out
}
