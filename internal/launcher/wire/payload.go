package wire

import (
	"encoding/binary"
	"errors"
	"strings"
)

// PayloadFile is one file that init unpacks into the working directory.
type PayloadFile struct {
	Name       string // relative
	Data       []byte
	Executable bool
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
		mode := uint32(0o644)
		if f.Executable {
			mode = 0o755
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(len(f.Data)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Name)+1))
		b = binary.LittleEndian.AppendUint32(b, mode)
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
