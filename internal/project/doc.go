// Package project reads a working tree on the host for a call, and writes what
// a call made of it back.
//
// A tree is a stranger's, and it is bytes: Read opens what is beneath one
// directory, follows no link, crosses to no other file system, opens nothing
// but directories and regular files, starts no program and asks no git. Of
// what it reads it interprets ignore rules alone (package ignore).
//
// Changes come from a cell, and are an attacker's: Check refuses names that
// nobody may write, names that a file system may take for others, and files
// that are not any more what went in. Apply writes all changes or none:
//
//	lock  the directory .callcell, held by one process at a time
//	stage what is new goes into files of it, synced
//	journal  one record with all that is to be done, synced, renamed into place
//	swap  each file is exchanged with the staged one, whose place the old one takes
//	end   the journal goes, then the directory
//
// A process that is killed before the journal stands has changed nothing. After
// that, Recover, which every Read and Apply begins with, does what is missing;
// where a file has become a third thing meanwhile it undoes what was done, and
// says so. No link is followed on the way, and what was at a name is looked at
// when it has been taken from there.
package project
