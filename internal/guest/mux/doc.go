// Package mux carries streams over one stream of bytes. Both ends of the
// channel use it; package guest says what they say.
//
// # Frames
//
//	0      4      8    9       12
//	length stream kind (zeros) payload...     numbers are big-endian
//
//	kind    payload                         who, on which stream
//	----    -------                         --------------------
//	HELLO   "callcell", version u16         both, on 0, first
//	OPEN    what is wanted, <= MaxNote      host: odd, guest: even ids, each
//	                                        greater than the one before
//	DATA    1 to MaxData bytes              both; no more than there is credit
//	CREDIT  u32, not 0                      both: so many bytes more
//	ANSWER  <= MaxNote                      who did not open it; at most
//	                                        MaxAnswers of a stream
//	END     nothing                         both: no more data and answers
//	RESET   nothing                         both: neither is sent nor taken any
//	                                        more; what was sent and not ended is
//	                                        void. The other side ends too
//	BYE     nothing                         both, on 0: the sender hangs up
//
//	opener                         other side
//	OPEN 5            ------->                       each may send a window of bytes
//	DATA 5 ...        ------->
//	                  <-------     CREDIT 5
//	END 5             ------->
//	                  <-------     ANSWER 5, DATA 5 ...
//	                  <-------     END 5             the stream is gone
//
// # What is believed of the other side
//
// Nothing. A frame that is not one of these, is longer than it may be, or comes
// where it must not, breaks the channel (BrokenError). Only CREDIT and RESET of a
// stream that is gone are passed over: they may have crossed its END, so that
// there are at most three for each that is.
//
// One goroutine reads. It never waits for anybody but the other side: what it
// takes goes into a buffer of the stream, which holds at most its window, and
// grows with what is in it. So memory is bounded by the streams that are open,
// and those that the other side opened are at most as many as it was allowed.
// A stream that nobody reads stops nobody but its sender.
//
// A write to a side that does not read breaks the channel after Options.Stall.
package mux
