package telemetry

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/callcell/callcell/internal/trace"
)

// Resource is who speaks.
type Resource struct {
	Service string
	Version string
	Host    string // "": it is not said
}

// The numbers of the fields, of opentelemetry/proto/collector/trace/v1 and
// trace/v1. They never change.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScope    = 2
	resourceAttributes    = 1
	scopeSpansScope       = 1
	scopeSpansSpans       = 2
	scopeName             = 1
	scopeVersion          = 2

	spanTraceID    = 1
	spanID         = 2
	spanParent     = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanStatus     = 15
	spanFlags      = 16
	statusCode     = 3
	statusError    = 2

	keyValueKey   = 1
	keyValueValue = 2
	valueText     = 1
	valueInt      = 3
)

// The bits of Span.flags: that the span is sampled, that it is known whether the
// parent is another process's, and that it is.
const (
	flagSampled  = 0x001
	flagKnown    = 0x100
	flagIsRemote = 0x200
)

// The wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func appendTag(b []byte, field, wire int) []byte {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(wire))
}

func appendBytes(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(appendTag(b, field, wireBytes), uint64(len(v)))
	return append(b, v...)
}

// appendText leaves an empty text out, as protobuf does.
func appendText(b []byte, field int, v string) []byte {
	if v == "" {
		return b
	}
	b = binary.AppendUvarint(appendTag(b, field, wireBytes), uint64(len(v)))
	return append(b, v...)
}

func appendVarint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(b, field, wireVarint), v)
}

func appendTime(b []byte, field int, t time.Time) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(b, field, wireFixed64), uint64(max(t.UnixNano(), 0)))
}

func appendAttr(b []byte, field int, a trace.Attr) []byte {
	var value []byte
	if a.Text != "" {
		value = appendText(nil, valueText, a.Text)
	} else {
		value = appendVarint(nil, valueInt, uint64(a.Number))
	}
	return appendBytes(b, field, appendBytes(appendText(nil, keyValueKey, a.Key), keyValueValue, value))
}

// Encode is the request that carries traces.
func Encode(r Resource, list []trace.Trace) []byte {
	var resource []byte
	for _, a := range []trace.Attr{trace.Text("service.name", r.Service), trace.Text("service.version", r.Version), trace.Text("host.name", r.Host)} {
		if a.Text != "" {
			resource = appendAttr(resource, resourceAttributes, a)
		}
	}
	scope := appendText(appendText(nil, scopeName, "github.com/callcell/callcell"), scopeVersion, r.Version)
	scoped := appendBytes(nil, scopeSpansScope, scope)
	for i := range list {
		scoped = appendTrace(scoped, &list[i])
	}
	spans := appendBytes(appendBytes(nil, resourceSpansResource, resource), resourceSpansScope, scoped)
	return appendBytes(nil, requestResourceSpans, spans)
}

// idOf is the trace's id: the caller's, or the call's.
func idOf(t *trace.Trace) trace.ID {
	if t.Parent.Trace != (trace.ID{}) {
		return t.Parent.Trace
	}
	return trace.OfCall(t.Call)
}

// appendTrace appends the spans of a call. Their times are the first one's and
// what the monotonic clock says since, so that a step of the clock does not
// tear them apart.
func appendTrace(b []byte, t *trace.Trace) []byte {
	id := idOf(t)
	if id == (trace.ID{}) || len(t.Spans) == 0 {
		return b
	}
	names := make([][8]byte, len(t.Spans))
	for i := range names {
		rand.Read(names[i][:])
		names[i][0] |= 1 // none is all zeros
	}
	first := t.Spans[0].Start
	wall := first.Round(0)
	at := func(moment time.Time) time.Time { return wall.Add(moment.Sub(first)) }
	for i := range t.Spans {
		d := &t.Spans[i]
		if i == 0 && t.More > 0 {
			d.Attrs = append(d.Attrs, trace.Number("callcell.spans_left_out", int64(t.More)))
		}
		parent, remote := t.Parent.Span, true
		if d.Parent >= 0 && d.Parent < i {
			parent, remote = names[d.Parent], false
		}
		s := appendBytes(appendBytes(nil, spanTraceID, id[:]), spanID, names[i][:])
		b = appendBytes(b, scopeSpansSpans, appendSpan(s, d, parent, remote, at))
	}
	return b
}

// appendSpan appends all of a span but its ids. at is a moment as it is written.
func appendSpan(s []byte, d *trace.Data, parent [8]byte, remote bool, at func(time.Time) time.Time) []byte {
	flags := uint32(flagSampled | flagKnown)
	if parent != [8]byte{} {
		s = appendBytes(s, spanParent, parent[:])
		if remote {
			flags |= flagIsRemote
		}
	}
	s = appendText(s, spanName, d.Name)
	s = appendVarint(s, spanKind, uint64(d.Kind)+1)
	s = appendTime(s, spanStart, at(d.Start))
	s = appendTime(s, spanEnd, at(d.End))
	for _, a := range d.Attrs {
		s = appendAttr(s, spanAttributes, a)
	}
	if d.Failed {
		s = appendBytes(s, spanStatus, appendVarint(nil, statusCode, statusError))
	}
	return binary.LittleEndian.AppendUint32(appendTag(s, spanFlags, wireFixed32), flags)
}
