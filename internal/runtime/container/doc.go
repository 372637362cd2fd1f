// Package container is the runtime of the container level: Linux namespaces,
// control groups, a system-call filter, Landlock, and no capability. What
// code inside can attack is this host's kernel, through what the filter lets
// by.
//
// The package is the unprivileged side. The launcher builds the cells (package
// launcher); what is said to it goes over package link, numbers down, counters
// and descriptors of regular files up. It reads the program's output and files,
// capped while they are read, and decides nothing.
//
// A cell with a network is a cell.Gated: its sockets come with it, open before
// anything of the call is there. What is done with them is for the egress
// process to do, which the launcher starts too (link.Launchers.StartEgress).
package container
