package egress

import (
	"errors"
	"fmt"
	"io"

	"github.com/callcell/callcell/internal/packet"
)

// The sentinels of this package.
var (
	// ErrDied means that the process died or was ended before the call had
	// ended. It is gone: nothing of the call is held.
	ErrDied = errors.New("egress: the process died")
	// ErrLeft means the same where nobody knows whether it is gone.
	ErrLeft = errors.New("egress: the process could not be ended")
	// ErrClosed means that the session or the client was closed.
	ErrClosed = errors.New("egress: closed")
	// ErrRefused means that the process did not take the call; nothing of it
	// is held.
	ErrRefused = errors.New("egress: the call was refused")
)

// Why a process was ended, wrapped by ErrDied.
var (
	errHungUp = errors.New("it hung up")
	errSilent = errors.New("it did not answer in time")
	errBreach = errors.New("it broke the protocol")
)

// errNoSecret is the error of a credential whose secret is gone.
var errNoSecret = errors.New("egress: a credential of the call was destroyed before it began")

// hungUp makes the end of a conversation into the reason why it ended.
func hungUp(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return errHungUp
	case errors.Is(err, packet.ErrMalformed):
		return fmt.Errorf("%w: %w", errBreach, err)
	}
	return err
}
