package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/guest/wire"
)

// frame is one of the channel's, as package mux draws it.
func frame(kind byte, stream uint32, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, stream)
	return string(append(append(b, kind, 0, 0, 0), payload...))
}

// The kinds of frames.
const (
	kindHello byte = iota + 1
	kindOpen
	kindData
	kindCredit
	kindAnswer
	kindEnd
	kindReset
)

func text(m wire.Message) string {
	b, err := wire.Encode(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func data(m wire.Message) string {
	b, err := wire.EncodeData(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// FuzzGuest has a guest say anything to a host that asks it for everything, one
// after the other: stream 1 is of errors and 3 of the program, 5 of a listing, 7
// of two files. Each question has an answer or an error that can be told apart, and
// nothing of the host's runs or waits afterwards.
func FuzzGuest(f *testing.F) {
	exec := frame(kindAnswer, 3, text(&wire.Status{})) + frame(kindData, 3, "out") + frame(kindData, 1, "err") + frame(kindEnd, 1, "") +
		frame(kindAnswer, 3, text(&wire.Exit{Status: 7 << 8})) + frame(kindEnd, 3, "")
	list := frame(kindData, 5, data(&wire.Entry{Name: "a", Regular: true})) + frame(kindAnswer, 5, text(&wire.Listed{})) + frame(kindEnd, 5, "")
	get := frame(kindData, 7, data(&wire.Found{Size: 3})+"abc") + frame(kindData, 7, data(&wire.Found{Size: 998})) + frame(kindEnd, 7, "")
	for _, said := range []string{
		"", exec, exec + list, exec + list + get, exec + list + frame(kindData, 7, data(&wire.Found{Size: 1<<63 - 1})),
		exec + list + frame(kindData, 7, data(&wire.Found{Size: 3})+"abc"+data(&wire.Found{Size: 997})) + frame(kindEnd, 7, ""),
		frame(kindAnswer, 3, text(&wire.Status{Cause: wire.CauseErrno, Errno: 2, Step: wire.StepExec})) + frame(kindEnd, 3, ""),
		frame(kindOpen, 2, text(&wire.Note{Op: wire.OpTunnel, Number: 443})) + frame(kindData, 2, "x") + exec,
		frame(kindOpen, 2, text(&wire.Note{Op: wire.OpTunnel, Number: 70000})), frame(kindCredit, 3, "\xff\xff\xff\xff"), frame(kindReset, 1, "") + exec,
	} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		ours, its := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, its) }() // it reads, and does not care
		wrote := make(chan struct{})
		started := make(chan struct{})
		go func() {
			defer close(wrote)
			_, _ = io.WriteString(its, frame(kindHello, 0, "callcell\x00\x02"))
			<-started
			_, _ = io.WriteString(its, said)
		}()
		h, err := dial(t.Context(), ours, times{stall: 20 * time.Second, end: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		h.m.Allow(2)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		go func() {
			for tun, err := h.Tunnels().Accept(ctx); err == nil; tun, err = h.Tunnels().Accept(ctx) {
				_ = tun.Reset()
			}
		}()
		close(started)
		ask(ctx, t, h)
		_ = its.Close()
		<-wrote
		_ = h.Close()
		<-h.Done()
	})
}

// ask asks for everything.
func ask(ctx context.Context, t *testing.T, h *Host) {
	var out, say strings.Builder
	exit, err := h.Exec(ctx, Command{Argv: []string{"a"}, Stdout: &out, Stderr: &say})
	if told(t, err); err == nil && (exit.Wall < 0 || exit.CPU < 0 || exit.Code < -1 || exit.Code > 255 || exit.Signal < 0 || exit.Signal > 127) {
		t.Errorf("%+v", exit)
	}
	found, _, err := h.List(ctx, ".", 2)
	if told(t, err); len(found) > 2 {
		t.Errorf("%v", found)
	}
	size, next := 0, 0
	err = h.Get(ctx, []string{"a", "b"}, 1000, func(i int, got Output, err error) {
		if told(t, err); i != next || errors.Is(err, ErrBroken) || err != nil && got.Data != nil {
			t.Errorf("%d after %d: %d bytes, %v", i, next, len(got.Data), err)
		}
		size, next = size+len(got.Data), i+1
	})
	if told(t, err); size > 1000 || (err == nil) != (next == 2) {
		t.Errorf("%d bytes of %d files, %v", size, next, err)
	}
}

// told: an error is one of those that whoever asks can tell apart.
func told(t *testing.T, err error) {
	var file *FileError
	var step *StepError
	if err != nil && !errors.Is(err, ErrBroken) && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &file) && !errors.As(err, &step) {
		t.Errorf("%v", err)
	}
}
