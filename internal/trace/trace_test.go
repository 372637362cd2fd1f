package trace

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

type shelf struct {
	mu   sync.Mutex
	kept []Trace
}

func (s *shelf) Put(t Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, t)
}

const call = "0198c0de-0000-7000-8000-0123456789ab"

// TestSpans: a call is handed over once, when its last holder lets go, with its
// spans in the order in which they began, and what was under way ended.
func TestSpans(t *testing.T) {
	s, at := &shelf{}, time.Unix(100, 0)
	now := func() time.Time { at = at.Add(time.Second); return at }
	c := Start(s, Parent{}, now, at)
	c.SetCall(call)
	a := c.Begin(Span{}, "a")
	b := c.Begin(a, "b")
	b.End(true, Number("n", 7))
	b.End(false)
	c.Add(a, Data{Name: "c", Start: at, End: at})
	c.Hold()
	c.Describe(true, Text("k", "v"))
	c.End()
	if len(s.kept) != 0 {
		t.Fatal("it was handed over while somebody holds it")
	}
	c.End()
	c.End()
	c.Begin(a, "late").End(false)
	if len(s.kept) != 1 {
		t.Fatalf("%d traces", len(s.kept))
	}
	got := s.kept[0]
	var names []string
	for _, d := range got.Spans {
		names = append(names, d.Name)
		if d.End.IsZero() || d.End.Before(d.Start) {
			t.Errorf("%+v", d)
		}
	}
	if strings.Join(names, " ") != "call a b c" || got.Call != call || got.Spans[0].Parent != -1 || got.Spans[1].Parent != 0 || got.Spans[2].Parent != 1 || got.Spans[3].Parent != 1 {
		t.Errorf("%+v", got)
	}
	if b := got.Spans[2]; !b.Failed || len(b.Attrs) != 1 || b.End.Sub(b.Start) != time.Second || !got.Spans[0].Failed {
		t.Errorf("%+v", got)
	}
}

// TestOff: without a sink there is a call for its parent's sake alone, and
// without one none; every method takes it.
func TestOff(t *testing.T) {
	now := func() time.Time { t.Error("a clock is read"); return time.Time{} }
	if Start(nil, Parent{}, now, time.Time{}) != nil || From(t.Context()) != nil || With(t.Context(), nil) != t.Context() {
		t.Error("there is a call")
	}
	p, _ := Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	for _, c := range []*Call{nil, Start(nil, p, now, time.Time{})} {
		ctx := With(context.Background(), c)
		if From(ctx) != c {
			t.Error("the context has another one")
		}
		c.SetCall(call)
		s := c.Begin(Span{}, "a")
		s.End(true)
		c.Add(s, Data{})
		c.Describe(true)
		c.Hold()
		c.End()
		if c != nil && (c.Parent() != p || c.ID() != p.Trace) {
			t.Errorf("%+v", c)
		}
	}
	if n := testing.AllocsPerRun(100, func() { var c *Call; c.Begin(Span{}, "a").End(false); c.End() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBounds: a call has so many spans, and an attribute so many bytes, whatever
// a program does.
func TestBounds(t *testing.T) {
	s := &shelf{}
	c := Start(s, Parent{}, time.Now, time.Now())
	for range 3 * maxSpans {
		c.Begin(Span{}, "a").End(false)
	}
	c.End()
	if got := s.kept[0]; len(got.Spans) != maxSpans || got.More != 3*maxSpans+1-maxSpans {
		t.Errorf("%d spans, %d more", len(got.Spans), got.More)
	}
	if a := Text("k", "\xff"+strings.Repeat("é", maxText)); len(a.Text) > maxText+4 || strings.ToValidUTF8(a.Text, "") != a.Text {
		t.Errorf("%d bytes", len(a.Text))
	}
}

// TestHammer has many goroutines at one call.
func TestHammer(t *testing.T) {
	s := &shelf{}
	c := Start(s, Parent{}, time.Now, time.Now())
	var all sync.WaitGroup
	for range 8 {
		c.Hold()
		all.Go(func() {
			defer c.End()
			for range 50 {
				a := c.Begin(Span{}, "a")
				c.Describe(false, Number("n", 1))
				a.End(false)
				_ = c.ID()
			}
		})
	}
	c.SetCall(call)
	c.End()
	all.Wait()
	if len(s.kept) != 1 || s.kept[0].Call != call {
		t.Errorf("%d traces", len(s.kept))
	}
}

func TestParse(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for text, ok := range map[string]bool{
		good: true, good[:54] + "0": true, good[:53] + "ff": true, "01" + good[2:]: true, "01" + good[2:] + "-what-comes": true,
		"": false, good + "-x": false, "ff" + good[2:]: false, good[:54]: false, strings.ToUpper(good): false, "01" + good[2:] + "x": false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false, "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		strings.Replace(good, "-", "_", 1): false, strings.Replace(good, "4", "g", 1): false, " " + good: false,
	} {
		p, got := Parse(text)
		if got != ok || !ok && p != (Parent{}) {
			t.Errorf("%q: %v %+v", text, got, p)
		}
	}
	p, _ := Parse(good)
	if p.Trace.String() != "4bf92f3577b34da6a3ce929d0e0e4736" || !p.Sampled {
		t.Errorf("%+v", p)
	}
	if OfCall(call).String() != strings.ReplaceAll(call, "-", "") || OfCall("x") != (ID{}) || OfCall(strings.ReplaceAll(call, "-", "")) != (ID{}) {
		t.Error("the trace of a call")
	}
}

// FuzzParse: what is taken has ids that are not zero, and is found again in what
// it says.
func FuzzParse(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more")
	f.Add("00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := Parse(text)
		if !ok {
			if p != (Parent{}) {
				t.Fatalf("%q: refused, and %+v", text, p)
			}
			return
		}
		if p.Trace == (ID{}) || p.Span == [8]byte{} || len(text) < parentLength || text[3:35] != p.Trace.String() {
			t.Fatalf("%q: %+v", text, p)
		}
	})
}
