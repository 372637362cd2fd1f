package carry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bufferSize is how much goes through at once.
const bufferSize = 32 << 10

var (
	// errBroken is the error of a connection that the other side broke off.
	errBroken = errors.New("the connection broke")
	// errGone is the one of a connection that the program broke off. Many do
	// when they have what they wanted.
	errGone = errors.New("the program broke the connection off")
)

// broken says what was being done. What the kernel says about it is left out:
// it has addresses of this host in it.
func broken(doing string) error { return fmt.Errorf("%w while %s", errBroken, doing) }

// Buffers lends buffers. The zero value is ready, and may be used
// concurrently.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) lend() *[bufferSize]byte {
	if buf, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buf
	}
	return new([bufferSize]byte)
}

func (b *Buffers) back(buf *[bufferSize]byte) { b.pool.Put(buf) }

// pump passes bytes on both ways until both sides have said all.
func (c *carrier) pump() error {
	f := &flow{c: c}
	f.touch()
	stop := context.AfterFunc(c.ctx, func() { f.over(context.Cause(c.ctx)) })
	defer stop()
	f.watch()
	defer f.unwatch()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.abort(f.down())
	}()
	f.abort(f.up())
	<-done
	c.out.Sent, c.out.Received = c.out.Sent+f.sent, f.received
	return f.cause()
}

// flow is a connection that is carried.
type flow struct {
	c              *carrier
	last           atomic.Int64 // when something was said, as UnixNano
	sent, received int64        // each written by one direction

	mu    sync.Mutex // guards what follows
	said  int        // sides that have said all
	late  error      // why it would have been ended, when they had
	why   error      // the first error
	timer *time.Timer
}

func (f *flow) touch() { f.last.Store(time.Now().UnixNano()) }

// watch ends the flow when nothing was said for too long.
func (f *flow) watch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(f.c.o.Idle, f.look)
}

func (f *flow) look() {
	left := f.c.o.Idle - time.Since(time.Unix(0, f.last.Load()))
	if left <= 0 {
		f.abort(ErrIdle)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Reset(left)
	}
}

func (f *flow) unwatch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer.Stop()
	f.timer = nil
}

// abort ends both directions, unless err is nil. The first error counts.
func (f *flow) abort(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	if f.why == nil {
		f.why = cmp.Or(f.late, err)
	}
	f.mu.Unlock()
	reset(f.c.program)
	reset(f.c.up)
}

// over ends both directions because their time has ended. Where both sides have
// said all it is not what ends them: a program that has heard the last of it may
// have ended, and its call with it, before we come to see that we are done.
func (f *flow) over(cause error) {
	f.mu.Lock()
	done := f.said == 2
	if done {
		f.late = cause
	}
	f.mu.Unlock()
	if !done {
		f.abort(cause)
		return
	}
	reset(f.c.program)
	reset(f.c.up)
}

// all notes that a side has said all. What it said was passed on.
func (f *flow) all() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said++
}

func (f *flow) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// up passes on what the program says.
func (f *flow) up() error {
	pass := func(b []byte) error {
		if err := f.count(int64(len(b)), 0); err != nil {
			return err
		}
		f.sent += int64(len(b))
		return f.write(f.c.up, b, broken("sending to the other side"))
	}
	if head := f.c.program.head; len(head) > 0 {
		f.c.program.head = nil
		if err := pass(head); err != nil {
			return err
		}
	}
	return f.copy(f.c.program.Conn, f.c.up, errGone, pass)
}

// down passes on what the other side says.
func (f *flow) down() error {
	return f.copy(f.c.up, f.c.program.Conn, broken("reading from the other side"), func(b []byte) error {
		if err := f.count(0, int64(len(b))); err != nil {
			return err
		}
		f.received += int64(len(b))
		return f.write(f.c.program.Conn, b, errGone)
	})
}

func (f *flow) count(sent, received int64) error {
	if err := f.c.o.Count(sent, received); err != nil {
		return refuse(err.Error())
	}
	return nil
}

// write writes b, or returns what it means that it cannot. Its begin and its
// end are signs of life.
func (f *flow) write(to net.Conn, b []byte, cannot error) error {
	f.touch()
	if _, err := to.Write(b); err != nil {
		return cannot
	}
	f.touch()
	return nil
}

// copy reads to the end and says so to the other side, or returns what it
// means that it cannot read.
func (f *flow) copy(from, to net.Conn, cannot error, pass func([]byte) error) error {
	l, err := newLender(from, f.c.o.Buffers)
	if err != nil {
		return cannot
	}
	defer l.back()
	for {
		b, err := l.read()
		if errors.Is(err, io.EOF) {
			f.all()
			return finish(to)
		}
		if err != nil {
			return cannot
		}
		if err := pass(b); err != nil {
			return err
		}
		l.back()
	}
}

// finish says that nothing more comes. A side that is gone need not hear it.
func finish(to net.Conn) error {
	err := closeWrite(to)
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ENOTCONN) {
		return nil
	}
	return broken("ending it")
}
