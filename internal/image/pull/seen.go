package pull

import (
	"strings"

	"github.com/callcell/callcell/internal/image/fstree"
)

// A seen is what is known of a name after the layers that were read.
type seen struct {
	below  map[string]*seen
	form   form
	layer  int  // that it came from
	made   bool // it is in the stream for the sake of what was below it
	gone   bool // it and all below it is hidden in lower layers
	opaque bool // all below it is
}

// A form is what a name is in the stream.
type form uint8

const (
	onTheWay  form = iota // nothing yet, but something below it is there
	directory             // a directory
	other                 // anything else
)

// A view is how a member stands to what is above it.
type view uint8

const (
	shown view = iota
	hidden
	blocked // below something that is no directory, or in place of something with others below it
)

// look says whether a member of a layer is to be seen.
func (s *seen) look(path string, dir bool, layer int) view {
	for at := s; ; {
		name, rest, more := strings.Cut(path, "/")
		if at.opaque {
			return hidden
		}
		next := at.below[name]
		switch {
		case next == nil:
			return shown
		case next.gone:
			return hidden
		case !more:
			return next.meets(dir, layer)
		case next.form == other && next.layer == layer:
			return blocked
		case next.form == other:
			return hidden
		}
		at, path = next, rest
	}
}

// meets is look for the name itself.
func (s *seen) meets(dir bool, layer int) view {
	switch {
	case s.form == other && s.layer == layer && len(s.below) == 0:
		return shown // the later one of two takes the place
	case s.form == other:
		return hidden
	case !dir && s.holds(layer):
		return blocked
	case dir && (s.form == onTheWay || s.layer == layer):
		return shown
	case s.form == directory && s.layer != layer:
		return hidden
	case dir:
		return shown
	case len(s.below) == 0 && !s.made:
		return shown
	}
	return blocked
}

// holds reports whether something of a layer is below.
func (s *seen) holds(layer int) bool {
	for _, below := range s.below {
		if below.form != onTheWay && below.layer == layer || below.holds(layer) {
			return true
		}
	}
	return false
}

// at returns what is known of a path, made where it is new.
func (s *seen) at(path string) *seen {
	at := s
	if path == "" {
		return at
	}
	for name := range strings.SplitSeq(path, "/") {
		next := at.below[name]
		if next == nil {
			if next = (&seen{}); at.below == nil {
				at.below = map[string]*seen{}
			}
			at.below[strings.Clone(name)] = next
		}
		at = next
	}
	return at
}

// find returns what is known of a path, or nil.
func (s *seen) find(path string) *seen {
	at := s
	for name := range strings.SplitSeq(path, "/") {
		if at = at.below[name]; at == nil {
			return nil
		}
	}
	return at
}

// A cover is what a layer hides of the ones below it.
type cover struct {
	path   string
	opaque bool // what is below the path, and not itself
}

const (
	coverPrefix = ".wh."
	coverOpaque = ".wh..wh..opq"
	coverOwn    = ".wh..wh." // of AUFS, for itself
)

// coverOf returns what a member covers, if it is there for that; with ignore
// it is nothing at all.
func coverOf(path string) (c cover, is, ignore bool, err error) {
	dir, name := fstree.Split(path)
	switch {
	case !strings.HasPrefix(name, coverPrefix):
		return c, false, false, nil
	case name == coverOpaque:
		return cover{dir, true}, true, false, nil
	case strings.HasPrefix(name, coverOwn):
		return c, true, true, nil
	}
	name = strings.TrimPrefix(name, coverPrefix)
	if name == "" || name == "." || name == ".." {
		return c, true, false, fstree.Refuse(fstree.KindName, path, "it hides no name")
	}
	if dir != "" {
		name = dir + "/" + name
	}
	return cover{name, false}, true, false, nil
}

// apply makes layers below hide what is covered.
func (s *seen) apply(covers []cover) {
	for _, c := range covers {
		if at := s.at(c.path); c.opaque {
			at.opaque = true
		} else {
			at.gone = true
		}
	}
}
