// Package seccomp is the system-call filter of a container cell: what may be
// asked of the host's kernel, and what is answered to the rest.
//
// The way from the sources to the kernel is short:
//
//	profile_*.go   every number of the architecture, and what moby's default
//	               profile says of it (generated)
//	refused.go     names that are refused all the same, each with its reason
//	narrowed.go    names that are allowed by their arguments only
//	cell.go        the three put together: a Policy
//	compile.go     Policy -> classic BPF, knowing nothing of the above
//
// Policy is an allow list and stays one: Compile refuses a policy that allows
// what it does not name. Compile is pure, and any other list goes through it in
// the same way: that of the egress process, some fifty names, is in egress.go
// and egress_table.go.
//
// # What is answered
//
// A refused call is answered EPERM, unless something else makes programs go
// on in a better way: ENOSYS where they probe and have another way (clone3,
// vmsplice, numbers younger than the profile), or what a kernel answers that
// was built without the thing (EAFNOSUPPORT, EPROTONOSUPPORT, EINVAL,
// ENOENT). Only a call through another architecture's table ends the process.
//
// # Width of arguments
//
// The filter sees 64 bits of each argument, the kernel often reads 32 of
// them. A comparison therefore looks at exactly the bits that the kernel
// reads: a refusal that compared more could be walked around by setting a bit
// the kernel never looks at. Cond.Mask says which bits; see narrowed.go.
//
// The package is pure data and computation. It installs nothing: the launcher
// does, with seccomp(2), as one entry of its list.
package seccomp

//go:generate go run ./gen
