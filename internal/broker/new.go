package broker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/placement"
	"github.com/callcell/callcell/internal/systime"
	"github.com/callcell/callcell/internal/trace"
)

// Recorder keeps the rows. A call has at most one intent and exactly one
// ending, which is Complete or Refuse. The methods are called concurrently
// for different calls, and one after another for one call. They honour their
// context, and keep nothing of what they are given after they return.
type Recorder interface {
	// Intend makes the intent durable before it returns nil. Until then
	// nothing of the call runs.
	Intend(ctx context.Context, in audit.Intent) error
	// Complete ends a call that has run, or may have. It comes after Intend.
	Complete(ctx context.Context, e audit.Ending) (envelope.Receipt, error)
	// Refuse ends a call of which nothing has run. It comes without an
	// Intend, after one, or after one that failed.
	Refuse(ctx context.Context, r audit.Refused) (envelope.Receipt, error)
}

// Profiles are the operator's envelopes. It is called concurrently.
type Profiles interface {
	// Lookup returns the profile of that name; "" is the default one. The
	// error wraps ErrNoProfile where there is none. The envelope is not
	// changed by the caller.
	Lookup(name string) (envelope.Envelope, error)
}

// Clock is the time as a Broker sees it. It is called concurrently.
type Clock interface{ Now() time.Time }

// Watch is told what an operator must hear of and a caller cannot mend. Its
// methods are called on the goroutine of the call, concurrently for different
// calls, and must not block. A panic in them is dropped.
type Watch interface {
	// Leftover says that the teardown of a cell was not complete: its slot,
	// its users and its group are not to be given out again until somebody
	// has looked, and count against capacity.
	Leftover(id string, level envelope.Level, report envelope.Report)
	// Unrecorded says that the row of a call has no ending.
	Unrecorded(id string, err error)
	// Panicked says that a step panicked, a mistake of ours or of a runtime.
	// What it panicked with goes to nobody else.
	Panicked(id, step string, value any, stack []byte)
}

// EndWatch is the optional power of a Watch that hears of every call, when its
// row is written or cannot be. It keeps nothing of call and r, and changes
// nothing.
type EndWatch interface {
	Ended(who Caller, call *envelope.Call, r *envelope.Result)
}

// Config is what a Broker is put together from. Recorder, Profiles and
// Runtimes must be there.
type Config struct {
	Recorder Recorder
	Profiles Profiles
	Runtimes []cell.Runtime // at most one of each level
	// Offers says what this host offers, at the time of each call. nil:
	// OffersOf(Runtimes), asked once.
	Offers  func() []placement.Offer
	Gateway Gateway // nil: nobody is metered
	Egress  Egress  // nil: no call reaches anything
	Images  Images  // nil: there is the slice of this host, and no other
	// Credentials issues secrets; nil: no call has any.
	Credentials Credentials
	// Workspaces keeps trees between calls; nil: there are none.
	Workspaces Workspaces
	Blobs      Blobs                             // nil: there are none
	Floors     map[envelope.Trust]envelope.Level // nil: placement.DefaultFloors
	Clock      Clock                             // nil: the clock of this host
	Watch      Watch                             // nil: nobody is told
	// Traces takes the traces of calls whose context has none; nil: they have
	// none.
	Traces trace.Sink
}

// Broker runs calls. Its methods may be called concurrently.
type Broker struct {
	recorder    Recorder
	profiles    Profiles
	runtimes    map[envelope.Level]cell.Runtime
	offers      func() []placement.Offer
	gateway     Gateway
	egress      Egress
	images      Images
	credentials Credentials
	workspaces  Workspaces
	blobs       Blobs
	floors      map[envelope.Trust]envelope.Level
	clock       Clock
	tasks       tasks // of callers without a key
	rulings     rulings
	watch       Watch
	traces      trace.Sink
}

// New returns a Broker. The error wraps ErrConfig.
func New(c Config) (*Broker, error) {
	if c.Recorder == nil || c.Profiles == nil {
		return nil, fmt.Errorf("%w: a recorder and profiles must be there", ErrConfig)
	}
	b := &Broker{
		recorder: c.Recorder, profiles: c.Profiles, runtimes: map[envelope.Level]cell.Runtime{},
		offers: c.Offers, gateway: c.Gateway, egress: c.Egress, images: c.Images, credentials: c.Credentials, workspaces: c.Workspaces, blobs: c.Blobs, floors: maps.Clone(c.Floors), clock: c.Clock, watch: c.Watch, traces: c.Traces,
	}
	for _, rt := range c.Runtimes {
		level := rt.Level()
		if b.runtimes[level] != nil || !slices.Contains(envelope.Levels(), level) {
			return nil, fmt.Errorf("%w: a second runtime of level %s, or no level at which code runs", ErrConfig, level)
		}
		b.runtimes[level] = rt
	}
	if b.offers == nil {
		once := OffersOf(c.Runtimes)
		b.offers = func() []placement.Offer { return once }
	}
	if b.clock == nil {
		b.clock = systime.Clock{}
	}
	return b, nil
}

// OffersOf returns what runtimes offer by their own account: each level that
// is available can run programs and scripts, and nothing that needs more. The
// other needs are for who knows that they are met: see Config.Offers.
func OffersOf(runtimes []cell.Runtime) []placement.Offer {
	byLevel := map[envelope.Level]placement.Offer{}
	for _, level := range envelope.Levels() {
		byLevel[level] = placement.Offer{Level: level, Why: "not built yet on this host"}
	}
	for _, rt := range runtimes {
		features := rt.Features()
		offer := placement.Offer{Level: rt.Level(), Available: features.Available, Cannot: map[placement.Need]string{}}
		offer.Effective, offer.Weakness = placement.Worth(offer.Level, TraitsOf(features))
		if !features.Available {
			offer.Why = cmp.Or(features.Why, "not available on this host")
		}
		for _, need := range []placement.Need{placement.NeedNetwork, placement.NeedMounts,
			placement.NeedCredentials, placement.NeedImage, placement.NeedAlone, placement.NeedTree} {
			offer.Cannot[need] = "not built yet at this level"
		}
		byLevel[rt.Level()] = offer
	}
	return slices.Collect(maps.Values(byLevel))
}

// TraitsOf returns what of a runtime's features placement goes by.
func TraitsOf(f cell.Features) placement.Traits {
	return placement.Traits{Emulated: f.Emulated, HostNetwork: f.HostNetwork, Workers: f.Workers}
}

func (b *Broker) since(t time.Time) time.Duration { return b.clock.Now().Sub(t) }

// tell tells the watch, if there is one.
func (b *Broker) tell(what func(Watch)) {
	if b.watch == nil {
		return
	}
	defer func() { _ = recover() }() // a Watch must not keep the row from being completed
	what(b.watch)
}
