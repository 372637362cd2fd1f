// Package gateway decides which calls happen at all, and how many: who may
// call, how often, and how much. It holds teams, keys and tiers, and it meters.
//
//	Identify   a secret -> whose it is                       at the edge
//	Enter      the key is alive, its rate is not used up      before anything else
//	Admit      budgets reserved, a turn waited for            before anything is built
//	Hold       the reservation is durable                     beside the intent
//	Settle     what was used instead of what was reserved     beside the ending
//	Leave      the turn is the next one's                     when the answer was taken
//
// # Teams, keys, tiers
//
// A team pays, and its [Tier] says how much it gets. Teams own keys. A key has
// one role and a set of profiles that it may name; its secret is shown once and
// kept as a SHA-256. Rotation gives a key a second secret and ends the first
// after an overlap: the key stays the same, and so do its rate, its rows and
// its revocation. Revocation is live: calls of that key that run are cancelled,
// also where another process has revoked it (within [poll]).
//
// # What is counted, and how exactly
//
// The rate is a sliding log: in any 60 seconds there are at most as many calls
// as the tier says, with no burst at the edge of a window, also across a
// restart of the daemon. What was refused does not count.
//
// Budgets (tokens, calls and CPU time of a month; the ceilings of a task) are
// reserved at their worst case before anything runs and settled by what was
// used, under one lock: parallel calls cannot pass one check, and used plus
// reserved never exceeds a budget. A refusal settles to nothing. A call whose
// daemon died settles to its arguments and the CPU time that was reserved; the
// next daemon does that at its start. A month is a calendar month in UTC, and a
// call is charged to the one in which it was admitted.
//
// Tokens are those of the text that a model writes and reads: argv, code,
// standard input, variables and addresses one way, stdout, stderr and fetched
// bodies the other. Files are bytes and counted as such by the envelope.
// A result is cut to what was reserved for it, and says so.
//
// A call that fits a budget only when others have settled waits for them, as it
// waits for a slot: calls at once are bounded for each key, each team and the
// host. Waiting is first come, first served within a team, round robin between
// teams, bounded in number and in time; then the call is refused. A turn lasts
// for as long as anything of its call is held: what it has left is memory.
//
// # One daemon
//
// What is counted is counted in memory and written behind what it protects, so
// that it costs no wait of its own. So one process meters a store at a time;
// who opens a Gateway must hold the store's lock. Another process may change
// teams and keys meanwhile, through [Admin].
package gateway
