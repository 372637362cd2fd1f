package link

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// TestAnswersComeBeforeTheHangUp: a launcher that retires is not hung up on while
// it owes an answer. How a program ended may come after the report of its cell.
func TestAnswersComeBeforeTheHangUp(t *testing.T) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(theirs)
	conn, err := wire.NewConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l := &link{conn: conn, waiting: map[uint32]chan Answer{}, holds: holds{slots: map[uint32]bool{4: true}, cells: 1}}
	if _, err := l.ask(&wire.Start{Slot: 4}); err != nil {
		t.Fatal(err)
	}
	l.retire()
	l.settle(4)
	if _, err := l.ask(&wire.Count{Slot: 4}); err != nil {
		t.Fatalf("it is hung up on while it owes an answer: %v", err)
	}
	for seq := range l.waiting {
		if l.take(wire.Message{Seq: seq, Body: &wire.Done{}}) == nil {
			t.Error("nobody waits for the answer")
		}
	}
	if _, err := l.ask(&wire.Count{Slot: 4}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("asked when it has answered all: %v, want EPIPE", err)
	}
}
