package userkernel

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// TestWhatComesWithACell: sockets of this host where none were to be, or none
// where they were to be, are no cell; and all that came is closed.
func TestWhatComesWithACell(t *testing.T) {
	spec := &wire.Spec{Ports: []uint16{80, 443}}
	all := 1 + len(spec.Sockets())
	for _, tc := range []struct {
		name  string
		came  int
		hosts bool
		spec  *wire.Spec
		want  error
		gate  bool
	}{
		{"a channel alone", 1, false, spec, nil, false},
		{"with the host's sockets", all, true, spec, nil, true},
		{"no network", 1, true, &wire.Spec{}, nil, false},
		{"sockets that were not to be", all, false, spec, errChanged, false},
		{"no sockets where some were to be", 1, true, spec, errChanged, false},
		{"one too few", all - 1, true, spec, wire.ErrMalformed, false},
		{"one too many", all + 1, true, spec, wire.ErrMalformed, false},
		{"sockets without a network", all, true, &wire.Spec{}, wire.ErrMalformed, false},
		{"nothing", 0, false, spec, wire.ErrMalformed, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slot := &link.Slot{FDs: sockets(t, tc.came)}
			came := append([]int(nil), slot.FDs...)
			conn, gate, err := takeOver(slot, tc.spec, tc.hosts)
			if !errors.Is(err, tc.want) || (gate != nil) != tc.gate || len(slot.FDs) > 0 {
				t.Errorf("%v, %+v, %v are left", err, gate, slot.FDs)
			}
			if conn != nil {
				conn.Close()
			}
			if gate != nil {
				if gate.DNS == nil || gate.DNSTCP == nil || gate.Proxy == nil || len(gate.Listen) != 2 || gate.Listen[1].Port != 443 {
					t.Errorf("%+v", gate)
				}
				gate.Close()
			}
			for i, fd := range came {
				if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
					t.Errorf("number %d is open: %v", i, err)
				}
			}
		})
	}
}

// sockets opens n of them.
func sockets(t *testing.T, n int) (fds []int) {
	t.Helper()
	for len(fds) < n {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, pair[0])
		t.Cleanup(func() { unix.Close(pair[1]) })
	}
	return fds
}
