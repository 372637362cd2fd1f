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
// Three more kinds are about the log itself: a prune says whose bodies were
// erased, and why; a checkpoint is a signed statement of the chains' heads; a
// counter has in one event what an attacker could multiply ([Log.Count]).
//
// # The chain
//
// Sequence numbers start at 1 and have no gaps. Each event carries the hash of
// the one before it (of the first: 32 zero bytes) and its own, which is the
// SHA-256 of this encoding. Integers are unsigned, big-endian; a length counts
// bytes; there is nothing between the fields:
//
//	bytes  field
//	   24  "callcell.audit.event.v2" and a NUL
//	    8  length of the chain's name
//	    n  the chain's name
//	    8  sequence number
//	    1  kind: 1 intent, 2 outcome, 3 refusal, 4 lost, 5 prune, 6 checkpoint, 7 counter
//	    8  length of the call's id
//	    n  the call's id, as text; kinds 5 to 7 have none
//	    8  length of the instance's id
//	    n  the instance's id, as text
//	    8  time: nanoseconds since 1970-01-01 UTC, two's complement
//	   32  commitment to the body
//	   32  hash of the event before
//
// The commitment is the SHA-256 of this:
//
//	23  "callcell.audit.body.v2" and a NUL
//	16  salt: random, of this event alone
//	 8  length of the body
//	 n  the body, as stored
//
// So a body can be erased with its salt: the commitment is left, the chain stays
// valid, and nobody can find the body by guessing. Events of version 1 have
// another word in front, and in place of the commitment the length of the body
// and the body; theirs cannot be erased.
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
// lies beyond the last receipt or checkpoint that was kept elsewhere is
// unproven, and the report says so. Checkpoints in the store, signed with a key
// that is known from elsewhere, vouch for what is before them against whoever
// holds the store alone; against whoever holds the key, too, only an anchor off
// the host does: see package anchor.
//
// # What is kept of a call
//
// Arguments are kept by default, so that "this task ran this tool with these
// arguments" has an answer: see [ArgumentMode]. Of the environment only names,
// sizes and salted digests are ever kept, of files and standard input names,
// sizes and digests, of output totals and digests. A size bound on every part
// keeps an event below [MaxBody]; what was left out is counted and digested.
// Where a call has credentials, the intent is written while these are issued,
// so it holds every text back; the ending has what is kept, the secrets masked.
//
// # How long
//
// [Log.Prune] erases by age, [Log.Erase] one call. Both leave the commitments
// and an event that names what is gone; without one, [Log.Verify] reports a
// body that is missing.
package audit
