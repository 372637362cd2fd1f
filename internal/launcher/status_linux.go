package launcher

import (
	"encoding/binary"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// Init's status record: four little-endian words; init/init.c has the struct.
const (
	statusSize  = 16
	statusMagic = 0x31534343 // "CCS1"
)

// The stages of a status record. stageNone is no record at all: init was
// killed.
const (
	stageNone = iota
	stageExited
	stageUnpack
	stageExec
	stagePayload
)

type status struct {
	stage uint32
	value int32 // stageExited: the wait status, else an errno
	index uint32
}

// readStatus reads init's one record, which is there when init is dead.
func readStatus(sock int) status {
	var b [statusSize + 1]byte
	n, _, err := unix.Recvfrom(sock, b[:], unix.MSG_DONTWAIT)
	if err != nil || n != statusSize || binary.LittleEndian.Uint32(b[:]) != statusMagic {
		return status{}
	}
	s := status{
		stage: binary.LittleEndian.Uint32(b[4:]),
		value: int32(binary.LittleEndian.Uint32(b[8:])),
		index: binary.LittleEndian.Uint32(b[12:]),
	}
	if s.stage > stagePayload {
		return status{}
	}
	return s
}

// sendFDs hands init its command: the program's streams, and the payload. It
// does not wait: it is the first message.
func sendFDs(sock int, fds []int) error {
	return unix.Sendmsg(sock, []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// failed returns the answer for a command that has not run, or nil.
func (s status) failed() *wire.Failed {
	f := &wire.Failed{Errno: s.value, Index: s.index}
	switch s.stage {
	case stageUnpack:
		f.Kind, f.Step = wire.KindUnpack, "write an input"
	case stageExec:
		f.Kind, f.Step = wire.KindExec, "start the program"
	case stagePayload:
		f.Kind, f.Step = wire.KindBroken, "read the payload"
	default:
		return nil
	}
	f.Step += ": " + syscall.Errno(s.value).Error()
	return f
}

// failure makes an error into the answer that the front gets.
func failure(kind wire.Kind, step string, err error) *wire.Failed {
	f := &wire.Failed{Kind: kind, Step: step}
	var no syscall.Errno
	if errors.As(err, &no) {
		f.Errno = int32(no)
	}
	if err != nil {
		f.Step += ": " + err.Error()
	}
	f.Step = clip(f.Step)
	return f
}

// clip bounds a text that goes into a message.
func clip(text string) string {
	const most = 1000
	return text[:min(len(text), most)]
}
