//go:build linux

package seccomp

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// EgressBinary is the descriptor out of which the egress process is started.
// The kernel closes it with the exec, and nothing that can be executed can
// take its place.
const EgressBinary = 4

// Egress returns the filter of the egress process for the architecture that
// the program was built for: what the Go runtime needs to run goroutines and
// to make connections, and nothing else.
//
// It is no subset of Cell: that one is for programs of any kind, this one for
// a single one of ours.
//
// Its errors are those of Cell.
func Egress() ([]unix.SockFilter, error) {
	policy, err := EgressPolicy()
	if err != nil {
		return nil, err
	}
	return Compile(policy)
}

// EgressPolicy returns what Egress compiles. Its rules name every number that
// is known here, refused ones too, sorted by number. The caller owns it.
//
// Its errors are those of Cell.
func EgressPolicy() (Policy, error) {
	if len(profile) == 0 {
		return Policy{}, fmt.Errorf("seccomp: no profile for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	return admit(auditArch, profile, profileNewest, egressLists()), nil
}

// EgressRules returns the rules of EgressPolicy that allow something, or none
// on an architecture that has no profile. The caller owns them.
func EgressRules() []Rule { return allowing(EgressPolicy()) }

func allowing(policy Policy, err error) []Rule {
	if err != nil {
		return nil
	}
	var allowing []Rule
	for _, r := range policy.Rules {
		if r.Action == Allow || len(r.Cases) > 0 {
			allowing = append(allowing, r)
		}
	}
	return allowing
}

// lists are the tables of one process of ours.
type lists struct {
	allowed  []allowance
	narrowed []Rule
	whyNot   string // the reason for what neither names
}

func egressLists() lists {
	return lists{egressAllowed(), egressNarrowed(), "the process makes connections and does nothing else"}
}

// admit makes a policy of the names that the tables of a process have. A name
// that an architecture lacks is passed over.
func admit(arch uint32, numbers []known, newest uint32, l lists) Policy {
	ours := map[string]*Rule{}
	for _, g := range l.allowed {
		rule := &Rule{Action: Allow, Why: g.why}
		for _, name := range g.names {
			ours[name] = rule
		}
	}
	for i := range l.narrowed {
		ours[l.narrowed[i].Name] = &l.narrowed[i]
	}
	p := Policy{Arch: arch, Default: eperm, Newest: newest, Newer: enosys, Rules: make([]Rule, 0, len(numbers))}
	for _, k := range numbers {
		rule := Rule{Action: eperm, Why: l.whyNot}
		if k.nr > newest {
			rule.Action = enosys
		}
		if r, ok := ours[k.name]; ok {
			rule = *r
		}
		rule.Name, rule.Nr = k.name, k.nr
		p.Rules = append(p.Rules, rule)
	}
	return p
}

// EgressSockets is every socket that the egress process may make, and there
// are no others. Sockets of the UNIX family come to it ready.
func EgressSockets() []Socket {
	return append(inetSockets(), Socket{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE})
}
