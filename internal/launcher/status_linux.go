package launcher

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"

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

// readStatus reads init's one record, and returns when init has closed its
// end, which it does by dying.
func readStatus(f *os.File) status {
	b, err := io.ReadAll(io.LimitReader(f, statusSize+1))
	if err != nil || len(b) != statusSize || binary.LittleEndian.Uint32(b) != statusMagic {
		io.Copy(io.Discard, f)
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
