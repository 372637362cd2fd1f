package cli_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// cmdTTY runs callcell on a terminal, whose text is then the script's stdout,
// and wants an exit status:
//
//	tty STATUS ARG...
func cmdTTY(ts *testscript.TestScript, _ bool, args []string) { onTTY(ts, args, "", "") }

// cmdTTYSays is cmdTTY, where somebody types a line, which is read when it is
// asked for:
//
//	ttysays LINE STATUS ARG...
func cmdTTYSays(ts *testscript.TestScript, _ bool, args []string) { onTTY(ts, args[1:], "", args[0]) }

// cmdTTYInterrupt is cmdTTY, where somebody types Ctrl-C when a program sleeps
// for so long in a cell:
//
//	ttyint SECONDS STATUS ARG...
func cmdTTYInterrupt(ts *testscript.TestScript, _ bool, args []string) {
	onTTY(ts, args[1:], args[0], "")
}

func onTTY(ts *testscript.TestScript, args []string, seconds, line string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	master, slave, err := openTTY()
	ts.Check(err)
	defer master.Close()
	c := exec.Command(filepath.Join(ts.Getenv("HELPERS"), "callcell"), append([]string{"--config", ts.Getenv("CONF")}, args[1:]...)...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = ts.MkAbs("."), slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = startHearing(c)
	slave.Close()
	ts.Check(err)
	if line != "" {
		_, err = master.WriteString(line + "\n")
		ts.Check(err)
	}
	if seconds != "" {
		poll(ts, "nobody sleeps "+seconds, func() bool { return len(sleeping(seconds)) > 0 })
		_, err = master.Write([]byte{0x03})
		ts.Check(err)
	}
	_, _ = io.Copy(ts.Stdout(), master) // EIO: nobody has the terminal open
	_ = c.Wait()                        // its status is looked at
	if got := c.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// openTTY returns the two ends of a terminal that passes every byte through as
// it is.
func openTTY() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		var n int
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err == nil {
		err = passThrough(int(slave.Fd()))
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

func passThrough(fd int) error {
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, unix.TCSETS, mode)
}
