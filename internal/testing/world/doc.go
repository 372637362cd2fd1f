// Package world makes a small Internet for tests: two network namespaces,
// joined by a cable, that nothing else on the machine can reach or is reached
// from.
//
//	near                                   far
//	----                                   ---
//	callcell and what it starts            the Internet, as far as a test needs it
//	11.0.0.2, 2606:2800:220:ff::2  <--->   11.0.0.1, 2606:2800:220:ff::1
//	INT: services of the host itself,      a resolver at 11.0.0.1:53
//	on every address of it                 servers at addresses that look public
//	a capture of every packet              INT at every other address there is
//
// Everything that leaves near arrives at far, whatever its address: far's
// answers for servers are those of the host table, and a connection to any
// other address (10.0.0.5, a metadata service) is one to INT. So a test of a
// denial looks at what came about, not at what could not have been reached
// anyway: INT was not hit, the resolver was not asked, no packet left.
//
// A World is made once for many tests: servers count from its beginning, and
// tests look at what is new since a Mark.
//
// The servers have certificates of the world's own authority, made as they are
// asked for, one for each name.
package world
