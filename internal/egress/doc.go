// Package egress is the front's side of the only way out of this host for a
// call: it starts the egress process and speaks to it in the messages of
// package wire.
//
//	Client.Open   starts the process where none runs; hands over the sockets
//	              that stand in the call's cell, and waits for Ready
//	Session       one call's conversation: connections that a guest tunnels,
//	              a fetch, what was tried
//	Session.Close ends it, and waits until nothing of the call is held
//	Client.Close  ends the process
//
// One process serves every call of a front. It is started for the first call
// that needs it, and anew for the next one after it died.
//
// # What is believed of the process
//
// Nothing. It parses what strangers send, so it may be theirs. Every message is
// bounded and decoded strictly; what is out of turn, over a bound or not there
// in time ends the process, and with it every call's way out: there is no half
// trust in one. What it says is data for a row and decides nothing here. Dead
// tells a call at once; the sockets in its cell end with the process, so from
// then on everything is denied.
package egress
