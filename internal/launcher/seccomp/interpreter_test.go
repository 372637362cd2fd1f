//go:build linux

package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// call is what a filter is asked about: struct seccomp_data without the
// instruction pointer.
type call struct {
	arch uint32
	nr   uint32
	args [arguments]uint64
}

// bytes is struct seccomp_data as it lies in memory.
func (c call) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, c.nr)
	b = binary.LittleEndian.AppendUint32(b, c.arch)
	b = binary.LittleEndian.AppendUint64(b, 0xfeedfacefeedface) // instruction pointer
	for _, a := range c.args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// highWord are the bits that the kernel does not see in an int.
const highWord = all64 &^ low32

var errInterpreter = errors.New("interpreter")

// interpret runs a filter as the kernel does, for the instructions that a
// filter of this package may have, and counts them.
func interpret(filter []unix.SockFilter, c call) (verdict Action, steps int, err error) {
	data, acc := c.bytes(), uint32(0)
	for pc := 0; pc < len(filter); pc++ {
		steps++
		in := filter[pc]
		taken := false
		switch in.Code {
		case opLoad:
			if in.K%4 != 0 || int(in.K)+4 > len(data) {
				return 0, steps, fmt.Errorf("%w: load at %d", errInterpreter, in.K)
			}
			acc = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case opAnd:
			acc &= in.K
			continue
		case opJump:
			pc += int(in.K)
			continue
		case opReturn:
			return Action(in.K), steps, nil
		case opIfEq:
			taken = acc == in.K
		case opIfGe:
			taken = acc >= in.K
		default:
			return 0, steps, fmt.Errorf("%w: code %#x", errInterpreter, in.Code)
		}
		if taken {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	return 0, steps, fmt.Errorf("%w: ran past the end", errInterpreter)
}

// naive says what a policy means, in the plainest way.
func naive(p Policy, c call) Action {
	if c.arch != p.Arch {
		return KillProcess
	}
	for _, r := range p.Rules {
		if r.Nr != c.nr {
			continue
		}
		for _, cs := range r.Cases {
			if holds(cs.When, c.args) {
				return cs.Then
			}
		}
		return r.Action
	}
	if c.nr > p.Newest {
		return p.Newer
	}
	return p.Default
}

func holds(conds []Cond, args [arguments]uint64) bool {
	for _, w := range conds {
		if args[w.Arg]&w.Mask != w.Value {
			return false
		}
	}
	return true
}

// linear compiles a policy in the way that most compilers do, one comparison
// for each number. It is here to compare with.
func linear(p Policy) []unix.SockFilter {
	out := prologue(p.Arch)
	for _, r := range p.Rules {
		if r.Action == p.Default && r.Cases == nil && r.Nr <= p.Newest {
			continue
		}
		body := verdict(r.Action, r.Cases)
		out = append(out,
			unix.SockFilter{Code: opIfEq, K: r.Nr, Jt: 1},
			unix.SockFilter{Code: opJump, K: uint32(len(body))})
		if len(body) <= maxBranch {
			out = append(out[:len(out)-2], unix.SockFilter{Code: opIfEq, K: r.Nr, Jf: uint8(len(body))})
		}
		out = append(out, body...)
	}
	if p.Newest < 1<<32-1 {
		out = append(out, unix.SockFilter{Code: opIfGe, K: p.Newest + 1, Jf: 1}, unix.SockFilter{Code: opReturn, K: uint32(p.Newer)})
	}
	return append(out, unix.SockFilter{Code: opReturn, K: uint32(p.Default)})
}

// compared asks a filter, the chain and the policy itself, and wants one
// answer.
type compared struct {
	policy       Policy
	tree, chain  []unix.SockFilter
	calls, wrong int
}

func compare(t *testing.T, p Policy) *compared {
	t.Helper()
	tree, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return &compared{policy: p, tree: tree, chain: linear(p)}
}

// mismatch describes a call on which the three differ, or is empty.
func (c *compared) mismatch(q call) string {
	c.calls++
	want := naive(c.policy, q)
	tree, _, treeErr := interpret(c.tree, q)
	chain, _, chainErr := interpret(c.chain, q)
	if err := errors.Join(treeErr, chainErr); err != nil {
		return fmt.Sprintf("%+v: %v", q, err)
	}
	if tree != want || chain != want {
		return fmt.Sprintf("%+v: tree %v, chain %v, policy %v", q, tree, chain, want)
	}
	return ""
}

func (c *compared) ask(t *testing.T, q call) {
	t.Helper()
	if m := c.mismatch(q); m != "" {
		t.Error(m)
		if c.wrong++; c.wrong > 10 {
			t.Fatal("too many")
		}
	}
}
