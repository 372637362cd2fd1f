package images

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Over reports whether a staging has more in it than it may, while its unpacker
// runs: one that was taken over counts nothing itself. What goes or comes
// meanwhile is counted or not. It takes about as long as Claim.
func (st *Staging) Over(most Size) bool {
	dir, err := st.store.open(stagingDir, false)
	if err != nil {
		return false // Claim says of what
	}
	defer unix.Close(dir)
	g := gauge{most: most, stop: st.store.stop}
	return !g.dir(dir, st.id, MaxDepth+2)
}

// A gauge counts what is in a directory.
type gauge struct {
	most, size Size
	stop       func() bool
}

// dir counts what is below one directory and reports whether it is within what
// may be.
func (g *gauge) dir(at int, name string, depth int) bool {
	if depth == 0 {
		return false
	}
	fd, err := beneath(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return true // it is gone
	}
	f := os.NewFile(uintptr(fd), "staging")
	defer f.Close()
	for {
		names, err := f.Readdirnames(512)
		for _, n := range names {
			if !g.entry(fd, n, depth) {
				return false
			}
		}
		if err != nil || g.stop() {
			return true
		}
	}
}

func (g *gauge) entry(dir int, name string, depth int) bool {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	g.size.Entries++
	g.size.Bytes += blocks(&st)
	if g.size.Bytes > g.most.Bytes || g.size.Entries > g.most.Entries {
		return false
	}
	return st.Mode&unix.S_IFMT != unix.S_IFDIR || g.dir(dir, name, depth-1)
}

// blocks is what an entry has on the disk, spread over its names.
func blocks(st *unix.Stat_t) int64 {
	names := int64(1)
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		names = max(int64(st.Nlink), 1)
	}
	return 512 * st.Blocks / names
}
