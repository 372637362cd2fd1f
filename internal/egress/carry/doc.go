// Package carry carries one connection of a program to a host that it may
// reach, and holds the connection to the protocol of the entry that allows it.
//
//	tls       the first words are a ClientHello, and the name in it is the
//	          host's. Then bytes go both ways as they come: what is said inside
//	          TLS, another Host among it, cannot be seen
//	postgres  the request for TLS first, then as tls
//	tcp       nothing is looked into
//	http, and tls where it is inspected
//	          every request is judged; that is somebody else's work, see
//	          Options.HTTP
//
// What a program says first is looked at before anything is dialled, so that
// what is refused leaves nothing behind on the other side. A refusal is a
// reset, after an alert where the program speaks TLS, so that programs fail at
// once.
//
// Bytes go through buffers that are lent when there is something to read: a
// connection on which nothing happens holds none.
package carry
