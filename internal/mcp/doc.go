// Package mcp is the front end for assistants: a server of the Model Context
// Protocol whose tools run calls in cells.
//
//	client --lines of JSON--> lines.go -> SDK -> tools.go -> Call -> Runner (the broker)
//	client <--lines of JSON-- answer.go (through render) <- Result
//
// It translates and decides nothing. What a model may set, it may only narrow:
// it names one of the profiles that the operator let it see, and a narrowing
// that the broker holds against it. What runs was written by a model, so that
// no call is trusted more than that, whatever its profile says.
//
// An answer is data of an untrusted program. The text of it stands between
// marks that the program could not know (render.Fence); in the structured part
// all that came out of the cell is below untrusted. Files that came out are
// resources of the session, bounded, and gone with it.
//
// A refusal, and an end other than the program's own, are errors of the tool
// (isError) with the typed reason or outcome: the model can mend what it asked
// for. A message that cannot be read is answered with an error of the protocol
// and skipped; the server lives until its input ends.
//
// The newest revision of the protocol is spoken and older ones are negotiated,
// as far as the SDK goes back. Batches of the revision 2025-03-26 are refused.
package mcp
