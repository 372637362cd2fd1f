package project

import (
	"path"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
)

// A directory does not have to be called .git to be one to git: where HEAD,
// objects and refs stand in it, git takes it for a repository without a working
// tree as soon as somebody runs git in it, and runs what its config and its
// hooks say. So no change makes one, and none is made below one that the tree
// has, as git's own tests and those of its libraries do.

// repositories are the directories of a tree that git may take for one, folded.
type repositories map[string]bool

// repositories looks for them by their HEAD alone: objects and refs may be
// empty directories, or come by a file that points elsewhere.
func (t *Tree) repositories() repositories {
	found := repositories{}
	for i := range t.Files {
		if f := &t.Files[i]; isHead(f.Name, f.Data) {
			found[folded(path.Dir(f.Name))] = true
		}
	}
	return found
}

// refuses says why a change would be git's to act on, or "".
func (r repositories) refuses(c *envelope.Change) string {
	if c.Kind == envelope.ChangeRemoved {
		return ""
	}
	if isHead(c.Name, c.Data) {
		return "git takes the directory of such a file for a repository, and runs what that says"
	}
	for dir := path.Dir(c.Name); len(r) > 0; dir = path.Dir(dir) {
		if r[folded(dir)] {
			return "it is in what git takes for a repository, and what is in that is run by git"
		}
		if dir == "." {
			break
		}
	}
	return ""
}

// GitActs says why git would act on a file of that name, wherever it is put, or
// "".
func GitActs(name string, data []byte) string {
	if why := ignore.Guarded(name); why != "" {
		return why
	}
	if isHead(name, data) {
		return "git takes the directory of such a file for a repository, and runs what that says"
	}
	return ""
}

// isHead reports whether a file is what git asks the HEAD of a repository to
// be: a reference to a branch, or the name of an object.
func isHead(name string, data []byte) bool {
	if !strings.EqualFold(path.Base(name), "HEAD") {
		return false
	}
	text := string(data[:min(len(data), 40)])
	return strings.HasPrefix(text, "ref:") || len(text) == 40 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}
