package placement

import (
	"path"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Need is something that a call cannot do without.
type Need = envelope.Need

// The needs that a level's Offer may say it cannot meet, by the names that are
// used where offers are made.
const (
	NeedNative      = envelope.NeedNative
	NeedPython      = envelope.NeedPython
	NeedNode        = envelope.NeedNode
	NeedNetwork     = envelope.NeedNetwork
	NeedMounts      = envelope.NeedMounts
	NeedCredentials = envelope.NeedCredentials
	NeedImage       = envelope.NeedImage
	NeedAlone       = envelope.NeedAlone
	NeedTree        = envelope.NeedTree
)

// NeedsOf returns the needs of a call under the envelope that is in force for
// it: those that are derived, and those that it declares. It changes neither.
// They are in the order of the set, each once.
func NeedsOf(env *envelope.Envelope, call *envelope.Call) []Need {
	needs := slices.Concat(call.Needs, ofProgram(env, call), ofEnvelope(env))
	slices.Sort(needs)
	return slices.Compact(needs)
}

// ofProgram derives what the program itself needs.
func ofProgram(env *envelope.Envelope, call *envelope.Call) (needs []Need) {
	if s := call.Script; s != nil {
		switch s.Lang {
		case "sh":
			needs = append(needs, envelope.NeedShell)
		case "python":
			needs = append(needs, NeedPython)
		case "node":
			needs = append(needs, NeedNode)
		}
	}
	if call.Tree != nil || call.Workspace != nil {
		needs = append(needs, NeedTree)
	}
	if len(call.Argv) == 0 {
		return needs
	}
	needs = append(needs, NeedNative)
	name := path.Base(call.Argv[0])
	if slices.Contains(shells(), name) {
		needs = append(needs, envelope.NeedShell)
	}
	if env.Trust != envelope.TrustReviewed && len(env.Network.Allow) > 0 && fetchesCode(name, call.Argv[1:]) {
		needs = append(needs, envelope.NeedThirdParty)
	}
	return needs
}

// ofEnvelope derives what must be served because the envelope has it.
func ofEnvelope(env *envelope.Envelope) (needs []Need) {
	add := func(when bool, need Need) {
		if when {
			needs = append(needs, need)
		}
	}
	add(len(env.Network.Allow) > 0, NeedNetwork)
	add(len(env.Files.Mounts) > 0, NeedMounts)
	add(len(env.Credentials) > 0, NeedCredentials)
	add(env.Image != envelope.ImageHost, NeedImage)
	add(env.CoResidency != envelope.CoResidencyShared, NeedAlone)
	return needs
}

func shells() []string { return []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"} }

// fetchesCode reports whether a program is one that gets packages and runs
// what is in them, as far as its name tells. Where the code was reviewed, its
// packages were.
func fetchesCode(name string, args []string) bool {
	switch name {
	case "pip", "pip3", "pipx", "uv", "uvx", "npm", "npx", "pnpm", "yarn", "bunx", "gem", "cargo", "go":
		return true
	}
	return strings.HasPrefix(name, "python") && len(args) > 1 && args[0] == "-m" && (args[1] == "pip" || args[1] == "pipx")
}

// A wording is what is said of one need.
type wording struct {
	noun string // "the call needs NOUN"
	mend string // what a call would be without it
}

func wordingOf(n Need) wording {
	switch n {
	case envelope.NeedShell:
		return wording{"a shell", "write it in python or node"}
	case NeedNative:
		return wording{"a native program", "write it as a script in python or node"}
	case NeedPython:
		return wording{"a Python interpreter", "write it in another language"}
	case NeedNode:
		return wording{"a JavaScript engine", "write it in another language"}
	case envelope.NeedPackages:
		return wording{"packages with native code", "do without them: the interpreter's own library alone"}
	case envelope.NeedSystemCalls:
		return wording{"Linux's system calls", "do without threads, sockets and other processes"}
	case envelope.NeedKernel:
		return wording{"features of a kernel of its own", "do without mounts, netlink, eBPF and modules"}
	case envelope.NeedTransform:
		return wording{"no more than an interpreter and its data", "nothing"}
	case envelope.NeedThirdParty:
		return wording{"to run third-party code", "run code of your own alone"}
	case envelope.NeedTenantSecrets:
		return wording{"a tenant's secrets in the cell", "keep the secrets out of the cell: a credential that is used at the edge"}
	case NeedNetwork:
		return wording{"the network", "an envelope with an empty network.allow"}
	case NeedMounts:
		return wording{"mounts", "hand the files over as inputs"}
	case NeedCredentials:
		return wording{"credentials", "an envelope without credentials"}
	case NeedImage:
		return wording{"an image other than host", "image: host"}
	case NeedAlone:
		return wording{"co-residency other than shared", "coResidency: shared"}
	case NeedTree:
		return wording{"a tree whose changes come back", "hand the files over as inputs, and name outputs"}
	}
	return wording{n.String(), "leave it out"}
}

// beyond says why a level cannot meet a need whatever the host is, or "".
func beyond(level envelope.Level, n Need) string {
	switch {
	case level == envelope.LevelLanguage && (n == NeedNative || n == envelope.NeedShell):
		return "an engine of this level runs no native program"
	case level == envelope.LevelLanguage && n == envelope.NeedPackages:
		return "an engine of this level loads no native code"
	case level == envelope.LevelLanguage && n == envelope.NeedSystemCalls:
		return "there is no kernel, only a handful of host functions"
	case level < envelope.LevelMicroVM && n == envelope.NeedKernel:
		return "it has no kernel of its own to configure"
	}
	return ""
}

// raised returns the floor that stands under a call because of a need, and
// why; zero where the need raises none. floors are those in force.
func raised(floors map[envelope.Trust]envelope.Level, n Need) (envelope.Level, string) {
	switch n {
	case envelope.NeedThirdParty:
		return floorFor(floors, envelope.TrustThirdParty), "it runs third-party code"
	case envelope.NeedTenantSecrets:
		return envelope.LevelUserKernel, "it holds a tenant's secrets, so that it shares no kernel with others"
	}
	return 0, ""
}
