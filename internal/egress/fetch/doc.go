// Package fetch gets one document by its address. It runs in the egress
// process, because it talks to strangers and reads what they send.
//
//	Fetch(ctx, team, policy, request, emit) -> Fetched
//	  parse      the address into its one form; what has none is refused
//	  judge      host, port and scheme against the policy        } for every hop,
//	  dial       what was judged, and nothing else               } before anything
//	  ask        GET, HTTP/1.1, the same few headers always;     } of it is sent
//	             a credential where one is for the very address
//	  follow     Location of 301, 302, 303, 307 and 308 alone
//	  decode     gzip, then the charset of what is text, then the page's text
//	  emit       in pieces, as it comes
//
// # What is not done
//
// No method but GET, no body, no cookie, no referrer, no proxy of the
// environment, no HTTP/2, no connection that is used twice. Refresh, in
// a header or in a page, is not followed: nothing that a page says makes a
// request. Nor is a redirect from https to http: who can read and write on the
// way would choose the answer to an address that names https.
//
// # Bounds
//
// Bodies are counted as they are decoded, so that a small one that unpacks
// into a large one ends where any other does. The time limit is for all hops
// together, from the first look-up to the last byte, and nothing that a server
// sends renews it. A body is held in memory only for the cache and, where text
// is wanted, for that; at most two pages are read at once (package page).
//
// # Credentials
//
// Where the call has credentials (Granted), a hop over https to a host and port
// that one is for is asked as package inject says: with the header where method
// and path match, and not at all where the path can be read in two ways. The
// next hop is judged anew: another host, another port or a path outside gets
// none, and a redirect that has a credential's value in it is not followed.
//
// Values are masked in everything that such a call gets, whichever host it is
// of, and in what is said about it: after the charset was decoded and the text
// was read, and before anything is cut to the size that the caller names.
//
// # The cache
//
// It holds answers with status 200 that any caller of a team would get: no hop
// of them set a cookie, forbade to store it, or had an address that is not
// public. The key is the team, the address, and what was wanted of it. It is
// asked after the permission check, and every hop that an answer came by is
// judged again; one that is not allowed now is a miss. An answer that came by a
// host that a credential of the call is for is neither held nor looked for,
// whether a credential was added or not; nor is one held in which something was
// masked.
package fetch
