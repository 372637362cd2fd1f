// Package workspace keeps trees from call to call, each team its own: a
// workspace has a name and versions, 1 and up; a call reads the newest and
// writes the next, and each is whole.
//
// What is in a version are blobs of the team's, by a manifest that is one too;
// which versions there are is in an Index. A call takes a workspace before it
// runs and holds it until it is over, so that no two write at once: the second
// is refused before anything of it runs. A hold ends by itself at a time, for
// processes that die; Commit is refused to who has lost it.
//
// A version is written by its blobs first, durable, and then by one transaction
// of the index: a process that is killed in between has written nothing, and
// leaves blobs for GC.
package workspace
