//go:build !linux

package blob

import "context"

// Hold is for Linux.
type Hold struct{}

// Hold is for Linux.
func (s *Store) Hold(context.Context) (*Hold, error) { return nil, ErrUnsupported }

// Release is for Linux.
func (h *Hold) Release() error { return ErrUnsupported }

// Put is for Linux.
func (h *Hold) Put(context.Context, string, [][]byte) ([]Digest, error) { return nil, ErrUnsupported }

// Get is for Linux.
func (s *Store) Get(string, Digest, int64) ([]byte, error) { return nil, ErrUnsupported }

// Usage is for Linux.
func (s *Store) Usage(string) (Usage, error) { return Usage{}, ErrUnsupported }

// GC is for Linux.
func (s *Store) GC(context.Context, func(string) (map[Digest]bool, error)) (Report, error) {
	return Report{}, ErrUnsupported
}
