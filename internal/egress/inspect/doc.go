// Package inspect carries HTTP that is looked into: it ends TLS with the
// call's own authority, judges every request of a connection, and makes each
// anew towards the origin. No byte of the program's is spliced through.
//
//	program --TLS, the call's CA--> Serve --TLS, verified--> origin
//	                                  |
//	        server name, then of each request: framing, method, authority
//
// [Serve] takes one connection. Its name and port have been allowed before;
// what is left is to hold the program to them:
//
//   - the server name in TLS must be the host, else an alert and the end;
//   - HTTP/1 must be readable in one way only ([strict]), HTTP/2 is held to
//     its rules by net/http;
//   - Host or :authority must be the host, its port the connection's or left
//     out. An absolute target must say the same and the scheme there is;
//   - CONNECT and TRACE are refused. A websocket may be asked for over
//     HTTP/1.1; every other Upgrade (h2c) is not passed on, so that the
//     program goes on in HTTP/1.1, as a server is free to have it.
//
// The first request that does not match ends the connection: it is answered
// (400, 403, 421 or 431) with the reason in plain text, what else is under way
// is broken off, and [Outcome] has the reason. An answer of this package has
// the header Callcell-Egress: "denied" where it is a refusal or a cap,
// "failed" where the origin could not be reached (502, 504). The origin's own
// header of that name is dropped.
//
// What the origin sees is the program's request without what belongs to one
// hop, and without Forwarded and X-Forwarded-*, which state names and schemes
// that nobody has judged. Everything else is as the program sent it; nothing
// is added but a credential. Bodies, trailers and interim answers stream both
// ways. The origin may speak another version of HTTP than the program.
//
// # Credentials
//
// With Options.Edge the host is one that a credential is for, and package
// inject has a word in every request before it is sent, and in every answer.
// What it refuses is answered with 403, or 502 where it is an answer of the
// origin, and the connection goes on. No upgrade is passed on there, not even
// to a websocket; bodies come without a length and without a coding; request
// trailers end here. What is said of an origin's answer has no value of a
// credential in it. Bytes that are unpacked count like those that are received.
// Without TLS there is no Edge.
//
// # What a connection costs
//
// Every bound is one of a product. A connection has at most 8 requests at once.
// Each holds two heads of 16 KiB and 100 fields, of which net/http has two or
// three copies, and the buffers of its bodies: about 100 KiB. 256 KiB wait to be
// read on either side. With the rest it comes to at most about 1.3 MiB. How many
// connections there may be at once is the caller's to bound.
//
// A program that closes its sending side before it has the answer is taken for
// one that went away: its request is broken off.
//
// [Authority] is the authority of one call. It lives in memory, for a day, can
// vouch for the names it was made with alone, and prints as a mask. How a
// program is made to trust it is said in package trust.
package inspect
