package container_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// neighbourly does a little of everything that a bomb next door could use up:
// a process, memory, a file, descriptors, a connection. It says so each time.
const neighbourly = `
import os, socket, time
while True:
    pid = os.fork()
    if pid == 0: os._exit(7)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7: raise SystemExit("no process")
    with open("file", "wb") as f: f.write(bytearray(1 << 20))
    os.remove("file")
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    for fd in fds: os.close(fd)
    with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()) as a, s.accept()[0] as b:
        a.sendall(b"x" * 4096); b.recv(4096)
    print("done", flush=True)
    time.sleep(0.02)
`

// neighbourWall is more than any group takes.
const neighbourWall = envelope.Duration(time.Hour)

// longestGap is how long the neighbour may be without having done its bit,
// which takes some milliseconds: a call of a few seconds must not be slowed
// into its wall time.
func longestGap() time.Duration { return unhurried() * answerSlack }

// A neighbour is a cell of somebody else, at work all the time.
type neighbour struct {
	mu      sync.Mutex // guards the following
	text    bytes.Buffer
	bits    int
	last    time.Time
	gap     time.Duration // the longest between two bits
	changed chan struct{} // closed at the next bit
	over    chan struct{}
}

func newNeighbour(t *testing.T, r cell.Runtime) *neighbour {
	t.Helper()
	s := shape()
	s.Envelope.Resources.Wall, s.Envelope.Resources.CPUTime = neighbourWall, neighbourWall
	c, err := r.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	n := &neighbour{last: time.Now(), changed: make(chan struct{}), over: make(chan struct{})}
	ctx, end := context.WithCancel(context.Background())
	var exit cell.Exit
	go func() {
		defer close(n.over)
		exit, err = c.Exec(ctx, cell.Command{Argv: []string{"/usr/bin/python3", "-c", neighbourly}, Env: variables(), Stdout: n, Stderr: n})
	}()
	t.Cleanup(func() {
		end()
		<-n.over
		if err != nil || exit.Cause != cell.CauseCancel || len(exit.Events) > 0 {
			t.Errorf("the neighbour: %+v, %v\n%.4000s", exit, err, n.text.String())
		}
		if report := c.Close(context.Background()); !report.Complete {
			t.Errorf("teardown of the neighbour: %+v", report)
		}
		t.Logf("the neighbour did %d bits, the longest in %v", n.bits, n.gap)
	})
	n.check(t)
	return n
}

// Write notes that a bit was done.
func (n *neighbour) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Write(b)
	if over := n.text.Len() - 4096; over > 0 {
		n.text.Next(over)
	}
	n.bits += bytes.Count(b, []byte("done"))
	n.gap, n.last = max(n.gap, time.Since(n.last)), time.Now()
	close(n.changed)
	n.changed = make(chan struct{})
	return len(b), nil
}

// check waits for the neighbour's next two bits: one may have been under way.
func (n *neighbour) check(t *testing.T) {
	t.Helper()
	if n == nil {
		return
	}
	limit := time.NewTimer(longestGap())
	defer limit.Stop()
	n.mu.Lock()
	until := n.bits + 2
	n.mu.Unlock()
	for {
		n.mu.Lock()
		changed, bits, gap := n.changed, n.bits, n.gap
		n.mu.Unlock()
		if gap > longestGap() {
			t.Fatalf("the neighbour was held up for %v", gap)
		}
		if bits >= until {
			return
		}
		select {
		case <-changed:
		case <-n.over:
			t.Fatalf("the neighbour has ended: %s", n.text.String())
		case <-limit.C:
			t.Fatalf("the neighbour does nothing for %v", longestGap())
		}
	}
}
