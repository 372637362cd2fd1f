//go:build !unix

package store

import "errors"

// Hold is not built for this system.
func (d *DB) Hold() error { return errors.ErrUnsupported }
