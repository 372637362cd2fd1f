package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/callcell/callcell/internal/outward"
	"github.com/callcell/callcell/internal/testing/leak"
	"github.com/callcell/callcell/internal/trace"
)

// decode reads a request by OpenTelemetry's own types, which have to know every
// byte of it.
func decode(t *testing.T, body []byte) (*collector.ExportTraceServiceRequest, []*otlp.Span) {
	t.Helper()
	var r collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	var spans []*otlp.Span
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			spans = append(spans, ss.Spans...)
		}
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&r)
	if err != nil || len(again) != len(body) {
		t.Errorf("%d bytes, and their library writes %d for the same: %v", len(body), len(again), err)
	}
	return &r, spans
}

func sample(n int) trace.Trace {
	at := time.Unix(1_700_000_000, 5)
	return trace.Trace{Call: fmt.Sprintf("0198c0de-0000-7000-8000-%012x", n), More: 3, Spans: []trace.Data{
		{Name: "call", Parent: -1, Kind: trace.Server, Start: at, End: at.Add(time.Second), Failed: true, Attrs: []trace.Attr{trace.Text("callcell.level", "container"), trace.Number("n", -4)}},
		{Name: "run", Parent: 0, Start: at.Add(time.Millisecond), End: at.Add(2 * time.Millisecond)},
		{Name: "egress", Parent: 1, Kind: trace.Client, Start: at, End: at},
	}}
}

// TestEncode: what is written is what OpenTelemetry's types read.
func TestEncode(t *testing.T) {
	withParent := sample(2)
	withParent.Parent, _ = trace.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	nameless := sample(3)
	nameless.Call = ""
	r, spans := decode(t, Encode(Resource{Service: "callcell", Version: "v1", Host: "h"}, []trace.Trace{sample(1), withParent, nameless}))
	if len(spans) != 6 || len(r.ResourceSpans) != 1 || r.ResourceSpans[0].ScopeSpans[0].Scope.Version != "v1" {
		t.Fatalf("%v", r)
	}
	attrs := map[string]string{}
	for _, kv := range r.ResourceSpans[0].Resource.Attributes {
		attrs[kv.Key] = kv.Value.GetStringValue()
	}
	if attrs["service.name"] != "callcell" || attrs["service.version"] != "v1" || attrs["host.name"] != "h" {
		t.Errorf("%v", attrs)
	}
	call, run, out := spans[0], spans[1], spans[2]
	if hex.EncodeToString(call.TraceId) != "0198c0de000070008000000000000001" || len(call.ParentSpanId) != 0 || string(run.ParentSpanId) != string(call.SpanId) ||
		string(out.ParentSpanId) != string(run.SpanId) || call.Kind != otlp.Span_SPAN_KIND_SERVER || run.Kind != otlp.Span_SPAN_KIND_INTERNAL || out.Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("%v", spans)
	}
	if call.StartTimeUnixNano != 1_700_000_000_000_000_005 || call.EndTimeUnixNano-call.StartTimeUnixNano != 1e9 || call.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || run.Status != nil {
		t.Errorf("%v", call)
	}
	if len(call.Attributes) != 3 || call.Attributes[1].Value.GetIntValue() != -4 || call.Attributes[2].Value.GetIntValue() != 3 || call.Flags != 0x101 {
		t.Errorf("%v", call.Attributes)
	}
	if theirs := spans[3]; hex.EncodeToString(theirs.TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" || hex.EncodeToString(theirs.ParentSpanId) != "00f067aa0ba902b7" || theirs.Flags != 0x301 {
		t.Errorf("%v", theirs)
	}
}

// TestAStepOfTheClockTearsNothingApart: the spans of a call are as far apart as
// the monotonic clock says.
func TestAStepOfTheClockTearsNothingApart(t *testing.T) {
	began := time.Now()
	tr := sample(1)
	tr.Spans = tr.Spans[:2]
	tr.Spans[0].Start, tr.Spans[0].End = began, began.Add(time.Second)
	tr.Spans[1].Start, tr.Spans[1].End = began.Add(time.Millisecond), began.Add(2*time.Millisecond)
	_, spans := decode(t, Encode(Resource{Service: "x"}, []trace.Trace{tr}))
	if d := spans[1].StartTimeUnixNano - spans[0].StartTimeUnixNano; d != 1e6 {
		t.Errorf("%d ns", d)
	}
}

// post is a Sender of the tests.
type post struct {
	mu     sync.Mutex
	fault  func(ctx context.Context) error
	tries  int
	traces int
	header http.Header
}

func (*post) Name() string { return "https://collector" }

func (p *post) Post(ctx context.Context, header http.Header, body []byte) error {
	p.mu.Lock()
	p.tries++
	fault := p.fault
	p.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	var r collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = header
	for _, s := range r.ResourceSpans[0].ScopeSpans[0].Spans {
		if s.Name == "call" {
			p.traces++
		}
	}
	return nil
}

func (p *post) set(f func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// TestADeadCollectorCostsNothing: what it does not take is tried again, dropped
// and counted; nothing of it blocks, two things are said, and what comes later
// arrives.
func TestADeadCollectorCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{fault: func(context.Context) error { return errors.New("down") }}
		var said []string
		e := New(Options{Sender: p, Sample: 100, Queue: 16, Say: func(text string) { said = append(said, text) }})
		for i := range 100 {
			e.Put(sample(i))
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if s := e.Stats(); s.Dropped != 100 || s.Failed < tries || s.Sent != 0 || s.Waiting != 0 || s.Fault == "" {
			t.Errorf("%+v", s)
		}
		p.set(nil)
		e.Put(sample(1))
		<-time.After(batchWait + time.Second)
		synctest.Wait()
		if s := e.Stats(); s.Sent != 3 || s.Fault != "" {
			t.Errorf("%+v", s)
		}
		if err := e.Close(t.Context()); err != nil || p.traces != 1 || p.header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v, %d traces", err, p.traces)
		}
		if len(said) != 2 || !strings.Contains(said[0], "down") || !strings.Contains(said[1], "100 were dropped") {
			t.Errorf("%q", said)
		}
		e.Put(sample(2))
		if s := e.Stats(); s.Dropped != 101 {
			t.Errorf("after the end: %+v", s)
		}
	})
}

// TestANoIsNotAskedAgain: an answer that will not change is not waited for.
func TestANoIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{fault: func(context.Context) error { return &outward.StatusError{Status: 400} }}
		e := New(Options{Sender: p, Sample: 100, Queue: 4})
		e.Put(sample(1))
		<-time.After(time.Hour)
		synctest.Wait()
		if s := e.Stats(); p.tries != 1 || s.Dropped != 1 {
			t.Errorf("%d tries, %+v", p.tries, s)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseHandsOnWhatWaits, and is bounded where nobody takes it.
func TestCloseHandsOnWhatWaits(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		e := New(Options{Sender: p, Sample: 100, Queue: 4000})
		for i := range 1000 {
			e.Put(sample(i))
		}
		if err := e.Close(t.Context()); err != nil || p.traces != 1000 {
			t.Errorf("%v, %d traces", err, p.traces)
		}
		stuck := &post{fault: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		e = New(Options{Sender: stuck, Sample: 100, Queue: 4000})
		for i := range 1000 {
			e.Put(sample(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := e.Close(ctx); !errors.Is(err, ErrUndelivered) || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestSampling: a share of the calls that nobody decides about; a caller decides
// about his own where he may.
func TestSampling(t *testing.T) {
	mine := func(sampled string) trace.Trace {
		tr := sample(1)
		tr.Parent, _ = trace.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-" + sampled)
		return tr
	}
	for _, c := range []struct {
		name    string
		sample  int
		parents bool
		trace   trace.Trace
		want    bool
	}{
		{"all", 100, true, sample(1), true}, {"a low id of few", 1, true, sample(1), true}, {"a high id of few", 99, true, trace.Trace{Call: "0198c0de-0000-7000-8fff-ffffffffffff"}, false},
		{"no id", 100, true, trace.Trace{}, false}, {"the caller says no", 100, true, mine("00"), false}, {"the caller says yes", 1, true, mine("01"), true},
		{"the caller has no say", 100, false, mine("00"), true},
	} {
		e := New(Options{Sample: c.sample, Parents: c.parents})
		if got := e.sampled(&c.trace); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	n := 0
	e := New(Options{Sample: 10})
	for i := range 10_000 {
		tr := trace.Trace{Call: fmt.Sprintf("0198c0de-0000-7000-8%03x-%012x", i*7919%4096, i)}
		if e.sampled(&tr) {
			n++
		}
	}
	if n < 900 || n > 1100 {
		t.Errorf("%d of 10000 calls at 10 in a hundred", n)
	}
}

// BenchmarkPut is what a call pays where traces are on.
func BenchmarkPut(b *testing.B) {
	e := New(Options{Sender: &post{fault: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, Sample: 100, Queue: 16})
	tr := sample(1)
	for b.Loop() {
		e.Put(tr)
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	_ = e.Close(ctx) // nobody takes it
}
