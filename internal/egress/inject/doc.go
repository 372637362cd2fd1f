// Package inject adds credentials to requests at the edge of the host, so that
// the program that makes the requests is never given them.
//
//	New(grant) -> Set --At(host, port)--> Edge --Request--> the header is set
//	                                           --Answer---> values are masked
//	              Set --Writer, Text, Header--> values are masked
//
// A Set is what one call may use. An [Edge] is one host and port of it; who
// carries requests asks it only where they go over TLS that is verified. A
// credential makes nothing reachable: that is judged before, as ever.
//
// # Requests
//
// On a host with a credential, whether or not a request gets one:
//
//   - Headers that a credential of the host uses are dropped where the program
//     sent them: in any case, once or often, with _ for - (many servers take
//     the one for the other).
//   - So are headers by which some servers take another method, path or host
//     than the request line has: X-HTTP-Method-Override, X-Original-URL,
//     X-Rewrite-URL, X-Forwarded-*, and their like. Trailers are dropped too,
//     which some servers take for headers.
//   - Range and its like are dropped, and a part of a document is not passed
//     on: a value that is cut in two by the program would not be found. The
//     program gets the whole.
//   - Accept-Encoding becomes identity.
//   - A path is refused that a server may read in another way than it is
//     compared: see Path.
//   - CONNECT, TRACE, and whatever asks for another protocol is refused.
//
// A credential is added where the method is one of its methods, and its path
// is the beginning of the request's, byte by byte, as it is sent onward: where
// an origin is lenient about upper and lower case or about escapes, that is
// its affair, and the request goes without. Of credentials with one header the
// one with the longest path is added. A request that none is for goes on
// without: to be carried it needs no credential, only the host.
//
// # Answers
//
// The values of all credentials of the call, as they are added and as they were
// before, are masked in headers (interim answers too), bodies and trailers, as
// package redact says: as they are, and in the encodings that programs write
// by habit. Of Basic, what is encoded there is masked as well. A field whose
// name has a value in it is dropped. What is masked is counted by credential.
//
// Bodies come as identity: gzip and deflate are undone, anything else is
// refused, for nobody can look into it. They have no length, because what is
// masked changes it; the answer to HEAD keeps the origin's, where there is no
// coding. An ETag stays as it is where the coding does, so that
// If-Match works, and becomes weak where it does not; a digest is dropped
// then.
//
// What a body ends in that may be the beginning of a value is kept back where
// the body breaks off, and where it was cut by us.
//
// # What this cannot do
//
// An origin that wants to tell the program the value can: by encrypting it, in
// another character set, one byte an answer. It gets the value because it is
// trusted with it. Nor is anything known of what an origin hands out in
// exchange for a credential: a cookie, another token.
//
// Values are in memory of package secret until Destroy. While a request is
// sent they are in strings and buffers of net/http and crypto/tls, which
// nobody can clear.
package inject
