// Package packet is a conversation over one end of a SOCK_SEQPACKET pair:
// messages of bytes, each with descriptors of files. The kernel keeps the
// bounds of every message. What the bytes say is the matter of whoever uses
// the package.
//
// The other side may be hostile: a message is bounded in bytes and in
// descriptors, what is over the bounds is an error and not a part of a
// message, and no descriptor that came stays open unless it is handed out.
//
// The conversations exist on Linux alone.
package packet

import "errors"

// MaxFDs is the most descriptors that the kernel takes in one message.
const MaxFDs = 253

// Limits bound one message, both ways. They are those of the protocol: both
// sides have the same.
type Limits struct {
	Message int // bytes, at least 1
	FDs     int // descriptors, 0 to MaxFDs
}

// ErrMalformed is a message that came and is over the limits, or that carries
// something else than bytes and descriptors.
var ErrMalformed = errors.New("packet: malformed message")

// ErrLimits is a message that was to be sent and is empty or over the limits,
// or limits that are none. Nothing was sent.
var ErrLimits = errors.New("packet: outside the limits")
