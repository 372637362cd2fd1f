// Package telemetry sends the traces of calls to a collector of OpenTelemetry,
// as OTLP over HTTP in protobuf.
//
//	trace.Call.End ──> Put ──> queue, bounded ──> worker: batches ──> outward.Client ──> collector
//	                    └─ full: dropped, counted
//
// No call waits for it: Put samples, and puts into the queue or not. A batch that
// the collector does not take is tried again for about half a minute and then
// dropped, while the queue fills; that the collector fails is said once, and that
// it works again.
//
// The trace of a call is the caller's where he named one, and else has the id of
// the call, without its dashes: whoever has a row finds its trace.
//
// The encoding is written here, and its answer is not read but for the status:
// the reasons and what the libraries cost are in RATIONALE.md. The tests decode
// it with OpenTelemetry's own types.
package telemetry
