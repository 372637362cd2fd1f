//go:build !linux

package assembly

import (
	"context"
	"errors"
)

func (*Runtimes) ping(context.Context) error { return errors.ErrUnsupported }

// Lost waits for the end of ctx: there are no launchers here.
func (*House) Lost(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func roomOf(string) (room, error) { return room{}, errors.ErrUnsupported }
