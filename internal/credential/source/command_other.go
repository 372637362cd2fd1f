//go:build !linux

package source

import "context"

// Fetch is there on Linux alone.
func (*commandSource) Fetch(context.Context, Request) (*Grant, error) {
	return nil, &Fault{Command, Unconfigured, "commands are run on Linux alone", "use another source"}
}
