package placement

import "github.com/callcell/callcell/envelope"

// Need is something that a call cannot do without, in the words in which it is
// shown: "the call needs NEED".
type Need string

// The needs there are.
const (
	NeedNative      Need = "a native program"
	NeedPython      Need = "a Python interpreter"
	NeedNode        Need = "a JavaScript engine"
	NeedNetwork     Need = "the network"
	NeedMounts      Need = "mounts"
	NeedCredentials Need = "credentials"
	NeedImage       Need = "an image other than host"
	NeedAlone       Need = "co-residency other than shared"
)

// NeedsOf derives the needs of a call under the envelope that is in force for
// it. It changes neither.
func NeedsOf(env *envelope.Envelope, call *envelope.Call) []Need {
	var needs []Need
	add := func(when bool, need Need) {
		if when {
			needs = append(needs, need)
		}
	}
	lang := ""
	if call.Script != nil {
		lang = call.Script.Lang
	}
	add(len(call.Argv) > 0 || lang == "sh", NeedNative)
	add(lang == "python", NeedPython)
	add(lang == "node", NeedNode)
	add(len(env.Network.Allow) > 0, NeedNetwork)
	add(len(env.Files.Mounts) > 0, NeedMounts)
	add(len(env.Credentials) > 0, NeedCredentials)
	add(env.Image != envelope.ImageHost, NeedImage)
	add(env.CoResidency != envelope.CoResidencyShared, NeedAlone)
	return needs
}
