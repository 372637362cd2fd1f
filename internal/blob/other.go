//go:build !linux

package blob

import (
	"context"
	"io"
)

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

// Take is for Linux.
func (s *Store) Take(context.Context, string, io.Reader, int64) (Kept, error) {
	return Kept{}, ErrUnsupported
}

// Keep is for Linux.
func (s *Store) Keep(context.Context, string, [][]byte) ([]Digest, error) { return nil, ErrUnsupported }

// Kept is for Linux.
func (s *Store) Kept(string, Digest, int) ([]Kept, error) { return nil, ErrUnsupported }

// LetGo is for Linux.
func (s *Store) LetGo(string, Digest) (Kept, error) { return Kept{}, ErrUnsupported }

// Reader is for Linux.
type Reader struct{}

// Open is for Linux.
func (s *Store) Open(string, Digest) (*Reader, error) { return nil, ErrUnsupported }

// OpenKept is for Linux.
func (s *Store) OpenKept(string, Digest) (*Reader, Kept, error) { return nil, Kept{}, ErrUnsupported }

// Size is for Linux.
func (r *Reader) Size() int64 { return 0 }

// Read is for Linux.
func (r *Reader) Read([]byte) (int, error) { return 0, ErrUnsupported }

// All is for Linux.
func (r *Reader) All(int64) ([]byte, error) { return nil, ErrUnsupported }

// Close is for Linux.
func (r *Reader) Close() error { return nil }
