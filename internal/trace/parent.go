package trace

import (
	"encoding/hex"
	"strings"
)

// ID is the id of a trace, as W3C Trace Context has it. The zero value is none.
type ID [16]byte

// String returns 32 hexadecimal digits, or "" for none.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// OfCall is the id of a call's own trace: that of the call, without its dashes.
// The zero value means that the text is no id of a call.
func OfCall(call string) (id ID) {
	raw, err := hex.DecodeString(strings.ReplaceAll(call, "-", ""))
	if err != nil || len(call) != 36 || len(raw) != len(id) {
		return ID{}
	}
	return ID(raw)
}

// Parent is the span of somebody else's that a call belongs to. The zero value
// is none.
type Parent struct {
	Trace   ID
	Span    [8]byte
	Sampled bool
}

// The lengths of a traceparent: of version 00, and of its fields.
const (
	parentLength = 55
	spanAt       = 36
	flagsAt      = 53
)

// Parse reads a W3C traceparent. What is not well formed is none: the caller's
// trace is not worth refusing his call. Of a later version than 00 it takes what
// that one has.
func Parse(text string) (p Parent, ok bool) {
	if len(text) < parentLength || strings.ToLower(text) != text || text[:2] == "ff" {
		return Parent{}, false
	}
	if len(text) > parentLength && (text[:2] == "00" || text[parentLength] != '-') {
		return Parent{}, false
	}
	if text[2] != '-' || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	for _, f := range []struct {
		into []byte
		text string
	}{{version[:], text[:2]}, {p.Trace[:], text[3 : spanAt-1]}, {p.Span[:], text[spanAt : flagsAt-1]}, {flags[:], text[flagsAt:parentLength]}} {
		if _, err := hex.Decode(f.into, []byte(f.text)); err != nil {
			return Parent{}, false
		}
	}
	if p.Trace == (ID{}) || p.Span == [8]byte{} {
		return Parent{}, false
	}
	p.Sampled = flags[0]&1 == 1
	return p, true
}
