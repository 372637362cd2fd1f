package anchor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

// shelf is an anchor of the tests.
type shelf struct {
	mu    sync.Mutex
	fault func(ctx context.Context) error
	tries []time.Time
	kept  []string // instances
}

func (*shelf) Name() string { return "shelf" }

func (s *shelf) Send(ctx context.Context, line []byte) error {
	s.mu.Lock()
	s.tries = append(s.tries, time.Now())
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	var c audit.Checkpoint
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, c.Instance)
	return nil
}

func (s *shelf) set(fault func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func checkpoint(name string) audit.Checkpoint { return audit.Checkpoint{Version: 1, Instance: name} }

var errDown = errors.New("down")

func down(context.Context) error { return errDown }

// TestDeadAnchor: it is tried ever more seldom, the newest checkpoint alone
// waits for it, and two things are said: that it fails, and that it works again.
func TestDeadAnchor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, alive := &shelf{fault: down}, &shelf{}
		var said []string
		s := NewSet([]Anchor{dead, alive}, func(text string) { said = append(said, text) })
		began := time.Now()
		for _, name := range []string{"a", "b", "c"} {
			s.Publish(checkpoint(name))
			synctest.Wait()
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if n := len(dead.tries); n < 15 || n > 25 {
			t.Errorf("%d tries in an hour", n)
		}
		for i := 1; i < len(dead.tries); i++ {
			if pause := dead.tries[i].Sub(dead.tries[i-1]); pause > longPause || pause < min(firstPause<<(i-1), longPause) {
				t.Errorf("pause %d is %v", i, pause)
			}
		}
		if !slices.Equal(alive.kept, []string{"a", "b", "c"}) || len(said) != 1 || !strings.Contains(said[0], "does not take") {
			t.Errorf("the other one has %q, said %q", alive.kept, said)
		}
		stats := s.Stats()
		if stats[0].Failed != int64(len(dead.tries)) || !stats[0].Pending || stats[0].Fault != "down" || stats[1] != (Stat{Name: "shelf", Sent: 3}) {
			t.Errorf("%+v", stats)
		}
		dead.set(nil)
		<-time.After(longPause)
		synctest.Wait()
		if !slices.Equal(dead.kept, []string{"c"}) || len(said) != 2 || !strings.Contains(said[1], "again") {
			t.Errorf("after %v it has %q, said %q", time.Since(began), dead.kept, said)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseTriesOnceMore, and names who has not taken the newest.
func TestCloseTriesOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &shelf{fault: down}
		s := NewSet([]Anchor{slow}, nil)
		s.Publish(checkpoint("a"))
		synctest.Wait()
		slow.set(nil)
		if err := s.Close(t.Context()); err != nil || !slices.Equal(slow.kept, []string{"a"}) {
			t.Errorf("%q, %v", slow.kept, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		s.Publish(checkpoint("late"))
	})
	synctest.Test(t, func(t *testing.T) {
		hung := &shelf{fault: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		s := NewSet([]Anchor{hung}, nil)
		s.Publish(checkpoint("a"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Close(ctx); !errors.Is(err, ErrUndelivered) || time.Since(began) > 13*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
	if err := NewSet([]Anchor{&shelf{}}, nil).Close(t.Context()); err != nil {
		t.Errorf("one that was never used: %v", err)
	}
}

// TestAnchorNeverBlocksACall: Publish returns at once while a try hangs.
func TestAnchorNeverBlocksACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &shelf{fault: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		s := NewSet([]Anchor{hung}, nil)
		began := time.Now()
		for range 1000 {
			s.Publish(checkpoint("x"))
		}
		if time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(ctx); !errors.Is(err, ErrUndelivered) {
			t.Error(err)
		}
	})
}
