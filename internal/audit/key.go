package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Signer signs receipts and checkpoints. It is called concurrently.
type Signer interface {
	// Public returns the key that the signatures are checked with.
	Public() PublicKey
	// Sign returns the Ed25519 signature of a message.
	Sign(message []byte) []byte
}

// PublicKey is what signatures of a log are checked with.
type PublicKey [ed25519.PublicKeySize]byte

const keyPrefix = "ed25519:"

// String returns the key as it is handed around: ed25519: and base64.
func (k PublicKey) String() string { return keyPrefix + base64.StdEncoding.EncodeToString(k[:]) }

// ID returns a short name of the key: 16 hexadecimal digits.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(append([]byte("callcell.audit.key.v1\x00"), k[:]...))
	return hex.EncodeToString(sum[:8])
}

// ParsePublicKey parses what String returns. An error wraps ErrKey.
func ParsePublicKey(text string) (k PublicKey, err error) {
	coded, ok := strings.CutPrefix(text, keyPrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(coded)
	if !ok || err != nil || len(raw) != len(k) || base64.StdEncoding.EncodeToString(raw) != coded {
		return PublicKey{}, fmt.Errorf("%w: %.80q: want %s and 44 characters of base64", ErrKey, text, keyPrefix)
	}
	return PublicKey(raw), nil
}

// Key is a private key. It prints as its public half.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key of a secret seed. It keeps no reference to it.
func NewKey(seed [ed25519.SeedSize]byte) *Key { return &Key{ed25519.NewKeyFromSeed(seed[:])} }

// Public implements Signer.
func (k *Key) Public() PublicKey { return PublicKey(k.private.Public().(ed25519.PublicKey)) }

// Sign implements Signer.
func (k *Key) Sign(message []byte) []byte { return ed25519.Sign(k.private, message) }

// String returns the public key.
func (k *Key) String() string { return k.Public().String() }

// GoString returns the public key.
func (k *Key) GoString() string { return k.String() }

// verifies reports whether a signature, in base64, is the key's of a message.
func (k PublicKey) verifies(message []byte, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	return err == nil && ed25519.Verify(k[:], message, raw)
}

// signed returns the signature of a message, in base64.
func signed(s Signer, message []byte) string {
	return base64.StdEncoding.EncodeToString(s.Sign(message))
}

// receiptMessage is what the signature of a receipt is over: a domain, chain,
// instance, sequence number and head. Integers and lengths are 8 bytes,
// big-endian.
func receiptMessage(chain, instance string, seq int64, head Hash) []byte {
	b := []byte("callcell.audit.receipt.v1\x00")
	b = appendText(appendText(b, chain), instance)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	return append(b, head[:]...)
}

// receipt makes the receipt of an event.
func (l *Log) receipt(e *Event) envelope.Receipt {
	r := e.receipt()
	if l.signer != nil {
		r.Key = l.signer.Public().ID()
		r.Signature = signed(l.signer, receiptMessage(e.Chain, e.Instance, e.Seq, e.Hash))
	}
	return r
}

// receipt returns the event as a receipt without a signature.
func (e *Event) receipt() envelope.Receipt {
	return envelope.Receipt{Chain: e.Chain, Instance: e.Instance, Seq: e.Seq, Head: e.Hash.String()}
}

// CheckReceipt checks that a receipt was signed with a key. It says nothing of
// any store. Errors wrap ErrReceipt or ErrSignature.
func CheckReceipt(r envelope.Receipt, key PublicKey) error {
	head, err := parseHash(r.Head)
	switch {
	case err != nil:
		return err
	case r.Seq < 1 || !isWord(r.Chain) || !isWord(r.Instance):
		return fmt.Errorf("%w: event %d of chain %.40q, instance %.40q", ErrReceipt, r.Seq, r.Chain, r.Instance)
	case r.Signature == "":
		return fmt.Errorf("%w: the receipt of event %d has none", ErrSignature, r.Seq)
	case !key.verifies(receiptMessage(r.Chain, r.Instance, r.Seq, head), r.Signature):
		return fmt.Errorf("%w: the receipt of event %d was not signed with key %s", ErrSignature, r.Seq, key.ID())
	}
	return nil
}
