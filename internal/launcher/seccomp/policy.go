//go:build linux

package seccomp

import (
	"cmp"
	"fmt"
	"slices"
)

// Policy is a filter as data.
type Policy struct {
	// Arch is the one architecture whose calls are looked at, an AUDIT_ARCH_*
	// value of linux/audit.h. A call through any other table is KillProcess.
	Arch uint32
	// Rules name what is known, at most one for a number, in any order.
	Rules []Rule
	// Default answers a number up to Newest that no rule names. It may not
	// be Allow.
	Default Action
	// Newest is the last number that the author of the policy knew about.
	Newest uint32
	// Newer answers a number after Newest that no rule names; on amd64 that
	// takes in the x32 numbers, which begin at 1<<30. It may not be Allow.
	Newer Action
}

// Rule is the verdict on one system call.
type Rule struct {
	Name   string // as in syscalls(2)
	Nr     uint32 // its number on Policy.Arch
	Action Action // when no case holds
	Cases  []Case // in order; the first that holds decides
	Args   string // the cases in words; empty if there are none
	Why    string // the reason for the verdict
}

// Case is a verdict that depends on arguments.
type Case struct {
	When []Cond // all of them must hold; 1 to 6
	Then Action
}

// Cond holds if argument Arg, looked at through Mask, is Value.
//
// Mask must take in the bits that the kernel reads, and no others: 32 bits
// for an int, 64 for a long or a pointer.
type Cond struct {
	Arg   int    // 0 to 5
	Mask  uint64 // bits that count
	Value uint64 // within Mask
}

const (
	// low32 are the bits of an int or unsigned int argument.
	low32 = 1<<32 - 1
	// all64 are the bits of a long argument.
	all64 = 1<<64 - 1
	// x32 is the bit that marks a number of the x32 table on amd64.
	x32 = 1 << 30
	// arguments is how many arguments a system call has.
	arguments = 6
)

// int32Is holds if an int argument of the kernel's is v.
func int32Is(arg int, v uint32) Cond { return Cond{Arg: arg, Mask: low32, Value: uint64(v)} }

// int64Is holds if a long argument of the kernel's is v.
func int64Is(arg int, v uint64) Cond { return Cond{Arg: arg, Mask: all64, Value: v} }

// noneOf holds if none of the bits is set.
func noneOf(arg int, bits uint64) Cond { return Cond{Arg: arg, Mask: bits} }

// byNumber returns the rules sorted by number, and leaves p as it is.
func (p Policy) byNumber() []Rule {
	order := func(a, b Rule) int { return cmp.Compare(a.Nr, b.Nr) }
	if slices.IsSortedFunc(p.Rules, order) {
		return p.Rules
	}
	rules := slices.Clone(p.Rules)
	slices.SortFunc(rules, order)
	return rules
}

// check returns an error that wraps ErrPolicy if the policy, whose rules are
// sorted by number, cannot be meant.
func (p Policy) check() error {
	for _, a := range []Action{p.Default, p.Newer} {
		if !a.valid() || a == Allow {
			return fmt.Errorf("%w: %v for calls without a rule", ErrPolicy, a)
		}
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if i > 0 && r.Nr == p.Rules[i-1].Nr {
			return fmt.Errorf("%w: two rules for number %d", ErrPolicy, r.Nr)
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) check() error {
	if r.Nr >= x32 {
		return fmt.Errorf("%w: %s: number %#x is of another table", ErrPolicy, r.Name, r.Nr)
	}
	if !r.Action.valid() {
		return fmt.Errorf("%w: %s: %v", ErrPolicy, r.Name, r.Action)
	}
	for _, c := range r.Cases {
		if !c.Then.valid() || len(c.When) == 0 || len(c.When) > arguments {
			return fmt.Errorf("%w: %s: case %+v", ErrPolicy, r.Name, c)
		}
		for _, w := range c.When {
			if w.Arg < 0 || w.Arg >= arguments || w.Mask == 0 || w.Value&^w.Mask != 0 {
				return fmt.Errorf("%w: %s: condition %+v never or always holds", ErrPolicy, r.Name, w)
			}
		}
	}
	return nil
}
