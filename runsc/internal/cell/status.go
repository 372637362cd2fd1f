package cell

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxReason bounds the text of a failure.
const maxReason = 1024

// A status is the pipe to the parent. It never blocks on a full one: what it
// says is shorter than a pipe.
type status struct{ fd int }

func (s status) say(line string) {
	if _, err := unix.Write(s.fd, []byte(line+"\n")); err != nil {
		fmt.Fprintf(os.Stderr, "runsc %s: status: %v\n", Name, err)
	}
}

func (s status) started() { s.say("started") }

func (s status) ended(ws unix.WaitStatus) {
	if ws.Signaled() {
		s.say(fmt.Sprintf("signal %d", ws.Signal()))
		return
	}
	s.say(fmt.Sprintf("exit %d", ws.ExitStatus()))
}

func (s status) failed(err error) {
	text := strings.Join(strings.Fields(err.Error()), " ")
	s.say("failed " + text[:min(len(text), maxReason)])
}
