//go:build !linux

package assembly

import (
	"context"
	"errors"
)

func (*Runtimes) ping(context.Context) error { return errors.ErrUnsupported }

func roomOf(string) (room, error) { return room{}, errors.ErrUnsupported }
