package envelope

import "slices"

// Code is one word of the wire.
type Code struct {
	Set   string // level, trust, outcome, refusal, verdict, need or change
	Word  string
	Means string
}

// Codes returns the one table of the words that cross a wire. A word never
// changes and never gets another meaning; new ones may come, so a client
// treats one that it does not know as a failure.
func Codes() []Code { return slices.Concat(callCodes(), attemptCodes(), needCodes(), changeCodes()) }

// callCodes are those of what was asked, and of how a call ended.
func callCodes() []Code {
	return []Code{
		{"level", "auto", "the cheapest level that satisfies the call; in what is asked, never in what ran"},
		{"level", "none", "nothing of a stranger is executed: a fetch"},
		{"level", "language", "a WebAssembly engine; no kernel is seen"},
		{"level", "container", "namespaces, filters and groups on the host's kernel"},
		{"level", "userkernel", "gVisor's kernel"},
		{"level", "microvm", "a kernel of its own in a virtual machine"},

		{"trust", "reviewed", "people have read the code"},
		{"trust", "model", "a model wrote the code"},
		{"trust", "thirdparty", "a stranger wrote the code"},
		{"trust", "hostile", "the code is taken for an attack"},

		{"outcome", "completed", "the program exited, with any code"},
		{"outcome", "signalled", "a signal that was not ours ended the program"},
		{"outcome", "wall_time", "the program ran for resources.wall and was ended"},
		{"outcome", "cpu_time", "the program used resources.cpuTime and was ended"},
		{"outcome", "memory", "the cell reached resources.memory and was killed"},
		{"outcome", "processes", "resources.pids ended the program"},
		{"outcome", "output", "the program wrote resources.output.total and was ended"},
		{"outcome", "file_size", "resources.fileSize ended the program"},
		{"outcome", "disk", "files.scratch was full and ended the program"},
		{"outcome", "cancelled", "the caller went away, or asked for the end"},
		{"outcome", "broken", "the cell's own machinery died; the program may have run in part"},
		{"outcome", "lost", "the daemon died; the program may have run in part"},

		{"refusal", "request", "the call is malformed; mend it"},
		{"refusal", "permission", "the caller may not do this"},
		{"refusal", "policy", "the request is wider than the profile"},
		{"refusal", "isolation", "no level of this host satisfies what is asked"},
		{"refusal", "unsupported", "not to be had at that level, or not built"},
		{"refusal", "rate", "too many calls a minute; wait"},
		{"refusal", "budget", "the tokens of the month, or a ceiling of the task, are used up"},
		{"refusal", "capacity", "there is no room now; try again"},
		{"refusal", "setup", "the cell could not be built"},
	}
}

// attemptCodes are those of a line of Egress.
func attemptCodes() []Code {
	return []Code{
		{"verdict", "allowed", "the attempt was carried"},
		{"verdict", "denied", "the attempt was not allowed; nothing left this host for it"},
		{"verdict", "cut", "the attempt was carried, and then ended by policy or a cap"},
		{"verdict", "failed", "the attempt was allowed, and the other side could not be reached"},
	}
}

// needCodes are those of what a call cannot do without.
func needCodes() []Code {
	return []Code{
		{"need", "shell", "a shell"},
		{"need", "native-program", "a native program"},
		{"need", "python", "a Python interpreter"},
		{"need", "node", "a JavaScript engine"},
		{"need", "native-packages", "packages with native code in them"},
		{"need", "system-calls", "Linux's system calls themselves: threads, sockets, signals, fork"},
		{"need", "kernel-features", "what only a kernel of the call's own gives: mounts, netlink, eBPF, modules"},
		{"need", "data-transform", "data through an interpreter and back, and nothing more"},
		{"need", "third-party-code", "code that neither the caller nor the model wrote: it runs as if trust were thirdparty"},
		{"need", "tenant-secrets", "data of a tenant in the cell that neighbours must not get: no kernel is shared with them"},
		{"need", "network", "the network"},
		{"need", "mounts", "directories of the host; never declared"},
		{"need", "credentials", "credentials; never declared"},
		{"need", "image", "an image other than host; never declared"},
		{"need", "alone", "fewer neighbours than shared; never declared"},
		{"need", "tree", "a tree whose changes come back; never declared"},
	}
}

// changeCodes are those of a file of a tree.
func changeCodes() []Code {
	return []Code{
		{"change", "added", "the file was not there"},
		{"change", "changed", "the file has other bytes"},
		{"change", "mode", "the file may be executed now, or may not any more"},
		{"change", "removed", "the file is not there any more"},
	}
}
