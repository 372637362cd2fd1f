package audit

import (
	"bytes"
	"crypto/rand"
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

	KindPrune      // bodies were erased: which, why, and who asked
	KindCheckpoint // the heads of the store's chains, signed
	KindCounter    // what came too often for an event each, counted
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
	case KindPrune:
		return "prune"
	case KindCheckpoint:
		return "checkpoint"
	case KindCounter:
		return "counter"
	}
	return fmt.Sprintf("invalid kind (%d)", uint8(k))
}

// Valid reports whether k is a member of the set.
func (k Kind) Valid() bool { return k >= KindIntent && k <= KindCounter }

// Ends reports whether an event of this kind ends a call.
func (k Kind) Ends() bool { return k >= KindOutcome && k <= KindLost }

// OfCall reports whether an event of this kind is about one call; the others
// are about the log itself and have no call's id.
func (k Kind) OfCall() bool { return k >= KindIntent && k <= KindLost }

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

// saltLength is how many random bytes keep an erased body from being guessed.
const saltLength = 16

// Event is one link of a chain. Of a body that was erased, Body and Salt are
// nil and the commitment stays.
type Event struct {
	Chain    string          `json:"chain"`
	Seq      int64           `json:"seq"` // from 1, without gaps
	Kind     Kind            `json:"kind"`
	CallID   string          `json:"call,omitempty"` // UUIDv7; "" where it is about no call
	Instance string          `json:"instance"`       // who wrote it
	At       time.Time       `json:"at"`             // UTC, to the nanosecond
	Body     json.RawMessage `json:"body,omitempty"`
	Prev     Hash            `json:"prev"`
	Hash     Hash            `json:"hash"`

	Salt       []byte `json:"salt,omitempty"`
	Commitment *Hash  `json:"commitment,omitempty"` // to salt and body; nil in events of version 1
	// Pruned is the event that says why there is no body, as the store has it;
	// 0: the body is there. It is not part of what is hashed.
	Pruned int64 `json:"pruned,omitempty"`
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

	Salt       []byte // empty: version 1, or erased
	Commitment []byte // empty: version 1
	Pruned     int64  // the event that says that the body was erased; 0: it is there
}

// The domains keep these hashes apart from every other use of SHA-256.
const (
	domain1    = "callcell.audit.event.v1\x00"
	domain2    = "callcell.audit.event.v2\x00"
	bodyDomain = "callcell.audit.body.v2\x00"
)

// Sum computes the event's hash from its other fields, as the package
// documentation lays it out. It does not look at e.Hash, and where there is a
// commitment, not at the body: see [Event.Intact].
func (e *Event) Sum() Hash {
	b := make([]byte, 0, 320)
	if e.Commitment == nil {
		b = append(b, domain1...)
	} else {
		b = append(b, domain2...)
	}
	b = appendText(b, e.Chain)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	b = append(b, byte(e.Kind))
	b = appendText(b, e.CallID)
	b = appendText(b, e.Instance)
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.UnixNano()))
	h := sha256.New()
	if e.Commitment == nil {
		b = binary.BigEndian.AppendUint64(b, uint64(len(e.Body)))
		h.Write(b)
		h.Write(e.Body)
	} else {
		h.Write(append(b, e.Commitment[:]...))
	}
	h.Write(e.Prev[:])
	return Hash(h.Sum(nil))
}

// commit is the commitment to a body: SHA-256 of bodyDomain, the salt, the
// body's length and the body.
func commit(salt, body []byte) Hash {
	b := make([]byte, 0, len(bodyDomain)+saltLength+8)
	b = append(append(b, bodyDomain...), salt...)
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(b, uint64(len(body))))
	h.Write(body)
	return Hash(h.Sum(nil))
}

// Erased reports whether the event's body was taken away.
func (e *Event) Erased() bool { return e.Body == nil }

// Intact reports whether the event is what was written: its hash is that of
// its fields, and its body, where there is one, what it commits to.
func (e *Event) Intact() bool {
	if e.Sum() != e.Hash {
		return false
	}
	return e.Commitment == nil || e.Erased() || commit(e.Salt, e.Body) == *e.Commitment
}

func appendText(b []byte, text string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
	return append(b, text...)
}

// Link makes e the event after head, of version 2: it gives it its number,
// salt, commitment, link and hash.
func (e *Event) Link(head Head) {
	e.Salt = make([]byte, saltLength)
	rand.Read(e.Salt)
	sum := commit(e.Salt, e.Body)
	e.Commitment = &sum
	e.Seq = head.Seq + 1
	e.Prev = head.Hash
	e.Hash = e.Sum()
}

// Stored returns the event as it is to be stored.
func (e *Event) Stored() Stored {
	s := Stored{
		Chain: e.Chain, Seq: e.Seq, Kind: int64(e.Kind), CallID: e.CallID, Instance: e.Instance,
		At: e.At.UnixNano(), Body: e.Body, Prev: e.Prev[:], Hash: e.Hash[:], Salt: e.Salt, Pruned: e.Pruned,
	}
	if e.Commitment != nil {
		s.Commitment = e.Commitment[:]
	}
	return s
}

// DecodeEvent makes an event of what a store holds and checks its form: that
// every field could have been written by this package. It does not check the
// hashes (see [Event.Intact]) and not the body's members. An error wraps
// ErrMalformed; then the event is the zero value. The body is not copied.
func DecodeEvent(s Stored) (Event, error) {
	for _, check := range storedChecks() {
		if !check.ok(&s) {
			return Event{}, fmt.Errorf("%w: %s", ErrMalformed, check.what)
		}
	}
	e := Event{
		Chain: s.Chain, Seq: s.Seq, Kind: Kind(s.Kind), CallID: s.CallID, Instance: s.Instance,
		At: time.Unix(0, s.At).UTC(), Prev: Hash(s.Prev), Hash: Hash(s.Hash), Pruned: s.Pruned,
	}
	if len(s.Body) > 0 {
		e.Body, e.Salt = s.Body, s.Salt
	}
	if len(s.Commitment) > 0 {
		sum := Hash(s.Commitment)
		e.Commitment = &sum
	} else {
		e.Salt = nil
	}
	return e, nil
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
		{"the call's id is no UUIDv7, or there is one where none belongs", func(s *Stored) bool {
			return Kind(s.Kind).OfCall() && isID(s.CallID) || !Kind(s.Kind).OfCall() && s.CallID == ""
		}},
		{"the instance's id is not 1 to 128 bytes of UTF-8", func(s *Stored) bool { return isWord(s.Instance) }},
		{"a hash is not 32 bytes", func(s *Stored) bool { return len(s.Prev) == 32 && len(s.Hash) == 32 }},
		{"body, salt and commitment do not belong together", func(s *Stored) bool { return isWhole(s) }},
		{"the body is not a JSON object of at most 2 MiB on one line", func(s *Stored) bool { return len(s.Body) == 0 || isBody(s.Body) }},
	}
}

// isWhole reports whether a stored event has the parts of version 1 (a body
// alone), of version 2, or of version 2 without its body.
func isWhole(s *Stored) bool {
	body, salt := len(s.Body) > 0, len(s.Salt)
	switch len(s.Commitment) {
	case 0:
		return body && salt == 0 && s.Pruned == 0
	case len(Hash{}):
		return body && salt == saltLength && s.Pruned == 0 || !body && salt == 0 && s.Pruned > s.Seq
	}
	return false
}

func isWord(s string) bool { return s != "" && len(s) <= maxWord && utf8.ValidString(s) }

func isBody(b []byte) bool {
	return len(b) >= 2 && len(b) <= MaxBody && b[0] == '{' && b[len(b)-1] == '}' &&
		bytes.IndexByte(b, '\n') < 0 && utf8.Valid(b) && json.Valid(b)
}
