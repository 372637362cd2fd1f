//go:build !linux

package project

import "context"

type found struct{}

// Read is for Linux.
func Read(context.Context, string, Options) (*Tree, error) { return nil, ErrUnsupported }

// CacheOf is for Linux.
func CacheOf(string, string) (*Cache, error) { return nil, ErrUnsupported }

// Apply is for Linux.
func (p *Plan) Apply(string) error { return ErrUnsupported }

// Recover is for Linux.
func Recover(string, string) error { return ErrUnsupported }
