package trace

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Sink is handed the spans of calls that have ended. It is called concurrently,
// and must not block.
type Sink interface{ Put(t Trace) }

// Trace is what one call left: its spans, the first of which is the call itself.
// Nobody changes it any more.
type Trace struct {
	Call   string // id of the call; "" where it did not come so far
	Parent Parent
	Spans  []Data
	More   int // spans that there was no room for
}

// Data is one span.
type Data struct {
	Name   string
	Parent int // place in Trace.Spans; -1 for the first
	Kind   Kind
	Start  time.Time
	End    time.Time
	Failed bool
	Attrs  []Attr
}

// Kind says on which side of what a span is. The zero value is inside this
// product.
type Kind uint8

// The kinds of spans.
const (
	Internal Kind = iota
	Server        // it answers who called us
	Client        // it waits for somebody else
)

// Attr says one thing about a span: a text, or a number where Text is "".
type Attr struct {
	Key    string
	Text   string
	Number int64
}

// Text is an attribute that is a text. It is cut and made valid.
func Text(key, value string) Attr {
	if len(value) > maxText {
		value = value[:maxText]
	}
	return Attr{Key: key, Text: strings.ToValidUTF8(value, "\uFFFD")}
}

// Number is an attribute that is a number.
func Number(key string, value int64) Attr { return Attr{Key: key, Number: value} }

// Call is the trace of one call while it runs. Its methods may be called
// concurrently, and on nil, where they do nothing.
type Call struct {
	sink Sink // nil: nothing is gathered but who the parent is
	now  func() time.Time

	mu      sync.Mutex // guards what follows
	trace   Trace
	holders int
}

// A Span is one of a call's while it is under way. The zero value is the call
// itself, or none.
type Span struct {
	call *Call
	at   int
}

// Start begins the trace of a call at a time; now tells it from then on. A nil
// sink gathers nothing: then the call is there for its parent alone, and nil where
// there is none.
func Start(sink Sink, p Parent, now func() time.Time, at time.Time) *Call {
	if sink == nil && p == (Parent{}) {
		return nil
	}
	c := &Call{sink: sink, now: now, holders: 1, trace: Trace{Parent: p}}
	if sink != nil {
		c.trace.Spans = append(make([]Data, 0, 32), Data{Name: "call", Parent: -1, Kind: Server, Start: at})
	}
	return c
}

// ID is the trace that the call belongs to: its parent's, else its own, which is
// the call's id.
func (c *Call) ID() ID {
	if c == nil {
		return ID{}
	}
	if c.trace.Parent.Trace != (ID{}) { // never changed
		return c.trace.Parent.Trace
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return OfCall(c.trace.Call)
}

// Parent is the span that the call was made under; the zero value is none.
func (c *Call) Parent() Parent {
	if c == nil {
		return Parent{}
	}
	return c.trace.Parent // never changed
}

// SetCall says which call it is.
func (c *Call) SetCall(id string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace.Call = id
}

// Begin begins a span within another one.
func (c *Call) Begin(within Span, name string) Span {
	if c == nil || c.sink == nil {
		return Span{}
	}
	return c.add(Data{Name: name, Parent: within.at, Start: c.now()})
}

// Add adds a span that is over: what somebody else measured.
func (c *Call) Add(within Span, d Data) {
	if c == nil || c.sink == nil {
		return
	}
	d.Parent = within.at
	c.add(d)
}

func (c *Call) add(d Data) Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders == 0 {
		return Span{}
	}
	if len(c.trace.Spans) >= maxSpans {
		c.trace.More++
		return Span{}
	}
	c.trace.Spans = append(c.trace.Spans, d)
	return Span{call: c, at: len(c.trace.Spans) - 1}
}

// End ends the span. Later calls do nothing.
func (s Span) End(failed bool, attrs ...Attr) {
	if s.call == nil {
		return
	}
	c, now := s.call, s.call.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &c.trace.Spans[s.at]
	if c.holders == 0 || !d.End.IsZero() {
		return
	}
	d.End, d.Failed, d.Attrs = now, failed, append(d.Attrs, attrs...)
}

// Describe says things about the call itself.
func (c *Call) Describe(failed bool, attrs ...Attr) {
	if c == nil || c.sink == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders > 0 {
		d := &c.trace.Spans[0]
		d.Failed, d.Attrs = d.Failed || failed, append(d.Attrs, attrs...)
	}
}

// Hold has the call wait for one End more.
func (c *Call) Hold() {
	if c == nil || c.sink == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders > 0 {
		c.holders++
	}
}

// End lets go of the call. The last of its holders ends it: it is handed to the
// sink, with what is still under way ended now.
func (c *Call) End() {
	if c == nil || c.sink == nil {
		return
	}
	now := c.now()
	c.mu.Lock()
	if c.holders > 0 {
		c.holders--
	} else {
		c.mu.Unlock()
		return
	}
	last, t := c.holders == 0, c.trace
	if last {
		for i := range t.Spans {
			if t.Spans[i].End.IsZero() {
				t.Spans[i].End = now
			}
		}
	}
	c.mu.Unlock()
	if last {
		c.sink.Put(t)
	}
}

type key struct{}

// With returns a context that has the call's trace. A nil call changes nothing.
func With(ctx context.Context, c *Call) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, c)
}

// From returns the trace that a context has, or nil.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}
