package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/health"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/trace"
	"github.com/callcell/callcell/internal/workspace"
)

// Runner runs calls: the broker. It is called concurrently.
type Runner interface {
	RunLive(ctx context.Context, who broker.Caller, call *envelope.Call, live broker.Live) *envelope.Result
	Explain(ctx context.Context, who broker.Caller, call *envelope.Call) *broker.Explanation
}

// Rows reads the audit log. It is called concurrently.
type Rows interface {
	List(ctx context.Context, f audit.Filter) ([]audit.Row, error)
	Row(ctx context.Context, prefix string) (audit.Row, error)
	// Count counts what a stranger can multiply.
	Count(kind, key string)
}

// Config is what the API is made from. All but Freed, Traces, Metrics and Clock must be
// there.
type Config struct {
	Serve          config.Serve
	DefaultProfile string
	Version        string
	Runner         Runner
	Rows           Rows
	Kept           kept.Store // nobody else serves it
	Gateway        *gateway.Gateway
	Blobs          *blob.Store // of what teams keep beside workspaces
	Workspaces     *workspace.Keeper
	Images         Images
	Levels         func() []assembly.LevelReport
	// Health says how the daemon stands now. It keeps what it found for some
	// seconds: whoever asks needs no key.
	Health func() health.Report
	// Traces takes the traces of calls; nil: they have none but their callers'.
	Traces trace.Sink
	Log    *slog.Logger
	// Freed is told that there is something to collect. It does not block; nil:
	// nobody is told.
	Freed   func()
	Metrics *Metrics      // nil: nothing is counted
	Clock   gateway.Clock // nil: this host's
}

// The bounds of what is not configured.
const (
	maxHeader     = 32 << 10 // bytes of the head of a request
	badTries      = 30       // without a good key, of one address in any 60 seconds
	readTries     = 600      // of what is no call, of one key in any 60 seconds
	lostTries     = 60       // of what was to be a call and is none, so that the gateway does not count it: as readTries
	throttled     = 4096     // addresses and keys that are remembered
	heartbeat     = 15 * time.Second
	maxIdempotent = 128 // bytes of an idempotency key
)

// API is the handler of the daemon's HTTP. It is safe for concurrent use.
type API struct {
	Config
	handler http.Handler
	table   []endpoint // of all routes
	doc     []byte     // OpenAPI
	jobs    *jobs
	bad     *gateway.Throttle // by address
	reads   *gateway.Throttle // by key
	lost    *gateway.Throttle // by key
	follows follows
	uploads uploads
	making  makings
	bodies  bodies
	ending  context.Context // ends with Close: calls that nobody waits for end with it
	end     context.CancelFunc

	unready sync.Mutex // guards what follows
	said    string     // what the log was told last of what is not well
}

// New returns the API. Close ends it. Errors are Kept's.
func New(c Config) (*API, error) {
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Metrics != nil {
		c.Runner = counted{c.Runner, c.Metrics}
	}
	a := &API{Config: c, table: endpoints()}
	a.bad, a.reads = gateway.NewThrottle(badTries, throttled, c.Clock), gateway.NewThrottle(readTries, throttled, c.Clock)
	a.lost = gateway.NewThrottle(lostTries, throttled, c.Clock)
	a.follows.by, a.bodies.of = map[string]int{}, map[string]int64{}
	doc, err := a.document()
	if err != nil {
		return nil, err
	}
	a.ending, a.end = context.WithCancel(context.Background())
	if a.jobs, err = newJobs(a.ending, a); err != nil {
		a.end()
		return nil, err
	}
	a.doc, a.handler = doc, a.chain()
	return a, nil
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Close cancels the calls that go on without a client, and waits for them.
func (a *API) Close() {
	a.end()
	a.jobs.wait()
	a.jobs.after.Wait()
}

// Server returns a server of the API with the timeouts of each phase.
func (a *API) Server() *http.Server {
	return &http.Server{
		Handler: a, ReadHeaderTimeout: a.Serve.Header.Std(), IdleTimeout: a.Serve.Idle.Std(), MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug), // what strangers' connections do
	}
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Ticker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}
