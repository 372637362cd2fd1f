// Package assembly puts the house together: it is the one place that knows
// which runtimes and which store there are. The command line and the public
// Go API build on it and see only the broker, the log and reports.
package assembly

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/audit/anchor"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/placement"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/workspace"
)

// Options say what a house is built from.
type Options struct {
	Config *config.Config
	// Local is the envelope of a local user, who is the operator of his own
	// calls; it then stands for the default profile. nil: the configuration's.
	Local *envelope.Envelope
	// Watch hears what an operator must hear; nil: nobody. A LogWatch hears of
	// the log's background work, too.
	Watch broker.Watch
	// Version is this product's, for traces.
	Version string
}

// House is everything that a front end needs. Its parts are safe for
// concurrent use.
type House struct {
	Broker *broker.Broker
	Log    *audit.Log
	// Workspaces are the trees that live on; nil where there is no log.
	Workspaces *workspace.Keeper
	// Blobs are what teams keep, in workspaces and beside them; nil as
	// Workspaces.
	Blobs   *blob.Store
	Gateway *gateway.Gateway // nil but in a daemon's

	db       *store.DB
	anchors  *anchor.Set // nil where the log is only read
	runtimes *Runtimes
	way      *wayOut // nil where nothing leads out
	issuer   *issuer // nil as way is
	observed observers
	images   images
	parts    broker.Config // that Broker is made of
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
	if err := h.openLog(ctx, o.Config, o.Watch); err != nil {
		return err
	}
	if err := h.observe(o); err != nil {
		return err
	}
	return h.assemble(h.Log, o)
}

// Close ends the runtimes with every cell, writes a last checkpoint, and closes
// the log.
func (h *House) Close(ctx context.Context) error {
	var errs []error
	if h.way != nil {
		errs = append(errs, h.way.client.Close(ctx))
	}
	if h.issuer != nil {
		errs = append(errs, h.issuer.Close(ctx))
	}
	errs = append(errs, h.runtimes.Close())
	if h.Gateway != nil {
		errs = append(errs, h.Gateway.Close(ctx))
	}
	h.closeObservers(ctx)
	if h.Log != nil {
		errs = append(errs, h.Log.Close(ctx))
		if h.anchors != nil {
			errs = append(errs, h.Log.Checkpoint(ctx))
		}
	}
	errs = append(errs, h.closeAnchors(ctx))
	if h.db != nil {
		errs = append(errs, h.db.Close())
	}
	return errors.Join(errs...)
}

// Leave is Close for a process that ends now: it leaves to the kernel and to
// the next process what they do as well. While the runtimes wind down it
// completes the calls of processes that died, and writes a checkpoint where one
// is due.
func (h *House) Leave(ctx context.Context) error {
	left := make(chan error, 1)
	go func() { left <- h.runtimes.Leave() }()
	_, err := h.Log.Recover(ctx)
	err = errors.Join(err, h.Log.CheckpointIfDue(ctx))
	if h.issuer != nil {
		err = errors.Join(err, h.issuer.Close(ctx))
	}
	h.closeObservers(ctx)
	err = errors.Join(err, h.closeAnchors(ctx), <-left, h.Log.Close(ctx))
	h.db.Leave()
	return err
}

// meets says that a level meets needs here.
func meets(offers []placement.Offer, level envelope.Level, needs ...placement.Need) {
	for _, offer := range offers {
		for _, need := range needs {
			if offer.Level == level {
				delete(offer.Cannot, need)
			}
		}
	}
}

// assemble puts the broker together over the runtimes and the way out.
func (h *House) assemble(log broker.Recorder, o Options) (err error) {
	h.images = images{Index(o.Config)}
	c := broker.Config{
		Recorder: log, Profiles: profiles{o.Config, o.Local}, Runtimes: h.runtimes.list(),
		Floors: o.Config.Floors, Watch: h.watching(o), Traces: h.Traces(),
	}
	if h.Workspaces != nil {
		c.Workspaces, c.Blobs = Shelves(h.Workspaces), Pantry(h.Blobs)
	}
	if h.Gateway != nil {
		c.Gateway = Turnstile(h.Gateway)
	}
	offers := broker.OffersOf(c.Runtimes)
	meets(offers, envelope.LevelContainer, placement.NeedTree, placement.NeedMounts)
	meets(offers, envelope.LevelUserKernel, placement.NeedTree)
	if starter := h.runtimes.starter(); starter != nil {
		if h.way, err = newWayOut(starter, o.Config); err != nil {
			return err
		}
		c.Egress = h.way
		if h.issuer, err = newIssuer(o.Config); err != nil {
			return err
		}
		c.Credentials = h.issuer
		c.Images = h.images
		meets(offers, envelope.LevelContainer, placement.NeedNetwork, placement.NeedCredentials, placement.NeedImage)
		meets(offers, envelope.LevelUserKernel, placement.NeedNetwork, placement.NeedCredentials, placement.NeedImage)
	}
	price(offers, o.Config.State)
	c.Offers = func() []placement.Offer { return offers }
	h.parts = c
	h.Broker, err = broker.New(c)
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
