// Package webhook tells receivers that the operator names of refusals, and of
// what looks like an attempted escape.
//
//	broker ──> Of(result) ──> Set.Put ─┬─> hook: groups, bounded ──> worker ──> outward.Client ──> receiver
//	                                   └─> hook ...     one request at a time, at most N in any 60 seconds
//
// An attacker decides how many events there are, so their number decides
// nothing: an event joins the group of its kind and caller that waits, and a
// group is one delivery with a count. A receiver that is slow, down, or has had
// its requests of the minute gets fewer and larger ones. No call waits.
//
// # A delivery
//
// A POST of application/json, and three headers:
//
//	Callcell-Event: escape
//	Callcell-Delivery: 0198...                          the same for every try
//	Callcell-Signature: t=1764471600,v1=HEX             of this try
//
// v1 is HMAC-SHA256 with the hook's secret over the time, a dot and the body. A
// receiver compares it in constant time, and refuses a time that is far from its
// own. Any status of 200 to 299 is a yes. 408, 425, 429, 500 and above, and no
// answer, are tried again, with a pause that doubles up to five minutes, twelve
// times in all; other answers, redirects among them, are a no.
//
// The body is version 1 of [Delivery]; members may be added to it, and none
// changes its meaning. It has ids, counts, words of closed sets, addresses of
// networks, and what the caller calls his own work. No argument, no output, no
// name of a host or file and no other word of a program is in it: those are in
// the row, for who may read it.
package webhook

import "errors"

// The sentinels of this package.
var (
	// ErrUndelivered means that a Set was closed with events that a receiver
	// has not taken.
	ErrUndelivered = errors.New("webhook: undelivered")
	// ErrSecret means that a delivery could not be signed, so that it was not
	// sent.
	ErrSecret = errors.New("webhook: no secret to sign with")
)
