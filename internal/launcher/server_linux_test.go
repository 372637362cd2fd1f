package launcher

import (
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// serveHere serves a front in this process, where the race detector sees it.
// It is the launcher but for the descriptors and capabilities that a process
// of its own gives up. The function it returns waits for the server's end.
func serveHere(t *testing.T, p place) (*client, func() error) {
	t.Helper()
	c, remote := newClient(t, p)
	front, err := unix.FcntlInt(remote.Fd(), unix.F_DUPFD_CLOEXEC, stdioFDs)
	must(t, err, remote.Close())
	conn, err := wire.NewConn(front)
	must(t, err)
	config, err := conf.Load(p.conf)
	must(t, err)
	h, err := newHost(config, helper("callcell-init"), front)
	must(t, err)
	h.sweep()
	must(t, h.ready())
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	done := make(chan error, 1)
	go func() {
		err := serve(h, conn)
		unix.Close(h.reaper.sock) // or the reaper would take this process for a launcher that hangs
		<-h.reaper.gone
		close(h.slice.thread.work)
		close(h.netns.orders)
		done <- err
	}()
	t.Cleanup(func() {
		_ = c.conn.CloseSend() // the test may have hung up
		await(t, "the hang-up", c.over)
		_ = c.conn.Close()
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	c.greet(t)
	return c, func() error {
		err, _ := await(t, "the server's end", done)
		return err
	}
}

// churnCell is one cell's life, in which everything comes at once.
func churnCell(t *testing.T, c *client, i int, fds []int) {
	s := smallSpec()
	if i%3 == 0 {
		s.Ports = []uint16{80, 443}
	}
	a, ok := <-c.ask(&wire.Open{Spec: s})
	closeAll(a.fds)
	o, isOpened := a.body.(*wire.Opened)
	if !ok {
		return // hung up
	}
	if !isOpened {
		t.Errorf("%+v", a.body)
		return
	}
	slot := o.Slot
	requests := []wire.Body{
		&wire.Kill{Slot: slot, Cause: wire.Cause(i % 6)}, &wire.Stop{Slot: slot}, &wire.Get{Slot: slot, Name: "file"},
		&wire.List{Slot: slot, Dir: ".", Max: 5}, &wire.Get{Slot: slot, Name: ".."}, &wire.Close{Slot: slot}, &wire.Close{Slot: slot},
	}
	answers := []<-chan answered{c.ask(&wire.Start{Slot: slot}, fds...)}
	for k := range requests {
		answers = append(answers, c.ask(requests[(k+i)%len(requests)]))
	}
	reports := 0
	for _, ch := range answers {
		a := <-ch
		closeAll(a.fds)
		if r, ok := a.body.(*wire.Closed); ok {
			reports++
			if !gone(r) {
				t.Errorf("%+v", r)
			}
		}
	}
	if reports > 1 {
		t.Errorf("slot %d was destroyed %d times", slot, reports)
	}
}

// TestServerHammer has many cells live and die at once, with every request in
// every order.
func TestServerHammer(t *testing.T) {
	c, wait := serveHere(t, newPlace(t, "cells = 8", "uids.count = 16"))
	hammerServer(t, c, 6, 20)
	noGroups(t, c)
	c.hangUp(t)
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// hammerServer runs cells from several goroutines.
func hammerServer(t *testing.T, c *client, at, each int) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	fd := int(null.Fd())
	var payloads []int
	for _, argv := range [][]string{{"/bin/true"}, {"/bin/sleep", "1000"}, {"/nowhere"}} {
		payloads = append(payloads, int(memfd(t, payloadOf(t, argv, nil)).Fd()))
	}
	var fronts sync.WaitGroup
	for i := range at {
		fronts.Go(func() {
			for k := range each {
				n := i*each + k
				churnCell(t, c, n, []int{fd, fd, fd, payloads[n%len(payloads)]})
			}
		})
	}
	fronts.Wait()
}

// TestHangUpWhileAllIsBusy: the server comes to its end, and nothing is left.
func TestHangUpWhileAllIsBusy(t *testing.T) {
	p := newPlace(t, "cells = 8", "uids.count = 16")
	for range 3 {
		c, wait := serveHere(t, p)
		var busy sync.WaitGroup
		busy.Go(func() { hammerServer(t, c, 6, 1000) })
		eventually(t, "cells are there", func() bool { return len(groupDirs(p.parent, "*")) >= 4 })
		must(t, c.conn.CloseSend())
		if err := wait(); err != nil {
			t.Error(err)
		}
		busy.Wait()
		noGroups(t, c)
	}
}

// TestQuarantine: a slot whose cell is not wholly gone is not used again, and
// counts, until it is.
func TestQuarantine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as until the next try")
	}
	t.Parallel()
	c := dial(t, newPlace(t, "cells = 2", "uids.count = 2"))
	slot := c.open(t, spec())
	below := groupDirs(c.parent, "*")[0] + "/below" // which the launcher does not expect
	must(t, os.Mkdir(below, 0o755))
	a := c.call(t, &wire.Close{Slot: slot})
	closed, ok := a.body.(*wire.Closed)
	if !ok || gone(closed) {
		t.Fatalf("%+v, want a report that is not complete", a.body)
	}
	for _, k := range closed.Checks {
		if stays := slices.Contains([]string{"cgroup", "uid"}, k.What); k.Gone == stays || stays && k.Note == "" {
			t.Errorf("%+v", k)
		}
	}
	c.refused(t, wire.KindState, &wire.Close{Slot: slot})
	c.open(t, spec())
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	must(t, os.Remove(below))
	eventually(t, "the slot is free again", func() bool {
		a := c.call(t, &wire.Open{Spec: spec()})
		_, ok := a.body.(*wire.Opened)
		return ok
	})
}
