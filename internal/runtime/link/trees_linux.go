package link

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// storePatience bounds a request of the store that waits for no unpacker: a
// large tree is written to the disk, or removed, in minutes where the disk is
// slow.
const storePatience = 10 * time.Minute

// Trees is the store of roots for cells, which belongs to the launchers: it is
// one, whichever of them is asked. It is safe for concurrent use.
type Trees struct {
	launchers *Launchers
	owner     string
}

// Trees returns the store as an owner has it: a tree stays as long as one owner
// has not removed it. It is 1 to 64 digits of hexadecimal.
func (r *Launchers) Trees(owner string) *Trees { return &Trees{r, owner} }

// TreeRequest is what is asked of one tree.
type TreeRequest struct {
	Bytes, Entries int64 // the most that it may hold, within launcher.conf's own
	Dir            bool  // as a directory
	EROFS          bool  // as an EROFS image
	MountPoints    bool  // with what a cell's root is mounted on
}

// Tree is one tree of the store.
type Tree struct {
	Digest         string // sha256:HEX
	Bytes, Entries int64  // on disk; of its directory
	Dir, EROFS     bool
	Kept           time.Time
	Owned          bool // by the owner who asks
}

// Staged is a tree that was unpacked and is not in the store yet. One of its
// methods is called, once. It goes with its launcher.
type Staged struct {
	link *link
	id   string
	hex  string

	owner string
}

// Unpack makes a tree of a tar stream, which is the end of a pipe for reading
// and is closed in any case. It returns when the stream has ended, what became of
// it on the disk, and the unpacker's own words. When ctx ends the unpacker is
// ended. An error is an *UnpackError where the stream is at fault, or a
// *cell.Error; then nothing is left.
func (t *Trees) Unpack(ctx context.Context, stream *os.File, ask TreeRequest) (*Unpacked, *Staged, error) {
	const step = "unpack a tree"
	defer stream.Close()
	if err := ctx.Err(); err != nil {
		return nil, nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	l, err := t.launchers.serving(ctx, wantStore, step)
	if err != nil {
		return nil, nil, err
	}
	staged := &Staged{link: l, id: newID(), owner: t.owner}
	unpacked, err := staged.unpack(ctx, stream, ask, step)
	if err != nil {
		l.doneStore()
		return nil, nil, err
	}
	staged.hex = strings.TrimPrefix(unpacked.Digest, "sha256:")
	return unpacked, staged, nil
}

func (s *Staged) unpack(ctx context.Context, stream *os.File, ask TreeRequest, step string) (*Unpacked, error) {
	in, err := duplicate(stream)
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	_ = unix.SetNonblock(in, false) // the unpacker waits for it; a fault of it is the launcher's to find
	r, w, err := os.Pipe()
	if err != nil {
		unix.Close(in)
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	defer r.Close()
	answers, err := s.link.ask(&wire.Unpack{ID: s.id, Bytes: ask.Bytes, Entries: ask.Entries, Dir: ask.Dir, EROFS: ask.EROFS, Mountpoints: ask.MountPoints},
		in, int(w.Fd()))
	unix.Close(in)
	stream.Close() // or who writes it would not see the unpacker's end
	w.Close()
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(r, mostSaid+1)) // what is missing is found with the text
		said <- text
	}()
	a, ok := s.await(ctx, answers)
	_ = r.SetReadDeadline(time.Now().Add(lastWords)) // the poller has it: it cannot fail
	text := <-said
	if !ok {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: ErrLauncher}
	}
	a.Close()
	return s.outcome(ctx, a.Body, text, step)
}

// lastWords bounds the reading of what an unpacker has written that has ended:
// nobody else has the pipe, so that it is met only where this process stands still.
const lastWords = 20 * time.Second

// await returns the answer to Unpack, and ends the unpacker when ctx ends.
func (s *Staged) await(ctx context.Context, answers <-chan Answer) (Answer, bool) {
	select {
	case a, ok := <-answers:
		return a, ok
	case <-ctx.Done():
	}
	_ = s.Drop(context.WithoutCancel(ctx)) // it may have ended
	a, ok := <-answers
	return a, ok
}

// outcome reads the answer to Unpack. Where it was not a good one nothing is
// left.
func (s *Staged) outcome(ctx context.Context, body wire.Body, said []byte, step string) (*Unpacked, error) {
	switch b := body.(type) {
	case *wire.Failed:
		return nil, Refused(b, step)
	case *wire.Unpacked:
		u, err := outcome(b, said)
		var fault *UnpackError
		if ctx.Err() != nil && !errors.As(err, &fault) { // what it ended of by itself is said in any case
			u, err = nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: context.Cause(ctx)}
		}
		if err != nil && b.Status == 0 && b.Cause == wire.CauseNone {
			_ = s.drop() // it ended well, and nobody wants it, or it said nothing good
		}
		return u, err
	}
	return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: wire.ErrMalformed}
}

// Keep puts the tree into the store. It returns when it is on the disk, within
// minutes, whatever ctx says. Where it is there already nothing more is kept.
func (s *Staged) Keep(context.Context) error {
	defer s.link.doneStore()
	_, err := s.link.store(&wire.Keep{ID: s.id, Digest: s.hex, Owner: s.owner}, "keep a tree")
	return err
}

// Drop removes the tree. It is bounded.
func (s *Staged) Drop(context.Context) error {
	if s.hex == "" { // Unpack is under way, and does it
		return s.drop()
	}
	defer s.link.doneStore()
	return s.drop()
}

func (s *Staged) drop() error {
	_, err := s.link.store(&wire.Drop{ID: s.id}, "drop a tree")
	return err
}

// List returns every tree.
func (t *Trees) List(ctx context.Context) ([]Tree, error) {
	const step = "list the trees"
	a, err := t.ask(ctx, &wire.Trees{Owner: t.owner}, step)
	if err != nil {
		return nil, err
	}
	text, err := content(a)
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	var all []Tree
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 7 || !wire.IsDigest(f[0]) {
			return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: wire.ErrMalformed}
		}
		bytes, err1 := strconv.ParseInt(f[1], 10, 64)
		entries, err2 := strconv.ParseInt(f[2], 10, 64)
		kept, err3 := strconv.ParseInt(f[5], 10, 64)
		if errors.Join(err1, err2, err3) != nil {
			return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: wire.ErrMalformed}
		}
		all = append(all, Tree{Digest: "sha256:" + f[0], Bytes: bytes, Entries: entries, Dir: f[3] == "d", EROFS: f[4] == "e", Kept: time.Unix(kept, 0), Owned: f[6] == "o"})
	}
	return all, nil
}

// mostListed bounds a listing, in bytes: a hundred for each tree.
const mostListed = 16 << 20

// content reads the one descriptor of a Found.
func content(a Answer) ([]byte, error) {
	found, ok := a.Body.(*wire.Found)
	if !ok || len(a.FDs) != 1 || found.Size < 0 || found.Size > mostListed {
		a.Close()
		return nil, wire.ErrMalformed
	}
	f := os.NewFile(uintptr(a.FDs[0]), "listing")
	defer f.Close()
	b := make([]byte, found.Size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, found.Size), b)
	return b, err
}

// Remove takes the owner off a tree, and the tree out of the store where it has
// no other: ErrInUse where cells have it, ErrNoTree where it is not there, or not
// the owner's.
func (t *Trees) Remove(ctx context.Context, digest string) error {
	a, err := t.ask(ctx, &wire.Remove{Digest: strings.TrimPrefix(digest, "sha256:"), Owner: t.owner}, "remove a tree")
	if err != nil {
		return err
	}
	a.Close()
	return nil
}

// Open opens a file of a tree for reading: ErrNoTree where the tree is not there,
// or not in that form.
func (t *Trees) Open(ctx context.Context, digest string, file wire.TreeFile) (*os.File, error) {
	const step = "open a tree"
	a, err := t.ask(ctx, &wire.OpenTree{Digest: strings.TrimPrefix(digest, "sha256:"), File: file}, step)
	if err != nil {
		return nil, err
	}
	if _, ok := a.Body.(*wire.Found); !ok || len(a.FDs) != 1 {
		a.Close()
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: wire.ErrMalformed}
	}
	return os.NewFile(uintptr(a.FDs[0]), digest), nil
}

// ask asks any launcher.
func (t *Trees) ask(ctx context.Context, body wire.Body, step string) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	l, err := t.launchers.serving(ctx, wantStore, step)
	if err != nil {
		return Answer{}, err
	}
	defer l.doneStore()
	return l.store(body, step)
}

// store makes a request of the store, which is bounded. A failure is a
// *cell.Error.
func (l *link) store(body wire.Body, step string) (Answer, error) {
	defer l.bound(storePatience)()
	ch, err := l.ask(body)
	if err != nil {
		return Answer{}, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	a, ok := <-ch
	if !ok {
		return Answer{}, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: ErrLauncher}
	}
	if f, failed := a.Body.(*wire.Failed); failed {
		a.Close()
		return Answer{}, Refused(f, step)
	}
	return a, nil
}

// newID returns an id that nobody has.
func newID() string {
	b := make([]byte, 18)
	_, _ = rand.Read(b) // it does not fail
	return hex.EncodeToString(b)
}
