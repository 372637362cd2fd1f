package container

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/cell"
)

// stdio is the program's three streams. The program's ends block, as programs
// expect; ours are in the runtime's poller.
type stdio struct {
	ends    []int    // the program's: stdin, stdout, stderr
	write   *os.File // our end of stdin; nil without any
	read    []stream
	stdin   []byte
	refused func() // the first writer that refuses ends the program
	pumps   sync.WaitGroup
}

type stream struct {
	from *os.File
	to   io.Writer
}

func newStdio(cmd cell.Command, refused func()) (*stdio, error) {
	s := &stdio{stdin: cmd.Stdin, refused: sync.OnceFunc(refused)}
	if err := s.open(cmd); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stdio) open(cmd cell.Command) error {
	if cmd.Stdin == nil {
		null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.ends = append(s.ends, null)
	} else {
		r, w, err := pipe()
		if err != nil {
			return err
		}
		s.ends, s.write = append(s.ends, r), ours(w, "stdin")
	}
	for _, to := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		r, w, err := pipe()
		if err != nil {
			return err
		}
		if to == nil {
			to = io.Discard
		}
		s.ends, s.read = append(s.ends, w), append(s.read, stream{ours(r, "output"), to})
	}
	return nil
}

func pipe() (r, w int, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	return p[0], p[1], err
}

// ours makes one end of a pipe a file of the poller; the other end's mode is
// its own.
func ours(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true) // a valid descriptor: it cannot fail
	return os.NewFile(uintptr(fd), name)
}

// start lets go of the program's ends and begins to pump.
func (s *stdio) start() {
	closeAll(s.ends)
	s.ends = nil
	if s.write != nil {
		s.pumps.Go(func() {
			_, _ = s.write.Write(s.stdin) // EPIPE: the program does not want it
			s.write.Close()
		})
	}
	for _, r := range s.read {
		s.pumps.Go(func() { s.pump(r) })
	}
}

// pump copies until the writer refuses, and then reads on without keeping, so
// that the program's death does not wait for us.
func (s *stdio) pump(r stream) {
	from := struct{ io.Reader }{r.from} // neither may take a short cut past the other
	if _, err := io.Copy(struct{ io.Writer }{r.to}, from); err != nil {
		s.refused()
		_, _ = io.Copy(io.Discard, from)
	}
}

// drain waits for the end of the streams, which is there when the last
// process is gone; where most is not 0, so long.
func (s *stdio) drain(most time.Duration) {
	for _, r := range s.read {
		if most > 0 {
			_ = r.from.SetReadDeadline(time.Now().Add(most)) // the poller has it: it cannot fail
		}
	}
	if s.write != nil {
		_ = s.write.SetWriteDeadline(time.Now()) // nobody reads it any more
	}
	s.pumps.Wait()
}

// close ends the streams whatever their state.
func (s *stdio) close() {
	closeAll(s.ends)
	s.ends = nil
	if s.write != nil {
		s.write.Close()
	}
	for _, r := range s.read {
		r.from.Close()
	}
	s.pumps.Wait()
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
