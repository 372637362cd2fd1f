// Package assembly puts the house together: it is the one place that knows
// which runtimes and which store there are. The command line and the public
// Go API build on it and see only the broker, the log and reports.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/placement"
	"github.com/callcell/callcell/internal/store"
)

// Options say what a house is built from.
type Options struct {
	Config *config.Config
	// Local is the envelope of a local user, who is the operator of his own
	// calls; it then stands for the default profile. nil: the configuration's.
	Local *envelope.Envelope
	// Watch hears what an operator must hear; nil: nobody.
	Watch broker.Watch
}

// House is everything that a front end needs. Its parts are safe for
// concurrent use.
type House struct {
	Broker *broker.Broker
	Log    *audit.Log

	db       *store.DB
	runtimes *Runtimes
	way      *wayOut // nil where nothing leads out
	issuer   *issuer // nil as way is
}

// Open builds a house over runtimes, which it takes over. On an error they
// are closed. An error of the audit log is a *LogError.
func Open(ctx context.Context, runtimes *Runtimes, o Options) (*House, error) {
	h := &House{runtimes: runtimes}
	if err := h.open(ctx, o); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

func (h *House) open(ctx context.Context, o Options) (err error) {
	if h.db, h.Log, err = openLog(ctx, o.Config); err != nil {
		return err
	}
	return h.assemble(h.Log, o)
}

// assemble puts the broker together over the runtimes and the way out.
func (h *House) assemble(log broker.Recorder, o Options) (err error) {
	c := broker.Config{
		Recorder: log, Profiles: profiles{o.Config, o.Local}, Runtimes: h.runtimes.list(),
		Floors: o.Config.Floors, Watch: o.Watch,
	}
	offers := broker.OffersOf(c.Runtimes)
	for _, offer := range offers {
		delete(offer.Cannot, placement.NeedTree) // every runtime there is can list
	}
	if starter := h.runtimes.starter(); starter != nil {
		if h.way, err = newWayOut(starter, o.Config); err != nil {
			return err
		}
		c.Egress = h.way
		if h.issuer, err = newIssuer(o.Config); err != nil {
			return err
		}
		c.Credentials = h.issuer
		c.Images = images{Index(o.Config)}
		for _, offer := range offers {
			delete(offer.Cannot, placement.NeedNetwork)
			delete(offer.Cannot, placement.NeedCredentials)
			delete(offer.Cannot, placement.NeedImage)
			if offer.Level == envelope.LevelContainer {
				delete(offer.Cannot, placement.NeedMounts)
			}
		}
	}
	price(offers, o.Config.State)
	c.Offers = func() []placement.Offer { return offers }
	h.Broker, err = broker.New(c)
	return err
}

// OpenLog opens the audit log alone, for who only reads it. An error of the
// log is a *LogError.
func OpenLog(ctx context.Context, c *config.Config) (*House, error) {
	db, log, err := openLog(ctx, c)
	if err != nil {
		return nil, err
	}
	return &House{db: db, Log: log}, nil
}

func openLog(ctx context.Context, c *config.Config) (*store.DB, *audit.Log, error) {
	mode, err := argumentMode(c.Audit.Arguments)
	if err != nil {
		return nil, nil, err
	}
	db, err := store.Open(ctx, filepath.Join(c.State, "audit.db"))
	if err != nil {
		return nil, nil, &LogError{State: c.State, Err: err}
	}
	log, err := audit.New(db.Audit(), audit.Options{Arguments: mode})
	if err != nil {
		return nil, nil, &LogError{State: c.State, Err: errors.Join(err, db.Close())}
	}
	return db, log, nil
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

// Close ends the runtimes with every cell, and closes the log.
func (h *House) Close(ctx context.Context) error {
	var errs []error
	if h.way != nil {
		errs = append(errs, h.way.client.Close(ctx))
	}
	if h.issuer != nil {
		errs = append(errs, h.issuer.Close(ctx))
	}
	errs = append(errs, h.runtimes.Close())
	if h.Log != nil {
		errs = append(errs, h.Log.Close(ctx))
	}
	if h.db != nil {
		errs = append(errs, h.db.Close())
	}
	return errors.Join(errs...)
}

// Leave is Close for a process that ends now: it leaves to the kernel and to
// the next process what they do as well. While the runtimes wind down it
// completes the calls of processes that died.
func (h *House) Leave(ctx context.Context) error {
	left := make(chan error, 1)
	go func() { left <- h.runtimes.Leave() }()
	_, err := h.Log.Recover(ctx)
	if h.issuer != nil {
		err = errors.Join(err, h.issuer.Close(ctx))
	}
	err = errors.Join(err, <-left, h.Log.Close(ctx))
	h.db.Leave()
	return err
}

// profiles are the configuration's, and the local user's own in front.
type profiles struct {
	config *config.Config
	local  *envelope.Envelope
}

// Lookup implements broker.Profiles.
func (p profiles) Lookup(name string) (envelope.Envelope, error) {
	if name == "" && p.local != nil {
		return p.local.Clone(), nil
	}
	e, ok := p.config.Profile(name)
	if !ok {
		return envelope.Envelope{}, &broker.NoProfileError{Names: slices.Sorted(maps.Keys(p.config.Profiles))}
	}
	return e, nil
}

// OpenUnrecorded builds a house whose broker can explain and cannot run:
// explaining writes no row, so that it needs no log.
func OpenUnrecorded(runtimes *Runtimes, o Options) (*House, error) {
	h := &House{runtimes: runtimes}
	if err := h.assemble(noRecorder{}, o); err != nil {
		return nil, errors.Join(err, runtimes.Close())
	}
	return h, nil
}

// errUnrecorded refuses what would have to be recorded.
var errUnrecorded = errors.New("assembly: this house has no log, so nothing runs in it")

// noRecorder records nothing, and says so: without an intent nothing runs.
type noRecorder struct{}

func (noRecorder) Intend(context.Context, audit.Intent) error { return errUnrecorded }

func (noRecorder) Complete(context.Context, audit.Ending) (envelope.Receipt, error) {
	return envelope.Receipt{}, errUnrecorded
}

func (noRecorder) Refuse(context.Context, audit.Refused) (envelope.Receipt, error) {
	return envelope.Receipt{}, errUnrecorded
}
