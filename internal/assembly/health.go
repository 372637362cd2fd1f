package assembly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/health"
)

// settleTime is how long after a step of the clock a lease of the log may still
// be one of before.
const settleTime = audit.DefaultTTL + 5*time.Second

// Health is how a daemon stands.
type Health struct {
	*health.Checker
	house *House
	clock *health.Clock
	state string
}

// Health returns the checks of this house. They run when somebody asks.
func (h *House) Health(c *config.Config) *Health {
	k := &Health{house: h, state: c.State, clock: health.NewClock(c.Health.Clock.Std(), settleTime, nil, nil)}
	k.Checker = health.New([]health.Check{
		{Name: "store", Run: k.store},
		{Name: "launcher", Run: k.launcher},
		{Name: "disk", Run: func(context.Context) error { return k.disk(&c.Health) }},
		{Name: "clock", Run: k.clock.Check},
		{Name: "anchors", Soft: !c.Health.AnchorRequired, Run: func(context.Context) error { return k.anchors(c.Health.AnchorLag.Std()) }},
	}, nil)
	return k
}

// store makes a commit.
func (k *Health) store(ctx context.Context) error {
	if k.house.db == nil {
		return &health.Error{Reason: health.StoreUnwritable, Err: errUnrecorded}
	}
	if err := k.house.db.Pulse(ctx); err != nil {
		return &health.Error{Reason: health.StoreUnwritable, Err: err}
	}
	return nil
}

// launcher has one answer, and some level build cells.
func (k *Health) launcher(ctx context.Context) error {
	err := k.house.runtimes.ping(ctx)
	if err != nil {
		return err
	}
	for _, report := range k.house.Levels() {
		if report.Available {
			return nil
		}
	}
	return &health.Error{Reason: health.LauncherRefuses, Err: errors.New("no level of isolation is available")}
}

// disk looks at the file system of the state.
func (k *Health) disk(c *config.Health) error {
	room, err := roomOf(k.state)
	switch {
	case err != nil:
		return &health.Error{Reason: health.DiskUnknown, Err: err}
	case room.readOnly:
		return &health.Error{Reason: health.DiskReadOnly, Err: fmt.Errorf("%s is mounted read-only", k.state)}
	case room.free < int64(c.Disk):
		return &health.Error{Reason: health.DiskFull, Err: fmt.Errorf("%s has %d bytes free, and health.disk is %s", k.state, room.free, c.Disk)}
	case room.inodes >= 0 && room.inodes < int64(c.Inodes):
		return &health.Error{Reason: health.DiskInodes, Err: fmt.Errorf("%s has room for %d files, and health.inodes is %s", k.state, room.inodes, c.Inodes)}
	}
	return nil
}

// room is what a file system has free.
type room struct {
	free     int64 // bytes
	inodes   int64 // -1: it does not count them
	readOnly bool
}

// anchors looks for checkpoints that wait for too long.
func (k *Health) anchors(most time.Duration) error {
	for _, a := range k.house.AnchorStats() {
		if lag := lagOf(a.Since); lag > most {
			return &health.Error{Reason: health.AnchorBehind, Err: fmt.Errorf("anchor %s is behind by %v: %s", a.Name, lag.Round(time.Second), a.Fault)}
		}
	}
	return nil
}

func lagOf(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// Number is one of the numbers of a house, for its metrics. Its labels are words
// of ours, NAME, value, ...
type Number struct {
	Name   string
	Kind   string // counter or gauge
	Help   string
	Labels []string
	Value  float64
}

// Numbers returns those of health, traces, webhooks and anchors, by name.
func (k *Health) Numbers() (list []Number) {
	add := func(name, kind, help string, v float64, labels ...string) {
		list = append(list, Number{name, kind, help, labels, v})
	}
	report := k.Report()
	add("callcell_ready", "gauge", "Whether the daemon is ready.", boolOf(report.Ready))
	for _, c := range report.Checks {
		add("callcell_health", "gauge", "Whether a check of readiness is well.", boolOf(c.OK), "check", c.Name)
	}
	if room, err := roomOf(k.state); err == nil {
		add("callcell_state_free_bytes", "gauge", "What the file system of the state has free.", float64(room.free))
	}
	add("callcell_clock_steps_total", "counter", "Jumps of the time of day that were noticed.", float64(k.clock.Steps()))
	for i, a := range k.house.AnchorStats() {
		add("callcell_anchor_lag_seconds", "gauge", "How long a checkpoint waits for its anchor.", lagOf(a.Since).Seconds(), "anchor", fmt.Sprint(i))
	}
	if t, ok := k.house.TraceStats(); ok {
		add("callcell_trace_dropped_total", "counter", "Traces that were dropped: the queue was full, or the collector did not take them.", float64(t.Dropped))
		add("callcell_trace_failures_total", "counter", "Requests that the collector did not take.", float64(t.Failed))
		add("callcell_trace_spans_total", "counter", "Spans that the collector has taken.", float64(t.Sent))
		add("callcell_trace_waiting", "gauge", "Traces that wait.", float64(t.Waiting))
	}
	for _, n := range []struct {
		name, kind, help string
		of               func(i int) int64
	}{
		{"callcell_webhook_deliveries_total", "counter", "Deliveries that a receiver has taken.", func(i int) int64 { return k.house.HookStats()[i].Sent }},
		{"callcell_webhook_failures_total", "counter", "Requests that a receiver did not take.", func(i int) int64 { return k.house.HookStats()[i].Failed }},
		{"callcell_webhook_merged_total", "counter", "Events that joined others.", func(i int) int64 { return k.house.HookStats()[i].Merged }},
		{"callcell_webhook_dropped_total", "counter", "Events that a receiver never took.", func(i int) int64 { return k.house.HookStats()[i].Dropped }},
		{"callcell_webhook_waiting", "gauge", "Events that wait.", func(i int) int64 { return k.house.HookStats()[i].Waiting }},
	} {
		for i := range k.house.HookStats() {
			add(n.name, n.kind, n.help, float64(n.of(i)), "webhook", fmt.Sprint(i))
		}
	}
	return list
}

func boolOf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
