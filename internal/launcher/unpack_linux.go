package launcher

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// The unpacker makes the root of a cell out of a tar stream that a stranger
// wrote. It is a process of ours with a slot, a uid and a group, as the egress
// process is, and lives as long as one stream:
//
//	Unpack   a staging is made and given to the uid; the process runs in it;
//	         when it has ended and is gone, what it left is looked at and made
//	         root's, and another process says whether it is what its listing says
//	Keep     everything is on the disk, then the staging becomes a tree
//	Drop     the process is ended, the staging removed
//
// A front that goes leaves nothing: what was not kept is dropped.

// A making is one tree from Unpack to Keep or Drop.
type making struct {
	done    chan struct{}   // closed when the unpacker has ended, with the following set
	staging *images.Staging // nil: nothing is left
	cell    *cell           // guarded by the server's mu: the unpacker, or the check of its work; nil before and after
	dropped bool            // guarded by it too: nobody wants it any more
}

// unpack answers Unpack. fds are the stream and the pipe of the result; they are
// closed in any case.
func (s *server) unpack(m *wire.Unpack, fds []int) wire.Body {
	defer closeAll(fds)
	if err := s.host.checkUnpack(m, fds); err != nil {
		return failure(wire.KindSpec, err.Error(), nil)
	}
	job := s.begin(m.ID)
	if job == nil {
		return &wire.Failed{Kind: wire.KindState, Step: "the id is in use, or the launcher is going down"}
	}
	answer, staging := s.make(job, m, fds)
	s.mu.Lock()
	defer s.mu.Unlock()
	job.staging, job.cell = staging, nil
	close(job.done)
	if staging == nil || job.dropped {
		delete(s.makings, m.ID)
	}
	return answer
}

// begin notes a tree in the making, or returns nil.
func (s *server) begin(id string) *making {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.makings[id] != nil {
		return nil
	}
	job := &making{done: make(chan struct{})}
	s.makings[id] = job
	return job
}

func (h *host) checkUnpack(m *wire.Unpack, fds []int) error {
	most := &h.conf.Image
	switch {
	case !wire.IsID(m.ID):
		return errors.New("id: not an id")
	case m.Bytes < 1 || m.Bytes > most.Bytes:
		return fmt.Errorf("bytes: %d is not within 1 to %d (image.bytes)", m.Bytes, most.Bytes)
	case m.Entries < 1 || m.Entries > most.Entries:
		return fmt.Errorf("entries: %d is not within 1 to %d (image.entries)", m.Entries, most.Entries)
	case !m.Dir && !m.EROFS:
		return errors.New("neither a directory nor an image is asked for")
	case len(fds) != unpackFDs:
		return fmt.Errorf("%d descriptors, not %d", len(fds), unpackFDs)
	}
	for i, want := range []int{unix.O_RDONLY, unix.O_WRONLY} {
		var st unix.Stat_t
		err := unix.Fstat(fds[i], &st)
		flags, err2 := unix.FcntlInt(uintptr(fds[i]), unix.F_GETFL, 0)
		if errors.Join(err, err2) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO || flags&unix.O_ACCMODE != want || flags&unix.O_PATH != 0 {
			return fmt.Errorf("descriptor %d is not that end of a pipe", i)
		}
	}
	return nil
}

// unpackFDs are the descriptors that come with Unpack.
const unpackFDs = 2

// make runs the unpacker and returns what became of it; the staging where it
// went well.
func (s *server) make(job *making, m *wire.Unpack, fds []int) (wire.Body, *images.Staging) {
	filter, err := seccomp.Unpack()
	if err != nil {
		return failure(wire.KindSetup, "filter of the unpacker", err), nil
	}
	select {
	case s.makers <- struct{}{}:
		defer func() { <-s.makers }()
	default:
		return &wire.Failed{Kind: wire.KindCapacity, Step: "as many trees are being made as can be"}, nil
	}
	p := &unpackPlan{jail: s.host.jail(filter), ceilings: s.host.conf.Image, request: *m}
	answer := &wire.Unpacked{}
	staging, f := s.unpackInto(job, p, fds, answer)
	if f == nil && answer.Status == 0 && answer.Cause == wire.CauseNone {
		if f = claimed(staging, m, answer); f == nil {
			f = s.check(job, m, staging, answer)
		}
		if f == nil {
			return answer, staging
		}
	}
	if staging != nil {
		_ = staging.Drop() // what is left is swept
	}
	if f != nil {
		return f, nil
	}
	return answer, nil
}

// unpackInto runs the unpacker until it is gone. The staging is nil where there
// is none yet.
func (s *server) unpackInto(job *making, p *unpackPlan, fds []int, answer *wire.Unpacked) (*images.Staging, *wire.Failed) {
	slot, ok := s.reserve(s.most+egressSlots, s.most+egressSlots+unpackSlots)
	if !ok {
		return nil, &wire.Failed{Kind: wire.KindCapacity, Step: "what is left of unpackers is in the way"}
	}
	c := newCell(s.host, slot, wire.Spec{})
	c.alone = true
	staging, f := c.buildUnpack(p, fds)
	closeAll(fds) // the process has them
	if f == nil {
		f = s.run(job, c)
	}
	if f == nil {
		started := time.Now()
		c.await(p.ceilings.Wall, func() bool { return staging.Over(mostOf(&p.request)) })
		f = c.unpacked(answer, time.Since(started))
	}
	if report := s.end(c); f == nil && report != nil && !gone(report) {
		f = failure(wire.KindBroken, "remove the unpacker", errors.New(left(report)))
	}
	return staging, f
}

// buildUnpack makes what the process needs and starts it.
func (c *cell) buildUnpack(p *unpackPlan, fds []int) (*images.Staging, *wire.Failed) {
	done, f := c.prepareAlone(&p.jail, c.host.conf.Image.Path, "the unpacker",
		cgroup.Limits{Memory: p.ceilings.Memory, Pids: p.ceilings.Pids, CPU: p.ceilings.CPU})
	defer done()
	if f != nil {
		return nil, f
	}
	p.stdio[0], p.stdio[3] = fds[0], fds[1]
	staging, err := c.host.images.Stage(p.request.ID, c.lease.id)
	if err != nil {
		return nil, storeFailure("make the staging", err)
	}
	if p.staging, err = staging.Mount(false); err != nil {
		return staging, storeFailure("mount the staging", err)
	}
	defer unix.Close(p.staging)
	p.join = c.group.Join().Procs
	return staging, c.launchAlone(p.compile(), unpackNamespaces, "start the unpacker")
}

// run notes that the process runs: from here on it can be ended.
func (s *server) run(job *making, c *cell) *wire.Failed {
	s.work.Go(func() {
		defer close(c.ended)
		c.reap()
	})
	if !s.register(c) {
		return &wire.Failed{Kind: wire.KindState, Step: "the launcher is going down"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	job.cell = c
	if job.dropped {
		c.kill(wire.CauseCancel)
	}
	return nil
}

// gaugeEvery is how often what an unpacker has written is looked at, at most; a
// look takes no more than a tenth of the time between two.
const gaugeEvery = 250 * time.Millisecond

// await returns when the process has ended, which it does within the time that
// it has, and when it has written too much; or when it is dead and does not go.
func (c *cell) await(wall int64, over func() bool) {
	timer := time.AfterFunc(time.Duration(wall), func() { c.kill(wire.CauseWall) })
	defer timer.Stop()
	for pause := gaugeEvery; ; {
		next := time.NewTimer(pause)
		select {
		case <-c.ended:
			next.Stop()
			return
		case <-c.overdue:
			next.Stop()
			return
		case began := <-next.C:
			if over() {
				c.kill(wire.CauseOutput)
			}
			pause = max(gaugeEvery, 10*time.Since(began))
		}
	}
}

// unpacked says how the process ended, and counts.
func (c *cell) unpacked(to *wire.Unpacked, took time.Duration) *wire.Failed {
	if !closed(c.ended) {
		return undead()
	}
	words := c.lastWords()
	c.mu.Lock()
	defer c.mu.Unlock()
	u, err := c.group.Usage()
	if err != nil {
		return failure(wire.KindBroken, "read the group's counters", err)
	}
	*to = wire.Unpacked{Status: int32(c.exit), Cause: c.cause, Wall: int64(took), CPU: int64(u.CPU), MemoryPeak: u.MemoryPeak,
		OOMKills: max(u.OOMKills, 0), Words: words}
	if to.OOMKills > 0 && to.Cause == wire.CauseNone && c.exit.Signaled() {
		to.Cause = wire.CauseMemory
	}
	return nil
}

// end destroys the process, unless closeAll does.
func (s *server) end(c *cell) *wire.Closed {
	if c.number == 0 { // it was not registered
		return s.destroy(c)
	}
	report, _ := s.close(c).(*wire.Closed)
	return report
}

func left(r *wire.Closed) (text string) {
	for _, k := range r.Checks {
		if !k.Gone {
			text += k.What + " " + k.Note + " "
		}
	}
	return text
}

// claimed takes what the process left, and counts it.
func claimed(staging *images.Staging, m *wire.Unpack, to *wire.Unpacked) *wire.Failed {
	size, err := staging.Claim(mostOf(m))
	if err != nil {
		return storeFailure("take the tree from the unpacker", err)
	}
	to.Bytes, to.Entries = size.Bytes, size.Entries
	return nil
}

// mostOf is what a tree may take, in both its forms.
func mostOf(m *wire.Unpack) images.Size {
	return images.Size{Bytes: 2 * (m.Bytes + perEntry*m.Entries + perTree), Entries: m.Entries + mountPoints}
}

// mountPoints bounds the entries that an unpacker makes by itself.
const mountPoints = 32

// keep answers Keep.
func (s *server) keep(m *wire.Keep) wire.Body {
	if !wire.IsDigest(m.Digest) || !wire.IsOwner(m.Owner) {
		return failure(wire.KindSpec, "digest: not 64 digits of hexadecimal, or owner: not 1 to 64", nil)
	}
	job := s.takeMaking(m.ID, false)
	if job == nil {
		return &wire.Failed{Kind: wire.KindState, Step: "no such tree in the making"}
	}
	if err := job.staging.Keep(m.Digest, m.Owner); err != nil {
		return storeFailure("keep the tree", errors.Join(err, job.staging.Drop()))
	}
	return &wire.Done{}
}

// drop answers Drop.
func (s *server) drop(m *wire.Drop) wire.Body {
	job := s.takeMaking(m.ID, true)
	if job == nil {
		return &wire.Failed{Kind: wire.KindState, Step: "no such tree in the making"}
	}
	<-job.done
	if job.staging == nil {
		return &wire.Done{}
	}
	if err := job.staging.Drop(); err != nil {
		return storeFailure("drop the tree", err)
	}
	return &wire.Done{}
}

// takeMaking takes a tree out of the table; one whose unpacker runs only where
// early is set: then it is ended.
func (s *server) takeMaking(id string, early bool) *making {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.makings[id]
	if job == nil || job.dropped || !early && (!closed(job.done) || job.staging == nil) {
		return nil
	}
	job.dropped = true
	if job.cell != nil {
		job.cell.kill(wire.CauseCancel)
	}
	if closed(job.done) {
		delete(s.makings, id)
	}
	return job
}

// dropMakings drops all that was not kept, when no request is under way.
func (s *server) dropMakings() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, job := range s.makings {
		if job.staging != nil {
			_ = job.staging.Drop() // what is left is swept
		}
		delete(s.makings, id)
	}
}

// storeFailure is the answer where the store has an error.
func storeFailure(step string, err error) *wire.Failed {
	kind := wire.KindSetup
	for _, k := range []struct {
		err  error
		kind wire.Kind
	}{
		{images.ErrAbsent, wire.KindAbsent}, {images.ErrBusy, wire.KindBusy}, {images.ErrUnfit, wire.KindTree}, {images.ErrTaken, wire.KindState},
	} {
		if errors.Is(err, k.err) {
			kind = k.kind
		}
	}
	return failure(kind, step, err)
}

// removeTree answers Remove. What is kept ready of the tree goes first.
func (s *server) removeTree(m *wire.Remove) wire.Body {
	if !wire.IsDigest(m.Digest) || !wire.IsOwner(m.Owner) {
		return failure(wire.KindSpec, "digest: not 64 digits of hexadecimal, or owner: not 1 to 64", nil)
	}
	defer s.dropSparesOf(m.Digest)()
	s.host.grounds.drop(m.Digest)
	if err := s.host.images.Remove(m.Digest, m.Owner); err != nil {
		return storeFailure("remove the tree", err)
	}
	return &wire.Done{}
}

// trees answers Trees.
func (s *server) trees(m *wire.Trees) (wire.Body, []int) {
	if m.Owner != "" && !wire.IsOwner(m.Owner) {
		return failure(wire.KindSpec, "owner: not 1 to 64 digits of hexadecimal", nil), nil
	}
	all, err := s.host.images.Trees(m.Owner)
	if err != nil {
		return storeFailure("list the trees", err), nil
	}
	var text []byte
	for _, t := range all {
		form := func(is bool, letter byte) byte {
			if is {
				return letter
			}
			return '-'
		}
		text = append(append(text, t.Digest...), ' ')
		for _, n := range []int64{t.Bytes, t.Entries} {
			text = append(strconv.AppendInt(text, n, 10), ' ')
		}
		text = append(text, form(t.Dir, 'd'), ' ', form(t.EROFS, 'e'), ' ')
		text = append(strconv.AppendInt(text, t.Kept, 10), ' ', form(t.Owned, 'o'), '\n')
	}
	fd, err := memfdOf("trees", text)
	if err != nil {
		return failure(wire.KindBroken, "list the trees", err), nil
	}
	return &wire.Found{Size: int64(len(text))}, []int{fd}
}

// openTree answers OpenTree.
func (s *server) openTree(m *wire.OpenTree) (wire.Body, []int) {
	if !wire.IsDigest(m.Digest) {
		return failure(wire.KindSpec, "digest: not 64 digits of hexadecimal", nil), nil
	}
	fd, size, err := s.host.images.Open(m.Digest, m.File)
	if err != nil {
		return storeFailure("open the tree", err), nil
	}
	return &wire.Found{Size: size}, []int{fd}
}
