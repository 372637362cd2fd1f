package launcher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/launcher/cgroup"
)

// sweepTimeout bounds the sweep at start.
const sweepTimeout = 10 * time.Second

// groupName carries the uid, by whose lock a later launcher can tell whether the
// cell still lives, whatever either's range of uids is. A uid has one name: while
// its group is there, there is no other.
func groupName(l *lease) string { return fmt.Sprintf("c%d-cell", l.id) }

// makeGroup makes a group for a uid that is leased. One that is there already is
// of a cell whose launcher and reaper died after our start: it is removed.
// Where that cannot be done, the error is cgroup.ErrExists.
func (h *host) makeGroup(name string, limits cgroup.Limits) (*cgroup.Group, error) {
	g, err := h.groups.Make(name, limits)
	if !errors.Is(err, cgroup.ErrExists) {
		return g, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	if _, left := h.groups.Sweep(ctx, func(other string) bool { return other != name }); left != nil {
		return nil, err
	}
	return h.groups.Make(name, limits)
}

// sweep removes the groups of cells whose launcher and reaper both died.
// What cannot be removed does not keep us from building cells: its uid stays
// locked as long as we live, and the front is told.
func (h *host) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	taken := map[string]*lease{}
	swept, err := h.groups.Sweep(ctx, func(name string) bool {
		id, ok := uidOf(name)
		if !ok {
			return true // not one of ours
		}
		l, err := h.uids.lock(id)
		if err != nil {
			return true // alive
		}
		taken[name] = l
		return false
	})
	for _, name := range swept {
		taken[name].close()
	}
	if err != nil {
		h.weaker = append(h.weaker, clip("what dead cells left could not be removed: "+err.Error()))
	}
}

// uidOf returns the uid of a cell's group. No cell has a root's uid.
func uidOf(group string) (int, bool) {
	digits, _, ok := strings.Cut(strings.TrimPrefix(group, "c"), "-")
	id, err := strconv.ParseInt(digits, 10, 32)
	return int(id), ok && err == nil && id > 0 && strings.HasPrefix(group, "c")
}
