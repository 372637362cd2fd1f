package assembly

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/audit/anchor"
	"github.com/callcell/callcell/internal/audit/keyfile"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/store"
)

// anchorTime bounds what an anchor may take of a process that ends.
const anchorTime = 2 * time.Second

// LogWatch is a broker.Watch that hears what the log's background work could
// not do: a lease that could not be renewed, an anchor that is dead. It is
// called from other goroutines than those of calls, and must not block.
type LogWatch interface {
	// Log says one thing, in a line.
	Log(text string)
}

// OpenLog opens the audit log alone, for who reads it, and for who erases. An
// error of the log is a *LogError.
func OpenLog(ctx context.Context, c *config.Config) (*House, error) {
	h := &House{}
	o, err := logOptions(c)
	if err != nil {
		return nil, err
	}
	if err := h.openStore(ctx, c, o); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

// LogKey returns the public key of the host's log, and makes the key where
// there is none; the state directory must be there. An error is a *LogError.
func LogKey(c *config.Config) (audit.PublicKey, error) {
	key, err := keyfile.Load(c.KeyFile())
	if err != nil {
		return audit.PublicKey{}, &LogError{State: c.State, Err: err}
	}
	return key.Public(), nil
}

// openLog opens the log to be written: with a key that signs, and anchors.
func (h *House) openLog(ctx context.Context, c *config.Config, watch broker.Watch) error {
	o, err := logOptions(c)
	if err != nil {
		return err
	}
	say := func(string) {}
	if w, ok := watch.(LogWatch); ok {
		say = w.Log
	}
	o.Failed = seldom(func(err error) { say("the audit log: " + err.Error()) })
	anchors, err := anchorsOf(c)
	if err != nil {
		return err
	}
	h.anchors = anchor.NewSet(anchors, say)
	o.Publish = h.anchors.Publish
	return h.openStore(ctx, c, o)
}

// faultEvery is how often the same fault of the background work is told.
const faultEvery = time.Minute

// seldom leaves out faults that say what the one before said. It is called from
// one goroutine.
func seldom(tell func(error)) func(error) {
	var last string
	var at time.Time
	return func(err error) {
		if text := err.Error(); text != last || time.Since(at) >= faultEvery {
			last, at = text, time.Now()
			tell(err)
		}
	}
}

// AnchorStats returns how each anchor does.
func (h *House) AnchorStats() []anchor.Stat {
	if h.anchors == nil {
		return nil
	}
	return h.anchors.Stats()
}

// openStore opens the store, and the log over it. The state directory is there
// after it, so that a key can be made in it.
func (h *House) openStore(ctx context.Context, c *config.Config, o audit.Options) (err error) {
	if h.db, err = store.Open(ctx, filepath.Join(c.State, "audit.db")); err != nil {
		return &LogError{State: c.State, Err: err}
	}
	if o.Publish != nil {
		key, err := keyfile.Load(c.KeyFile())
		if err != nil {
			return &LogError{State: c.State, Err: err}
		}
		o.Signer = key
	}
	if h.Log, err = audit.New(h.db.Audit(), o); err != nil {
		return &LogError{State: c.State, Err: err}
	}
	h.Blobs = newBlobs(c)
	h.Workspaces = newKeeper(c, h.db, h.Blobs)
	return nil
}

func logOptions(c *config.Config) (audit.Options, error) {
	mode, err := argumentMode(c.Audit.Arguments)
	return audit.Options{
		Arguments: mode, CheckpointEvents: int64(c.Audit.Checkpoint.Events),
		CheckpointEvery: c.Audit.Checkpoint.Every.Std(), Window: c.Audit.Counters.Std(),
	}, err
}

func argumentMode(word string) (audit.ArgumentMode, error) {
	switch word {
	case config.ArgumentsKept:
		return audit.ArgumentsKept, nil
	case config.ArgumentsDigested:
		return audit.ArgumentsDigested, nil
	case config.ArgumentsDropped:
		return audit.ArgumentsDropped, nil
	}
	return 0, fmt.Errorf("assembly: audit.arguments %q", word)
}

// anchorsOf makes the anchors of a configuration. An error is of it.
func anchorsOf(c *config.Config) (list []anchor.Anchor, err error) {
	for i, a := range c.Audit.Anchors {
		made, err := anchorOf(a)
		if err != nil {
			return nil, c.Locate(&envelope.FieldError{Reason: envelope.ReasonRequest, Field: fmt.Sprintf("audit.anchors[%d]", i),
				Msg: err.Error(), Hint: "an anchor is a file, a syslog collector or an https address"})
		}
		list = append(list, made)
	}
	return list, nil
}

func anchorOf(a config.Anchor) (anchor.Anchor, error) {
	roots, err := authorities(a.Roots)
	if err != nil {
		return nil, err
	}
	switch {
	case a.File != "":
		return anchor.NewFile(a.File)
	case a.Syslog != "":
		return anchor.NewSyslog(a.Syslog, roots)
	}
	return anchor.NewHTTP(a.HTTP, roots)
}

// closeAnchors hands on what waits, bounded: who ends does not wait long for a
// dead one, and the next checkpoint covers this one.
func (h *House) closeAnchors(ctx context.Context) error {
	if h.anchors == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, anchorTime)
	defer cancel()
	return h.anchors.Close(ctx)
}
