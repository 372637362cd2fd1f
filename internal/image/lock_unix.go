//go:build unix

package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock takes the lock of the index: shared by who makes an image, exclusive to
// who removes. It ends with the process.
func (x *Index) lock(ctx context.Context, exclusive bool) (unlock func(), err error) {
	fail := func(err error) (func(), error) {
		return nil, &Error{Kind: KindStore, Msg: "the store cannot be locked", Err: err}
	}
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(filepath.Join(x.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fail(err)
	}
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(lockTick)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return fail(err)
		}
		select {
		case <-tick.C:
		case <-wait.Done():
			f.Close()
			return nil, &Error{Kind: KindInUse, Msg: "the store is in use: an image is being made, or removed", Hint: "try again when that is done", Err: context.Cause(wait)}
		}
	}
}
