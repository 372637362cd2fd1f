package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
	"github.com/callcell/callcell/internal/testing/leak"
)

// ticking is a clock whose one ticker the test ticks.
type ticking struct {
	*clock
	c chan time.Time
}

func (c *ticking) Ticker(time.Duration) (<-chan time.Time, func()) { return c.c, func() {} }

// counters returns what the chain has counted, an event each.
func counters(t testing.TB, m *storetest.Memory) (list []audit.CounterRecord) {
	t.Helper()
	for _, s := range events(m) {
		if s.Kind == int64(audit.KindCounter) {
			var rec audit.CounterRecord
			if err := json.Unmarshal(s.Body, &rec); err != nil {
				t.Fatal(err)
			}
			list = append(list, rec)
		}
	}
	return list
}

// TestFloodsCostOneEventAWindow: a million tries of as many names are one
// bounded event, and nothing of them is lost.
func TestFloodsCostOneEventAWindow(t *testing.T) {
	leak.Check(t)
	c := &ticking{newClock(), make(chan time.Time)}
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: c, Window: time.Minute})
	const each = 50_000
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range each {
				l.Count("name", fmt.Sprintf("%d-%d.example", w, i))
				l.Count("bad-key", "")
			}
		})
	}
	wg.Wait()
	for i := range 200 {
		l.Count(fmt.Sprintf("kind-%d", i), strings.Repeat("k", 1000)+"\xff\n")
	}
	c.c <- c.Now()
	c.c <- c.Now() // the first has been dealt with
	if got := counters(t, m); len(got) != 0 {
		t.Fatalf("before the window is over: %+v", got)
	}
	c.move(time.Minute)
	c.c <- c.Now()
	c.c <- c.Now()
	got := counters(t, m)
	if len(got) != 1 || got[0].To.Sub(got[0].From) != time.Minute || len(got[0].Counts) > 600 {
		t.Fatalf("%d events", len(got))
	}
	sums := map[string]int64{}
	for _, n := range got[0].Counts {
		if len(n.Key) > 128 || strings.ContainsRune(n.Key, 0) {
			t.Errorf("%+v", n)
		}
		sums[n.Kind] += n.N
		sums["all"] += n.N
	}
	if sums["name"] != 4*each || sums["bad-key"] != 4*each || sums["all"] != 8*each+200 || sums["other"] == 0 {
		t.Errorf("%v", sums)
	}
	if size := len(events(m)[0].Body); size > 64<<10 {
		t.Errorf("%d bytes", size)
	}
	c.move(time.Hour)
	c.c <- c.Now()
	c.c <- c.Now()
	if got := counters(t, m); len(got) != 1 {
		t.Errorf("nothing was counted, and there are %d events", len(got))
	}
	if rep := verify(t, l); !rep.Intact() {
		t.Errorf("%+v", rep)
	}
}

// TestCountsSurviveAFullDisk, and the last ones a Close.
func TestCountsSurviveAFullDisk(t *testing.T) {
	m, c := new(storetest.Memory), newClock()
	l := newLog(t, m, audit.Options{Clock: c})
	l.Count("rate", "key-1")
	m.Fault(func() error { return audit.ErrUnwritable })
	l.Count("rate", "key-1")
	if err := l.Close(t.Context()); !errors.Is(err, audit.ErrUnwritable) {
		t.Errorf("%v", err)
	}
	m.Fault(nil)
	l.Count("rate", "key-1") // closed: nobody would write it
	l = newLog(t, m, audit.Options{Clock: c})
	l.Count("rate", "key-2")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := counters(t, m); len(got) != 1 || !slices.Equal(got[0].Counts, []audit.Count{{Kind: "rate", Key: "key-2", N: 1}}) {
		t.Errorf("%+v", got)
	}
}
