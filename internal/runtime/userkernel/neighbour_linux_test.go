package userkernel_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// neighbourly does a little of everything that a bomb next door could use up,
// and says so each time.
const neighbourly = `
import os, socket, time
while True:
    pid = os.fork()
    if pid == 0: os._exit(7)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7: raise SystemExit("no process")
    with open("file", "wb") as f: f.write(bytearray(1 << 20))
    os.remove("file")
    with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()) as a, s.accept()[0] as b:
        a.sendall(b"x" * 4096); b.recv(4096)
    print("done", flush=True)
    time.sleep(0.05)
`

// longestGap is how long a neighbour may be without having done its bit, which
// takes some milliseconds.
const longestGap = 30 * time.Second

// A neighbour is a cell of somebody else, at work all the time.
type neighbour struct {
	mu   sync.Mutex // guards the following
	bits int
	news chan struct{} // closed at the next bit
}

func newNeighbour(t *testing.T, g *ground) *neighbour {
	t.Helper()
	s := shape()
	s.Envelope.Resources.Wall, s.Envelope.Resources.CPUTime = envelope.Duration(time.Hour), envelope.Duration(time.Hour)
	c, err := g.Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	n := &neighbour{news: make(chan struct{})}
	ctx, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	var exit cell.Exit
	var say buffer
	go func() {
		defer close(over)
		exit, err = c.Exec(ctx, cell.Command{Argv: []string{"/usr/bin/python3", "-c", neighbourly}, Env: environ(), Stdout: n, Stderr: &say})
	}()
	t.Cleanup(func() {
		end()
		<-over
		if err != nil || exit.Cause != cell.CauseCancel || len(exit.Events) > 0 {
			t.Errorf("the neighbour: %+v, %v\n%s", exit, err, say.data)
		}
		closed(t, c)
	})
	n.check(t)
	return n
}

// Write notes that a bit was done.
func (n *neighbour) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bits += bytes.Count(b, []byte("done"))
	close(n.news)
	n.news = make(chan struct{})
	return len(b), nil
}

// check waits for the neighbour's next two bits: one may have been under way.
func (n *neighbour) check(t *testing.T) {
	t.Helper()
	limit := time.NewTimer(longestGap * unhurried())
	defer limit.Stop()
	n.mu.Lock()
	until := n.bits + 2
	n.mu.Unlock()
	for {
		n.mu.Lock()
		bits, news := n.bits, n.news
		n.mu.Unlock()
		if bits >= until {
			return
		}
		select {
		case <-news:
		case <-limit.C:
			t.Fatalf("the neighbour does nothing for %v", longestGap)
		}
	}
}
