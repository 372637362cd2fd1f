package ignore

import (
	"path"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// The bounds of rules. What is beyond them is not looked at, and Rules.Cut
// says so.
const (
	MaxRules = 2048 // of all directories together
	MaxRule  = 512  // bytes of one
	MaxText  = envelope.MaxIgnoreBytes
)

// A rule is one line.
type rule struct {
	negated bool
	dirs    bool     // it is for directories alone
	parts   []string // components; with one that is not tied, the name alone
	tied    bool     // to the directory it stands in
	literal bool     // the one part has no special character
	suffix  string   // the one part is * and this
}

// A group are the rules of one directory, in their order.
type group struct {
	prefix string // "" or a name and a slash
	rules  []rule
}

// Rules are the rules of a tree. The zero value has none. It is built by Add
// and may then be asked concurrently.
type Rules struct {
	groups []group
	count  int
	Cut    bool // there were more than MaxRules, or one was longer than MaxRule
}

// New makes the rules of a call's tree.
func New(list []envelope.Ignore) *Rules {
	r := &Rules{}
	for _, ig := range list {
		r.Add(ig.Dir, ig.Rules)
	}
	return r
}

// Add adds the rules of a file in the directory dir, "" for the tree's own.
// What is added later goes before what was added earlier.
func (r *Rules) Add(dir, text string) {
	if len(text) > MaxText {
		text, r.Cut = text[:MaxText], true
	}
	g := group{}
	if dir != "" {
		g.prefix = dir + "/"
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		one, ok := parse(line)
		if !ok {
			continue
		}
		if r.count >= MaxRules || len(line) > MaxRule {
			r.Cut = true
			continue
		}
		r.count++
		g.rules = append(g.rules, one)
	}
	if len(g.rules) > 0 {
		r.groups = append(r.groups, g)
	}
}

// parse reads a line.
func parse(line string) (r rule, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	if line == "" || line[0] == '#' {
		return r, false
	}
	line = trimSpaces(line)
	if r.negated = strings.HasPrefix(line, "!"); r.negated {
		line = line[1:]
	}
	if strings.HasSuffix(line, "/") {
		line, r.dirs = line[:len(line)-1], true
	}
	r.tied = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.parts = strings.Split(line, "/")
	if !r.tied {
		const special = `*?[\`
		r.literal = !strings.ContainsAny(line, special)
		if rest, star := strings.CutPrefix(line, "*"); star && !strings.ContainsAny(rest, special) {
			r.suffix = rest
		}
	}
	return r, true
}

// trimSpaces takes off the spaces at the end, up to one that is escaped.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i+1 < len(line) {
				i++
			}
		}
		end = i + 1
	}
	return line[:end]
}

// Work is how much a Meter has, in characters that are compared: a second or
// two. A tree of a hundred thousand files with a thousand rules takes a third.
const Work = 1 << 29

// A Meter bounds what matching takes: rules and names are a stranger's, and each
// name is held against each rule. It is for one goroutine.
type Meter struct{ left int64 }

// NewMeter returns a Meter of so much work.
func NewMeter(work int64) *Meter { return &Meter{work} }

// Over reports whether all of it is done: since then rules said nothing.
func (m *Meter) Over() bool { return m.left <= 0 }

// A subject is a name below the directory of some rules.
type subject struct {
	rest, base string
	dir        bool
	parts      []string // nil: it was not taken apart yet
}

// matches reports whether a rule is for the name below its directory.
func (r *rule) matches(s *subject, m *Meter) bool {
	m.left--
	if r.dirs && !s.dir {
		return false
	}
	if !r.tied {
		switch {
		case r.literal:
			return s.base == r.parts[0]
		case r.suffix != "":
			return strings.HasSuffix(s.base, r.suffix)
		}
		return globName(r.parts[0], s.base, m)
	}
	if s.parts == nil {
		m.left -= int64(len(s.rest))
		s.parts = strings.Split(s.rest, "/")
	}
	return globPath(r.parts, s.parts, m)
}

// One reports whether the rules leave out the name itself, whatever they say of
// the directories above it. dir says that it is a directory.
func (r *Rules) One(name string, dir bool) bool {
	out, _ := r.Says(name, dir, NewMeter(Work))
	return out
}

// Says is One, within a Meter, and reports whether any rule says something about
// the name.
func (r *Rules) Says(name string, dir bool, m *Meter) (out, said bool) {
	base := path.Base(name)
	for i := len(r.groups) - 1; i >= 0 && !m.Over(); i-- {
		g := &r.groups[i]
		m.left -= 1 + int64(len(g.prefix)/8) // compared by words
		rest, below := strings.CutPrefix(name, g.prefix)
		if !below {
			continue
		}
		s := &subject{rest: rest, base: base, dir: dir}
		for k := len(g.rules) - 1; k >= 0 && !m.Over(); k-- {
			if g.rules[k].matches(s, m) {
				return !g.rules[k].negated, true
			}
		}
	}
	return false, false
}

// A Walk answers for many names of one tree and remembers what was said of the
// directories above them. It is for one goroutine.
type Walk struct {
	rules *Rules
	dirs  map[string]bool
	meter *Meter
}

// Walk begins one.
func (r *Rules) Walk() *Walk {
	return &Walk{rules: r, dirs: map[string]bool{}, meter: NewMeter(Work)}
}

// Over reports whether the rules have taken more than they may: what was
// answered since may be wrong.
func (w *Walk) Over() bool { return w.meter.Over() }

// File reports whether a file is left out, by itself or with a directory above
// it.
func (w *Walk) File(name string) bool {
	if w.dir(path.Dir(name)) {
		return true
	}
	out, _ := w.rules.Says(name, false, w.meter)
	return out
}

func (w *Walk) dir(name string) bool {
	if name == "." || name == "/" {
		return false
	}
	out, known := w.dirs[name]
	if !known {
		if out = w.dir(path.Dir(name)); !out {
			out, _ = w.rules.Says(name, true, w.meter)
		}
		w.dirs[name] = out
	}
	return out
}
