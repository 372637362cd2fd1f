package container

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

var _ cell.Lister = (*containerCell)(nil)

// List implements cell.Lister. Sizes and modes are the host kernel's.
func (c *containerCell) List(ctx context.Context, max int) (found []cell.Entry, cut bool, err error) {
	err = c.Do(cell.OpGet, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if found, cut, err = c.list(max); err != nil {
			return fmt.Errorf("%w: %w", cell.ErrBroken, err)
		}
		return nil
	})
	return found, cut, err
}

func (c *containerCell) list(max int) ([]cell.Entry, bool, error) {
	a, err := c.slot.Call(&wire.List{Slot: c.slot.Number, Dir: ".", Max: uint32(max)})
	if err != nil {
		return nil, false, err
	}
	answer, data, err := read(a, maxNames)
	if err != nil {
		return nil, false, err
	}
	found, err := entries(data)
	return found, answer.Cut, err
}

// entries reads a listing of the launcher's and sorts it by name. The names are
// the program's; the rest is not, and malformed where it is not what the
// launcher writes.
func entries(listing []byte) (list []cell.Entry, err error) {
	for text := range strings.SplitSeq(string(listing), "\x00") {
		if text == "" { // behind the last one
			continue
		}
		size, name, ok := strings.Cut(text[1:], ":")
		n, err := strconv.ParseInt(size, 10, 64)
		if !ok || err != nil || n < 0 || name == "" || !strings.Contains("+*-", text[:1]) {
			return nil, wire.ErrMalformed
		}
		list = append(list, cell.Entry{Name: name, Size: n, Regular: text[0] != '-', Executable: text[0] == '*'})
	}
	slices.SortFunc(list, func(a, b cell.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
