//go:build unix

package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/gateway/tokens"
	"github.com/callcell/callcell/internal/health"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/store"
)

// A benchStand is a daemon whose store is on disk, whose tokens are counted by
// the real tokenizer, and whose cells are in memory.
type benchStand struct {
	db     *store.DB
	broker *broker.Broker
	who    broker.Caller
	client *client.Client
	base   string // of the daemon
	secret string // of who's key
}

type always struct{ envelope.Envelope }

func (a always) Lookup(string) (envelope.Envelope, error) { return a.Envelope, nil }

func newBench(b *testing.B) *benchStand {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.Background()
	db, err := store.Open(ctx, filepath.Join(b.TempDir(), "state", "callcell.db"))
	must(err)
	must(db.Hold())
	log, err := audit.New(db.Audit(), audit.Options{})
	must(err)
	tier := gateway.DefaultTiers()["enterprise"]
	tier.Rate, tier.AtOnce, tier.KeyAtOnce, tier.Waiting, tier.Tokens, tier.CPUTime = gateway.MaxRate, 4096, 4096, 4096, 1e12, envelope.Duration(876_000*time.Hour)
	tier.Calls = 1e12
	g, err := gateway.Open(ctx, db.Gateway(), gateway.Options{Tiers: map[string]gateway.Tier{"free": tier}, Counter: new(tokens.Counter),
		Limits: gateway.Limits{AtOnce: 4096}})
	must(err)
	_, err = g.CreateTeam(ctx, gateway.Team{Name: "blue", Tier: "free"})
	must(err)
	k, secret, err := g.CreateKey(ctx, gateway.Key{Team: "blue", Role: gateway.RoleCall, Profiles: []string{"*"}})
	must(err)
	profile := envelope.Default()
	profile.Trust = envelope.TrustReviewed
	s := &benchStand{db: db, who: broker.Caller{Name: "key:" + k.ID, Team: "blue", Key: k.ID, Profiles: []string{"*"}}}
	s.broker, err = broker.New(broker.Config{Recorder: log, Profiles: always{profile}, Gateway: assembly.Turnstile(g),
		Runtimes: []cell.Runtime{fake.New(envelope.LevelContainer, nil)}})
	must(err)
	api, err := httpapi.New(httpapi.Config{Serve: config.Default(config.Host{}).Serve, DefaultProfile: "default", Runner: s.broker, Rows: log, Kept: db.Kept(), Jobs: db.Jobs(), Gateway: g,
		Levels: func() []assembly.LevelReport { return nil }, Health: func() health.Report { return health.Report{Ready: true} }, Log: slog.New(slog.DiscardHandler)})
	must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	server := api.Server()
	go server.Serve(l)
	s.base, s.secret = "http://"+l.Addr().String(), secret
	s.client, err = client.New(s.base, s.secret)
	must(err)
	s.client.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 512}
	b.Cleanup(func() {
		s.client.HTTP.CloseIdleConnections()
		api.Close()
		must(server.Close())
		must(g.Close(ctx))
		must(log.Close(ctx))
		must(db.Close())
	})
	return s
}

// measure makes calls from so many callers at once, and reports calls a second
// and percentiles of what each waited.
func (s *benchStand) measure(b *testing.B, callers int, call func(i int) error) {
	b.Helper()
	if err := call(-1); err != nil { // what is loaded once
		b.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	work := make(chan int)
	b.ResetTimer()
	began, used, commits := time.Now(), cpuTime(b), s.db.Commits()
	for range callers {
		all.Go(func() {
			for i := range work {
				at := time.Now()
				if err := call(i); err != nil {
					b.Error(err)
				}
				mu.Lock()
				took = append(took, time.Since(at))
				mu.Unlock()
			}
		})
	}
	for i := range b.N {
		work <- i
	}
	close(work)
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(s.db.Commits()-commits)/float64(b.N), "commits/op")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "calls/s")
	b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// cpuTime is what this process has used: on a busy machine it says more than the
// calls a second.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchCall(i int) *envelope.Call {
	return &envelope.Call{Task: fmt.Sprint("task-", i/100), Argv: []string{"/bin/print", "hello"}}
}

// BenchmarkMetered is the main path of a daemon, admit to record, with durable
// intents and reservations.
func BenchmarkMetered(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := newBench(b)
			s.measure(b, callers, func(i int) error {
				if r := s.broker.Run(context.Background(), s.who, benchCall(i)); !r.OK() {
					return fmt.Errorf("%v %v", r.Outcome, r.Refusal)
				}
				return nil
			})
		})
	}
}

// BenchmarkUnmetered is the same for the local user, whom nobody meters.
func BenchmarkUnmetered(b *testing.B) {
	s := newBench(b)
	s.measure(b, 1, func(i int) error {
		if r := s.broker.Run(context.Background(), broker.Caller{Name: "local"}, benchCall(i)); !r.OK() {
			return fmt.Errorf("%v %v", r.Outcome, r.Refusal)
		}
		return nil
	})
}

// BenchmarkHTTP is the same over HTTP, client and all.
func BenchmarkHTTP(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := newBench(b)
			s.measure(b, callers, func(i int) error {
				r, err := s.client.Run(context.Background(), benchCall(i))
				if err == nil && !r.OK() {
					err = fmt.Errorf("%v", r.Outcome)
				}
				return err
			})
		})
	}
}
