// Package link is the unprivileged side of the launcher: it starts the
// processes that build cells (package launcher), asks the one that has the
// least to do, and knows of each what it has.
//
//	Launchers  -> Open -> Slot        a cell of whatever level
//	           -> StartEgress         the process that makes connections for cells
//	           -> Trees               the store of roots for cells, and its unpacker
//
// The runtimes of the levels stand on it, all on the same Launchers: the number
// of cells that this host may have is over all of them.
//
// It speaks the messages of package wire: numbers down, counters and descriptors
// up. The launchers and everything they started die with this process; one that
// died is started anew for the next cell, where this process still may.
package link
