//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
)

func ownedByUs(info fs.FileInfo) bool { return ownedBy(info, os.Geteuid()) }

func ownedByRoot(info fs.FileInfo) bool { return ownedBy(info, 0) }

func ownedBy(info fs.FileInfo, uid int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(uid)
}
