//go:build !unix

package store

import (
	"errors"
	"os"
)

// Hold is not built for this system.
func (d *DB) Hold() error { return errors.ErrUnsupported }

func release(held *os.File) error { return held.Close() }
