package fstree

import (
	"errors"
	"strconv"
	"strings"
)

// ErrKind says in one word why an archive or a directory is not made into
// a tree, or an image not brought. It crosses processes; the words stay.
type ErrKind string

// The kinds of errors of this package, and of those that read and write trees.
const (
	KindName      ErrKind = "name"      // a name that cannot be in a tree
	KindLink      ErrKind = "link"      // a link to what is not there or cannot be linked to
	KindParent    ErrKind = "parent"    // below something that is no directory
	KindDepth     ErrKind = "depth"     // deeper than MaxDepth
	KindBytes     ErrKind = "bytes"     // more bytes than may be written or read
	KindEntries   ErrKind = "entries"   // more entries than there may be
	KindMalformed ErrKind = "malformed" // no tar stream, or a damaged one
	KindTruncated ErrKind = "truncated" // the stream ended before its end
	KindTrailing  ErrKind = "trailing"  // the stream went on after its end
	KindSource    ErrKind = "source"    // what is read from could not be read
	KindDisk      ErrKind = "disk"      // what is written to could not be written
	KindChanged   ErrKind = "changed"   // a directory that changed while it was read
	KindUsage     ErrKind = "usage"     // the tool was called in a wrong way
	KindDigest    ErrKind = "digest"    // bytes are not those that a digest names
	KindPlatform  ErrKind = "platform"  // there is no image for this platform
	KindForm      ErrKind = "form"      // an image of a form that is not taken
)

// An Error is the one way in which a tree is refused.
type Error struct {
	Kind  ErrKind
	Entry string // the member's name as it was given, bytes of a stranger; may be ""
	Msg   string // our words
	Err   error  // may be nil
}

// Refuse returns an Error of our own words.
func Refuse(kind ErrKind, entry, msg string) *Error {
	return &Error{Kind: kind, Entry: entry, Msg: msg}
}

// Failed returns an Error about err, for which it stands.
func Failed(kind ErrKind, entry, doing string, err error) *Error {
	return &Error{Kind: kind, Entry: entry, Msg: doing + ": " + err.Error(), Err: err}
}

func (e *Error) Error() string {
	if e.Entry == "" {
		return e.Msg
	}
	return e.Shown() + ": " + e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// maxShown bounds what is shown of a name.
const maxShown = 200

// Shown returns the entry fit for a log and for JSON: ASCII, quoted as Go
// quotes, and cut where it is long.
func (e *Error) Shown() string {
	name, more := e.Entry, ""
	if len(name) > maxShown {
		name, more = name[:maxShown], "..."
	}
	quoted := strconv.QuoteToASCII(name)
	return quoted[1:len(quoted)-1] + more
}

// Fault is how an Error crosses a process, as {"error":{...}}.
type Fault struct {
	Error struct {
		Kind  ErrKind `json:"kind"`
		Entry string  `json:"entry,omitempty"` // as Shown
		Msg   string  `json:"msg"`
	} `json:"error"`
}

// maxMsg bounds the words of a Fault.
const maxMsg = 1000

// Wire returns what is told of an error: of one that is no *Error only its
// words, as KindSource.
func Wire(err error) (f Fault) {
	e := &Error{Kind: KindSource, Msg: err.Error()}
	errors.As(err, &e)
	f.Error.Kind, f.Error.Entry, f.Error.Msg = e.Kind, e.Shown(), e.Msg
	if len(f.Error.Msg) > maxMsg {
		f.Error.Msg = f.Error.Msg[:maxMsg]
	}
	return f
}

// Line returns an error on one line, for people: its kind, and Shown of what it
// is about.
func Line(err error) string {
	f := Wire(err)
	words := strconv.QuoteToASCII(f.Error.Msg)
	line := string(f.Error.Kind) + ": "
	if f.Error.Entry != "" {
		line += f.Error.Entry + ": "
	}
	return line + strings.ReplaceAll(words[1:len(words)-1], `\"`, `"`)
}
