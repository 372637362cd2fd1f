// Package trace gathers when the steps of a call began and ended, in this
// process and in those that work for it, for whoever shows them as the spans of a
// trace. It knows neither how they are shown nor where they are sent to.
//
//	front end   Start ──> With(ctx) ──> broker   Begin, End for each step
//	            Begin("receive"), Begin("render")       Add what others measured
//	            End ──> Sink.Put, once, when the last holder has let go
//
// Nothing of it is a call's words: a span has a name of ours, times, and
// attributes that who adds them keeps free of arguments, output and secrets.
//
// Off is a nil *Call: every method does nothing on it, and reads no clock.
package trace

// The bounds of one call.
const (
	maxSpans = 128 // more are counted
	maxText  = 256 // bytes of an attribute; more are cut
)
