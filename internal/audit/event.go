package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Kind says what an event tells. The zero value is invalid.
type Kind uint8

// The kinds of events. Their numbers are part of the hashed encoding.
const (
	KindIntent  Kind = iota + 1 // the call is about to run
	KindOutcome                 // it ran and has ended
	KindRefusal                 // nothing ran
	KindLost                    // nobody knows how it ended: its process died
)

// String returns the kind's word.
func (k Kind) String() string {
	switch k {
	case KindIntent:
		return "intent"
	case KindOutcome:
		return "outcome"
	case KindRefusal:
		return "refusal"
	case KindLost:
		return "lost"
	}
	return fmt.Sprintf("invalid kind (%d)", uint8(k))
}

// Valid reports whether k is a member of the set.
func (k Kind) Valid() bool { return k >= KindIntent && k <= KindLost }

// Ends reports whether an event of this kind ends a call.
func (k Kind) Ends() bool { return k >= KindOutcome && k <= KindLost }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) {
	if !k.Valid() {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, k)
	}
	return []byte(k.String()), nil
}

// Hash is the SHA-256 of an event.
type Hash [32]byte

// String returns 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// parseHash parses 64 lower-case hexadecimal digits.
func parseHash(text string) (h Hash, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) || hex.EncodeToString(raw) != text {
		return Hash{}, fmt.Errorf("%w: %.70q is no hash", ErrReceipt, text)
	}
	return Hash(raw), nil
}

// MaxBody is the largest body of an event, in bytes.
const MaxBody = 2 << 20

// maxWord bounds the short texts of an event, in bytes: the chain's name and
// the instance's id.
const maxWord = 128

// Event is one link of a chain.
type Event struct {
	Chain    string          `json:"chain"`
	Seq      int64           `json:"seq"` // from 1, without gaps
	Kind     Kind            `json:"kind"`
	CallID   string          `json:"call"`     // UUIDv7
	Instance string          `json:"instance"` // who wrote it
	At       time.Time       `json:"at"`       // UTC, to the nanosecond
	Body     json.RawMessage `json:"body"`
	Prev     Hash            `json:"prev"`
	Hash     Hash            `json:"hash"`
}

// Head is the last event of a chain. The zero value is the head of an empty
// one.
type Head struct {
	Seq  int64
	Hash Hash
}

// Stored is an event as a store holds it: nothing about it has been checked.
type Stored struct {
	Chain    string
	Seq      int64
	Kind     int64
	CallID   string
	Instance string
	At       int64 // nanoseconds since 1970-01-01 UTC
	Body     []byte
	Prev     []byte
	Hash     []byte
}

// domain keeps these hashes apart from every other use of SHA-256.
const domain = "callcell.audit.event.v1\x00"

// Sum computes the event's hash from its other fields, as the package
// documentation lays it out. It does not look at e.Hash.
func (e *Event) Sum() Hash {
	b := make([]byte, 0, 320)
	b = append(b, domain...)
	b = appendText(b, e.Chain)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	b = append(b, byte(e.Kind))
	b = appendText(b, e.CallID)
	b = appendText(b, e.Instance)
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(len(e.Body)))
	h := sha256.New()
	h.Write(b)
	h.Write(e.Body)
	h.Write(e.Prev[:])
	return Hash(h.Sum(nil))
}

func appendText(b []byte, text string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
	return append(b, text...)
}

// link makes e the event after head.
func (e *Event) link(head Head) {
	e.Seq = head.Seq + 1
	e.Prev = head.Hash
	e.Hash = e.Sum()
}

// Stored returns the event as it is to be stored.
func (e *Event) Stored() Stored {
	return Stored{
		Chain: e.Chain, Seq: e.Seq, Kind: int64(e.Kind), CallID: e.CallID, Instance: e.Instance,
		At: e.At.UnixNano(), Body: e.Body, Prev: e.Prev[:], Hash: e.Hash[:],
	}
}

// DecodeEvent makes an event of what a store holds and checks its form: that
// every field could have been written by this package. It does not check the
// hash (see [Event.Sum]) and not the body's members. An error wraps
// ErrMalformed; then the event is the zero value. The body is not copied.
func DecodeEvent(s Stored) (Event, error) {
	for _, check := range storedChecks() {
		if !check.ok(&s) {
			return Event{}, fmt.Errorf("%w: %s", ErrMalformed, check.what)
		}
	}
	return Event{
		Chain: s.Chain, Seq: s.Seq, Kind: Kind(s.Kind), CallID: s.CallID, Instance: s.Instance,
		At: time.Unix(0, s.At).UTC(), Body: s.Body, Prev: Hash(s.Prev), Hash: Hash(s.Hash),
	}, nil
}

type storedCheck struct {
	what string
	ok   func(*Stored) bool
}

func storedChecks() []storedCheck {
	return []storedCheck{
		{"the chain's name is not 1 to 128 bytes of UTF-8", func(s *Stored) bool { return isWord(s.Chain) }},
		{"the sequence number is not positive", func(s *Stored) bool { return s.Seq >= 1 }},
		{"the kind is unknown", func(s *Stored) bool { return s.Kind > 0 && s.Kind <= math.MaxUint8 && Kind(s.Kind).Valid() }},
		{"the call's id is no UUIDv7", func(s *Stored) bool { return isID(s.CallID) }},
		{"the instance's id is not 1 to 128 bytes of UTF-8", func(s *Stored) bool { return isWord(s.Instance) }},
		{"a hash is not 32 bytes", func(s *Stored) bool { return len(s.Prev) == 32 && len(s.Hash) == 32 }},
		{"the body is not a JSON object of at most 2 MiB on one line", func(s *Stored) bool { return isBody(s.Body) }},
	}
}

func isWord(s string) bool { return s != "" && len(s) <= maxWord && utf8.ValidString(s) }

func isBody(b []byte) bool {
	return len(b) >= 2 && len(b) <= MaxBody && b[0] == '{' && b[len(b)-1] == '}' &&
		bytes.IndexByte(b, '\n') < 0 && utf8.Valid(b) && json.Valid(b)
}
