package pack

import "golang.org/x/sys/unix"

// stat is what matters of a file.
type stat struct {
	identity
	mode         uint32
	links        uint32
	size         int64
	mtime, ctime unix.StatxTimestamp
	mount        uint64 // of the mount it is in, or of the device where the kernel does not tell
	told         bool   // the kernel tells
}

// lstat looks at a name of a directory, or with "" at dir itself.
func lstat(dir int, name string) (stat, error) {
	var x unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x); err != nil {
		return stat{}, err
	}
	st := stat{
		identity: identity{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino},
		mode:     uint32(x.Mode), links: x.Nlink, size: int64(x.Size), mtime: x.Mtime, ctime: x.Ctime,
		mount: x.Mnt_id, told: x.Mask&unix.STATX_MNT_ID != 0,
	}
	if !st.told {
		st.mount = st.dev
	}
	return st, nil
}

// mounted reports whether a file is in another mount. Where the kernel does not
// tell, its device says nothing: a file of an overlay may have another one than
// the directories.
func (s stat) mounted(root uint64) bool { return s.told && s.mount != root }

func (s stat) same(o stat) bool {
	return s.identity == o.identity && s.mode&unix.S_IFMT == o.mode&unix.S_IFMT
}

func (s stat) unchanged(o stat) bool {
	return s.size == o.size && s.mtime == o.mtime && s.ctime == o.ctime
}
