package envelope

import (
	"slices"
	"strconv"
	"strings"
)

// Need is something that a call cannot do without. Most are derived from the
// call and its envelope; a call may declare those of DeclarableNeeds. A need
// narrows: it rules levels out or raises the floor, and never lowers one. The
// zero value is invalid.
type Need uint8

// The members of Need.
const (
	NeedShell         Need = iota + 1 // a shell
	NeedNative                        // a native program
	NeedPython                        // a Python interpreter
	NeedNode                          // a JavaScript engine
	NeedPackages                      // packages with native code in them
	NeedSystemCalls                   // Linux's system calls themselves: threads, sockets, signals, fork
	NeedKernel                        // what only a kernel of its own gives: mounts, netlink, eBPF, modules
	NeedTransform                     // data through an interpreter and back: nothing more
	NeedThirdParty                    // code that neither the caller nor the model wrote
	NeedTenantSecrets                 // data of a tenant in the cell that neighbours must not get
	NeedNetwork                       // the network
	NeedMounts                        // directories of the host
	NeedCredentials                   // credentials
	NeedImage                         // an image other than host
	NeedAlone                         // fewer neighbours than CoResidencyShared
	NeedTree                          // a tree whose changes come back
)

func needs() set {
	return set{"need", []string{"", "shell", "native-program", "python", "node", "native-packages", "system-calls", "kernel-features",
		"data-transform", "third-party-code", "tenant-secrets", "network", "mounts", "credentials", "image", "alone", "tree"}}
}

// String returns the word of n.
func (n Need) String() string { return needs().text(uint8(n)) }

// Valid reports whether n is a member of the set.
func (n Need) Valid() bool { return needs().valid(uint8(n)) }

// MarshalText implements encoding.TextMarshaler.
func (n Need) MarshalText() ([]byte, error) { return needs().marshal(uint8(n)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Need) UnmarshalText(b []byte) error {
	v, err := needs().parse(string(b))
	*n = Need(v)
	return err
}

// Needs returns every need.
func Needs() []Need {
	var all []Need
	for n := NeedShell; n.Valid(); n++ {
		all = append(all, n)
	}
	return all
}

// DeclarableNeeds returns the needs that a call may declare. The others follow
// from its envelope, which is not the caller's to say.
func DeclarableNeeds() []Need {
	return slices.DeleteFunc(Needs(), func(n Need) bool {
		return n == NeedMounts || n == NeedCredentials || n == NeedImage || n == NeedAlone || n == NeedTree
	})
}

func checkNeeds(c *Call) *FieldError {
	may := DeclarableNeeds()
	for i, n := range c.Needs {
		if !slices.Contains(may, n) {
			var words []string
			for _, m := range may {
				words = append(words, m.String())
			}
			return fault(at("needs", i), n.String()+" is not for a call to declare", "declare any of "+strings.Join(words, ", "))
		}
		if slices.Contains(c.Needs[:i], n) {
			return fault(at("needs", i), n.String()+" comes twice", "name it once, out of "+strconv.Itoa(len(may)))
		}
	}
	return nil
}

func admitNeeds(e *Envelope, c *Call) *FieldError {
	if i := slices.Index(c.Needs, NeedNetwork); i >= 0 && len(e.Network.Allow) == 0 {
		return fault(at("needs", i), "the call needs the network, and its envelope reaches no host", "choose a profile with the host in network.allow, or leave the need out")
	}
	return nil
}
