// Package names answers the questions of a cell's resolver.
//
// A name that the call may reach gets an address of its own, out of
// 198.18.0.0/15, which is local to the cell: the address says nothing about
// where the name leads, and a connection to it says which name was meant. The
// address is never given to another name of the call. Every other name does
// not exist, at once. Nothing leaves this host for any question.
//
//	question                          answer
//	--------                          ------
//	A of an allowed name              its address, for a minute
//	other types of an allowed name    no error and no data
//	a name beyond Options.Names       REFUSED
//	PTR of an address given out       its name
//	any other name                    NXDOMAIN
//	a class other than IN             REFUSED
//	none or several questions, or
//	what cannot be read               FORMERR
//	another operation                 NOTIMP
//	an answer, or less than a header  nothing
//
// Answers without data carry an SOA record, so that a cache in the cell knows
// how long to keep them, and say that recursion is available, so that no
// resolver takes them for a referral.
package names
