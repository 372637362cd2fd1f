//go:build linux

package seccomp

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// known is a number of this architecture, and what moby's default profile for
// a process without capabilities says of it.
type known struct {
	nr       uint32
	name     string
	standing standing
}

type standing uint8

const (
	absent      standing = iota + 1 // not allowed
	allowed                         // allowed whatever its arguments are
	conditional                     // allowed with some arguments
)

// The reasons for rules that no table of ours speaks of.
const (
	whyAllowed = "in moby's default profile"
	whyAbsent  = "not in moby's default profile for a process without capabilities"
	whyNewer   = "newer than moby's default profile; ENOSYS makes libraries fall back"
)

// Cell returns the filter of a container cell for the architecture that the
// program was built for.
//
// # Errors
//
// errors.ErrUnsupported on an architecture that has no profile. Any other
// error would be a fault in this package's tables.
func Cell() ([]unix.SockFilter, error) {
	policy, err := CellPolicy()
	if err != nil {
		return nil, err
	}
	return Compile(policy)
}

// CellPolicy returns what Cell compiles. Its rules name every number that is
// known here, refused ones too, sorted by number. The caller owns it.
//
// Its errors are those of Cell.
func CellPolicy() (Policy, error) {
	if len(profile) == 0 {
		return Policy{}, fmt.Errorf("seccomp: no profile for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	return tighten(auditArch, profile, profileNewest)
}

// Rules returns the rules of CellPolicy, or none on an architecture that has
// no profile. The caller owns them.
func Rules() []Rule {
	policy, err := CellPolicy()
	if err != nil {
		return nil
	}
	return policy.Rules
}

// tighten puts the numbers of an architecture and our own tables together.
// newest is the last number that the profile speaks of.
func tighten(arch uint32, numbers []known, newest uint32) (Policy, error) {
	ours := make(map[string]*Rule, len(numbers)/2)
	for _, r := range refusals {
		rule := &Rule{Action: r.action, Why: r.why}
		for _, name := range r.names {
			ours[name] = rule
		}
	}
	narrowed := narrowed()
	for i := range narrowed {
		ours[narrowed[i].Name] = &narrowed[i]
	}
	p := Policy{Arch: arch, Default: eperm, Newest: newest, Newer: enosys, Rules: make([]Rule, 0, len(numbers))}
	for _, k := range numbers {
		rule := k.rule(newest)
		if r, ok := ours[k.name]; ok {
			rule = *r
		} else if k.standing == conditional {
			return Policy{}, fmt.Errorf("%w: the profile asks for arguments of %s, and no table has them", ErrPolicy, k.name)
		}
		rule.Name, rule.Nr = k.name, k.nr
		p.Rules = append(p.Rules, rule)
	}
	return p, nil
}

// rule is what the profile alone says of k, without name and number.
func (k known) rule(newest uint32) Rule {
	switch {
	case k.standing == allowed:
		return Rule{Action: Allow, Why: whyAllowed}
	case k.nr > newest:
		return Rule{Action: enosys, Why: whyNewer}
	default:
		return Rule{Action: eperm, Why: whyAbsent}
	}
}
