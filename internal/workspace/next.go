package workspace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
)

// next works out the manifest of the next version, and the bytes that the team
// may not have yet. What is unchanged is in the version before, if there is
// one.
func (l *Loan) next(tree *envelope.Tree, changes *envelope.Changes) (*Manifest, [][]byte, error) {
	m := &Manifest{Version: 1, Ignore: tree.Ignore}
	var data [][]byte
	add := func(name string, bytes []byte, executable bool) {
		e := Entry{Name: name, Size: int64(len(bytes)), Executable: executable, SHA256: blob.Sum(bytes)}
		if old, ok := l.manifest.find(name); !ok || old.SHA256 != e.SHA256 {
			data = append(data, bytes)
		}
		m.Files = append(m.Files, e)
	}
	changed := make(map[string]*envelope.Change, len(changes.Files))
	for i := range changes.Files {
		c := &changes.Files[i]
		if !c.Kind.Valid() || envelope.CheckName(c.Name) != nil {
			return nil, nil, fmt.Errorf("workspace: %q is no change", c.Name)
		}
		changed[c.Name] = c
	}
	for _, f := range tree.Files {
		c := changed[f.Name]
		switch {
		case c != nil: // as it is now, or gone
		case l.version.Number > 0:
			old, ok := l.manifest.find(f.Name)
			if !ok {
				return nil, nil, fmt.Errorf("workspace: %q is not of the version that was read", f.Name)
			}
			m.Files = append(m.Files, old)
		default:
			add(f.Name, f.Data, f.Executable)
		}
	}
	for i := range changes.Files {
		if c := &changes.Files[i]; c.Kind != envelope.ChangeRemoved {
			add(c.Name, c.Data, c.Executable)
		}
	}
	slices.SortFunc(m.Files, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(m.Files); i++ {
		if m.Files[i].Name == m.Files[i-1].Name {
			return nil, nil, fmt.Errorf("workspace: %q comes twice", m.Files[i].Name)
		}
	}
	return m, data, nil
}
