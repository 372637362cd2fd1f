// Package wire is what the front and the launcher say to each other, and the
// payload that passes through to the cell's init.
//
// The socket is a SOCK_SEQPACKET pair: the kernel keeps the bounds of each
// message, and a message is at most MaxMessage bytes with at most MaxFDs
// descriptors. Every request carries a sequence number and has exactly one
// answer with the same number; answers come in any order.
//
//	front                                   launcher
//	                                     <- Hello        once, unasked: versions, what is enforced
//	Open  spec                           ->
//	                                     <- Opened [sockets of the cell] | Failed
//	Start slot [stdin stdout stderr payload] ->
//	                                     <- Exited | Failed      when the program has ended
//	Kill  slot cause                     ->
//	                                     <- Done                 the kill is on its way
//	Count slot                           ->
//	                                     <- Exited               what was counted; the clocks stand
//	Stop  slot                           ->
//	                                     <- Done | Failed        no process is left
//	List  slot dir                       ->
//	                                     <- Found [memfd: (+|-) name NUL ...] | Failed
//	Get   slot name                      ->
//	                                     <- Found [file] | Failed
//	Close slot                           ->
//	                                     <- Closed report        the slot is free, where all is gone
//	                                     <- Freed slot           later, unasked, where something was left
//	Egress [control]                     ->
//	                                     <- Opened | Failed      the egress process runs
//	Unpack id bounds [stream result]     ->
//	                                     <- Unpacked | Failed    when the unpacker has ended
//	Keep id digest | Drop id             ->
//	                                     <- Done | Failed        in the store | gone
//	Trees                                ->
//	                                     <- Found [memfd: lines] | Failed
//	Remove digest                        ->
//	                                     <- Done | Failed
//	OpenTree digest file                 ->
//	                                     <- Found [file] | Failed
//	(hang-up)                            ->   every cell is killed and removed
//	                                     <- Swept        from the reaper, after the launcher's death
//
// The sockets of a cell with a network are UDP and TCP for names, TCP for the
// proxy, and a TCP listener for each port (Spec.Sockets): with the ports and
// addresses of the spec they are all that a cell has of a network. A cell of
// LevelUserkernel comes with its channel instead: the front speaks to the guest
// in it by itself, and to the launcher of its clocks and its end. Slots of the
// egress process are closed like those of cells, and take no other request.
//
// The privileged side decodes a handful of fixed-size integers, a few addresses,
// ids, digests, names of its own configuration's mounts with where a cell sees
// them, and relative file names. Commands, environments and inputs are in the
// payload, which the launcher hands on unread.
//
// The encoding is little-endian with no padding: type, sequence number, then
// the fields in the order of the Go structs; a string is a 16-bit length and
// its bytes. A decoder takes exactly the bytes of the message: too few or too
// many are ErrMalformed.
package wire
