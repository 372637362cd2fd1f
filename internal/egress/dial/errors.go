package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// Denied is the error of a host none of whose addresses may be dialled.
// Nothing was sent to any of them.
type Denied struct {
	Why  string
	Addr netip.Addr // the first of its addresses; zero: it was not about one
}

// Error implements error.
func (e *Denied) Error() string { return e.Why }

// Failed is the error of a host that may be dialled and was not reached. Why
// is a short text of ours, without data of strangers.
type Failed struct {
	Why string
	Err error // nil where Why says it all
}

// Error implements error.
func (e *Failed) Error() string {
	if e.Err == nil {
		return e.Why
	}
	return e.Why + ": " + e.Err.Error()
}

// Unwrap returns what went wrong.
func (e *Failed) Unwrap() error { return e.Err }

// failed says in a few words what went wrong with a connection.
func failed(err error) error {
	var typed *Failed
	var timeout net.Error
	why := "the connection failed"
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.Is(err, context.Canceled):
		why = "it was given up"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		why = "it did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET):
		why = "the connection was reset"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this host has no route there"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		why = "too many connections are open"
	}
	return &Failed{Why: why, Err: err}
}
