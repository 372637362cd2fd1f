// Package httpapi is the front end for programs: REST, with output as it comes
// over server-sent events, described by an OpenAPI document that is made of the
// Go types which are decoded and encoded. It translates and decides nothing:
// who may call is the gateway's, what a call may touch the broker's.
//
// # The way of a request
//
//	recover -> log -> headers -> host -> origin -> body -> key -> route
//
// chain builds it, once, in that order; a test holds it. Without a key there are
// /healthz, /readyz and /openapi.json alone. Every other route of the table
// (routes) names the roles that may have it. Assistants come to /mcp through the
// same steps (package mcp/hub has their sessions).
//
// # A page of another origin
//
// cannot use this daemon. The name that a request calls it by must be one of its
// own, so that a name which somebody points here is refused; the origin, where a
// browser names one, must be its own or listed; a body must be JSON; and
// nothing is answered to a page without a key, which no browser adds by itself.
//
// # Answers
//
// A call that ran is answered with 200 and its Result, whatever its outcome. One
// that was refused, and every other error, is a problem (RFC 9457,
// application/problem+json) whose member code is one of a closed table (Codes)
// that does not change. What is read is decoded strictly, by package envelope.
//
// A call is under way in one of three ways: the answer waits for it and a client
// that goes cancels it; or it comes as events, which can be had again from any
// of them on while the call is kept; or it is started and read later. The
// last two go on when the client is gone, until they are cancelled by id.
//
// # Twice
//
// The same idempotency key, of the same key of this host, with the same body, is
// the same call: one that is under way is waited for, one that has ended is
// answered as it was, with another body it is refused. That there is such a call
// is durable before anything of it runs, and its answer before it is sent
// (package kept), so that it holds over the death of the daemon: what ran then is
// answered as lost, or as its row says, and does not run again. A refusal frees
// the key. What is erased from the log is erased here too, but for the fact that
// the key was used.
package httpapi
