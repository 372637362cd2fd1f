//go:build !linux

package store

import "context"

func platformHelpers() map[string]func(ctx context.Context, path string) error {
	return map[string]func(context.Context, string) error{}
}
