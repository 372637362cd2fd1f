package config

import (
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// Position is a place in a file, both counted from 1. The zero value is no
// place.
type Position struct {
	Line, Column int
}

// Error says where a file could not be read, why, and how to mend it. Error
// leaves the hint out: it is for the edge to print.
type Error struct {
	File  string
	Pos   Position
	Field string // dotted: files.scratch, network.allow[0].host; "" is the file
	Msg   string
	Hint  string
	Err   error // what it was made of; may be nil
}

// Error names file, line, column, field and fault.
func (e *Error) Error() string {
	text := e.File
	if e.Pos.Line > 0 {
		text += fmt.Sprintf(":%d:%d", e.Pos.Line, e.Pos.Column)
	}
	if text != "" {
		text += ": "
	}
	if e.Field != "" {
		text += e.Field + ": "
	}
	return text + e.Msg
}

// Unwrap returns what e was made of.
func (e *Error) Unwrap() error { return e.Err }

// Refusal returns e as the refusal of the call that the file belonged to.
func (e *Error) Refusal() *envelope.Refusal {
	place := &Error{File: e.File, Pos: e.Pos, Msg: e.Msg}
	return &envelope.Refusal{Reason: envelope.ReasonRequest, Message: place.Error(), Field: e.Field, Hint: e.Hint}
}
