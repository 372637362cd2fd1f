package cleanup

import "fmt"

// PanicError is a step that panicked.
type PanicError struct {
	Value any // what it panicked with
}

// Error shows the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
