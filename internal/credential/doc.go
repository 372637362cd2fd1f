// Package credential issues the secrets of one call and takes them back.
//
//	Issuer.Issue ----> Lease --Secret-----> whoever uses it: the way out, a file, a variable
//	    |                |   --Redactor---> whatever comes out of the call
//	    v                v
//	 sources          Revoke -> Report
//
// An [Issuer] is made once. Issue asks the sources of all credentials of a
// call side by side, in a bounded time; one that fails makes the whole fail,
// and what the others have handed out is taken back. So a call either has all
// its credentials or does not begin.
//
// A [Lease] is one call's. A secret is handed out until the shorter of the
// envelope's ttl and the source's own time is over. Revoke ends what the source
// can end, overwrites every secret whether or not that went well, and reports
// each one by name. Two calls never share a lease, whatever their credentials
// are called.
//
// Nothing here prints a secret: not a [Lease], not an [*Error], not a
// [Report]. They have the names of entries, kinds of sources, and words of our
// own.
package credential
