// Package guest is the channel between the host and the guest of a cell that
// has a kernel of its own, and the host's side of it. It is one stream of
// bytes, the only hole in that wall; package mux has its frames.
//
//	runtime -> Dial -> Prepare -> Put -> Exec -> Stop -> List, Get -> Close
//
// # What they say
//
// Each thing that one asks of the other has a stream of its own, opened with a
// note that says what it is (package wire). The host opens all but tunnels.
//
//	host                                     guest (package inside)
//	----                                     -----
//	HELLO                  <------>          HELLO
//
//	PREPARE, Place         ------->          mounts, covers, listens
//	                       <-------          Status
//	PUT, File, bytes, ...  ------->          writes the files of the call
//	                       <-------          Status
//	STDERR                 ------->
//	EXEC, Command          ------->          starts the program
//	                       <-------          Status; from here on it runs
//	its input              ------->
//	                       <-------          its output; on STDERR's stream its errors
//	                       <-------          END of STDERR's, Exit, END: nothing of it
//	                                         is left, and all that it wrote was sent
//	SIGNAL                 ------->          to every process but the guest
//	                       <-------          Status
//	STOP                   ------->          ends every process, listens no more
//	                       <-------          Status
//	LIST, or GET, Wanted   ------->          below /work, through no link
//	                       <-------          entries; for each name Found and the bytes
//
//	                       <-------          TUNNEL, the address that a program has
//	what comes back        <------>          connected to; then what it says
//
//	(hang up)              <------>          the guest ends, and its place with it
//
// A tunnel for datagrams carries each with its length before it, in two bytes;
// each is answered, in order, by an empty one where there is no answer.
//
// # What is believed of the guest
//
// Nothing. It is on the attacker's side of the boundary, and what comes from it
// may be the program's. Every number it says is bounded before anything is made
// of it, memory is taken as bytes come and not as they are promised, and what
// is out of turn ends the channel with ErrBroken, which says what it was. What it
// reports is shown as reported: wall time, memory and the end of all are read
// by the host.
package guest
