package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
	"github.com/callcell/callcell/internal/trace"
)

// traces keeps them.
type traces struct {
	mu   sync.Mutex
	kept []trace.Trace
}

func (s *traces) Put(t trace.Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, t)
}

// tree is a trace as NAME(child child), where order is that of the beginnings;
// a span that failed has a mark.
func tree(t trace.Trace, of int) string {
	d := t.Spans[of]
	text := d.Name
	if d.Failed {
		text += "!"
	}
	var below []string
	for i, c := range t.Spans {
		if i > 0 && c.Parent == of {
			below = append(below, tree(t, i))
		}
	}
	slices.Sort(below) // some are side by side
	if len(below) == 0 {
		return text
	}
	return text + "(" + strings.Join(below, " ") + ")"
}

// TestTraceOfACall: every step of a call is a span below it, what others took is
// one below the step that waited for it, and none has a word of the call's.
func TestTraceOfACall(t *testing.T) {
	kept := &traces{}
	s := newStand(t, func(c *broker.Config) { c.Traces = kept })
	call := argv("/bin/print", "SESAME")
	call.Tool, call.Inputs, call.Stdin = "sh", []envelope.File{{Name: "SESAME", Data: []byte("SESAME")}}, []byte("SESAME")
	r := s.run(t.Context(), call)
	if len(kept.kept) != 1 || !r.OK() {
		t.Fatalf("%d traces, %+v", len(kept.kept), r)
	}
	got := kept.kept[0]
	const want = "call(admit collect decide destroy(close) enter load prepare(intend open) record(complete) reserve run(exec) stop)"
	if text := tree(got, 0); text != want || got.Call != r.ID {
		t.Errorf("%s\nwant %s", text, want)
	}
	attrs := map[string]string{}
	for _, a := range got.Spans[0].Attrs {
		attrs[a.Key] = a.Text
	}
	for key, want := range map[string]string{"callcell.call.id": r.ID, "callcell.task": "t-1", "callcell.tool": "sh", "callcell.caller": "key:k_test",
		"callcell.team": "blue", "callcell.level": "container", "callcell.outcome": "completed"} {
		if attrs[key] != want {
			t.Errorf("%s is %q, want %q", key, attrs[key], want)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v", got), "SESAME") {
		t.Errorf("a word of the call is in %+v", got)
	}
	for _, d := range got.Spans {
		if d.Start.Before(got.Spans[0].Start) || d.End.After(got.Spans[0].End) || d.End.Before(d.Start) {
			t.Errorf("%s is not within the call", d.Name)
		}
	}
}

// TestTraceOfAFailure: a refusal's trace ends where the call did, and says so; a
// malformed call's own words are not in it.
func TestTraceOfAFailure(t *testing.T) {
	kept := &traces{}
	s := newStand(t, func(c *broker.Config) { c.Traces = kept })
	call := argv("/bin/print")
	call.Task, call.Tool = strings.Repeat("SESAME", 100), "SESAME"
	s.run(t.Context(), call)
	s.fault("open", func(context.Context) error { return errors.New("SESAME") })
	s.run(t.Context(), argv("/bin/print"))
	if len(kept.kept) != 2 {
		t.Fatalf("%d traces", len(kept.kept))
	}
	for i, want := range []string{"call!(admit! destroy enter record(complete))",
		"call!(admit decide destroy enter load prepare!(intend open!) record(complete) reserve)"} {
		if text := tree(kept.kept[i], 0); text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
		if strings.Contains(fmt.Sprintf("%+v", kept.kept[i]), "SESAME") {
			t.Errorf("%+v", kept.kept[i])
		}
	}
}

// TestTraceOfTheCaller: a call joins the trace that its context has, which ends
// when the front end lets go; the row says whose it is. Without a sink the row
// says it all the same.
func TestTraceOfTheCaller(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent, _ := trace.Parse("00-" + id + "-00f067aa0ba902b7-01")
	own, front := &traces{}, &traces{}
	s := newStand(t, func(c *broker.Config) { c.Traces = own })
	for _, sink := range []trace.Sink{front, nil} {
		c := trace.Start(sink, parent, time.Now, time.Now())
		r := s.run(trace.With(t.Context(), c), argv("/bin/print"))
		if len(front.kept) != 0 && sink != nil {
			t.Error("it ended before its holder let go")
		}
		c.End()
		if s.intents[r.ID].Trace != id {
			t.Errorf("the row has the trace %q", s.intents[r.ID].Trace)
		}
	}
	if len(front.kept) != 1 || len(own.kept) != 0 || front.kept[0].Parent != parent {
		t.Errorf("%d and %d traces", len(front.kept), len(own.kept))
	}
	if r := s.run(t.Context(), argv("/bin/print")); s.intents[r.ID].Trace != "" {
		t.Error("a trace of nobody's is in the row")
	}
}

// TestTraceOfConnections: what a call tried to reach are spans of its run, by
// the name of the host.
func TestTraceOfConnections(t *testing.T) {
	kept := &traces{}
	s, way := newNetStand(t, func(c *broker.Config) { c.Traces = kept })
	for i := range 100 {
		way.tried = append(way.tried, envelope.Attempt{At: time.Now().Add(time.Hour), Took: time.Hour, Host: fmt.Sprintf("h%d.test", i), Port: 443, Verdict: envelope.VerdictDenied, Why: "SESAME", Blocked: "10.0.0.1"})
	}
	r := s.run(t.Context(), argv("/bin/print"))
	if r.Outcome != envelope.OutcomeCompleted {
		t.Fatalf("%+v", r.Refusal)
	}
	n := 0
	got := kept.kept[0]
	for _, d := range got.Spans {
		if d.Name == "egress" {
			n++
			if got.Spans[d.Parent].Name != "run" || d.Kind != trace.Client || d.Start.Before(got.Spans[0].Start) || d.End.After(got.Spans[0].End) {
				t.Errorf("%+v", d)
			}
		}
	}
	if n != 64 || strings.Contains(fmt.Sprintf("%+v", got), "SESAME") {
		t.Errorf("%d spans", n)
	}
	if !slices.ContainsFunc(r.Events, func(e envelope.Event) bool {
		return e.Kind == envelope.SignAddress && e.Count == int64(len(way.tried)) && e.Source == "host"
	}) {
		t.Errorf("events %+v", r.Events)
	}
}

// TestEndWatch: whoever hears of every call hears of it once, with its row
// written, and cannot break it.
func TestEndWatch(t *testing.T) {
	heard := &endWatch{}
	s := newStand(t, func(c *broker.Config) { c.Watch = heard })
	ran, refused := s.run(t.Context(), argv("/bin/print")), s.run(t.Context(), &envelope.Call{})
	if len(heard.ids) != 2 || heard.ids[0] != ran.ID || heard.ids[1] != refused.ID {
		t.Errorf("%q", heard.ids)
	}
}

type endWatch struct {
	watch
	ids []string
}

func (w *endWatch) Ended(_ broker.Caller, _ *envelope.Call, r *envelope.Result) {
	if r.Receipt != nil {
		w.ids = append(w.ids, r.ID)
	}
	panic("a mistake of a watch")
}

// BenchmarkTraceOff compares what a call pays for traces that are off with what
// it pays in all: share-% is of the main path alone, over a cell in memory and
// rows that go nowhere.
func BenchmarkTraceOff(b *testing.B) {
	took := func(sink trace.Sink, n int) time.Duration {
		profile := envelope.Default()
		profile.Trust = envelope.TrustReviewed
		br, err := broker.New(broker.Config{Recorder: nowhere{}, Profiles: one{profile}, Traces: sink,
			Runtimes: []cell.Runtime{fake.New(envelope.LevelContainer, nil)}})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for range n {
			if r := br.Run(b.Context(), caller(), argv("/bin/print", "x")); r.Outcome != envelope.OutcomeCompleted {
				b.Fatal(r.Refusal)
			}
		}
		return time.Since(began)
	}
	var off, on, hooks time.Duration
	calls := 0
	for b.Loop() {
		const n = 200
		off, on, calls = off+took(nil, n), on+took(nothing{}, n), calls+n
		began := time.Now()
		for range n {
			none := trace.From(b.Context())
			for range 24 { // as many as a call has
				none.Begin(trace.Span{}, "step").End(false)
			}
			none.End()
		}
		hooks += time.Since(began)
	}
	b.ReportMetric(float64(off.Nanoseconds())/float64(calls), "ns/call-off")
	b.ReportMetric(float64(on.Nanoseconds())/float64(calls), "ns/call-on")
	b.ReportMetric(float64(hooks.Nanoseconds())/float64(calls), "ns/hooks-off")
	b.ReportMetric(100*float64(hooks)/float64(off), "share-%")
}

type nothing struct{}

func (nothing) Put(trace.Trace) {}
