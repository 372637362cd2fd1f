package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Runner runs one call in a cell of its own and hears what it writes.
type Runner func(ctx context.Context, call *envelope.Call, stdout, stderr io.Writer) *envelope.Result

// Maker makes images. Its methods may be called concurrently.
type Maker struct {
	Index *Index
	Trees Trees
	Now   func() time.Time
	// Most bounds all trees together, in bytes.
	Most   int64
	Limits Limits // of one tree
	// Heard is told of the bytes of the stream so far; nil: nobody is. It is
	// called from one goroutine at a time and must not block.
	Heard func(bytes int64)
	// Words hears what the call writes to standard error, as it comes: data of
	// a stranger; nil: nobody does.
	Words io.Writer
}

// Made is an image that was made, and the call that made it.
type Made struct {
	Record *Record
	Result *envelope.Result // nil for a snapshot
	// Changes are what is otherwise than in the lock that was given, or in the
	// image that was there before.
	Changes []string
}

// Make runs the call of a plan and records what came of it. On an error what
// was there before is as it was. A call that was refused or failed is in Made
// beside the error.
func (m *Maker) Make(ctx context.Context, p *Plan, run Runner) (*Made, error) {
	unlock, err := m.Index.lock(ctx, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	made := &Made{}
	log := newKept(m.Words)
	unpacked, staged, err := m.stream(ctx, p.Name, p.Forms, func(ctx context.Context, w io.Writer) error {
		made.Result = run(ctx, p.Call, w, log)
		return failedCall(p.Name, made.Result, log)
	})
	if err != nil {
		return made, err
	}
	if p.base != "" && made.Result.Image != p.base {
		return made, errors.Join(&Error{Kind: KindInUse, Name: p.Name, Msg: "its base was made anew before the cell was built", Hint: "build it again, on what the base is now"}, staged.Drop(ctx))
	}
	record, err := p.record(made.Result)
	if err != nil {
		return made, errors.Join(&Error{Kind: KindProgram, Name: p.Name, Msg: "what it says of itself is malformed", Err: err}, staged.Drop(ctx))
	}
	record.Call = made.Result.ID
	if p.added {
		record.Added = unpacked.Digest
		record.Lock.Added = unpacked.Digest
	} else {
		record.Tree = unpacked.Digest
	}
	if err := m.keepLog(record, log); err != nil {
		return made, errors.Join(err, staged.Drop(ctx))
	}
	made.Record = record
	return made, m.keep(ctx, record, unpacked, staged)
}

// keep keeps the tree first: a tree that no record names is garbage, and a
// record whose tree is missing is a fault.
func (m *Maker) keep(ctx context.Context, r *Record, u Unpacked, s Staged) error {
	if err := m.fits(ctx, r.Name, u); err != nil {
		return errors.Join(err, s.Drop(ctx))
	}
	if err := s.Keep(ctx); err != nil {
		return &Error{Kind: KindStore, Name: r.Name, Msg: "its tree cannot be kept", Err: err}
	}
	r.Version, r.Bytes, r.Entries, r.Dropped, r.Made = 1, u.Bytes, u.Entries, u.Dropped, m.Now().UTC()
	return m.Index.Put(r)
}

// answer is what Trees.Unpack returns.
type answer struct {
	unpacked Unpacked
	staged   Staged
	err      error
}

// stream makes a tree of what write writes.
func (m *Maker) stream(ctx context.Context, name string, forms Forms, write func(context.Context, io.Writer) error) (Unpacked, Staged, error) {
	limits, err := m.room(ctx, name)
	if err != nil {
		return Unpacked{}, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return Unpacked{}, nil, &Error{Kind: KindStore, Name: name, Msg: "no pipe", Err: err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.unpacked, a.staged, a.err = m.Trees.Unpack(ctx, r, limits, forms)
		if a.err != nil {
			cancel(a.err) // nobody reads what comes now
		}
		done <- a
	}()
	counter := &counted{w: w, heard: m.Heard}
	failed := write(ctx, counter)
	if failed != nil {
		cancel(failed) // before its end is seen, which would look like a good one
	}
	w.Close()
	a := <-done
	switch {
	case a.err != nil && (failed == nil || counter.refused.Load() || errors.Is(context.Cause(ctx), a.err)):
		return Unpacked{}, nil, a.err // the stream was refused first, and the call ended of that
	case failed != nil && a.err == nil:
		failed = errors.Join(failed, a.staged.Drop(context.WithoutCancel(ctx)))
		fallthrough
	case failed != nil:
		return Unpacked{}, nil, failed
	}
	return a.unpacked, a.staged, nil
}

// fits refuses a tree that is more than there is room for now: it may stand in
// two forms, and others were kept while it was made.
func (m *Maker) fits(ctx context.Context, name string, u Unpacked) error {
	used, there, err := m.used(ctx, u.Digest)
	if err == nil && !there && u.Bytes > m.Most-used {
		err = m.full(name, fmt.Sprintf("it has %d bytes on the disk, and the store holds %d of %d", u.Bytes, used, m.Most))
	}
	return err
}

// used is what the store holds, and whether a tree is in it.
func (m *Maker) used(ctx context.Context, digest string) (bytes int64, there bool, err error) {
	trees, err := m.Trees.List(ctx)
	for _, t := range trees {
		bytes += t.Bytes
		there = there || t.Digest == digest
	}
	return bytes, there, err
}

func (*Maker) full(name, msg string) error {
	return &Error{Kind: KindQuota, Name: name, Msg: msg, Hint: "callcell image gc, callcell image rm, or more of images.bytes"}
}

// room is what one more tree may have.
func (m *Maker) room(ctx context.Context, name string) (Limits, error) {
	used, _, err := m.used(ctx, "")
	if err != nil {
		return Limits{}, err
	}
	if used >= m.Most {
		return Limits{}, m.full(name, fmt.Sprintf("the store holds %d bytes of %d", used, m.Most))
	}
	limits := m.Limits
	limits.Bytes = min(limits.Bytes, m.Most-used)
	return limits, nil
}

// failedCall says why a call made no image, or nil.
func failedCall(name string, r *envelope.Result, log *kept) error {
	switch {
	case r.Refusal != nil:
		return r.Refusal
	case r.OK():
		return nil
	}
	how := r.Outcome.String()
	if r.Outcome == envelope.OutcomeCompleted {
		how = fmt.Sprintf("status %d", r.Exit.Code)
	}
	msg := "what makes it failed (" + how + ")"
	said := log.complaint()
	if said != "" {
		msg += ": " + said
	}
	if hosts, mend := denied(r.Egress); hosts != "" {
		return &Error{Kind: KindProgram, Name: name, Msg: msg + "; it may not reach " + hosts,
			Hint: "where it is to: " + mend + "; the row has each attempt and why it was denied"}
	}
	return &Error{Kind: KindProgram, Name: name, Msg: msg, Hint: hintOf(said)}
}

// denied names the first few hosts that a call was denied, each once, and says how
// they are allowed: what kept packages away is seldom what a package manager
// complains about.
func denied(e *envelope.Egress) (list, mend string) {
	const most, width = 3, 300
	var hosts []string
	if e == nil {
		return "", ""
	}
	mend = "--allow HOST, over HTTP the field allow"
	for _, a := range e.Attempts {
		if a.Verdict != envelope.VerdictDenied {
			continue
		}
		if a.Blocked != "" {
			mend = "--profile NAME, over HTTP the field profile, of a profile whose network.private has " + a.Blocked
		}
		host := fmt.Sprintf("%.*q", width, a.Host)
		if a.Port != 0 {
			host += fmt.Sprintf(", port %d", a.Port)
		}
		if host += " (" + a.Why + ")"; !slices.Contains(hosts, host) && len(hosts) < most {
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, "; "), mend
}

// hintOf is what mends what a program complained about.
func hintOf(said string) string {
	const show = "-v shows all that it printed, over HTTP the job's events"
	if strings.Contains(strings.ToLower(said), "certificate") {
		return "--ca FILE names an authority that is trusted there; " + show
	}
	return show
}

// counted counts what is written.
type counted struct {
	w       io.Writer
	n       atomic.Int64
	refused atomic.Bool // whether nobody took something
	heard   func(int64)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		c.refused.Store(true)
	}
	total := c.n.Add(int64(n))
	if c.heard != nil {
		c.heard(total)
	}
	return n, err
}
