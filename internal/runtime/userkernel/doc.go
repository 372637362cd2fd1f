// Package userkernel is the runtime of the userkernel level: gVisor, a kernel of
// the cell's own in a process without privileges. What code inside can attack of
// this host is what that process is left: a few dozen system calls, no file, no
// network.
//
// The package is the unprivileged side. The launcher starts the sandbox (package
// launcher, LevelUserkernel) and keeps its clocks and its group; what is done in
// the cell is done by the guest (package guest), over the cell's channel.
//
//	Open    launcher: open      the sandbox boots; the guest says that it is there
//	        guest: prepare      scratch, files of ours under /etc, listeners
//	Exec    launcher: start     the clocks begin
//	        guest: put, exec    inputs, the command
//	        launcher: count     the clocks stop; what was used
//	Stop    guest: stop
//	Get     guest: list, get    capped while it is read
//	Close   launcher: close     the sandbox is killed
//
// # Who is believed
//
// The guest is on the attacker's side. What it says is the cell's own word: the
// exit code, the files, how full the scratch is. What decides is read by the
// launcher: wall time, CPU time and memory of the whole sandbox, and that it is
// gone. A guest that does not do as it is told in time has its sandbox killed.
//
// # The network
//
// A cell is a cell.Tunnelled: its programs' sockets are of the cell's own kernel,
// and the guest hands their connections over. Where the operator's launcher.conf
// says runsc.network = host, it is a cell.Gated instead: they are of this host's
// kernel, in the cell's network namespace, where sockets of ours stand as at the
// container level. That is faster, and gives up what the level is for in one
// place: the level is then worth container (cell.Features.HostNetwork).
//
// # Ceilings
//
// A ceiling of time ends the program through the guest, so that its files can be
// had, and the sandbox a few seconds later if the guest does not. A ceiling of
// memory ends the sandbox at once, and its files with it.
package userkernel
