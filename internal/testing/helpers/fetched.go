package helpers

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrUnreachable says that nothing can be installed from here.
var ErrUnreachable = errors.New("the registries of Node and Python cannot be reached")

// unreachable is the exit status of scripts that fetch what tests need, where that
// is so.
const unreachable = 75

// Fetched runs one of the scripts that fetch what tests need, where it is not
// there, and returns the directory that it is in. The error wraps ErrUnreachable
// where there is no registry.
func Fetched(script string, args ...string) (string, error) {
	c := exec.Command(filepath.Join(Root(), "scripts", script), args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.ExitCode() == unreachable:
		return "", fmt.Errorf("%w: %s", ErrUnreachable, stderr.String())
	case err != nil:
		return "", fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
