package mux

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// pair is a channel, with a host and a guest.
func pair(t testing.TB, most int) (host, guest *Mux) {
	t.Helper()
	leak.Check(t)
	a, b := net.Pipe()
	host = New(a, Options{Host: true, Most: most, Own: 64, Stall: time.Minute})
	guest = New(b, Options{Most: 64, Own: most})
	t.Cleanup(host.Close)
	t.Cleanup(guest.Close)
	for _, m := range []*Mux{host, guest} {
		go func() { _ = m.Hello() }()
	}
	for _, m := range []*Mux{host, guest} {
		<-m.Ready()
	}
	return host, guest
}

// stream opens one at one end and accepts it at the other.
func stream(t testing.TB, from, to *Mux) (a, b *Stream) {
	t.Helper()
	type opened struct {
		s   *Stream
		err error
	}
	c := make(chan opened, 1)
	go func() { s, err := from.Open([]byte("note")); c <- opened{s, err} }()
	b = <-to.Accepted()
	o := <-c
	if o.err != nil {
		t.Fatal(o.err)
	}
	if o.s.ID() != b.ID() || string(b.Note()) != "note" {
		t.Fatalf("%d and %d, %q", o.s.ID(), b.ID(), b.Note())
	}
	return o.s, b
}

// streams is how many there are at one end.
func (m *Mux) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.streams)
}

func TestBytesGoBothWaysAndTheEndsAreSeen(t *testing.T) {
	host, guest := pair(t, 4)
	a, b := stream(t, host, guest)
	sent := make([]byte, 3*Window+17)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	var both sync.WaitGroup
	for _, ends := range [][2]*Stream{{a, b}, {b, a}} {
		both.Go(func() {
			if _, err := ends[0].Write(sent); err != nil {
				t.Error(err)
			}
			_ = ends[0].CloseWrite()
		})
		both.Go(func() {
			got, err := io.ReadAll(ends[1])
			if err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	both.Wait()
	if _, err := a.Write(nil); err != nil {
		t.Error(err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	wait(t, func() bool { return host.count() == 0 && guest.count() == 0 })
}

// wait waits for what the other side has to do first.
func wait(t testing.TB, until func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !until() {
		select {
		case <-deadline:
			t.Fatal("it does not come")
		case <-tick.C:
		}
	}
}

func TestAnswersComeInOrderAndSurviveAReset(t *testing.T) {
	host, guest := pair(t, 4)
	a, b := stream(t, host, guest)
	for _, text := range []string{"one", ""} {
		if err := b.Reply([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Reset(); err != nil {
		t.Fatal(err)
	}
	wait(t, a.Ended)
	for _, want := range []string{"one", ""} {
		if got, err := a.Answer(); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := a.Answer(); !errors.Is(err, ErrReset) {
		t.Error(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, ErrReset) {
		t.Error(err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, ErrReset) {
		t.Error(err)
	}
	_ = a.Close()
	wait(t, func() bool { return host.count() == 0 && guest.count() == 0 })
}

// TestASlowReaderStopsNobodyElse: its sender waits when a window is full, and
// others go on.
func TestASlowReaderStopsNobodyElse(t *testing.T) {
	host, guest := pair(t, 4)
	_, slow := stream(t, host, guest)
	fast, other := stream(t, host, guest)
	full := make(chan error, 1)
	go func() {
		_, err := slow.Write(make([]byte, 2*Window))
		full <- err
	}()
	wait(t, func() bool { slow.mu.Lock(); defer slow.mu.Unlock(); return slow.credit == 0 })
	for range 8 {
		go func() { _, _ = other.Write(bytes.Repeat([]byte("y"), Window/2)) }()
		if _, err := io.CopyN(io.Discard, fast, Window/2); err != nil {
			t.Fatal(err)
		}
	}
	_ = slow.Reset() // whoever writes, writes no longer
	if err := <-full; !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestAResetUnblocksAndDropsWhatCame(t *testing.T) {
	host, guest := pair(t, 4)
	a, b := stream(t, host, guest)
	if _, err := b.Write([]byte("dropped")); err != nil {
		t.Fatal(err)
	}
	reading := make(chan error, 1)
	go func() { _, err := b.Read(make([]byte, 1)); reading <- err }()
	_ = a.Reset()
	if err := <-reading; !errors.Is(err, ErrReset) {
		t.Error(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if host.count() != 1 {
		t.Error("it is forgotten before the other side has ended it")
	}
	_ = b.Close()
	wait(t, func() bool { return host.count() == 0 && guest.count() == 0 })
}

func TestStreamsAreBounded(t *testing.T) {
	host, guest := pair(t, 2)
	var open []*Stream
	for range 2 {
		a, _ := stream(t, guest, host)
		open = append(open, a)
	}
	if _, err := guest.Open([]byte("x")); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	for _, s := range open {
		_ = s.Close()
	}
	if _, err := guest.Open([]byte("x")); !errors.Is(err, ErrFull) {
		t.Errorf("before the other side has ended them: %v", err)
	}
	for range 3 {
		if _, err := guest.Open(make([]byte, MaxNote+1)); err == nil || errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
	}
}

func TestTheEndOfTheChannelEndsAll(t *testing.T) {
	host, guest := pair(t, 4)
	a, b := stream(t, host, guest)
	doing := make(chan error, 3)
	go func() { _, err := a.Read(make([]byte, 1)); doing <- err }()
	go func() { _, err := a.Answer(); doing <- err }()
	go func() { _, err := a.Write(make([]byte, 2*Window)); doing <- err }()
	wait(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.in.len() == Window })
	guest.Close()
	for range 3 {
		if err := <-doing; !errors.Is(err, ErrBroken) {
			t.Error(err)
		}
	}
	<-host.Done()
	if !errors.Is(host.Err(), ErrBroken) || !errors.Is(guest.Err(), ErrClosed) {
		t.Errorf("%v and %v", host.Err(), guest.Err())
	}
	if _, err := host.Open([]byte("x")); err == nil {
		t.Error("a stream of a channel that has ended")
	}
	if n, err := io.Copy(io.Discard, b); n != Window || !errors.Is(err, ErrClosed) {
		t.Errorf("what came can be read: %d, %v", n, err)
	}
}

// TestASideThatDoesNotRead breaks the channel, and blocks nobody longer.
func TestASideThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		m := New(a, Options{Host: true, Stall: time.Minute, Own: 1})
		defer m.Close()
		began := time.Now()
		err := m.Hello()
		if took := time.Since(began); !errors.Is(err, ErrBroken) || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestHammer: many streams, of both sides, with all ends there are.
func TestHammer(t *testing.T) {
	host, guest := pair(t, 32)
	var all sync.WaitGroup
	for _, ends := range [][2]*Mux{{host, guest}, {guest, host}} {
		all.Go(func() {
			for range 8 * 20 {
				s := <-ends[1].Accepted()
				all.Go(func() {
					n, _ := io.Copy(s, io.LimitReader(s, 1<<17))
					if n%3 == 0 {
						_ = s.Reset()
					}
					_ = s.CloseWrite()
					_, _ = io.Copy(io.Discard, s)
					_ = s.Close()
				})
			}
		})
		for k := range 8 {
			all.Go(func() {
				for i := range 20 {
					hammer(t, ends[0], k*20+i)
				}
			})
		}
	}
	all.Wait()
	wait(t, func() bool { return host.count() == 0 && guest.count() == 0 })
	if host.Err() != nil || guest.Err() != nil {
		t.Errorf("%v and %v", host.Err(), guest.Err())
	}
}

func hammer(t *testing.T, m *Mux, k int) {
	s, err := m.Open([]byte{byte(k)})
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = s.Write(make([]byte, k*1000))
		_ = s.CloseWrite()
	})
	if k%4 == 1 {
		_ = s.Reset()
	}
	_, _ = io.Copy(io.Discard, s)
	both.Wait()
}

// TestNothingComesAfterTheEnd: a Write or Reply that waits for its turn behind an
// END or a RESET is not sent: it would break the channel.
func TestNothingComesAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Stream) error{"END": (*Stream).CloseWrite, "RESET": (*Stream).Reset} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, guest := pair(t, 4)
				a, b := stream(t, host, guest)
				for m, s := range map[*Mux]*Stream{host: a, guest: b} {
					<-m.turn
					go func() { _ = end(s) }()
					synctest.Wait() // it is first in the queue
					said := make(chan error, 2)
					go func() { _, err := s.Write([]byte("x")); said <- err }()
					if s == b {
						go func() { said <- s.Reply([]byte("x")) }()
					} else {
						said <- ErrClosed
					}
					synctest.Wait()
					m.turn <- struct{}{}
					for range 2 {
						if err := <-said; err == nil {
							t.Error("it is sent")
						}
					}
				}
				synctest.Wait()
				if err := errors.Join(host.Err(), guest.Err()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
