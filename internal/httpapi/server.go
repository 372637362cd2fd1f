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
	"github.com/callcell/callcell/internal/mcp/hub"
	"github.com/callcell/callcell/internal/systime"
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

// Config is what the API is made from. All but Profiles, Freed, Traces, Metrics and
// Clock must be there.
type Config struct {
	Serve          config.Serve
	DefaultProfile string
	// Profiles are those that the assistants of a key may choose from, as far as
	// the key may name them.
	Profiles   map[string]envelope.Envelope
	Version    string
	Runner     Runner
	Rows       Rows
	Kept       kept.Store // nobody else serves it
	Jobs       kept.Jobs  // as Kept
	Gateway    *gateway.Gateway
	Blobs      *blob.Store // of what teams keep beside workspaces
	Workspaces *workspace.Keeper
	Images     Images
	Levels     func() []assembly.LevelReport
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
	cancelTries   = 1200     // messages that cancel a call, of one key in any 60 seconds; more are as readTries
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
	beat    time.Duration     // how often a stream that is quiet says so
	lost    *gateway.Throttle // by key
	cancels *gateway.Throttle // by key
	follows follows
	readers follows // requests that read a call: one that was kept over a restart is read anew for each
	uploads uploads
	making  makings
	bodies  bodies
	sent    *texts
	ending  context.Context // ends with Close: calls that nobody waits for end with it
	end     context.CancelFunc
	mcp     *hub.Hub
	rooms   *rooms   // for what its sessions keep
	speaks  follows  // requests of /mcp
	heard   sync.Map // by the name of a message of /mcp: *message
	line    *line    // where answers of /mcp are made out of files

	unready sync.Mutex // guards what follows
	said    string     // what the log was told last of what is not well
}

// New returns the API. Close ends it. Errors are Kept's.
func New(c Config) (*API, error) {
	if c.Clock == nil {
		c.Clock = systime.Clock{}
	}
	if c.Metrics != nil {
		c.Runner = counted{c.Runner, c.Metrics}
	}
	a := &API{Config: c, table: endpoints()}
	a.bad, a.reads = gateway.NewThrottle(badTries, throttled, c.Clock), gateway.NewThrottle(readTries, throttled, c.Clock)
	a.cancels, a.beat = gateway.NewThrottle(cancelTries, throttled, c.Clock), heartbeat
	a.lost, a.bodies.of = gateway.NewThrottle(lostTries, throttled, c.Clock), map[string]int64{}
	a.readers = follows{most: followsAtOnce, by: map[string]int{}}
	a.follows, a.speaks = follows{most: followsAtOnce, by: map[string]int{}}, follows{most: mcpAtOnce, by: map[string]int{}}
	a.rooms, a.sent, a.line = newRooms(int64(c.Serve.KeepAll)), newTexts(int64(c.Serve.KeepAll)), newLine(int64(c.Serve.KeepAll))
	a.mcp = hub.New(hub.Options{AtOnce: int(c.Serve.Sessions.AtOnce), OfKey: int(c.Serve.Sessions.OfKey), Idle: c.Serve.Sessions.Idle.Std(),
		While: func(ctx context.Context, key string) (context.Context, context.CancelFunc) {
			return c.Gateway.While(ctx, key, "")
		}})
	doc, err := a.document()
	if err != nil {
		return nil, err
	}
	a.ending, a.end = context.WithCancel(context.Background())
	if a.jobs, err = newJobs(a.ending, a); err != nil {
		a.end()
		return nil, err
	}
	if err := a.remember(a.ending); err != nil {
		a.Close()
		return nil, err
	}
	a.doc, a.handler = doc, a.chain()
	return a, nil
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer atWork(r.Context())()
	a.handler.ServeHTTP(w, r)
}

// Close cancels the calls that go on without a client, and those of MCP, and
// waits for them.
func (a *API) Close() {
	a.end()
	a.mcp.Close()
	a.jobs.wait()
	a.jobs.after.Wait()
}

// Server returns a server of the API with the timeouts of each phase.
func (a *API) Server() *http.Server {
	return &http.Server{
		Handler: a, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: a.Serve.Header.Std(), IdleTimeout: a.Serve.Idle.Std(), MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug), // what strangers' connections do
	}
}
