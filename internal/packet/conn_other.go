//go:build !linux

package packet

import (
	"errors"
	"fmt"
	"time"
)

// Conn is one end of a conversation; there is none on this system.
type Conn struct{}

func unsupported() error { return fmt.Errorf("packet: %w on this system", errors.ErrUnsupported) }

// New returns errors.ErrUnsupported.
func New(int, Limits) (*Conn, error) { return nil, unsupported() }

// Pair returns errors.ErrUnsupported.
func Pair() (int, int, error) { return -1, -1, unsupported() }

// Close returns errors.ErrUnsupported.
func (*Conn) Close() error { return unsupported() }

// CloseSend returns errors.ErrUnsupported.
func (*Conn) CloseSend() error { return unsupported() }

// Shutdown returns errors.ErrUnsupported.
func (*Conn) Shutdown() error { return unsupported() }

// SetSendDeadline returns errors.ErrUnsupported.
func (*Conn) SetSendDeadline(time.Time) error { return unsupported() }

// SetReceiveDeadline returns errors.ErrUnsupported.
func (*Conn) SetReceiveDeadline(time.Time) error { return unsupported() }

// Send returns errors.ErrUnsupported.
func (*Conn) Send([]byte, ...int) error { return unsupported() }

// Receive returns errors.ErrUnsupported.
func (*Conn) Receive() ([]byte, []int, error) { return nil, nil, unsupported() }

// CloseAll does nothing: no descriptor has come.
func CloseAll([]int) {}
