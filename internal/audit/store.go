package audit

import (
	"context"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Store is where events are kept. Its methods may be called concurrently, and
// by several processes that share the store; storetest.Run holds an
// implementation to what is written here.
//
// Errors wrap ErrUnwritable, ErrBusy, ErrCorrupt, ErrConflict or ErrClosed
// where they are one of these, or are the context's.
type Store interface {
	// Update runs fn in a transaction that excludes every other Update on the
	// store, in any process. When it returns nil, what fn wrote is durable.
	// An error of fn undoes what fn wrote and is returned as it is. fn runs on
	// a goroutine of the store's and must not call the Store. Several may share
	// one commit; where another's failure has undone it, fn runs once more: what
	// it does hangs on its Tx alone. When ctx ends before fn has begun, Update
	// returns the context's error and fn never runs; after that it waits.
	Update(ctx context.Context, fn func(Tx) error) error
	// Orphans returns open calls of a chain whose instance has no lease that is
	// valid after now, or one that is valid beyond far, at most limit. It is one
	// indexed query and writes nothing.
	Orphans(ctx context.Context, chain string, now, far time.Time, limit int) ([]Orphan, error)
	// Progress says how far a chain has come. It is a few indexed queries and
	// writes nothing.
	Progress(ctx context.Context, chain string) (Progress, error)
	// Scrub takes what was erased out of the store's files, as far as they are
	// the store's to write: copies that others have made are not.
	Scrub(ctx context.Context) error
	Reader
}

// Progress is how far a chain has come. The zero value is an empty chain's.
type Progress struct {
	Head       Head
	Kind       int64     // of the head
	First      time.Time // of the first event
	Checkpoint int64     // sequence number of the last checkpoint; 0: there is none
	At         time.Time // of that checkpoint
}

// Reader is the part of a Store that reads. Each method sees one committed
// state.
type Reader interface {
	// Calls returns calls with their events, newest id first, or oldest: at most
	// q.Limit, at most some MiB of bodies, and at least one unless there is
	// none.
	Calls(ctx context.Context, q Query) ([]Call, error)
	// Teams returns every team that has a call, and "" where a call has none.
	Teams(ctx context.Context) ([]string, error)
	// Traces returns what is stored about the calls with these ids, in any
	// order; ids that nothing is stored about are left out.
	Traces(ctx context.Context, ids []string) ([]Trace, error)
	// Events returns the events of a chain after a sequence number, in
	// ascending order: at most limit, at most some MiB of bodies, and at least
	// one unless there is none.
	Events(ctx context.Context, chain string, after int64, limit int) ([]Stored, error)
}

// Tx is an Update's transaction. It is valid until fn returns and for fn's
// goroutine alone. After an error of a method fn must return an error.
type Tx interface {
	// Head returns the last event of a chain.
	Head(chain string) (Head, error)
	// Entry returns what is known of a call, and whether anything is.
	Entry(id string) (Entry, bool, error)
	// Chains returns the names of all chains, in order.
	Chains() ([]string, error)
	// Append adds an event and puts the call's entry in place of the one there
	// is; the entry of an event about no call is nil. It wraps ErrConflict where
	// the event is not the next of its chain, is the call's second intent or
	// second ending, or comes after its ending.
	Append(e *Event, entry *Entry) error
	// AddHosts adds to what a call is found by the hosts that it tried to
	// reach. None of them is there yet.
	AddHosts(id string, hosts []string) error
	// Expired returns calls of a team that have ended, whose id is before the
	// given one, and whose bodies are there and can be erased: oldest first, at
	// most limit.
	Expired(chain, team, before string, limit int) ([]Entry, error)
	// Erase takes the bodies and salts of an ended call's events away, for good,
	// and what it is found by: its hosts, and with keep its names, without keep
	// its whole entry. by is the event that says so. It wraps ErrOldFormat where
	// an event's body cannot be erased.
	Erase(entry *Entry, by int64, keep bool) error
	// Orphans is as in Store.
	Orphans(chain string, now, far time.Time, limit int) ([]Orphan, error)
	// Lease returns until when an instance's lease is valid, and whether it
	// has one.
	Lease(instance string) (until time.Time, ok bool, err error)
	// SetLease grants or renews a lease.
	SetLease(instance string, until time.Time) error
	// DropLease takes an instance's lease away, if it has one.
	DropLease(instance string) error
	// Sweep drops the leases that were valid until now or earlier and whose
	// instances have no open call.
	Sweep(now time.Time) error
}

// Entry is the index over one call's events: what calls are found by, beside
// the hosts that it tried to reach. It is derived from them; [Log.Verify]
// compares the two. Of a call whose bodies were erased the names are empty.
type Entry struct {
	ID       string
	Chain    string
	First    int64  // sequence number of its first event
	Last     int64  // of its ending; 0: it is open
	Instance string // that wrote the first event
	Task     string
	Caller   string
	Team     string
	Tool     string
	Level    envelope.Level
	Outcome  envelope.Outcome // 0: open or refused
	Reason   envelope.Reason  // 0: open or not refused
}

// Open reports whether the call has no ending.
func (e *Entry) Open() bool { return e.Last == 0 }

// Orphan is an open call that nobody will complete.
type Orphan struct {
	Entry Entry
	Lease time.Time // until when it was valid; zero: it is gone
}

// Call is a call with its events in ascending order.
type Call struct {
	Entry  Entry
	Events []Stored
}

// Trace is what is stored about one call, without the bodies.
type Trace struct {
	ID    string
	Entry *Entry    // nil: there is none
	Marks []Mark    // of every event with that call's id, ascending, at most 4
	Hosts []string  // that it is found by, in order; at most MaxHosts and one more
	Lease time.Time // of Entry.Instance, zero: it has none
}

// Mark says that there is an event.
type Mark struct {
	Chain string
	Seq   int64
	Kind  int64
}

// Query selects calls. Every field that is set must match; the zero value of
// a field matches everything.
type Query struct {
	Prefix string // of the id
	From   string // ids from this one on
	Before string // ids before this one
	Oldest bool   // oldest id first, instead of newest
	Task   string
	Caller string
	Team   string
	Tool   string
	Host   string // that it tried to reach
	Level  envelope.Level
	// Outcome and Reason match the ending, Open the calls without one.
	Outcome envelope.Outcome
	Reason  envelope.Reason
	Open    bool
	Limit   int // at least 1
}
