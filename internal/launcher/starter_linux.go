package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// mostLaunched is how many launchers a starter has at once. A front wants fewer,
// those that retire included.
const mostLaunched = 16

// A starter starts launchers for a front that has given up the right to: as many
// as there may be, and each as the front itself started its first. It reads no
// file, and of what the front sends it hands two descriptors on.
type starter struct {
	path string // of the launcher
	argv []string
	null int
	conn *wire.Conn
	room chan struct{} // one token a launcher that lives
}

// StarterMain is a process that starts launchers: it serves the front on
// descriptor FrontFD, until that hangs up, and returns the exit status. conf is
// what launchers are told of their configuration; "" is nothing. It keeps the
// capabilities of a launcher and no other.
func StarterMain(conf string, stderr io.Writer) int {
	if err := startFor(conf); err != nil {
		fmt.Fprintln(stderr, "callcell-launcher:", err)
		return 1
	}
	return 0
}

func startFor(conf string) error {
	front, err := takeFront()
	if err != nil {
		return err
	}
	conn, err := wire.NewConn(front)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := dropPrivileges(); err != nil {
		return err
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s := &starter{path: path, argv: []string{path}, null: null, conn: conn, room: make(chan struct{}, mostLaunched)}
	if conf != "" {
		s.argv = append(s.argv, "-config", conf)
	}
	return s.serve()
}

// serve answers one request after another. It returns nil for a hang-up.
func (s *starter) serve() error {
	for {
		m, fds, err := s.conn.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // a front that sends what is no message is not listened to any longer
		}
		body, out := s.do(m.Body, fds)
		closeAll(fds) // the launcher alone has them: its end is to be seen
		err = s.conn.Send(wire.Message{Seq: m.Seq, Body: body}, out...)
		closeAll(out)
		if err != nil {
			return nil // a front that is gone hears nothing
		}
	}
}

func (s *starter) do(b wire.Body, fds []int) (answer wire.Body, out []int) {
	if _, ok := b.(*wire.Launch); !ok || len(fds) != wire.LaunchFDs || !launchable(fds[0], fds[1]) {
		return &wire.Failed{Kind: wire.KindState, Step: "a starter starts launchers"}, nil
	}
	select {
	case s.room <- struct{}{}:
	default:
		return &wire.Failed{Kind: wire.KindCapacity, Step: fmt.Sprintf("there are %d launchers", mostLaunched)}, nil
	}
	pid, pidfd, err := s.launch(fds[0], fds[1])
	if err != nil {
		<-s.room
		return failure(wire.KindSetup, "start a launcher", err), nil
	}
	go s.bury(pid)
	return &wire.Launched{PID: uint32(pid)}, []int{pidfd}
}

// launchable reports whether these are what a front gives its launcher. A file
// that a front may open and root writes to would be another thing.
func launchable(socket, words int) bool {
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	var st unix.Stat_t
	return err == nil && kind == unix.SOCK_SEQPACKET && unix.Fstat(words, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// launch starts a launcher as a front does.
func (s *starter) launch(socket, words int) (pid, pidfd int, err error) {
	null := uintptr(s.null)
	pid, err = syscall.ForkExec(s.path, s.argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{null, null, uintptr(words), uintptr(socket)},
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err == nil && pidfd < 0 { // a kernel without them builds no cells either
		err = errors.New("no descriptor of the process")
		_ = syscall.Kill(pid, syscall.SIGKILL) // it is ours, and not waited for yet
		reap(pid)
	}
	return pid, pidfd, err
}

// bury waits for a launcher, and gives its place to another.
func (s *starter) bury(pid int) {
	reap(pid)
	<-s.room
}

func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
