package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// messages has one of each, and some with nothing in them.
func messages() []Message {
	return []Message{
		&Note{Op: OpPrepare}, &Note{Op: OpPut}, &Note{Op: OpStderr}, &Note{Op: OpExec, Number: 3}, &Note{Op: OpSignal, Number: 15}, &Note{Op: OpStop},
		&Note{Op: OpList, Number: 10, Name: "a/b"}, &Note{Op: OpGet, Most: 1 << 40}, &Wanted{Names: []string{"a\xff\n", ""}},
		&Note{Op: OpTunnel, Number: 443, Addr: [16]byte{1, 15: 2}, Datagrams: true},
		&Place{}, &Place{Scratch: 1 << 30, Inodes: 5, Covers: []Cover{{"/etc/hosts", []byte("x")}, {"/etc/empty", nil}}, Ports: []uint16{80, 443}, Six: true},
		&File{Name: "a", Mode: 0o755, Run: true, Size: 1 << 33}, &File{},
		&Command{Argv: []string{"a", ""}, Env: []string{"A=1"}, Dir: "/work", Stdin: true, FileSize: 1, OpenFiles: 2, Processes: 3}, &Command{Argv: []string{"a"}},
		&Status{}, &Status{Cause: CauseErrno, Errno: 28, Step: StepFile, Index: 7},
		&Exit{}, &Exit{Status: 0xffffffff, Wall: -1, CPU: 2, Bytes: 3, Inodes: 4, MaxBytes: 5, MaxIn: -6},
		&Entry{Name: "a", Regular: true}, &Listed{Status: Status{Cause: CauseIrregular}, Cut: true},
		&Found{Size: 5, Executable: true}, &Found{Status: Status{Cause: CauseTooLong}},
	}
}

// fresh returns an empty message of the same kind.
func fresh(m Message) Message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message) }

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for _, m := range messages() {
		b, err := Encode(m)
		got := fresh(m)
		if err == nil {
			err = Decode(b, got)
		}
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: %+v, want %+v (%v)", m, got, m, err)
		}
		for n := range b {
			if err := Decode(b[:n], fresh(m)); !errors.Is(err, ErrMalformed) {
				t.Errorf("%T cut to %d bytes: %v", m, n, err)
			}
		}
		if err := Decode(append(b, 0), fresh(m)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%T and one byte more: %v", m, err)
		}
	}
}

func TestWhatCannotBeSaid(t *testing.T) {
	for _, m := range []Message{
		&Note{}, &Note{Op: OpTunnel + 1}, &Note{Op: OpList, Name: strings.Repeat("a", MaxName+1)}, &File{Size: -1}, &Found{Size: -1}, &Command{},
		&Command{Argv: make([]string, MaxItems+1)}, &Command{Argv: []string{strings.Repeat("a", MaxMessage)}}, &Place{Covers: make([]Cover, MaxCovers+1)},
		&Place{Ports: make([]uint16, MaxPorts+1)}, &Status{Cause: CauseRequest + 1}, &Status{Step: StepCancelled + 1}, &Status{Errno: MaxErrno + 1},
	} {
		if b, err := Encode(m); !errors.Is(err, ErrMalformed) || b != nil {
			t.Errorf("%T: %d bytes, %v", m, len(b), err)
		}
	}
}

func TestStepsHaveWords(t *testing.T) {
	seen := map[string]bool{}
	for s := StepNone; s <= StepCancelled+1; s++ {
		seen[s.String()] = true
	}
	if len(seen) != int(StepCancelled)+2 {
		t.Errorf("%v", seen)
	}
}

func TestMessagesInData(t *testing.T) {
	var b bytes.Buffer
	want := &Entry{Name: "a", Regular: true}
	for range 2 {
		if err := WriteTo(&b, want); err != nil {
			t.Fatal(err)
		}
	}
	r := iotest.OneByteReader(&b)
	for range 2 {
		var got Entry
		if err := ReadFrom(r, MaxName, &got); err != nil || got != *want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if err := ReadFrom(r, MaxName, &Entry{}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for said, want := range map[string]error{
		"\x00": io.ErrUnexpectedEOF, "\x00\x00\x00\x05abcd": io.ErrUnexpectedEOF, "\xff\xff\xff\xff": ErrMalformed, "\x00\x00\x00\x65": ErrMalformed,
	} {
		if err := ReadFrom(strings.NewReader(said), 100, &Entry{}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", said, err, want)
		}
	}
}

// TestMemoryIsTakenAsBytesCome, and not as they are promised.
func TestMemoryIsTakenAsBytesCome(t *testing.T) {
	allocated := testing.AllocsPerRun(10, func() {
		if _, err := ReadN(strings.NewReader("short"), 1<<62); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
	if allocated > 4 {
		t.Errorf("%v allocations", allocated)
	}
	if b, err := ReadN(strings.NewReader(strings.Repeat("a", 1<<20)), 1<<20); err != nil || len(b) != 1<<20 {
		t.Errorf("%d, %v", len(b), err)
	}
}

// FuzzDecode: what is taken comes back as the same bytes, and what is not is an
// error; no number in it makes it take memory that the bytes do not.
func FuzzDecode(f *testing.F) {
	for i, m := range messages() {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		all := messages()
		m := fresh(all[int(which)%len(all)])
		if err := Decode(b, m); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		again, err := Encode(m)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x (%v)", b, again, err)
		}
	})
}
