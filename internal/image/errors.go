package image

import "strings"

// Kind is what kind of fault an Error is. The zero value is invalid.
type Kind string

// The kinds there are.
const (
	KindName    Kind = "name"    // not the name of an image
	KindAbsent  Kind = "absent"  // there is no image of that name
	KindQuota   Kind = "quota"   // it would be more than the store may hold
	KindInUse   Kind = "in use"  // something needs it
	KindSource  Kind = "source"  // what the image is made from cannot be had, or is malformed
	KindProgram Kind = "program" // what installs it failed
	KindStore   Kind = "store"   // the store itself
)

// Error is an image that cannot be had or made.
type Error struct {
	Kind Kind
	Name string // of the image
	Msg  string
	Hint string // how to mend it; may be empty
	Err  error  // the cause; may be nil
}

// Error names the image and the fault.
func (e *Error) Error() string {
	text := []string{"image", e.Msg}
	if e.Name != "" {
		text = []string{"image", e.Name, e.Msg}
	}
	if e.Err != nil {
		text = append(text, e.Err.Error())
	}
	return strings.Join(text, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
