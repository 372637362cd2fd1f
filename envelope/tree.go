package envelope

import "slices"

// Tree is a working tree: regular files that stand in the working directory
// when the program starts, and whose changes come back whole. What is in it
// is bytes: links, devices and the like have no place in a tree.
type Tree struct {
	Files []File `json:"files"` // all that stands in the working directory, by relative names
	// Ignore says which new files nobody wants back. It says nothing of the
	// files of the tree itself: whatever becomes of those comes back.
	Ignore []Ignore `json:"ignore,omitempty"`
}

// Ignore are the rules of one directory of a tree, in the words of .gitignore.
// Those of a later entry go before those of an earlier one.
type Ignore struct {
	Dir   string `json:"dir,omitempty"` // relative, its parts between slashes; "" is the tree's own
	Rules string `json:"rules"`         // lines, as a .gitignore has them
}

// Bytes is the size of all files together.
func (t *Tree) Bytes() (n int64) {
	for _, f := range t.Files {
		n += int64(len(f.Data))
	}
	return n
}

// ChangeKind is what became of a file of a tree. The zero value is invalid.
type ChangeKind uint8

// The kinds of change.
const (
	ChangeAdded   ChangeKind = iota + 1 // it was not there
	ChangeChanged                       // its bytes are others
	ChangeMode                          // its execute bit alone is another
	ChangeRemoved                       // it is not there
)

func changeKinds() set { return set{"change", []string{"", "added", "changed", "mode", "removed"}} }

// String returns the kind's word.
func (k ChangeKind) String() string { return changeKinds().text(uint8(k)) }

// Valid reports whether k is a member of the set.
func (k ChangeKind) Valid() bool { return changeKinds().valid(uint8(k)) }

// MarshalText implements encoding.TextMarshaler.
func (k ChangeKind) MarshalText() ([]byte, error) { return changeKinds().marshal(uint8(k)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *ChangeKind) UnmarshalText(text []byte) error {
	v, err := changeKinds().parse(string(text))
	*k = ChangeKind(v)
	return err
}

// Change is one file of which a call made another. It is data of an untrusted
// program: its name is one that a file may have, and nothing more is known of it.
type Change struct {
	Name       string     `json:"name"`                 // relative, its parts between slashes
	Kind       ChangeKind `json:"kind"`                 // what became of it
	Data       Data       `json:"data,omitempty"`       // as it is now; empty where removed
	Executable bool       `json:"executable,omitempty"` // as it is now
	Before     string     `json:"before,omitempty"`     // digest of the bytes that went in, sha256:HEX; "" where added
	After      string     `json:"after,omitempty"`      // digest of Data; "" where removed
}

// Changes are what a call made of its tree, sorted by name.
type Changes struct {
	Files   []Change `json:"files"`             // those that are not as they went in
	Same    int      `json:"same"`              // files that are as they went in
	Ignored int      `json:"ignored,omitempty"` // new files that the tree's rules leave out
	Missing []Miss   `json:"missing,omitempty"` // what was there and cannot be taken
	// Complete says that Missing holds no file that was left out for a cap or
	// could not be read: the changes are all there are. Links, devices and
	// names that are none are no files, and leave it as it is.
	Complete bool `json:"complete"`
}

// Workspace names a tree that the caller's team keeps from call to call. The
// call reads one version and writes the next.
type Workspace struct {
	Name    string `json:"name"`              // letters, digits, dots, _ and -, at most 64 of them
	Version int64  `json:"version,omitempty"` // that is read, and must be the newest; 0 is the newest
}

// WorkspaceUse is what became of a call's workspace.
type WorkspaceUse struct {
	Name  string `json:"name"`            // as the call has it
	Read  int64  `json:"read"`            // version that went in; 0: there was none
	Wrote int64  `json:"wrote,omitempty"` // version that came out; 0: none, see Why
	Why   string `json:"why,omitempty"`   // why none was written
}

// The limits of a tree. They bound what has to be held in memory; an
// envelope's ceilings are narrower.
const (
	MaxTreeFiles   = 65_536
	MaxTreeBytes   = 1 << 30 // of all files; a JSON document holds fewer
	MaxIgnores     = 4096    // entries of Tree.Ignore
	MaxIgnoreBytes = 1 << 20 // of all of them
)

// CheckWorkspace reports whether name may name a workspace: a letter or digit,
// then letters, digits, ".", "_" and "-", 64 at most. The error is a
// *FieldError.
func CheckWorkspace(name string) error { return asError(checkWorkspaceName("workspace.name", name)) }

func checkWorkspaceName(field, name string) *FieldError {
	if nameText(name, 64, "._-") {
		return nil
	}
	return fault(field, quote(name)+" is not a workspace's name", "use letters, digits, dots, _ and -, at most 64 of them")
}

func checkWorkspace(c *Call) *FieldError {
	w := c.Workspace
	if w == nil {
		return nil
	}
	if w.Version < 0 {
		return fault("workspace.version", "is negative", "leave it out for the newest version")
	}
	return checkWorkspaceName("workspace.name", w.Name)
}

func checkTree(c *Call) *FieldError {
	if c.Tree == nil {
		return nil
	}
	t := c.Tree
	switch {
	case len(t.Files) > MaxTreeFiles:
		return fault("tree.files", "has more than 65536 files", "leave out what the call does not need")
	case t.Bytes() > MaxTreeBytes:
		return fault("tree.files", "have more than 1 GiB", "leave out what the call does not need")
	}
	for i, f := range t.Files {
		if err := checkName(at("tree.files", i)+".name", f.Name); err != nil {
			return err
		}
	}
	return checkIgnores(t.Ignore)
}

func checkIgnores(list []Ignore) *FieldError {
	bytes := 0
	for i, ig := range list {
		if ig.Dir != "" {
			if err := checkName(at("tree.ignore", i)+".dir", ig.Dir); err != nil {
				return err
			}
		}
		bytes += len(ig.Rules)
	}
	if len(list) > MaxIgnores || bytes > MaxIgnoreBytes {
		return fault("tree.ignore", "has more than 4096 entries or 1 MiB", "leave some out: they only say what does not come back")
	}
	return nil
}

// files are all files that go into the working directory, each with the field
// that it stands in.
func (c *Call) files() func(func(string, File) bool) {
	return func(yield func(string, File) bool) {
		for i, f := range c.Inputs {
			if !yield(at("inputs", i), f) {
				return
			}
		}
		if c.Tree == nil {
			return
		}
		for i, f := range c.Tree.Files {
			if !yield(at("tree.files", i), f) {
				return
			}
		}
	}
}

func admitTree(e *Envelope, c *Call) *FieldError {
	have := e.Files.Tree
	if have.Count == 0 && (c.Tree != nil || c.Workspace != nil) {
		return fault("tree", "the envelope takes none: files.tree.count is 0", "choose a profile that takes a tree")
	}
	if c.Tree == nil {
		return nil
	}
	if n := Count(len(c.Tree.Files)); n > have.Count {
		return fault("tree", "has "+n.String()+" files, and files.tree.count is "+have.Count.String(), "leave out what the call does not need (.callcellignore), or choose a profile that takes more")
	}
	if n := Size(c.Tree.Bytes()); n > have.Bytes {
		return fault("tree", "has "+n.String()+", and files.tree.bytes is "+have.Bytes.String(), "leave out what the call does not need (.callcellignore), or choose a profile that takes more")
	}
	return nil
}

// Clone returns a copy whose lists are its own. The bytes of the files are
// shared.
func (t *Tree) Clone() *Tree {
	return &Tree{Files: slices.Clone(t.Files), Ignore: slices.Clone(t.Ignore)}
}
