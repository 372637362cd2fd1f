package mux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// frame writes a frame as it is told, whatever may be wrong with it.
func frame(length uint32, stream uint32, k kind, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(append(b, byte(k), 0, 0, 0), payload...)
}

func good(stream uint32, k kind, payload ...byte) []byte {
	return frame(uint32(len(payload)), stream, k, payload...)
}

func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

func times(n int, f func(i int) []byte) (all []byte) {
	for i := range n {
		all = append(all, f(i)...)
	}
	return all
}

func helloFrame() []byte { return good(0, hello, helloPayload()...) }

// attack plays a guest that says these bytes to a host that has opened stream 1
// and allows two of the guest's, and returns why the host gave it up.
func attack(t testing.TB, said []byte) error {
	t.Helper()
	ours, its := net.Pipe()
	defer ours.Close()
	m := New(its, Options{Host: true, Most: 2, Own: 8, Stall: time.Minute})
	defer m.Close()
	go func() { _, _ = io.Copy(io.Discard, ours) }() // it reads, and does not care
	_ = m.Hello()                                    // it may be over already
	if s, err := m.Open([]byte("x")); err == nil {
		go func() { _, _ = io.Copy(io.Discard, s) }()
	}
	_ = ours.SetWriteDeadline(time.Now().Add(time.Minute))
	_, _ = ours.Write(said) // the host may hang up in the middle
	_ = ours.Close()
	<-m.Done()
	return m.Err()
}

func TestWhatAGuestMustNotSay(t *testing.T) {
	leak.Check(t)
	credit4 := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for name, row := range map[string]struct {
		said []byte
		why  string
	}{
		"nothing":                        {nil, "it hung up"},
		"half a head":                    {helloFrame()[:7], "it hung up"},
		"half a frame":                   {join(helloFrame(), good(1, data, make([]byte, 100)...)[:50]), "it hung up in a DATA"},
		"no HELLO":                       {good(1, data, 'x'), "it does not say who it is"},
		"another's HELLO":                {good(0, hello, []byte("callcel?\x00\x01")...), "it does not say who it is"},
		"another version":                {good(0, hello, []byte("callcell\x00\x01")...), ErrVersion.Error()},
		"HELLO twice":                    {join(helloFrame(), helloFrame()), "it was said before"},
		"good-bye":                       {join(helloFrame(), good(0, bye)), "it said good-bye"},
		"no kind":                        {join(helloFrame(), good(1, 0)), "there is no such frame"},
		"a kind that is none":            {join(helloFrame(), good(1, 99)), "there is no such frame"},
		"a head with something in it":    {join(helloFrame(), []byte{0, 0, 0, 0, 0, 0, 0, 1, byte(end), 0, 1, 0}), "not zero"},
		"4 GiB":                          {join(helloFrame(), frame(1<<32-1, 1, data)), "4294967295 bytes"},
		"a length that is negative":      {join(helloFrame(), frame(1<<31, 1, data)), "2147483648 bytes"},
		"one byte too many":              {join(helloFrame(), frame(MaxData+1, 1, data)), "65537 bytes"},
		"no data":                        {join(helloFrame(), good(1, data)), "0 bytes"},
		"data of no stream":              {join(helloFrame(), good(0, data, 'x')), "not for that stream"},
		"data of ours that is not open":  {join(helloFrame(), good(3, data, 'x')), "not open"},
		"data of its own unopened":       {join(helloFrame(), good(2, data, 'x')), "not open"},
		"data after the end":             {join(helloFrame(), good(1, end), good(1, data, 'x')), "after the end"},
		"data after a reset":             {join(helloFrame(), good(1, reset), good(1, data, 'x')), "after the end"},
		"the end twice":                  {join(helloFrame(), good(1, end), good(1, end)), "after the end"},
		"a reset twice":                  {join(helloFrame(), good(1, reset), good(1, reset)), "after the end"},
		"an end after a reset":           {join(helloFrame(), good(1, reset), good(1, end)), "after the end"},
		"a reset twice after the end":    {join(helloFrame(), good(1, end), good(1, reset), good(1, reset)), "after the end"},
		"an end with something":          {join(helloFrame(), good(1, end, 'x')), "1 bytes"},
		"no credit":                      {join(helloFrame(), good(1, credit, credit4(0)...)), "never sent"},
		"credit for what was not sent":   {join(helloFrame(), good(1, credit, credit4(1)...)), "never sent"},
		"4 GiB of credit":                {join(helloFrame(), good(1, credit, credit4(1<<32-1)...)), "never sent"},
		"half a credit":                  {join(helloFrame(), good(1, credit, 0, 1)), "2 bytes"},
		"credit of what is not open":     {join(helloFrame(), good(5, credit, credit4(1)...)), "not open"},
		"a third answer":                 {join(helloFrame(), good(1, answer), good(1, answer), good(1, answer)), "too many"},
		"an answer that is too long":     {join(helloFrame(), frame(MaxNote+1, 1, answer)), "8193 bytes"},
		"an answer after the end":        {join(helloFrame(), good(1, end), good(1, answer)), "after the end"},
		"an answer to itself":            {join(helloFrame(), good(2, open, 'x'), good(2, answer)), "not asked"},
		"a stream of ours":               {join(helloFrame(), good(3, open, 'x')), "next"},
		"a stream again":                 {join(helloFrame(), good(2, open, 'x'), good(2, open, 'x')), "next"},
		"a stream before the last":       {join(helloFrame(), good(4, open, 'x'), good(2, open, 'x')), "next"},
		"a stream that has ended, again": {join(helloFrame(), good(2, open, 'x'), good(2, end), good(2, open, 'x')), "next"},
		"the last stream there can be":   {join(helloFrame(), good(1<<32-2, open, 'x'), good(2, open, 'x')), "next"},
		"more streams than it may":       {join(helloFrame(), good(2, open, 'x'), good(4, open, 'x'), good(6, open, 'x')), "more than it may"},
		"more, though they have ended":   {join(helloFrame(), times(3, func(i int) []byte { return join(good(uint32(2*i+2), open, 'x'), good(uint32(2*i+2), end)) })), "more than it may"},
		"a stream for nothing":           {join(helloFrame(), good(2, open)), "0 bytes"},
		"a note that is too long":        {join(helloFrame(), frame(MaxNote+1, 2, open)), "8193 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			err := attack(t, row.said)
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%v, want %q", err, row.why)
			}
		})
	}
}

// TestMoreThanTheCredit: of a stream that nobody reads.
func TestMoreThanTheCredit(t *testing.T) {
	leak.Check(t)
	said := join(helloFrame(), good(2, open, 'x'), times(GuestWindow/MaxData, func(int) []byte { return good(2, data, make([]byte, MaxData)...) }), good(2, data, 'x'))
	if err := attack(t, said); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "credit") {
		t.Errorf("%v", err)
	}
}

// TestStraysAreBounded: of a stream that is gone as many frames are passed over
// as can have crossed its end, and the next one is a breach.
func TestStraysAreBounded(t *testing.T) {
	leak.Check(t)
	for name, frame := range map[string][]byte{"CREDIT": good(1, credit, 0, 0, 0, 9), "RESET": good(1, reset)} {
		t.Run(name, func(t *testing.T) {
			ours, its := net.Pipe()
			defer ours.Close()
			m := New(its, Options{Host: true, Most: 2, Own: 8, Stall: time.Minute})
			defer m.Close()
			go func() { _, _ = io.Copy(io.Discard, ours) }()
			_ = m.Hello()
			if s, err := m.Open([]byte("x")); err != nil || s.CloseWrite() != nil {
				t.Fatal(err)
			}
			if _, err := ours.Write(join(helloFrame(), good(1, end))); err != nil {
				t.Fatal(err)
			}
			for i := range maxStrays {
				if _, err := ours.Write(frame); err != nil {
					t.Fatalf("the %dth: %v (%v)", i+1, err, m.Err())
				}
			}
			_, _ = ours.Write(frame) // the host hangs up
			<-m.Done()
			if err := m.Err(); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "more came than") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFloodsCostNoMemory: single bytes of streams that nobody reads.
func TestFloodsCostNoMemory(t *testing.T) {
	leak.Check(t)
	for name, flood := range map[string][]byte{
		"single bytes": join(good(2, open, 'x'), good(4, open, 'x'), times(GuestWindow, func(int) []byte { return join(good(2, data, 'x'), good(4, data, 'y')) })),
	} {
		ours, its := net.Pipe()
		m := New(its, Options{Host: true, Most: 2, Own: 8})
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_ = m.Hello()
		if s, err := m.Open([]byte("x")); err != nil || s.CloseWrite() != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(helloFrame()); err != nil {
			t.Fatal(err)
		}
		before := heap()
		if _, err := ours.Write(flood); err != nil {
			t.Errorf("%s: %v (%v)", name, err, m.Err())
		}
		if more := heap() - before; more > 2*Window+1<<20 {
			t.Errorf("%s: %d KiB more", name, more>>10)
		}
		m.Close()
		_ = ours.Close()
		runtime.KeepAlive(flood)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// FuzzHost has a guest say anything after a good beginning: the host ends with
// an error that says what it was, and holds and leaves nothing.
func FuzzHost(f *testing.F) {
	for _, said := range [][]byte{
		good(1, data, 'x'), good(1, answer, 'x'), good(1, credit, 0, 0, 0, 1), good(1, end), good(1, reset), good(2, open, 'x'), good(0, bye),
		join(good(2, open, 'x'), good(2, data, 'x'), good(2, end), good(4, open, 'y'), good(4, reset), good(1, answer), good(1, end)),
		frame(1<<32-1, 1, data), {0, 0},
	} {
		f.Add(said, true)
		f.Add(said, false)
	}
	f.Fuzz(func(t *testing.T, said []byte, greets bool) {
		if greets {
			said = join(helloFrame(), said)
		}
		err := attack(t, said)
		if !errors.Is(err, ErrBroken) || err.Error() == "" {
			t.Fatalf("%v", err)
		}
	})
}

// FuzzHead: what is taken can be taken, and comes back as it was.
func FuzzHead(f *testing.F) {
	f.Add(good(1, data, 'x')[:headLen])
	f.Add(frame(1<<32-1, 1, data))
	f.Add(good(0, bye))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headLen {
			return
		}
		h, err := parseHead((*[headLen]byte)(b))
		if err != nil {
			if h != (head{}) || !errors.Is(err, ErrBroken) {
				t.Fatalf("%+v, %v", h, err)
			}
			return
		}
		if h.length > MaxData || !bytes.Equal(frame(h.length, h.stream, h.kind), b[:headLen]) {
			t.Fatalf("%+v of %x", h, b[:headLen])
		}
	})
}
