// Package anchor keeps checkpoints of an audit log where whoever holds the log
// cannot change them: in a file on other storage, with a syslog collector, or
// behind an HTTP address. They are what a rewritten or cut log is compared with:
//
//	Log.Checkpoint ─> Set.Publish ─┬─> worker ─> File     append, fsync
//	  (in the store already)       ├─> worker ─> Syslog   RFC 5424: unix, udp, tcp, tls
//	                               └─> worker ─> HTTP     POST; the status is all that is read
//
// A checkpoint covers all that came before it, so an anchor that is slow or dead
// is sent the newest one alone: nothing piles up. It is tried again, at most
// every five minutes, for as long as the process lives; calls never wait for it.
// That it fails is said once, and that it works again.
//
// An anchor is the operator's own destination. It is sent a time, sequence
// numbers, hashes and a signature: no secret, and nothing of a call.
package anchor

import (
	"context"
	"errors"
)

// Anchor is one place where checkpoints are kept. Send is called by one
// goroutine.
type Anchor interface {
	// Name is where it is, for messages.
	Name() string
	// Send keeps one line of JSON, without its end. When it returns nil, the
	// line is kept as surely as the place can say. It honours its context.
	Send(ctx context.Context, line []byte) error
}

// The sentinels of this package.
var (
	// ErrPlace means that an anchor's place is not well formed.
	ErrPlace = errors.New("anchor: bad place")
	// ErrAnswer means that an anchor did not take a checkpoint.
	ErrAnswer = errors.New("anchor: not taken")
	// ErrUndelivered means that a Set was closed with a checkpoint that an
	// anchor has not taken.
	ErrUndelivered = errors.New("anchor: undelivered")
)
