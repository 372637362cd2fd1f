package userkernel_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestLargeFile: 50 MB go in and come out as they were.
func TestLargeFile(t *testing.T) {
	data := make([]byte, 50_000_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
	s := shape()
	s.Envelope.Files.Scratch, s.Envelope.Resources.FileSize, s.Envelope.Resources.Memory = 256*envelope.MiB, 64*envelope.MiB, 512*envelope.MiB
	s.Envelope.Resources.Wall *= envelope.Duration(unhurried())
	r, c := newGround(t).run(t, s, []envelope.File{{Name: "in", Data: data}}, "/bin/sh", "-c", "cat in >out; wc -c <out")
	if r.err != nil || string(r.out.data) != "50000000\n" {
		t.Fatalf("%+v, %v\n%s%s", r.exit, r.err, r.out.data, r.say.data)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, misses, err := c.Get(t.Context(), []string{"out"}, envelope.OutputCaps{Count: 1, Bytes: 64 * envelope.MiB})
	if err != nil || len(files) != 1 || !bytes.Equal(files[0].Data, data) {
		t.Errorf("%d files, %+v, %v", len(files), misses, err)
	}
}
