package fstree

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Version is the version of the listing, and so of what a digest means.
const Version = 1

// List writes the listing of a tree: one JSON document in ASCII, one line for
// each node, directories with what is in them, names in the order of their
// bytes. There is one listing of a tree.
//
//	{"version":1,"root":{"type":"dir","entries":[
//	{"name":"bin","type":"link","target":"usr/bin"},
//	{"name":"usr","type":"dir","entries":[
//	{"name":"run","type":"file","exec":true,"size":3,"sha256":"..."}
//	]}
//	]}}
//
// A name or target that is not UTF-8, or has control characters, stands as
// "name64" or "target64", in base64, so that no text is more than three times as
// long here. The error is w's.
func List(w io.Writer, root *Node) error {
	l := lister{w: w}
	l.buf = append(l.buf, `{"version":`...)
	l.buf = strconv.AppendInt(l.buf, Version, 10)
	l.buf = append(l.buf, `,"root":{"type":"dir"`...)
	l.entries(root)
	l.buf = append(l.buf, "}}\n"...)
	l.flush(0)
	return l.err
}

type lister struct {
	w   io.Writer
	buf []byte
	err error
}

// flush writes what is there if it is more than enough.
func (l *lister) flush(enough int) {
	if len(l.buf) <= enough || l.err != nil {
		return
	}
	_, l.err = l.w.Write(l.buf)
	l.buf = l.buf[:0]
}

func (l *lister) entries(dir *Node) {
	l.buf = append(l.buf, `,"entries":[`...)
	for i, name := range dir.Names() {
		if i > 0 {
			l.buf = append(l.buf, ',')
		}
		l.buf = append(l.buf, '\n', '{')
		l.text("name", name)
		l.node(dir.Entries[name])
		l.buf = append(l.buf, '}')
		l.flush(64 << 10)
	}
	l.buf = append(l.buf, '\n', ']')
}

func (l *lister) node(n *Node) {
	switch n.Kind {
	case Dir:
		l.buf = append(l.buf, `,"type":"dir"`...)
		l.entries(n)
	case Symlink:
		l.buf = append(l.buf, `,"type":"link",`...)
		l.text("target", n.Target)
	default:
		l.buf = append(l.buf, `,"type":"file"`...)
		if n.Exec {
			l.buf = append(l.buf, `,"exec":true`...)
		}
		l.buf = append(l.buf, `,"size":`...)
		l.buf = strconv.AppendInt(l.buf, n.Size, 10)
		l.buf = append(l.buf, `,"sha256":"`...)
		l.buf = hex.AppendEncode(l.buf, n.Sum[:])
		l.buf = append(l.buf, '"')
	}
}

// text appends "key":"value", or "key64" where the value is not all text.
func (l *lister) text(key, value string) {
	l.buf = append(append(l.buf, '"'), key...)
	if !utf8.ValidString(value) || strings.ContainsFunc(value, control) {
		l.buf = append(l.buf, `64":"`...)
		l.buf = base64.StdEncoding.AppendEncode(l.buf, []byte(value))
		l.buf = append(l.buf, '"')
		return
	}
	l.buf = append(l.buf, `":"`...)
	for _, r := range value {
		l.buf = appendRune(l.buf, r)
	}
	l.buf = append(l.buf, '"')
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func appendRune(b []byte, r rune) []byte {
	const first, second, offset = 0xd800, 0xdc00, 0x10000
	switch {
	case r == '"' || r == '\\':
		return append(b, '\\', byte(r))
	case r < utf8.RuneSelf:
		return append(b, byte(r))
	case r < offset:
		return appendUnit(b, uint16(r))
	default:
		r -= offset
		return appendUnit(appendUnit(b, uint16(first+r>>10)), uint16(second+r&0x3ff))
	}
}

func appendUnit(b []byte, u uint16) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}

// Count returns how many nodes of a tree have names, each name counted, and
// the bytes of its files, each file counted once.
func Count(root *Node) (entries, bytes int64) {
	seen := map[*Node]bool{} // of files with more names than one
	var walk func(dir *Node)
	walk = func(dir *Node) {
		for _, n := range dir.Entries {
			entries++
			switch {
			case n.Kind == Dir:
				walk(n)
			case n.Links == 1:
				bytes += n.Size
			case !seen[n]:
				seen[n] = true
				bytes += n.Size
			}
		}
	}
	walk(root)
	return entries, bytes
}
