package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
)

// Version is the protocol's. Both ends come from one build; another version
// ends the conversation.
const Version = 2

// The bounds of the protocol.
const (
	MaxData    = 64 << 10 // bytes of one DATA
	MaxNote    = 8 << 10  // bytes of one OPEN or ANSWER
	MaxAnswers = 2        // of one stream
	// The bytes of credit that a stream begins with, each way: one of the
	// host's, and one of the guest's, of which there may be many.
	Window      = 256 << 10
	GuestWindow = 128 << 10
)

type kind uint8

// The kinds of a frame. The zero value is invalid.
const (
	hello kind = iota + 1
	open
	data
	credit
	answer
	end
	reset
	bye
)

func (k kind) String() string {
	words := [...]string{"INVALID", "HELLO", "OPEN", "DATA", "CREDIT", "ANSWER", "END", "RESET", "BYE"}
	if int(k) >= len(words) {
		return "kind " + strconv.Itoa(int(k))
	}
	return words[k]
}

const (
	headLen = 12
	magic   = "callcell"
)

// A head is the head of one frame.
type head struct {
	length, stream uint32
	kind           kind
}

// ErrBroken is what every BrokenError is.
var ErrBroken = errors.New("the channel broke")

// BrokenError is what the other side has done that it must not, or how its end
// of the channel ended.
type BrokenError struct {
	What string
	Err  error // may be nil
}

// Error says what was done.
func (e *BrokenError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns ErrBroken, and the cause where there is one.
func (e *BrokenError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrBroken}
	}
	return []error{ErrBroken, e.Err}
}

func broken(what string) error { return &BrokenError{What: what} }

// wrong is a frame that is not what it may be.
func (h head) wrong(what string) error {
	return broken(h.kind.String() + " of stream " + strconv.FormatUint(uint64(h.stream), 10) + ": " + what)
}

// parseHead reads a head. What it returns can be taken: a kind there is, and a
// length that it may have.
func parseHead(b *[headLen]byte) (head, error) {
	h := head{binary.BigEndian.Uint32(b[0:]), binary.BigEndian.Uint32(b[4:]), kind(b[8])}
	least, most, ok := h.kind.lengths()
	switch {
	case !ok:
		return head{}, h.wrong("there is no such frame")
	case b[9]|b[10]|b[11] != 0:
		return head{}, h.wrong("its head is not zero where it must be")
	case h.length < least || h.length > most:
		return head{}, h.wrong("it has " + strconv.FormatUint(uint64(h.length), 10) + " bytes")
	case (h.stream == 0) != (h.kind == hello || h.kind == bye):
		return head{}, h.wrong("it is not for that stream")
	}
	return h, nil
}

func (k kind) lengths() (least, most uint32, ok bool) {
	switch k {
	case hello:
		return uint32(len(magic)) + 2, uint32(len(magic)) + 2, true
	case open:
		return 1, MaxNote, true
	case answer:
		return 0, MaxNote, true
	case data:
		return 1, MaxData, true
	case credit:
		return 4, 4, true
	case end, reset, bye:
		return 0, 0, true
	}
	return 0, 0, false
}

// appendFrame appends one frame to b.
func appendFrame(b []byte, k kind, stream uint32, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, stream)
	b = append(b, byte(k), 0, 0, 0)
	return append(b, payload...)
}

// readFrame reads one frame; its payload is in buf, which is long enough.
func readFrame(r io.Reader, buf []byte) (head, []byte, error) {
	var b [headLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return head{}, nil, &BrokenError{"it hung up", err}
	}
	h, err := parseHead(&b)
	if err != nil {
		return head{}, nil, err
	}
	payload := buf[:h.length]
	if _, err := io.ReadFull(r, payload); err != nil {
		return head{}, nil, &BrokenError{"it hung up in a " + h.kind.String(), err}
	}
	return h, payload, nil
}

func helloPayload() []byte {
	return binary.BigEndian.AppendUint16([]byte(magic), Version)
}

// ErrVersion is a side of another version.
var ErrVersion = errors.New("it is of another version")

// checkHello checks the first frame of the other side.
func checkHello(h head, payload []byte) error {
	switch {
	case h.kind != hello || string(payload[:len(magic)]) != magic:
		return h.wrong("it does not say who it is")
	case binary.BigEndian.Uint16(payload[len(magic):]) != Version:
		return &BrokenError{"its HELLO", ErrVersion}
	}
	return nil
}
