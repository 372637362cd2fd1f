package fake

import (
	"context"
	"strings"

	"github.com/callcell/callcell/internal/cell"
)

var _ cell.Lister = (*fakeCell)(nil)

// List implements cell.Lister.
func (c *fakeCell) List(ctx context.Context, max int) (found []cell.Entry, cut bool, err error) {
	err = c.Do(cell.OpGet, func() error {
		found, cut = c.files.list(max)
		return ctx.Err()
	})
	return found, cut, err
}

func (f *Files) list(max int) (found []cell.Entry, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, n := range f.nodes {
		if n.kind == directory || strings.HasPrefix(name, "/") {
			continue
		}
		if len(found) == max {
			return found, true
		}
		found = append(found, cell.Entry{
			Name: name, Regular: n.kind == regular, Executable: n.executable, Size: int64(len(n.data)),
		})
	}
	return found, false
}
