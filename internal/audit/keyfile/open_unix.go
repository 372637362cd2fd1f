//go:build unix

package keyfile

import (
	"os"
	"syscall"
)

// open opens the file itself: never a link, and without waiting for the other
// end of a pipe.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err.(*os.PathError).Err
	}
	return f, nil
}

func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
