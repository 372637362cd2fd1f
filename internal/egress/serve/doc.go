// Package serve is the egress process: it carries what calls may carry out of
// this host, and talks to strangers, so that nobody else has to.
//
//	Main -> Run(control)
//	  set up    Setup: resolvers, this host's names, roots of trust, limits
//	  begin     Begin, for each call: judge its network, adopt its sockets,
//	            Ready; then, until End:
//	    names   questions of the cell's resolver             package names
//	    listen  connections to addresses that stand for      judge, then
//	            names, or that are listed themselves          package carry,
//	    proxy   CONNECT, and requests of plain HTTP           which dials by
//	    tunnel  connections that a guest hands over           package dial
//	    fetch   one document                                 package fetch
//	  end       everything of the call is closed and has ended; then Done
//
// The process opens no file, reads no environment, and asks the host's
// configuration nothing: all it knows came by the control conversation. It
// judges every connection from scratch, whoever asks for it. When the front
// hangs up, it ends.
//
// # Bounds
//
// Connections are bounded for a call at once, for the process at once, and for
// a call in all. One that is over a bound is reset when it is accepted. Those
// whose requests are looked into have bounds of their own, at which they are
// reset when they have been judged. A call has at most envelope.MaxAttempts
// lines; what comes after is counted. Lines wait in a queue that holds all of
// them, so a front that is slow to read holds up no connection that ends. One
// that is dialled waits until the front has been sent word of it: what this
// process had open is known, however it dies.
//
// # Faults
//
// A fault of ours while a call is served ends that call's way out: its sockets
// and connections are closed, and what it tries from then on is refused by the
// kernel. It does not end the process, because the bytes of one stranger would
// end every call's way out then. What calls share is a table of open
// connections, a cache with a lock of its own, and buffers: none of it is left
// half done by a fault. A fault where it cannot be caught ends the process,
// and with it every connection: what fails, fails closed.
package serve
