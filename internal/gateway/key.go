package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// SecretPrefix begins every secret, so that scanners of repositories find it.
const SecretPrefix = "cck_"

// secretBytes is the randomness of a secret: 256 bits.
const secretBytes = 32

// Hash is the SHA-256 of a secret: all that is kept of it. A secret is random,
// so nothing slower is needed.
type Hash [sha256.Size]byte

// newSecret returns a secret as it is shown, once.
func newSecret() (string, Hash) {
	var raw [secretBytes]byte
	rand.Read(raw[:]) // does not fail
	text := SecretPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return text, sha256.Sum256([]byte(text))
}

// hashOf returns the hash of what may be a secret.
func hashOf(text string) (Hash, bool) {
	if len(text) != len(SecretPrefix)+base64.RawURLEncoding.EncodedLen(secretBytes) || !strings.HasPrefix(text, SecretPrefix) {
		return Hash{}, false
	}
	return sha256.Sum256([]byte(text)), true
}

// newKeyID returns the name of a key: what rows show. It is no secret.
func newKeyID() string {
	var raw [6]byte
	rand.Read(raw[:])
	return "k_" + hex.EncodeToString(raw[:])
}

// Team pays for calls.
type Team struct {
	Name   string `json:"name"`             // of the team
	Tier   string `json:"tier"`             // that says what it gets
	Tokens int64  `json:"tokens,omitempty"` // a month, instead of the tier's; 0: the tier's
	// Suspended teams call nothing; their keys can still read.
	Suspended bool      `json:"suspended,omitempty"`
	Created   time.Time `json:"created"` // when it was made
}

// Key is who calls.
type Key struct {
	ID       string    `json:"id"`               // as rows show it; it is no secret
	Team     string    `json:"team"`             // that pays
	Label    string    `json:"label,omitempty"`  // what people call it
	Role     Role      `json:"role"`             // what it is for
	Profiles []string  `json:"profiles"`         // that its calls may name; * alone: every one
	Created  time.Time `json:"created"`          // when it was made
	Revoked  time.Time `json:"revoked,omitzero"` // when it was ended; absent: it was not
	// Secrets is how many secrets are valid: two while a rotation overlaps.
	Secrets int `json:"secrets"`
}

// AllProfiles stands for every profile there is.
const AllProfiles = "*"

// May reports whether the key may name a profile.
func (k *Key) May(profile string) bool {
	return slices.Contains(k.Profiles, AllProfiles) || slices.Contains(k.Profiles, profile)
}

// Secret is one secret of a key.
type Secret struct {
	Hash    Hash
	Key     string
	Created time.Time
	Expires time.Time // zero: never
}

func (s *Secret) valid(now time.Time) bool { return s.Expires.IsZero() || now.Before(s.Expires) }

// Directory is every team, key and secret there is.
type Directory struct {
	Generation int64 // grows with every change
	Teams      []Team
	Keys       []Key
	Secrets    []Secret
}

// MaxLabel bounds a key's label, in bytes.
const MaxLabel = 128

// word is the form of a team's name: it can stand in an address and a row.
var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`) })

func checkTeamName(name string) error {
	if !word().MatchString(name) {
		return &FieldError{ErrInvalid, "team", "not a name for a team", "use a-z, 0-9, - and _, at most 64 of them"}
	}
	return nil
}

func checkLabel(label string) error {
	hidden := strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) })
	if len(label) > MaxLabel || !utf8.ValidString(label) || hidden {
		return &FieldError{ErrInvalid, "label", "not a label", "at most 128 bytes of characters that can be seen"}
	}
	return nil
}

func checkProfiles(profiles []string) error {
	for _, p := range profiles {
		if p != AllProfiles && !word().MatchString(p) {
			return &FieldError{ErrInvalid, "profiles", "not the name of a profile", "use a-z, 0-9 and -, or * for every profile"}
		}
	}
	if len(profiles) > 64 {
		return &FieldError{ErrInvalid, "profiles", "more than 64", "use * for every profile"}
	}
	return nil
}
