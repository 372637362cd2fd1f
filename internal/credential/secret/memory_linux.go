package secret

import (
	"os"

	"golang.org/x/sys/unix"
)

// roomFor is how many bytes a mapping for n bytes has.
func roomFor(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// allocate maps memory of its own for at least n bytes. What the kernel will
// not do for it (an old kernel, RLIMIT_MEMLOCK) is no error: the memory is
// then like any other of the process.
func allocate(n int) ([]byte, error) {
	room, err := unix.Mmap(-1, 0, roomFor(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(room, unix.MADV_DONTDUMP)
	_ = unix.Madvise(room, unix.MADV_DONTFORK)
	_ = unix.Mlock(room)
	return room, nil
}

// release overwrites the memory and gives it back.
func release(room []byte) {
	if room != nil {
		clear(room)
		_ = unix.Munmap(room)
	}
}
