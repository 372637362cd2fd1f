package container_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// hungDir is where cells see the file system that does not answer: a directory
// of /usr, which they have.
const hungDir = "/usr/src"

// A hungFS is the server of a file system (FUSE) that takes every question for
// a name and answers none until it is told to: who asks waits in the kernel and
// cannot be killed.
type hungFS struct {
	fd      int
	dev     *os.File // of fd, once it is mounted: before, it cannot be read or waited for
	serving sync.WaitGroup

	mu    sync.Mutex // guards the following
	loose bool       // it answers
	kept  []uint64   // questions
}

func newHungFS(t *testing.T) *hungFS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a file system")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	if st, err := os.Stat(hungDir); err != nil || !st.IsDir() {
		unix.Close(fd)
		t.Skipf("this host has no %s", hungDir)
	}
	f := &hungFS{fd: fd}
	t.Cleanup(func() {
		if f.dev == nil {
			unix.Close(fd)
			return
		}
		f.answer()
		f.dev.Close() // whoever still waits hears an error
		f.serving.Wait()
	})
	return f
}

// within runs do on a thread in whose mount namespace, and in no other, the
// file system is there. What do starts has it.
func (f *hungFS) within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f.mount()
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func (f *hungFS) mount() error {
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", f.fd)
	if err := unix.Mount("hung", hungDir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	f.dev = os.NewFile(uintptr(f.fd), "fuse")
	f.serving.Go(f.serve)
	return nil
}

// What of the protocol is needed (linux/fuse.h).
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opInit        = 26
	opInterrupt   = 36
	opBatchForget = 42

	fuseMajor, fuseMinor = 7, 31
)

// serve answers questions until the device is closed.
func (f *hungFS) serve() {
	b := make([]byte, 256<<10)
	for {
		n, err := f.dev.Read(b)
		if err != nil {
			return
		}
		if n < 40 { // struct fuse_in_header
			continue
		}
		op, unique := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint64(b[8:])
		switch op {
		case opForget, opBatchForget, opInterrupt: // have no answer
		case opInit:
			f.reply(unique, 0, words(fuseMajor, fuseMinor, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0))
		case opGetattr:
			f.reply(unique, 0, rootAttributes())
		case opLookup:
			f.lookup(unique)
		default:
			f.reply(unique, unix.ENOSYS, nil)
		}
	}
}

// asked is how many questions wait for an answer.
func (f *hungFS) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.kept)
}

func (f *hungFS) lookup(unique uint64) {
	f.mu.Lock()
	loose := f.loose
	if !loose {
		f.kept = append(f.kept, unique)
	}
	f.mu.Unlock()
	if loose {
		f.reply(unique, unix.ENOENT, nil)
	}
}

// answer gives every answer that is due, and from now on each at once.
func (f *hungFS) answer() {
	f.mu.Lock()
	kept := slices.Clone(f.kept)
	f.kept, f.loose = nil, true
	f.mu.Unlock()
	for _, unique := range kept {
		f.reply(unique, unix.ENOENT, nil)
	}
}

// reply sends struct fuse_out_header and what belongs to it. Who asked may be
// gone.
func (f *hungFS) reply(unique uint64, errno unix.Errno, body []byte) {
	b := words(uint32(16+len(body)), uint32(-int32(errno)))
	b = binary.NativeEndian.AppendUint64(b, unique)
	_, _ = f.dev.Write(append(b, body...))
}

// rootAttributes is struct fuse_attr_out of the one directory there is.
func rootAttributes() []byte {
	const minute = 60
	valid := words(minute, 0, 0, 0)
	ino, size, blocks, times := words(1, 0), words(0, 0), words(0, 0), make([]byte, 3*8+3*4)
	attr := slices.Concat(ino, size, blocks, times, words(unix.S_IFDIR|0o755, 2, 0, 0, 0, 4096, 0))
	return append(valid, attr...)
}

func words(list ...uint32) (b []byte) {
	for _, w := range list {
		b = binary.NativeEndian.AppendUint32(b, w)
	}
	return b
}
