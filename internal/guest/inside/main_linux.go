package inside

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// channelFD is the guest's end of the channel.
const channelFD = 3

// UID is the program's user and group inside.
const UID = 1000

// highFD is from where on the guest has its own descriptors: those below are
// free while the program's limit is in force for it too.
const highFD = 256

// The exit statuses of the guest.
const (
	exitDone   = 0 // the host has hung up
	exitFailed = 1
)

// Main runs the guest and returns its exit status. It says on descriptor 2 why
// it fails.
func Main() int {
	if err := run(); err != nil && !errors.Is(err, mux.ErrBroken) {
		_, _ = os.Stderr.WriteString("callcell-guest: " + err.Error() + "\n") // there is nobody else to tell
		return exitFailed
	}
	return exitDone
}

// errPlace is the error of a guest that is not where it should be: it ends all
// processes but itself, whoever's they are.
var errPlace = errors.New("not the first process of its place")

func run() error {
	if os.Getpid() != 1 {
		return errPlace
	}
	conn, err := channel()
	if err != nil {
		return err
	}
	unix.Umask(0o022)
	g := &guest{
		m:       mux.New(conn, mux.Options{Most: mostOfHost, Own: wire.MaxTunnels}),
		place:   place{root: -1, work: -1},
		program: newProgram(),
		stderr:  map[uint32]*mux.Stream{},
	}
	if err := g.m.Hello(); err != nil {
		return err
	}
	return g.serve()
}

// channel makes a file of the channel's descriptor, and sees to it that the
// program inherits no other than its streams.
func channel() (*os.File, error) {
	fd, err := unix.FcntlInt(channelFD, unix.F_DUPFD_CLOEXEC, highFD)
	if err != nil {
		return nil, os.NewSyscallError("descriptor 3", err)
	}
	if err := unix.Close(channelFD); err != nil {
		return nil, os.NewSyscallError("close", err)
	}
	if err := unix.CloseRange(channelFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("close_range", err)
	}
	return pollable(fd, "channel")
}

// pollable makes a file that does not block a thread.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd) // it was not used
		return nil, os.NewSyscallError("set non-blocking", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// high moves a descriptor out of the way of the program's limit.
func high(fd int) (int, error) {
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, highFD)
}
