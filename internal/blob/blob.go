// Package blob keeps bytes by their digest, in a directory, for teams that do
// not see each other.
//
//	data/ab/cdef...       the bytes, once, whoever has them
//	teams/TEAM/abcdef...  a hard link to them: that team has them
//	marks/TEAM/ab/abcd... that team keeps it for itself, since the file's time
//	sums/TEAM             how much that team has, until somebody changes it
//	new/...               what is being written
//	incoming/...          what is being received, each file locked meanwhile
//	lock                  shared while something is written, exclusive for GC
//
// A team has what it has put, and nothing else: whoever knows a digest and not
// the bytes gets the same answer for what others have and for what nobody has.
// Bytes that no team has any more are those with one link, and GC removes them;
// a process that is killed at any point leaves no more than that behind.
//
// What a team has stays as long as somebody says so at a GC: a version of a
// workspace, or the team itself, which keeps what it has put by hand until it
// lets go of it, or for a time.
package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// The sentinels of this package.
var (
	// ErrNotFound means that the team does not have it.
	ErrNotFound = errors.New("blob: not there")
	// ErrCorrupt means that the bytes are not those that were put.
	ErrCorrupt = errors.New("blob: the bytes on disk are not those that were put")
	// ErrQuota means that the team would have more than it may.
	ErrQuota = errors.New("blob: over the team's quota")
	// ErrBusy means that the store is being written, or collected, for longer
	// than the context allows.
	ErrBusy = errors.New("blob: the store is in use")
	// ErrTooLarge means that a blob is larger than the reader takes.
	ErrTooLarge = errors.New("blob: too large")
	// ErrUnsupported means that this system cannot lock a directory.
	ErrUnsupported = errors.New("blob: not on this system")
)

// Digest is the SHA-256 of a blob.
type Digest [32]byte

// Sum returns the digest of data.
func Sum(data []byte) Digest { return sha256.Sum256(data) }

// String returns 64 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: 64 digits in lower case.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) || hex.EncodeToString(raw) != string(text) {
		return errors.New("blob: not a digest")
	}
	copy(d[:], raw)
	return nil
}

// Parse reads what Name writes.
func Parse(text string) (d Digest, err error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok {
		return d, errors.New("blob: not a digest, which begins with sha256")
	}
	return d, d.UnmarshalText([]byte(digits))
}

// Name is the digest with its kind: sha256:HEX.
func (d Digest) Name() string { return "sha256:" + d.String() }

// Limits bound what one team may have. The zero value of Bytes and Blobs is no
// room at all.
type Limits struct {
	Bytes int64
	Blobs int
	Keep  time.Duration // of what a team keeps for itself, from when it last put it; 0: until it lets go
}

// Kept is a blob that a team keeps for itself.
type Kept struct {
	Digest Digest
	Bytes  int64
	At     time.Time // when it was last put
	Until  time.Time // when it goes by itself; zero: never
}

// DefaultLimits are those of a team where nobody said otherwise.
func DefaultLimits() Limits { return Limits{Bytes: 8 << 30, Blobs: 1_000_000} }

// Store is a directory of blobs. It opens nothing until it is used, and is safe
// for concurrent use, also by several processes.
type Store struct {
	dir    string
	limits Limits
	step   func(string) // hears of every point at which a writer may be killed
}

// New returns the store in dir, which need not be there.
func New(dir string, limits Limits) *Store {
	return &Store{dir: dir, limits: limits, step: func(string) {}}
}

// Usage is what a team has.
type Usage struct {
	Bytes int64 `json:"bytes"`
	Blobs int   `json:"blobs"`
}

// Report is what GC did.
type Report struct {
	Blobs    int   `json:"blobs"`    // that were removed
	Bytes    int64 `json:"bytes"`    // of them
	Kept     int   `json:"kept"`     // blobs that are left
	Released int   `json:"released"` // references of teams that were taken away
}

// maxTeam bounds a team's name, in bytes.
const maxTeam = 100

// teamDir is where a team's references are. Any name makes one directory name
// of its own.
func (s *Store) teamDir(team string) (string, error) {
	if len(team) > maxTeam {
		return "", fmt.Errorf("blob: the name of a team has %d bytes, at most %d", len(team), maxTeam)
	}
	return filepath.Join(s.dir, "teams", "t"+hex.EncodeToString([]byte(team))), nil
}

// markDir is where a team says what it keeps.
func (s *Store) markDir(team string) (string, error) {
	dir, err := s.teamDir(team)
	return filepath.Join(s.dir, "marks", filepath.Base(dir)), err
}

func (s *Store) dataDir(d Digest) string { return filepath.Join(s.dir, "data", d.String()[:2]) }

func (s *Store) dataPath(d Digest) string { return filepath.Join(s.dataDir(d), d.String()[2:]) }
