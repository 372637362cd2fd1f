package launcher

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// FrontFD is the descriptor on which the launcher finds its end of the pair.
const FrontFD = 3

// stdioFDs is how many of the lowest descriptors a cell's own are set up on;
// none of ours may have such a number.
const stdioFDs = 5

// Main is the launcher: it serves the front on descriptor FrontFD and returns
// the exit status. confPath is the launcher's own configuration.
func Main(confPath string, stderr io.Writer) int {
	front, err := takeFront()
	if err != nil {
		fmt.Fprintln(stderr, "callcell-launcher:", err)
		fmt.Fprintln(stderr, "callcell-launcher is started by callcell; it does nothing by itself.")
		return 2
	}
	conn, err := wire.NewConn(front)
	if err != nil {
		fmt.Fprintln(stderr, "callcell-launcher:", err)
		return 1
	}
	if err := run(confPath, conn, front); err != nil {
		fmt.Fprintln(stderr, "callcell-launcher:", err)
		return 1
	}
	return 0
}

func run(confPath string, conn *wire.Conn, front int) error {
	c, err := conf.Load(confPath)
	if err != nil {
		return refuse(conn, err)
	}
	initPath, err := initBeside()
	if err != nil {
		return refuse(conn, err)
	}
	if err := dropPrivileges(); err != nil {
		return refuse(conn, err)
	}
	h, err := newHost(c, initPath, front)
	if err != nil {
		return refuse(conn, err)
	}
	h.sweep()
	if err := h.ready(); err != nil {
		return refuse(conn, err)
	}
	return serve(h, conn)
}

// refuse tells the front why there will be no cell.
func refuse(conn *wire.Conn, err error) error {
	hello := &wire.Hello{Version: wire.Version, Kernel: kernelRelease(), Refused: clip(err.Error())}
	_ = conn.Send(wire.Message{Body: hello}) // a front that is gone has no use for it; stderr has it too
	return err
}

// takeFront moves the front's socket above the descriptors that cells are set
// up on, and fills those, so that no later descriptor of ours gets one. What
// else the front, or who started it, left open is closed.
func takeFront() (int, error) {
	if kind, err := unix.GetsockoptInt(FrontFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return -1, fmt.Errorf("descriptor %d is not a front's socket", FrontFD)
	}
	front, err := unix.FcntlInt(FrontFD, unix.F_DUPFD_CLOEXEC, stdioFDs)
	if err != nil {
		return -1, err
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for fd := range stdioFDs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && fd < FrontFD {
			continue // stdin, stdout, stderr as they are
		}
		if fd == null {
			continue
		}
		if err := unix.Dup3(null, fd, unix.O_CLOEXEC); err != nil {
			return -1, err
		}
	}
	if null >= stdioFDs {
		unix.Close(null)
	}
	if err := closeInherited(); err != nil {
		return -1, fmt.Errorf("close what was inherited: %w", err)
	}
	return front, os.Chdir("/")
}

// closeInherited closes the descriptors above those that cells are set up on
// that came through the exec. What we opened ourselves is close-on-exec, and
// what came through an exec cannot be.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < stdioFDs {
			continue
		}
		// An error is a descriptor that is closed: the directory's own.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}
