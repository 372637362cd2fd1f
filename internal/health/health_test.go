package health

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// TestReport: a hard check decides, a soft one does not, each says its word, and
// what was found is kept for two seconds.
func TestReport(t *testing.T) {
	leak.Check(t)
	now := time.Unix(1_000_000, 0)
	var runs int
	var hard, soft error
	c := New([]Check{
		{Name: "store", Run: func(context.Context) error { runs++; return hard }},
		{Name: "anchors", Soft: true, Run: func(context.Context) error { return soft }},
	}, func() time.Time { return now })
	if r := c.Report(); !r.Ready || len(r.Checks) != 2 || !r.Checks[0].OK || r.Checks[0].Reason != "" {
		t.Errorf("%+v", r)
	}
	hard, soft = errors.New("secret words"), &Error{AnchorBehind, errors.New("x")}
	if r := c.Report(); !r.Ready || runs != 1 {
		t.Errorf("%+v after %d runs: it is not kept", r, runs)
	}
	now = now.Add(keepFor)
	if r := c.Report(); r.Ready || r.Checks[0].Reason != Unknown || r.Checks[1].Reason != AnchorBehind || !r.Checks[1].Soft || runs != 2 {
		t.Errorf("%+v", r)
	}
	hard = nil
	now = now.Add(keepFor)
	if r := c.Report(); !r.Ready || r.Checks[1].OK {
		t.Errorf("%+v: it does not recover", r)
	}
	now = now.Add(-time.Hour) // a clock that is set back keeps nothing for ever
	if c.Report(); runs != 4 {
		t.Errorf("%d runs", runs)
	}
}

// TestReportIsBounded: a check that hangs is not waited for longer than its
// context says.
func TestReportIsBounded(t *testing.T) {
	c := New([]Check{{Name: "launcher", Run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}}, nil)
	c.most = time.Millisecond
	if r := c.Report(); r.Ready || !errors.Is(r.Checks[0].Err, context.DeadlineExceeded) {
		t.Errorf("%+v", r)
	}
}

// TestClock: a jump either way is noticed and passes, and slow drift is none.
func TestClock(t *testing.T) {
	wall, mono := time.Unix(1_000_000, 0), time.Duration(0)
	pass := func(d, jump time.Duration) { mono += d; wall = wall.Add(d + jump) }
	c := NewClock(2*time.Second, 15*time.Second, func() time.Time { return wall }, func() time.Duration { return mono })
	want := func(well bool) {
		t.Helper()
		if err := c.Check(t.Context()); (err == nil) != well {
			t.Errorf("%v", err)
		}
	}
	want(true)
	pass(time.Hour, time.Second)
	want(true)
	pass(time.Second, -24*time.Hour)
	want(false)
	pass(14*time.Second, 0)
	want(false)
	pass(time.Second, 0)
	want(true)
	pass(time.Second, 5*time.Second)
	want(false)
	if n := c.Steps(); n != 2 {
		t.Errorf("%d steps", n)
	}
	var known *Error
	if err := c.Check(t.Context()); !errors.As(err, &known) || known.Reason != ClockStepped {
		t.Errorf("%v", err)
	}
}
