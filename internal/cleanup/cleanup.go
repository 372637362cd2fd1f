// Package cleanup is an undo stack: what was taken is given back in reverse
// order, whatever happened in between.
//
//	undo := cleanup.Make("file", f.Close)
//	defer undo.Clean(ctx)
//	...
//	undo.Add("group", group.Remove)
//	...
//	undo.Release() // all went well: the caller owns the lot
package cleanup

import (
	"context"
	"errors"
	"fmt"
)

// Undo gives one thing back. The context bounds it.
type Undo func(context.Context) error

// Stack holds what is to be given back. The zero value is empty and ready. It
// is not safe for concurrent use: it belongs to the one goroutine that takes
// and gives back.
type Stack struct {
	steps []step
}

type step struct {
	name string
	undo Undo
}

// Make returns a stack with a first step on it.
func Make(name string, undo Undo) *Stack {
	s := new(Stack)
	s.Add(name, undo)
	return s
}

// Add puts a step on top of the stack; the name tells it in errors.
func (s *Stack) Add(name string, undo Undo) {
	s.steps = append(s.steps, step{name, undo})
}

// Len returns the number of steps that are still to be done.
func (s *Stack) Len() int { return len(s.steps) }

// Clean runs the steps, the last added first, and empties the stack. Each step
// runs exactly once, also where one above it failed or panicked; a panic
// becomes a *PanicError. The errors are joined, each under its step's name. A
// second Clean does nothing.
func (s *Stack) Clean(ctx context.Context) error {
	var failed []error
	for len(s.steps) > 0 {
		top := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		if err := top.run(ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", top.name, err))
		}
	}
	return errors.Join(failed...)
}

// Release empties the stack without running a step: what it held belongs to
// somebody else now.
func (s *Stack) Release() { s.steps = nil }

func (s step) run(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
		}
	}()
	return s.undo(ctx)
}
