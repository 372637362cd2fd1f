package template

import (
	"errors"
	"fmt"
	"os"
	"path"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxText bounds a text of the host that a sentry reads. /proc/cpuinfo has a
// kilobyte or two for each CPU.
const maxText = 8 << 20

// A Text is a file of the sentry's root.
type Text struct {
	Name string // relative
	Data []byte
}

// Texts returns what gVisor reads of a host while it boots: all that there is in
// the root of a sentry. It is called where the host's /proc is.
func Texts() ([]Text, error) {
	texts := []Text{{"proc/self/maps", nil}, {"proc/self/auxv", hardware()}}
	for _, name := range []string{"proc/cpuinfo", "proc/sys/vm/mmap_min_addr"} {
		data, err := os.ReadFile("/" + name)
		if err == nil && len(data) > maxText {
			err = errors.New("too long")
		}
		if err != nil {
			return nil, fmt.Errorf("template: %s: %w", name, err)
		}
		texts = append(texts, Text{name, data})
	}
	return texts, nil
}

// hardware is what an auxiliary vector says of the machine, and nothing that
// differs from process to process.
func hardware() (out []byte) {
	const hwcap, hwcap2 = 16, 26
	vector, _ := unix.Auxv() // where there is none the machine has no such bits
	for _, pair := range append(vector, [2]uintptr{}) {
		if pair[0] == hwcap || pair[0] == hwcap2 || pair[0] == 0 {
			out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&pair)), unsafe.Sizeof(pair))...)
		}
	}
	return out
}

// BuildSentry makes the root that every sentry starts in, a read-only file
// system of texts, and puts the calling thread into it as Build does. point is
// any directory of the host; nothing is left there.
func BuildSentry(point string, texts []Text) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("template: new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("template: make mounts private: %w", err)
	}
	unix.Umask(0o022) // this thread's alone since the unshare
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("callcell-sentry", point, "tmpfs", flags, "mode=755,size=16m,nr_inodes=32"); err != nil {
		return fmt.Errorf("template: mount: %w", err)
	}
	b := builder{root: point}
	for _, t := range texts {
		if err := os.MkdirAll(b.at(path.Dir(t.Name)), 0o755); err != nil {
			return fmt.Errorf("template: %w", err)
		}
		if err := b.write(t.Name, t.Data, 0o444); err != nil {
			return fmt.Errorf("template: %w", err)
		}
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, point, 0, &attr); err != nil {
		return fmt.Errorf("template: seal: %w", err)
	}
	return b.enter()
}
