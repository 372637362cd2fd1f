package inside

import (
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/wire"
)

// spawn starts the program. It does so on a thread of its own, which has given
// up what the program must not have, and ends with it.
func spawn(c *wire.Command, streams [3]int) (pid int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err = giveUp(); err == nil {
			pid, err = search(c, streams)
		}
	}()
	<-done
	return pid, err
}

// giveUp gives up for good what capabilities this thread's children could
// have. Its own are needed to become another user, and end there. Whoever has
// made this place bounds it to what it permits: no other is there to be dropped.
func giveUp() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	var held [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &held[0]); err != nil {
		return err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if held[c/32].Permitted&(1<<(c%32)) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

const pathDefault = "/usr/local/bin:/usr/bin:/bin"

// search starts Argv[0], looked for in each directory of the program's PATH
// unless it has a slash, as execvp does: what is not there or may not be
// executed is passed, what fails otherwise decides. An empty entry is passed
// too: the working directory has a name.
func search(c *wire.Command, streams [3]int) (int, error) {
	name := c.Argv[0]
	if strings.IndexByte(name, '/') >= 0 {
		return fork(name, c, streams)
	}
	result := error(unix.ENOENT)
	for dir := range strings.SplitSeq(pathOf(c.Env), ":") {
		if dir == "" || name == "" {
			continue
		}
		full := dir + "/" + name
		if len(full) >= unix.PathMax {
			continue // as callcell-init does
		}
		if err := unix.Access(full, unix.F_OK); err == unix.ENOENT || err == unix.ENOTDIR {
			continue // spares a fork
		}
		pid, err := fork(full, c, streams)
		switch err {
		case unix.ENOENT, unix.ENOTDIR:
		case unix.EACCES:
			result = err
		default:
			return pid, err
		}
	}
	return 0, result
}

func pathOf(env []string) string {
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			return path
		}
	}
	return pathDefault
}

// fork starts a file as the program.
func fork(name string, c *wire.Command, streams [3]int) (int, error) {
	dir := c.Dir
	if dir == "" {
		dir = workDir
	}
	return syscall.ForkExec(name, c.Argv, &syscall.ProcAttr{
		Dir: dir, Env: c.Env,
		Files: []uintptr{uintptr(streams[0]), uintptr(streams[1]), uintptr(streams[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: UID, Gid: UID}},
	})
}
