//go:build !linux

package egress

import (
	"errors"
	"fmt"
	"os"
)

// sealed returns errors.ErrUnsupported: no egress process runs here.
func sealed([]byte) (*os.File, error) {
	return nil, fmt.Errorf("egress: %w on this system", errors.ErrUnsupported)
}
