// Package envelope is the vocabulary of callcell: one call, one cell. Every
// other package speaks it; it has no dependency but the standard library, no
// state, and it opens nothing.
//
// # Data and permission
//
// A Call is data: what to run, its inputs, who it is for. It names nothing of
// the host, and everything in it is a stranger's word.
//
// An Envelope is permission: what a call may touch. It is complete, so that
// nothing is left to a default of the place that enforces it. An operator
// writes envelopes and names them: those are profiles. Default is the small
// closed one where nobody wrote any.
//
// A Request comes with a call and may only narrow the profile. It names
// mounts and credentials by the profile's entry names, never a path, a secret
// or another object of the host.
//
// A Result is data again: of an untrusted program, with an Outcome if
// something ran (how it ended) or a Refusal if nothing did (why). Neither is
// a Go error: an error is a failure of our own.
//
// The way of a document is always the same:
//
//	bytes -> DecodeCall -> Call.Validate                        of the caller
//	bytes -> DecodeEnvelope(…, Default()) -> Envelope.Validate  of the operator
//	Narrow(profile, call.Request) -> envelope.Admits(call)      what is in force
//
// An error of these is a *DecodeError, *FieldError or *ValueError. It names
// the field in dotted form and has a hint how to mend it, and RefusalOf makes
// the refusal of it that the caller gets.
//
// # Narrower
//
// An envelope a is within an envelope p (Within) if in every field a gives no
// more than p. This is the order, and what a request may ask for:
//
//	field                   a is within p if                              a request
//	version                 the same                                      cannot name it
//	level                   the same; or p is auto and a is a level;      may
//	                        or both are levels and a's is stronger:
//	                        language, container, userkernel, microvm
//	trust                   the same or further towards hostile:          may
//	                        reviewed, model, thirdparty, hostile
//	image                   the same                                      may (to no effect yet)
//	environment             a subset                                      may
//	files.scratch           less or equal                                 may
//	files.inodes            less or equal                                 may
//	files.outputs.count     less or equal                                 may
//	files.outputs.bytes     less or equal                                 may
//	files.tree.count        less or equal                                 may
//	files.tree.bytes        less or equal                                 may
//	files.tree.changes.count less or equal                                may
//	files.tree.changes.bytes less or equal                                may
//	files.mounts            a subset of the entries, each unchanged       may, by entry name
//	network.allow           for every host and port: some entry of p      may
//	                        covers the name, *.NAME or address on that
//	                        port with the same protocol, and a
//	                        inspects where it does
//	network.private         a subset of the entries, each unchanged       cannot name it
//	network.fetch           the same, or "" where p says public           cannot name it
//	privilege.user          the same                                      cannot name it
//	credentials             a subset of the entries, each unchanged       may, by entry name
//	resources.cpu           less or equal                                 may
//	resources.cpuTime       less or equal                                 may
//	resources.wall          less or equal                                 may
//	resources.memory        less or equal                                 may
//	resources.pids          less or equal                                 may
//	resources.fileSize      less or equal                                 may
//	resources.openFiles     less or equal                                 may
//	resources.output.keep   less or equal                                 may
//	resources.output.total  less or equal                                 may
//	cleanup.stopGrace       less or equal                                 may
//	task.calls              less or equal                                 cannot name it
//	task.cpuTime            less or equal                                 cannot name it
//	task.tokens             less or equal                                 cannot name it
//	task.wall               less or equal                                 cannot name it
//	coResidency             the same or fewer beside it:                  cannot name it
//	                        shared, team, none
//
// A profile that fixes a level is held to at least that level: a request may
// go up from it, never down, and never back to auto. Of which levels the
// trust allows, this package says nothing; placement holds every choice
// against that floor, a request's too.
//
// In network.allow, a host is an exact name, *.x.test, or one address, IPv4 or
// IPv6, in canonical form (192.0.2.1, 2001:db8::1). *.x.test covers every name
// below x.test at any depth and never x.test itself; a name never covers an
// address, nor an address a name. An address is reached where it is public or
// in a range of network.private, as the addresses of a name are. No two entries
// of a valid envelope disagree about one host and port, so that no entry has to
// go before another, and leaving one out never changes what the rest mean.
//
// # Reading
//
// Decode is the decoder of every trust edge. It is strict: misspelt, unknown
// and repeated keys, null, trailing bytes, text that is not UTF-8 and bare
// numbers where a unit belongs are errors, and an error leaves the
// destination as it was. An absent key keeps the default, an empty list means
// nothing, and unlimited does not exist.
//
// Checks, WarningDocs, Bounds and Codes are the documentation of what is
// checked, warned about, bounded and said, as data.
package envelope
