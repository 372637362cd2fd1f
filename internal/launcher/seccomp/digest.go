//go:build linux

package seccomp

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// filterSize is the size of struct sock_filter in bytes.
const filterSize = 8

// Digest is the SHA-256 of the filter as it lies in memory: eight bytes for
// an instruction, little-endian. Two hosts that report one digest enforce the
// same filter.
func Digest(filter []unix.SockFilter) [sha256.Size]byte {
	buf := make([]byte, 0, filterSize*len(filter))
	for _, in := range filter {
		buf = binary.LittleEndian.AppendUint16(buf, in.Code)
		buf = append(buf, in.Jt, in.Jf)
		buf = binary.LittleEndian.AppendUint32(buf, in.K)
	}
	return sha256.Sum256(buf)
}
