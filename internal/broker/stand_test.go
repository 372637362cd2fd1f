package broker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/placement"
)

// A stand is a broker over the fake runtime and a recorder in memory. Each
// thing that the broker calls passes through at, which can fail it, and is
// noted in trace.
type stand struct {
	t       *testing.T
	broker  *broker.Broker
	runtime *fake.Runtime
	closes  atomic.Int32
	profile envelope.Envelope
	watch   watch
	deaf    bool // the runtime does not know of resources.wall
	tunnels bool // its cells' guests hand connections over

	commands func(cell.Command)                  // is shown what is started; may be nil
	shapes   func(cell.Shape)                    // is shown what is built; may be nil
	gets     func([]string, envelope.OutputCaps) // hears what is asked for; may be nil
	lies     func([]cell.Entry) []cell.Entry     // changes what a listing says; may be nil

	mu      sync.Mutex // guards all that follows
	faults  map[string]func(context.Context) error
	trace   []string
	intents map[string]audit.Intent
	endings map[string]audit.Ending
	refused map[string]audit.Refused
}

// newStand returns a stand with the profile of code that people have read,
// for that is what runs at the level of a container.
func newStand(t *testing.T, adjust ...func(*broker.Config)) *stand {
	s := &stand{
		t: t, runtime: fake.New(envelope.LevelContainer, programs()), profile: envelope.Default(),
		faults: map[string]func(context.Context) error{}, intents: map[string]audit.Intent{},
		endings: map[string]audit.Ending{}, refused: map[string]audit.Refused{},
	}
	s.profile.Trust = envelope.TrustReviewed
	s.profile.Resources.Wall = envelope.Duration(10 * time.Second)
	c := broker.Config{Recorder: s, Profiles: s, Runtimes: []cell.Runtime{standRuntime{s}}, Watch: &s.watch}
	for _, f := range adjust {
		f(&c)
	}
	b, err := broker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.broker = b
	return s
}

// programs are the interpreters: each says what it was given.
func programs() map[string]fake.Program {
	show := func(p *fake.Proc) fake.Status {
		code, _ := p.Files.Read(p.Args[0])
		fmt.Fprintf(p.Stdout, "%s %q %s", p.Args, code, strings.Join(p.Env, " "))
		return fake.Exit(0)
	}
	return map[string]fake.Program{"python3": show, "node": show, "sh": show}
}

func caller() broker.Caller { return broker.Caller{Name: "key:k_test", Team: "blue"} }

// run runs a call and checks what holds for every one of them.
func (s *stand) run(ctx context.Context, call *envelope.Call) *envelope.Result {
	s.t.Helper()
	r := s.broker.Run(ctx, caller(), call)
	s.check(r)
	return r
}

// check checks what holds for every result: a refusal or an outcome, one row,
// and nothing left over.
func (s *stand) check(r *envelope.Result) {
	s.t.Helper()
	if (r.Refusal == nil) != r.Outcome.Valid() {
		s.t.Errorf("refusal %v and outcome %s: want exactly one", r.Refusal, r.Outcome)
	}
	if len(r.ID) != 36 || r.Usage.Total < 0 {
		s.t.Errorf("id %q, total %s", r.ID, r.Usage.Total)
	}
	if n := s.runtime.Cells(); n != 0 {
		s.t.Errorf("%d cells are still open", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, intended := s.intents[r.ID]
	_, ended := s.endings[r.ID]
	_, refused := s.refused[r.ID]
	if r.Receipt != nil && (ended == refused || ended != r.Outcome.Valid()) {
		s.t.Errorf("ended %v, refused %v, and the result is %v / %s", ended, refused, r.Refusal, r.Outcome)
	}
	if r.Outcome.Valid() && !intended {
		s.t.Error("something ran without an intent")
	}
}

// fault makes the next passings of at fail.
func (s *stand) fault(at string, f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[at] = f
}

// at notes that the broker has come to a point, and fails it if it is to.
func (s *stand) at(ctx context.Context, point string) error {
	s.mu.Lock()
	s.trace = append(s.trace, point)
	f := s.faults[point]
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx)
}

// count returns how often the broker has come to a point.
func (s *stand) count(point string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.trace {
		if p == point {
			n++
		}
	}
	return n
}

func (s *stand) before(first, second string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := slices.Index(s.trace, first), slices.Index(s.trace, second)
	return a >= 0 && b >= 0 && a < b
}

func (s *stand) Lookup(name string) (envelope.Envelope, error) {
	if err := s.at(context.Background(), "lookup"); err != nil {
		return envelope.Envelope{}, err
	}
	if name != "" {
		return envelope.Envelope{}, fmt.Errorf("%w: %s", broker.ErrNoProfile, name)
	}
	return s.profile, nil
}

var errTwice = errors.New("stand: the row is ended already")

func (s *stand) Intend(ctx context.Context, in audit.Intent) error {
	if err := s.at(ctx, "intend"); err != nil {
		return err
	}
	_ = s.at(ctx, "intended")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents[in.ID] = in
	return ctx.Err()
}

func (s *stand) Complete(ctx context.Context, e audit.Ending) (envelope.Receipt, error) {
	if err := s.at(ctx, "complete"); err != nil {
		return envelope.Receipt{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.intents[e.ID]; !ok {
		s.t.Error("completed without an intent")
	}
	s.endings[e.ID] = e
	return s.receiptLocked(ctx, e.ID)
}

func (s *stand) Refuse(ctx context.Context, r audit.Refused) (envelope.Receipt, error) {
	if err := s.at(ctx, "refuse"); err != nil {
		return envelope.Receipt{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[r.ID] = r
	return s.receiptLocked(ctx, r.ID)
}

func (s *stand) receiptLocked(ctx context.Context, id string) (envelope.Receipt, error) {
	_, ended := s.endings[id]
	_, refused := s.refused[id]
	if ended && refused {
		s.t.Error(errTwice)
		return envelope.Receipt{}, errTwice
	}
	return envelope.Receipt{Chain: "test", Seq: int64(len(s.endings) + len(s.refused))}, ctx.Err()
}

// A standRuntime is the fake runtime behind the points of a stand.
type standRuntime struct{ s *stand }

func (r standRuntime) Level() envelope.Level   { return r.s.runtime.Level() }
func (r standRuntime) Features() cell.Features { return r.s.runtime.Features() }

func (r standRuntime) Open(ctx context.Context, shape cell.Shape) (cell.Cell, error) {
	if err := r.s.at(ctx, "open"); err != nil {
		return nil, err
	}
	if r.s.shapes != nil {
		r.s.shapes(shape)
	}
	if r.s.deaf {
		shape.Envelope.Resources.Wall = envelope.Duration(24 * time.Hour)
	}
	c, err := r.s.runtime.Open(ctx, shape)
	if err != nil {
		return nil, err
	}
	_ = r.s.at(ctx, "opened")
	made := &standCell{s: r.s, c: c}
	if r.s.tunnels {
		return tunnelledCell{made}, nil
	}
	return gatedCell{made}, nil
}

type standCell struct {
	s *stand
	c cell.Cell
}

func (c *standCell) Put(files []envelope.File) error {
	if err := c.s.at(context.Background(), "put"); err != nil {
		return err
	}
	return c.c.Put(files)
}

func (c *standCell) Exec(ctx context.Context, cmd cell.Command) (cell.Exit, error) {
	if err := c.s.at(ctx, "exec"); err != nil {
		return cell.Exit{}, err
	}
	if c.s.commands != nil {
		c.s.commands(cmd)
	}
	return c.c.Exec(ctx, cmd)
}

func (c *standCell) Stop(ctx context.Context) error {
	if err := c.s.at(ctx, "stop"); err != nil {
		return err
	}
	return c.c.Stop(ctx)
}

func (c *standCell) Get(ctx context.Context, names []string, caps envelope.OutputCaps) ([]envelope.File, []envelope.Miss, error) {
	if c.s.gets != nil {
		c.s.gets(names, caps)
	}
	files, misses, err := c.c.Get(ctx, names, caps)
	if fault := c.s.at(ctx, "get"); fault != nil {
		return files[:len(files)/2], misses, fault
	}
	return files, misses, err
}

func (c *standCell) List(ctx context.Context, max int) ([]cell.Entry, bool, error) {
	entries, cut, err := c.c.(cell.Lister).List(ctx, max)
	if fault := c.s.at(ctx, "list"); fault != nil {
		return nil, false, fault
	}
	if c.s.lies != nil {
		entries = c.s.lies(entries)
	}
	return entries, cut, err
}

func (c *standCell) Close(ctx context.Context) envelope.Report {
	c.s.closes.Add(1)
	report := c.c.Close(ctx) // also where Close panics: the fake's cell must not stay
	if err := c.s.at(ctx, "close"); err != nil {
		report.Complete = false
		report.Checks = append(report.Checks, envelope.Check{What: "processes", Note: err.Error()})
	}
	return report
}

// A watch notes what it is told.
type watch struct {
	mu         sync.Mutex // guards all that follows
	leftovers  int
	unrecorded int
	panics     []string
}

func (w *watch) Leftover(string, envelope.Level, envelope.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leftovers++
}

func (w *watch) Unrecorded(string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unrecorded++
}

func (w *watch) Panicked(_, step string, value any, _ []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.panics = append(w.panics, fmt.Sprintf("%s: %v", step, value))
}

// offers returns what a host has beside the container of the stand.
func offers(more ...placement.Offer) func() []placement.Offer {
	byLevel := map[envelope.Level]placement.Offer{envelope.LevelContainer: {Level: envelope.LevelContainer, Available: true}}
	for _, o := range more {
		byLevel[o.Level] = o
	}
	return func() []placement.Offer { return slices.Collect(maps.Values(byLevel)) }
}

func argv(args ...string) *envelope.Call { return &envelope.Call{Task: "t-1", Argv: args} }
