// Package audit keeps the rows: every call has its row, durable before it
// runs and completed after, refusals and crashes included.
//
// What is stored are append-only events, linked by hashes into one chain. A
// row is the view over one call's events:
//
//	intent ──> outcome     it ran, and this is how it ended
//	       ──> refusal     the cell could not be built; nothing ran
//	       ──> lost        the process died or was cut off; written by another
//	refusal                it never came to an intent
//
// A call has at most one intent and exactly one ending. The broker writes
//
//	Intend -> (the call runs) -> Complete      or      Refuse
//
// and runs nothing unless Intend returned nil.
//
// # The chain
//
// Sequence numbers start at 1 and have no gaps. Each event carries the hash of
// the one before it (of the first: 32 zero bytes) and its own, which is the
// SHA-256 of this encoding. Integers are unsigned, big-endian; a length counts
// bytes; there is nothing between the fields:
//
//	bytes  field
//	   24  "callcell.audit.event.v1" and a NUL
//	    8  length of the chain's name
//	    n  the chain's name
//	    8  sequence number
//	    1  kind: 1 intent, 2 outcome, 3 refusal, 4 lost
//	    8  length of the call's id
//	    n  the call's id, as text
//	    8  length of the instance's id
//	    n  the instance's id, as text
//	    8  time: nanoseconds since 1970-01-01 UTC, two's complement
//	    8  length of the body
//	    n  the body, as stored
//	   32  hash of the event before
//
// Kinds 5 and 6 are taken by prune and checkpoint, which nothing writes yet;
// until then an event with another kind than 1 to 4 is malformed.
//
// The body is one JSON object, encoded once and never again: compact, members
// in the order of the Go struct, map keys sorted, no HTML escapes, valid
// UTF-8, no line break. A reader ignores members that it does not know.
//
// # Who is alive
//
// A [Log] holds a lease in the store, under a random id that is made anew for
// every lease: one unbroken lease is an instance. The lease is granted in the
// transaction of its first intent and renewed while calls are open. Whoever
// finds an open call whose instance has no valid lease completes it as lost
// ([Log.Recover]). Fencing: an ending is written only in a transaction that
// has seen the call open, owned by this instance, and the instance's lease
// valid; a process that was paused past its lease gets [ErrFenced], whether or
// not somebody has completed its calls meanwhile. Times are compared by the
// wall clocks of the processes that share a store, so these must agree to well
// within the lease (10 s by default); on one host they do.
//
// # What a chain proves
//
// [Log.Verify] finds edits, cuts, reordering, gaps and calls without exactly
// one ending, and says where. A chain alone cannot show that its tail was cut
// or, by somebody who can write the store, rewritten from some event on: what
// lies beyond the last receipt that was kept elsewhere is unproven, and the
// report says so.
//
// # What is kept of a call
//
// Arguments are kept by default, so that "this task ran this tool with these
// arguments" has an answer: see [ArgumentMode]. Of the environment only names,
// sizes and salted digests are ever kept, of files and standard input names,
// sizes and digests, of output totals and digests. A size bound on every part
// keeps an event below [MaxBody]; what was left out is counted and digested.
package audit
