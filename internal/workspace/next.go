package workspace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
)

// A draft is the next version while it is worked out.
type draft struct {
	before   *Manifest
	manifest *Manifest
	data     [][]byte // that the team may not have yet
}

// next works out the manifest of the next version, and the bytes that the team
// may not have yet. What is unchanged is in the version before, if there is
// one.
func (l *Loan) next(tree *envelope.Tree, changes *envelope.Changes) (*Manifest, [][]byte, error) {
	d := &draft{before: l.manifest, manifest: &Manifest{Version: 1, Ignore: tree.Ignore}}
	changed := make(map[string]bool, len(changes.Files))
	for _, c := range changes.Files {
		if !c.Kind.Valid() || envelope.CheckName(c.Name) != nil {
			return nil, nil, fmt.Errorf("workspace: %q is no change", c.Name)
		}
		changed[c.Name] = true
		if c.Kind != envelope.ChangeRemoved {
			d.add(c.Name, c.Data, c.Executable)
		}
	}
	for _, f := range tree.Files {
		if changed[f.Name] {
			continue
		}
		if l.version.Number == 0 {
			d.add(f.Name, f.Data, f.Executable)
			continue
		}
		old, ok := d.before.find(f.Name)
		if !ok {
			return nil, nil, fmt.Errorf("workspace: %q is not of the version that was read", f.Name)
		}
		d.manifest.Files = append(d.manifest.Files, old)
	}
	return d.manifest, d.data, d.sort()
}

// add puts a file into the draft.
func (d *draft) add(name string, data []byte, executable bool) {
	e := Entry{Name: name, Size: int64(len(data)), Executable: executable, SHA256: blob.Sum(data)}
	if old, ok := d.before.find(name); !ok || old.SHA256 != e.SHA256 {
		d.data = append(d.data, data)
	}
	d.manifest.Files = append(d.manifest.Files, e)
}

// sort brings the files into their order, in which each comes once.
func (d *draft) sort() error {
	files := d.manifest.Files
	slices.SortFunc(files, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(files); i++ {
		if files[i].Name == files[i-1].Name {
			return fmt.Errorf("workspace: %q comes twice", files[i].Name)
		}
	}
	return nil
}
