package assembly

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/health"
	"github.com/callcell/callcell/internal/runtime/link"
)

// ping has a launcher answer.
func (r *Runtimes) ping(ctx context.Context) error {
	err := r.launchers.Ping(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, link.ErrRefused):
		return &health.Error{Reason: health.LauncherRefuses, Err: err}
	}
	return &health.Error{Reason: health.LauncherGone, Err: err}
}

// Lost waits until this process can build no cell any more, whoever asks: no
// launcher lives, and none can be started. alone is called once where the latter
// holds already. It returns nil when ctx ends first.
func (h *House) Lost(ctx context.Context, alone func()) error {
	return h.runtimes.launchers.Lost(ctx, alone)
}

// roomOf looks at the file system of a directory.
func roomOf(dir string) (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return room{}, err
	}
	r := room{free: int64(min(st.Bavail, 1<<62/uint64(max(st.Bsize, 1)))) * st.Bsize, inodes: -1, readOnly: st.Flags&unix.ST_RDONLY != 0}
	if st.Files > 0 {
		r.inodes = int64(min(st.Ffree, 1<<62))
	}
	return r, nil
}
