package callcell

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/trace"
)

// parentKey is of a context that has a span of somebody else's.
type parentKey struct{}

// WithTraceparent returns a context with which a call's trace is part of
// another one: traceparent is what W3C Trace Context calls so, of the span that
// the call belongs to. One that is malformed is ignored: it is not worth
// refusing a call. It has no effect where the configuration names no collector
// (telemetry.endpoint), or does not take the word of callers (telemetry.parents).
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	parent, ok := trace.Parse(traceparent)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, parentKey{}, parent)
}

// traced begins a trace where ctx says whose it is part of; the broker begins
// all others.
func (c *Callcell) traced(ctx context.Context) context.Context {
	parent, ok := ctx.Value(parentKey{}).(trace.Parent)
	if !ok {
		return ctx
	}
	return trace.With(ctx, trace.Start(c.house.Traces(), parent, time.Now, time.Now()))
}

// modulePath is this module's, among those that a program is built from.
const modulePath = "github.com/callcell/callcell"

// version is this package's, as the program that has it was built; "" where
// nobody knows.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Path == modulePath {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			return m.Version
		}
	}
	return ""
}

// watch tells Config.Warn and Config.Ended.
type watch struct {
	warn  func(string)
	ended func(*envelope.Call, *envelope.Result)
}

func (w watch) say(text string) {
	if w.warn != nil {
		w.warn(text)
	}
}

// Ended implements broker.EndWatch.
func (w watch) Ended(_ broker.Caller, call *envelope.Call, r *envelope.Result) {
	if w.ended != nil {
		w.ended(call, r)
	}
}

// Log implements assembly.LogWatch.
func (w watch) Log(text string) { w.say(text) }

// Leftover implements broker.Watch.
func (w watch) Leftover(id string, level envelope.Level, report envelope.Report) {
	for _, check := range report.Checks {
		if !check.Gone {
			w.say(fmt.Sprintf("call %s: left over at level %s: %s: %q", id, level, check.What, check.Note))
		}
	}
}

// Unrecorded implements broker.Watch.
func (w watch) Unrecorded(id string, err error) {
	w.say(fmt.Sprintf("call %s: its row could not be completed: %q", id, err.Error()))
}

// Panicked implements broker.Watch.
func (w watch) Panicked(id, step string, value any, _ []byte) {
	w.say(fmt.Sprintf("call %s: a failure of our own in %s: %q", id, step, fmt.Sprint(value)))
}
