package celltest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func endCases() []testCase {
	return []testCase{
		{"the wall time ends a program", testWall},
		{"a cancelled context ends a program", testCancel},
		{"a writer's error ends a program", testWriterError},
		{"Close ends a program", testCloseEnds},
		{"those left behind do not hold Exec, and are dead after Stop", testOrphans},
		{"nothing is written after Exec has returned", testNothingLate},
	}
}

// start runs cmd in c in the background and returns when its first byte of
// output has come. The run is complete when the channel is closed.
func (b *bench) start(ctx context.Context, c cell.Cell, cmd cell.Command, r *run) <-chan struct{} {
	b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.exit, r.err = c.Exec(ctx, cmd)
		r.seal()
	}()
	b.within("the program's first output", func() {
		select {
		case <-r.stdout.first:
		case <-done:
		}
	})
	return done
}

func testWall(b *bench) {
	wall, said := b.h.Wall, b.wall(b.h.Wall)
	for said == "" && wall < b.h.Patience { // its time was over before it had come to say anything, on a busy machine
		wall *= 4
		said = b.wall(wall)
	}
	if said != "ready" {
		b.Errorf("what was written before the end is %q, want ready", said)
	}
}

// wall has a program end by its wall time, and returns what it wrote before.
func (b *bench) wall(wall time.Duration) string {
	c := b.open(func(e *envelope.Envelope) { e.Resources.Wall = envelope.Duration(wall) })
	cmd, r := b.command(Hang)
	before := time.Now()
	b.exec(c, cmd, r)
	took := time.Since(before)
	b.checkEnded(r, cell.CauseWall)
	if took < wall || r.exit.Wall < wall/2 {
		b.Errorf("ended after %s (it says %s), want %s", took, r.exit.Wall, wall)
	}
	b.stop(c)
	return r.stdout.text()
}

func testCancel(b *bench) {
	c := b.open()
	cmd, r := b.command(Hang)
	ctx, cancel := context.WithCancel(b.context())
	defer cancel()
	done := b.start(ctx, c, cmd, r)
	cancel()
	b.within("Exec after the context was cancelled", func() { <-done })
	b.checkEnded(r, cell.CauseCancel)
	b.stop(c)
}

func testWriterError(b *bench) {
	for _, kind := range []Kind{Flood, FloodErr} {
		c := b.open()
		cmd, r := b.command(kind)
		r.stdout.limit, r.stderr.limit = 100_000, 100_000
		b.exec(c, cmd, r)
		b.checkEnded(r, cell.CauseOutput)
		b.stop(c)
		b.destroy(c)
	}
}

func testCloseEnds(b *bench) {
	c := b.open()
	cmd, r := b.command(Hang)
	done := b.start(b.context(), c, cmd, r)
	b.destroy(c)
	b.within("Exec after Close", func() { <-done })
	if r.err != nil && !errors.Is(r.err, cell.ErrClosed) || r.err == nil && r.exit.Cause != cell.CauseCancel {
		b.Errorf("Exec returned %+v, %v; want the cause %q, or ErrClosed", r.exit, r.err, cell.CauseCancel)
	}
}

func testOrphans(b *bench) {
	mark := "celltest-" + id()
	c, r := b.run(0, nil, Orphans, mark)
	if !strings.Contains(r.stdout.text(), "done") {
		b.Errorf("the main program's own output is lost: %q", r.stdout.text())
	}
	b.stop(c)
	if b.h.Processes != nil {
		if n := b.h.Processes(mark); n != 0 {
			b.Errorf("%d processes are alive after Stop", n)
		}
	}
	caps := envelope.OutputCaps{Count: 2, Bytes: 8 * envelope.MiB}
	first := b.get(c, caps, "ticks", "tocks")
	for range 3 {
		if again := b.get(c, caps, "ticks", "tocks"); again != first {
			b.Fatalf("the files still grow after Stop: %s, then %s", first, again)
		}
	}
	b.destroy(c)
	if b.h.Processes != nil && b.h.Processes(mark) != 0 {
		b.Error("processes are alive after Close")
	}
}

func testNothingLate(b *bench) {
	c, r := b.run(0, nil, Orphans, "celltest-"+id())
	window := time.NewTimer(b.h.Wall) // those left behind write all the time
	defer window.Stop()
	select {
	case <-r.stdout.late:
		b.Error("bytes came after Exec had returned")
	case <-window.C:
	}
	b.stop(c)
}
