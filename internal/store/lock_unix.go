//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/audit"
)

// Hold keeps every other process from holding this store until Close: one
// daemon meters it at a time. The lock ends with the process that has it. It
// does not keep others from using the store. An error is ErrHeld or the
// system's, which wraps audit.ErrUnwritable.
func (d *DB) Hold() error {
	f, err := os.OpenFile(d.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("hold the store: %w: %w", audit.ErrUnwritable, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: %s", ErrHeld, d.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d.held = f
	return d.submit(context.Background(), true, func(t *tx) error {
		var pages int64
		_, err := t.row(fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", walPagesHeld), nil, []any{&pages})
		return err
	})
}

// release ends a hold, of which a child that is about to exec may have a copy.
func release(held *os.File) error {
	return errors.Join(unix.Flock(int(held.Fd()), unix.LOCK_UN), held.Close())
}
