package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/trace"
)

// maxWays is how many attempts of a call are spans; its row has more.
const maxWays = 64

// traced returns the trace that the context has, with one holder more, or one of
// the call's own; nil where there is none.
func (b *Broker) traced(ctx context.Context, f *flight) *trace.Call {
	t := trace.From(ctx)
	if t == nil {
		t = trace.Start(b.traces, trace.Parent{}, b.clock.Now, f.began)
	} else {
		t.Hold()
	}
	t.SetCall(f.result.ID)
	return t
}

// spanned does a step that cannot fail as a span.
func (b *Broker) spanned(f *flight, name string, do func()) {
	f.step = f.trace.Begin(trace.Span{}, name)
	do()
	f.step.End(false)
}

// described says of the call itself what its row says of it: ids and words of
// closed sets, and what the caller calls his own work; no argument, and nothing
// that came out.
func (f *flight) described() {
	if f.trace == nil {
		return
	}
	r := f.result
	said := f.call
	if f.said != nil {
		said = f.said // without its secrets
	}
	attrs := []trace.Attr{trace.Text("callcell.call.id", r.ID), trace.Text("callcell.caller", f.who.Name)}
	add := func(key, text string) {
		if text != "" {
			attrs = append(attrs, trace.Text("callcell."+key, text))
		}
	}
	add("team", f.who.Team)
	if said != nil && !(r.Refusal != nil && r.Refusal.Reason == envelope.ReasonRequest) { // what was not taken is not said on
		add("task", said.Task)
		add("tool", said.Tool)
		add("profile", said.Profile)
	}
	if r.Level.Valid() {
		add("level", r.Level.String())
	}
	if r.Refusal != nil {
		add("refusal", r.Refusal.Reason.String())
	} else {
		add("outcome", r.Outcome.String())
		attrs = append(attrs, trace.Number("callcell.cpu_ns", int64(r.Usage.CPU)))
	}
	f.trace.Describe(r.Refusal != nil || r.Outcome == envelope.OutcomeBroken, attrs...)
}

// program is the program's own time, as who ran it has measured it: it ended
// just now.
func (f *flight) program(clock func() time.Time, exit *cell.Exit) {
	if f.trace == nil {
		return
	}
	now := clock()
	attrs := []trace.Attr{trace.Text("callcell.measured_by", cmp.Or(exit.Source, "host"))}
	f.trace.Add(f.step, trace.Data{Name: "exec", Start: now.Add(-exit.Wall), End: now, Attrs: attrs})
}

// took adds what the process that builds and removes cells says it took for
// something, which it ended just now.
func (f *flight) took(within trace.Span, clock func() time.Time, name string, which func(cell.Timings) time.Duration) {
	if f.trace == nil {
		return
	}
	t, ok := f.cell.(cell.Timed)
	if !ok {
		return
	}
	if d := which(t.Timings()); d > 0 {
		now := clock()
		attrs := []trace.Attr{trace.Text("callcell.measured_by", "launcher")}
		f.trace.Add(within, trace.Data{Name: name, Kind: trace.Client, Start: now.Add(-d), End: now, Attrs: attrs})
	}
}

// ways adds a span for each attempt to reach something, below the run: which
// host, and what became of it. The names are a program's words, in which
// credentials are masked already.
func (f *flight) ways(clock func() time.Time) {
	if f.trace == nil || f.result.Egress == nil {
		return
	}
	now := clock()
	for _, a := range f.result.Egress.Attempts[:min(len(f.result.Egress.Attempts), maxWays)] {
		start := a.At
		if start.Before(f.began) || start.After(now) {
			start = f.began // another process's clock, that says what cannot be
		}
		end := start.Add(a.Took)
		if end.After(now) {
			end = now
		}
		attrs := []trace.Attr{trace.Text("server.address", a.Host), trace.Text("callcell.egress.verdict", a.Verdict.String())}
		if a.Port > 0 {
			attrs = append(attrs, trace.Number("server.port", int64(a.Port)), trace.Number("callcell.egress.sent", a.Sent), trace.Number("callcell.egress.received", a.Received))
		}
		if a.Protocol != "" {
			attrs = append(attrs, trace.Text("network.protocol.name", a.Protocol))
		}
		f.trace.Add(f.running, trace.Data{Name: "egress", Kind: trace.Client, Start: start, End: end, Attrs: attrs,
			Failed: a.Verdict != envelope.VerdictAllowed})
	}
}

// over says what the call was, and tells who hears of every one: it is the last
// thing that is done for it.
func (b *Broker) over(f *flight) {
	f.ways(b.clock.Now)
	f.described()
	if w, ok := b.watch.(EndWatch); ok {
		b.tell(func(Watch) { w.Ended(f.who, f.call, f.result) })
	}
}
