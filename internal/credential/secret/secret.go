// Package secret holds bytes that nobody is to see by accident.
//
// A [Secret] prints as a mask in every way that a value can be printed: by fmt
// with any verb, by slog, as JSON or text, in an error, a panic, or inside of
// a struct. What it holds is reached through [Secret.Reveal] alone. It hides
// behind a function, because printers that work by reflection follow pointers,
// exported or not, and can look into no function.
//
// The bytes are in a mapping of their own, outside of the garbage collected
// heap: nothing copies them, and [Secret.Destroy] overwrites the one place
// where they are. On Linux that mapping is left out of core dumps and of
// children that are forked, and is not swapped out as far as RLIMIT_MEMLOCK
// goes. The rest is the process's: see [Harden].
//
// What this cannot do: a copy that was made while revealing is out of reach,
// and so are the buffers of crypto/tls and net/http through which a secret came
// or goes. They are overwritten when the collector gives their memory to
// others.
package secret

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// MaxBytes is the most that New takes.
const MaxBytes = 64 << 10

var (
	// ErrEmpty is a secret of no bytes.
	ErrEmpty = errors.New("a secret of no bytes")
	// ErrSize is a secret that is too long.
	ErrSize = errors.New("a secret that is too long")
)

// Secret is a value that prints as a mask. Copies of it are the same secret:
// destroying one destroys all. It may be used by many goroutines. The zero
// Secret holds nothing, like one that was destroyed. Secrets cannot be
// compared with ==: see Equal.
type Secret struct {
	box func() *box // nil: nothing
}

// box is where the bytes are.
type box struct {
	mu      sync.Mutex // guards what follows
	room    []byte     // the mapping; nil when it is gone
	n       int        // of it in use
	users   int        // Reveals under way
	dead    bool       // the last user wipes
	cleanup runtime.Cleanup
}

// New returns a secret of the bytes of value, at most MaxBytes, and overwrites
// value with zeros, also where it fails: with ErrEmpty, ErrSize, or because
// there is no memory.
func New(value []byte) (Secret, error) {
	defer clear(value)
	if len(value) > MaxBytes {
		return Secret{}, ErrSize
	}
	return Make(len(value), func(room []byte) (int, error) { return copy(room, value), nil })
}

// Make returns a secret of what fill writes into room, which is max bytes
// long, and of which it returns how many it used. So a secret can be read
// without a copy of it being anywhere else. fill must not keep room. An error
// of fill is returned as it is, and what it wrote is overwritten.
func Make(max int, fill func(room []byte) (int, error)) (Secret, error) {
	if max <= 0 {
		return Secret{}, ErrEmpty
	}
	room, err := allocate(max)
	if err != nil {
		return Secret{}, fmt.Errorf("memory for a secret: %w", err)
	}
	defer func() { release(room) }() // whatever it is by then: a panic of fill included
	n, err := fill(room[:max:max])
	switch {
	case err != nil:
		return Secret{}, err
	case n <= 0:
		return Secret{}, ErrEmpty
	case n > max:
		return Secret{}, ErrSize
	}
	tight := room
	if roomFor(n) < len(room) {
		if tight, err = allocate(n); err != nil {
			return Secret{}, fmt.Errorf("memory for a secret: %w", err)
		}
		copy(tight, room[:n])
	} else {
		room = nil
	}
	return newSecret(tight, n), nil
}

// newSecret owns room. A secret that is forgotten is overwritten when the
// collector finds that out.
func newSecret(room []byte, n int) Secret {
	b := &box{room: room, n: n}
	b.cleanup = runtime.AddCleanup(b, release, room)
	return Secret{box: func() *box { return b }}
}

// Reveal calls use with the bytes and reports true, or reports false where
// there are none, or none any more. use must neither change nor keep value:
// it is gone after Destroy. Secrets may be destroyed while they are revealed;
// the last of those that use them then overwrites the bytes.
func (s Secret) Reveal(use func(value []byte)) bool {
	if s.box == nil {
		return false
	}
	b := s.box()
	if !b.enter() {
		return false
	}
	defer b.leave()
	use(b.room[:b.n:b.n])
	return true
}

func (b *box) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return false
	}
	b.users++
	return true
}

func (b *box) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users--
	b.wipeLocked()
}

// wipeLocked overwrites the bytes when nobody uses or shall use them.
func (b *box) wipeLocked() {
	if !b.dead || b.users > 0 || b.room == nil {
		return
	}
	b.cleanup.Stop()
	release(b.room)
	b.room, b.n = nil, 0
}

// Destroy overwrites the bytes with zeros and gives the memory back. It may be
// called often, and while the secret is revealed.
func (s Secret) Destroy() {
	if s.box == nil {
		return
	}
	b := s.box()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = true
	b.wipeLocked()
}

// Len is the number of bytes, 0 where there are none any more.
func (s Secret) Len() (n int) {
	s.Reveal(func(value []byte) { n = len(value) })
	return n
}

// Equal reports whether both hold the same bytes. How long it takes tells
// whether they are of one length, and nothing else. What holds nothing equals
// nothing.
func (s Secret) Equal(other Secret) (equal bool) {
	s.Reveal(func(a []byte) {
		other.Reveal(func(b []byte) { equal = subtle.ConstantTimeCompare(a, b) == 1 })
	})
	return equal
}
