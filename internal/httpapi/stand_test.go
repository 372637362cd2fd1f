package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/health"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/placement"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/systime"
	"github.com/callcell/callcell/internal/workspace"
)

// letters counts a byte as a token.
type letters struct{}

func (letters) Count(text []byte, _ int64) int64 { return int64(len(text)) }

// A stand is a daemon on loopback: the real store, log, gateway and broker, over
// cells in memory.
type stand struct {
	t       *testing.T
	url     string
	api     *httpapi.API
	gateway *gateway.Gateway
	log     *audit.Log
	lines   *lines
	profile envelope.Envelope
	config  httpapi.Config
	health  health.Report
	metrics *httpapi.Metrics
	blobs   *blob.Store
	// blobsDir is where they are.
	blobsDir string
	images   *kitchen
	freed    *atomic.Int32 // how often there was something to collect
}

// lines is the daemon's log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newStand(t *testing.T, change func(*config.Serve, *gateway.Tier)) *stand {
	t.Helper()
	return newStandAt(t, systime.Clock{}, change)
}

// newStandAt returns a stand whose rates go by a clock.
func newStandAt(t *testing.T, clock gateway.Clock, change func(*config.Serve, *gateway.Tier)) *stand {
	t.Helper()
	s := &stand{t: t, lines: &lines{}, freed: new(atomic.Int32), profile: envelope.Default(), health: health.Report{Ready: true}}
	s.profile.Trust = envelope.TrustReviewed
	serve, tier := config.Default(config.Host{}).Serve, gateway.DefaultTiers()["enterprise"]
	serve.Write = envelope.Duration(time.Minute)
	if change != nil {
		change(&serve, &tier)
	}
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := store.Open(ctx, filepath.Join(t.TempDir(), "state", "callcell.db"))
	must(err)
	s.log, err = audit.New(db.Audit(), audit.Options{})
	must(err)
	s.gateway, err = gateway.Open(ctx, db.Gateway(), gateway.Options{Tiers: map[string]gateway.Tier{"free": tier}, Counter: letters{}, Count: s.log.Count, Clock: clock})
	must(err)
	s.blobsDir = filepath.Join(t.TempDir(), "blobs")
	s.blobs = blob.New(s.blobsDir, blob.Limits{Bytes: 4 << 20, Blobs: 1000, Keep: serve.KeepBlobs.Std()})
	keeper := workspace.New(db.Workspaces(), s.blobs, 10, time.Now)
	floors := placement.DefaultFloors()
	floors[envelope.TrustModel] = envelope.LevelContainer // it is all there is
	c := broker.Config{Floors: floors, Recorder: s.log, Profiles: s, Gateway: assembly.Turnstile(s.gateway), Runtimes: []cell.Runtime{fake.New(envelope.LevelContainer, programs())}}
	c.Workspaces, c.Blobs = assembly.Shelves(keeper), assembly.Pantry(s.blobs)
	c.Offers = func() []placement.Offer {
		return []placement.Offer{{Level: envelope.LevelContainer, Effective: envelope.LevelContainer, Available: true}}
	}
	b, err := broker.New(c)
	must(err)
	conf := config.Default(config.Host{})
	conf.State, conf.Helpers = filepath.Join(t.TempDir(), "state"), t.TempDir()
	must(os.WriteFile(filepath.Join(conf.Helpers, image.Tool), nil, 0o600))
	s.images = &kitchen{Images: new(assembly.House).Images(conf)}
	s.metrics = httpapi.NewMetrics(s.gateway.Load)
	s.config = httpapi.Config{Clock: clock, Metrics: s.metrics, Serve: serve, DefaultProfile: "default", Version: "test", Runner: b, Rows: s.log, Kept: db.Kept(), Jobs: db.Jobs(), Gateway: s.gateway,
		Profiles: map[string]envelope.Envelope{"default": s.profile, "small": s.profile},
		Levels: func() []assembly.LevelReport {
			return []assembly.LevelReport{{Level: envelope.LevelContainer, Available: true}}
		},
		Blobs: s.blobs, Workspaces: keeper, Images: s.images, Freed: func() { s.freed.Add(1) },
		Health: func() health.Report { return s.health }, Log: slog.New(slog.NewJSONHandler(s.lines, nil))}
	s.api, err = httpapi.New(s.config)
	must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	server := s.api.Server()
	go server.Serve(l)
	s.url = "http://" + l.Addr().String()
	t.Cleanup(func() {
		s.api.Close()
		must(server.Close())
		http.DefaultClient.CloseIdleConnections()
		must(s.gateway.Close(ctx))
		must(s.log.Close(ctx))
		must(db.Close())
	})
	for _, name := range []string{"blue", "red"} {
		_, err := s.gateway.CreateTeam(ctx, gateway.Team{Name: name, Tier: "free"})
		must(err)
	}
	return s
}

// kitchen has the images of a house that makes none: what makes them is a test's.
type kitchen struct {
	*assembly.Images
	make func(ctx context.Context, who broker.Caller, p *image.Plan, live broker.Live, heard func(int64)) (*image.Made, error)
}

// Make implements httpapi.Images.
func (k *kitchen) Make(ctx context.Context, who broker.Caller, p *image.Plan, live broker.Live, heard func(int64)) (*image.Made, error) {
	if k.make == nil {
		return k.Images.Make(ctx, who, p, live, heard)
	}
	return k.make(ctx, who, p, live, heard)
}

// programs are beside those of the suite: work appends a line to log and writes
// large; many writes thirty files of many lines, of which the last is another one;
// turn leaves no file as it was; noise writes what no text is and what nothing
// makes smaller; zeros writes the opposite of that.
func programs() map[string]fake.Program {
	return map[string]fake.Program{"work": func(p *fake.Proc) fake.Status {
		log, _ := p.Files.Read("log") // it may not be there yet
		log = append(log, strings.Join(p.Args, " ")+"\n"...)
		if p.Files.Write("log", log, false) != nil || p.Files.Write("large", bytes.Repeat(log, 100), false) != nil {
			return fake.Exit(1)
		}
		return fake.Exit(0)
	}, "many": func(p *fake.Proc) fake.Status {
		text := strings.Repeat("a\n", 20_000) + strings.Join(p.Args, " ")
		for i := range 30 {
			if p.Files.Write(fmt.Sprintf("f%02d", i), []byte(text), false) != nil {
				return fake.Exit(1)
			}
		}
		return fake.Exit(0)
	}, "turn": func(p *fake.Proc) fake.Status {
		p.Files.Remove("gone")
		err := errors.Join(p.Files.Write("a b/ž.txt", []byte("1\n2\n"), false), p.Files.Write("tool", []byte("#!/bin/sh\n"), true),
			p.Files.Write("data", []byte("\x00\x01\x03"), false), p.Files.Write("empty", nil, false), p.Files.Write("no end", []byte("x"), false))
		if err != nil {
			return fake.Exit(1)
		}
		return fake.Exit(0)
	}, "zeros": func(p *fake.Proc) fake.Status {
		for i := range 70 {
			if p.Files.Write(fmt.Sprintf("z%02d", i), make([]byte, 250<<10), false) != nil {
				return fake.Exit(1)
			}
		}
		return fake.Exit(0)
	}, "noise": func(p *fake.Proc) fake.Status {
		rng := rand.NewChaCha8([32]byte{})
		for i := range 15 {
			data := make([]byte, 250<<10)
			_, _ = rng.Read(data) // it never fails
			if p.Files.Write(fmt.Sprintf("n%02d", i), data, false) != nil {
				return fake.Exit(1)
			}
		}
		return fake.Exit(0)
	}}
}

// Lookup implements broker.Profiles.
func (s *stand) Lookup(name string) (envelope.Envelope, error) {
	if name != "default" && name != "small" {
		return envelope.Envelope{}, broker.ErrNoProfile
	}
	return s.profile, nil
}

// key makes a key and returns its id and secret.
func (s *stand) key(team string, role gateway.Role) (id, secret string) {
	s.t.Helper()
	k, secret, err := s.gateway.CreateKey(s.t.Context(), gateway.Key{Team: team, Role: role, Profiles: []string{"default"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return k.ID, secret
}

// An answer is what came back.
type answer struct {
	*http.Response
	body []byte
}

// code is the code of a problem, or "".
func (a *answer) code() string {
	var p httpapi.Problem
	if a.Header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body, &p) != nil {
		return ""
	}
	return p.Code
}

// do sends a request. headers are NAME, value, ...
func (s *stand) do(method, path, secret, body string, headers ...string) *answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return &answer{resp, got}
}

// read decodes an answer of that status.
func read[T any](t *testing.T, a *answer, status int) (v T) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%d %s, want %d", a.StatusCode, a.body, status)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

// auditAll selects every row.
func auditAll() audit.Filter { return audit.Filter{Limit: audit.MaxLimit} }
