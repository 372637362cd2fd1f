package wire

import (
	"encoding/binary"
	"errors"
	"strings"
)

// PayloadFile is one file that init unpacks: of the call's, into the working
// directory, or of ours, below cell.RunDir.
type PayloadFile struct {
	Name       string // relative
	Data       []byte
	Executable bool // of the call's: 0755, not 0644
	Run        bool // it is ours: 0444, and not the call's
	Private    bool // of ours: 0400, not 0444
}

// fileRun is set in the mode of a file that is ours.
const fileRun = 1 << 31

func (f *PayloadFile) mode() uint32 {
	switch {
	case f.Run && f.Private:
		return fileRun | 0o400
	case f.Run:
		return fileRun | 0o444
	case f.Executable:
		return 0o755
	}
	return 0o644
}

// ErrPayload is a command that cannot be put into a payload: no argv, or a
// NUL in a string.
var ErrPayload = errors.New("wire: argv, environment and names must not be empty or contain NUL")

const payloadMagic = 0x31504343 // "CCP1"

// Payload lays out what init reads (init/init.c, struct payload): header,
// strings, files, each padded to 8 bytes.
func Payload(argv, env []string, files []PayloadFile) ([]byte, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, ErrPayload
	}
	var text []byte
	for _, list := range [][]string{argv, env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, ErrPayload
			}
			text = append(append(text, s...), 0)
		}
	}
	size := 24 + len(text) + 16
	for _, f := range files {
		size += 16 + len(f.Name) + len(f.Data) + 16
	}
	b := make([]byte, 0, size)
	b = binary.LittleEndian.AppendUint32(b, payloadMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(argv)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(env)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(files)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
	b = pad(append(b, text...))
	for _, f := range files {
		if f.Name == "" || strings.IndexByte(f.Name, 0) >= 0 {
			return nil, ErrPayload
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(len(f.Data)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Name)+1))
		b = binary.LittleEndian.AppendUint32(b, f.mode())
		b = pad(append(append(b, f.Name...), 0))
		b = pad(append(b, f.Data...))
	}
	return b, nil
}

func pad(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}
