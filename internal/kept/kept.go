// Package kept says what a daemon keeps of calls for who comes back for them:
// calls with an idempotency key, and calls that are read later by id.
//
//	Begin   durable before the intent, and so before anything of the call runs
//	Finish  the answer, durable before it is sent
//	        (or that it was refused: nothing ran, and its key is free again)
//	Lose    at the start of a daemon: what the one before it did not finish
//
// So a key never stands for two calls that ran, whoever dies in between. What is
// kept is bounded three ways: by time (Sweep), by calls of a team (Begin
// refuses), and by bytes (Finish lets go of the oldest answers of the team that
// has the most; the calls stay, so that their keys hold). What the log erases of
// a call goes with it.
package kept

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/callcell/callcell/envelope"
)

// ErrFull means that a team has as many calls kept as it may have.
var ErrFull = errors.New("kept: the team has too many calls that are kept")

// MaxCalls is how many calls of one team are kept at once.
const MaxCalls = 1 << 16

// State is how far a call is. The zero value is invalid.
type State uint8

// The states. Their numbers are in the store.
const (
	Runs   State = iota + 1 // or its answer could not be written yet
	Done                    // it has its answer
	Lost                    // its daemon died before there was an answer
	Erased                  // what it was is gone; that there was one is not
)

// A Name is what an idempotency key is known by. The zero value is none.
type Name [sha256.Size]byte

// NameOf makes a Name of a key's id, the address that was asked, and the
// idempotency key.
func NameOf(key, path, idempotency string) Name {
	h := sha256.New()
	for _, text := range []string{"callcell.kept.name.v1", key, path, idempotency} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	return Name(h.Sum(nil))
}

// A Call is what is kept of one.
type Call struct {
	ID      string
	Key     string // id of the key that made it
	Team    string
	Name    Name              // zero: it has no idempotency key
	Digest  [sha256.Size]byte // of the request
	Task    string
	Tool    string
	State   State
	Began   time.Time
	Ended   time.Time        // zero: it runs
	Outcome envelope.Outcome // of one that is done
	Reason  envelope.Reason  // of one that was refused; it has no name
	// Size is how many bytes the answer has, Result the answer as JSON. Result
	// is nil where it is not asked for, is not there yet, was too large, or was
	// let go of.
	Size   int64
	Result []byte
}

// Store keeps calls. Its methods may be called concurrently. What a method has
// written is durable when it returns nil. storetest.RunKept holds an
// implementation to what is written here.
type Store interface {
	// Begin notes a call that is about to run. It wraps ErrFull where the team
	// has MaxCalls already.
	Begin(ctx context.Context, c Call) error
	// Finish notes how a call that runs has ended, and its answer, and lets go
	// of the oldest answers until all together have at most most bytes. Of c it
	// takes ID, Ended, Outcome, Reason, Size and Result. With a Reason the call
	// loses its name. Of a call that does not run it is nothing.
	Finish(ctx context.Context, c Call, most int64) error
	// Drop forgets a call.
	Drop(ctx context.Context, id string) error
	// Lose makes every call that runs a lost one, ended now, and returns how
	// many there were. It is for who alone serves the store.
	Lose(ctx context.Context, now time.Time) (int64, error)
	// Named returns the call of a name, without its answer, and whether there is
	// one.
	Named(ctx context.Context, name Name) (Call, bool, error)
	// Read returns a call, with its answer where that is asked for, and whether
	// there is one.
	Read(ctx context.Context, id string, answer bool) (Call, bool, error)
	// List returns the calls of a key that are not erased, without their
	// answers, newest id first, at most limit.
	List(ctx context.Context, key string, limit int) ([]Call, error)
	// Sweep forgets calls that ended before a time, at most limit, and reports
	// whether there may be more.
	Sweep(ctx context.Context, before time.Time, limit int) (more bool, err error)
}
