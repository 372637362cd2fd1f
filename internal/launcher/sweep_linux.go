package launcher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
)

// sweepTimeout bounds the sweep at start.
const sweepTimeout = 10 * time.Second

// groupName carries the number of the uid's lock, by which a later launcher
// can tell whether the cell still lives. A uid has one name: while its group is
// there, there is no other.
func (u *uids) groupName(l *lease) string { return fmt.Sprintf("c%d-cell", l.id-u.first) }

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
		n, ok := uidNumber(name)
		if !ok || n >= h.uids.size {
			return true // not one of ours
		}
		l, err := h.uids.lock(n)
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

func uidNumber(group string) (int, bool) {
	digits, _, ok := strings.Cut(strings.TrimPrefix(group, "c"), "-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && strings.HasPrefix(group, "c")
}

// lock leases one certain uid.
func (u *uids) lock(n int) (*lease, error) {
	fd, err := u.open()
	if err != nil {
		return nil, err
	}
	if err := lockByte(fd, n); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &lease{id: u.first + n, fd: fd}, nil
}
