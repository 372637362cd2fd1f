// Package inside is the guest: the first process of a cell that has a kernel of
// its own. It makes the place, writes the call's files, starts the program,
// reaps what is orphaned, says how the program ended, and hands over what it
// wrote and the connections that it made. It speaks to the host by descriptor
// 3, as package guest says, and ends when that does.
//
// # What keeps the program from it
//
// The guest is root inside, with these capabilities, which are worth nothing
// outside:
//
//	SYS_ADMIN                    mounts the scratch and the covers
//	CHOWN DAC_OVERRIDE FOWNER    writes the program's files, reads what it wrote
//	SETUID SETGID SETPCAP        makes the program another user's, with nothing
//	KILL                         ends it
//	SYS_RESOURCE                 bounds it, and not itself
//	NET_BIND_SERVICE             listens at the port of the name server
//
// The program is uid and gid 1000 in no other group, has no capability and an
// empty bounding set, cannot gain one (no_new_privs), and leads a session of
// its own. So it can neither signal nor trace the guest, nor see its memory or
// its descriptors; and the guest has none but the program's own streams open
// for it. It is on the attacker's side nonetheless: the host believes nothing
// of it.
//
// # Order
//
//	prepare   scratch, covers, listeners
//	put       files, owned by the program's user
//	exec      streams, limits; then, on a thread that is used for nothing else,
//	          no_new_privs and the bounding set, and the fork. When the program
//	          ends, so does every other process
//	stop      nothing runs any more, nothing listens
//	list, get what is below /work, by names that lead through no link
package inside
