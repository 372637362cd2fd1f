package egress

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sealed returns a file in memory that nobody can change. The process reads it
// by its descriptor: it can open none.
func sealed(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("roots", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("egress: memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), "roots")
	if err := fill(f, data); err != nil {
		f.Close()
		return nil, fmt.Errorf("egress: memfd: %w", err)
	}
	return f, nil
}

func fill(f *os.File, data []byte) error {
	if err := f.Chmod(0o600); err != nil { // nobody can execute it either
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil { // the offset stays at the start
		return err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	return err
}
