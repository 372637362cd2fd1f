package launcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// record is a status record of four numbers.
func record(numbers ...uint32) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

func TestReadStatus(t *testing.T) {
	leak.Check(t)
	good := record(statusMagic, stageUnpack, 28, 3)
	for name, c := range map[string]struct {
		said []byte
		want status
	}{
		"a record":             {good, status{stageUnpack, 28, 3}},
		"a negative value":     {record(statusMagic, stageExited, 0xffffffff, 0), status{stageExited, -1, 0}},
		"nothing":              {nil, status{}},
		"a part":               {good[:15], status{}},
		"a byte more":          {append(bytes.Clone(good), 0), status{}},
		"two records":          {append(bytes.Clone(good), good...), status{}},
		"very much":            {bytes.Repeat(good, 1000), status{}},
		"another magic":        {record(statusMagic+1, stageExited, 0, 0), status{}},
		"a stage that is none": {record(statusMagic, stagePayload+1, 0, 0), status{}},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			defer unix.Close(pair[0])
			if len(c.said) > 0 {
				_, err = unix.Write(pair[1], c.said)
			}
			must(t, err, unix.Close(pair[1]))
			if got := readStatus(pair[0]); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// TestChild waits for one that has ended, and for one that ends.
func TestChild(t *testing.T) {
	for _, script := range []string{"exit 3", "sleep 0.05; exit 3"} {
		leak.Check(t)
		cmd := shell(script, nil)
		must(t, cmd.Start())
		c := newChild(cmd.Process.Pid, pidfdOf(t, cmd.Process.Pid))
		if ws := c.wait(); ws.ExitStatus() != 3 {
			t.Errorf("%q: %#x", script, ws)
		}
		c.close()
		_ = cmd.Process.Release()
	}
}

func TestStatusAsAnAnswer(t *testing.T) {
	for stage, kind := range map[uint32]wire.Kind{
		stageNone: 0, stageExited: 0, stageUnpack: wire.KindUnpack, stageExec: wire.KindExec, stagePayload: wire.KindBroken,
	} {
		f := status{stage, int32(syscall.EACCES), 7}.failed()
		if kind == 0 {
			if f != nil {
				t.Errorf("stage %d: %+v", stage, f)
			}
			continue
		}
		if f == nil || f.Kind != kind || f.Errno != int32(syscall.EACCES) || f.Index != 7 || !strings.Contains(f.Step, syscall.EACCES.Error()) {
			t.Errorf("stage %d: %+v", stage, f)
		}
	}
}

// TestFailure: whatever the error says, the message can be sent.
func TestFailure(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		step  string
		err   error
		errno syscall.Errno
	}{
		{"step", nil, 0},
		{"step", errors.New("no errno"), 0},
		{"step", fmt.Errorf("wrapped: %w", &os.PathError{Op: "open", Path: "p", Err: syscall.ENOENT}), syscall.ENOENT},
		{long, errors.New(long), 0},
	} {
		f := failure(wire.KindSetup, c.step, c.err)
		if syscall.Errno(f.Errno) != c.errno || !strings.HasPrefix(f.Step, c.step[:4]) {
			t.Errorf("%+v", f)
		}
		if _, err := wire.Encode(wire.Message{Body: f}); err != nil {
			t.Error(err)
		}
	}
}

func TestHostError(t *testing.T) {
	e := &hostError{"what", "hint", syscall.EPERM}
	if e.Error() != "what: operation not permitted (hint)" || !errors.Is(e, syscall.EPERM) {
		t.Error(e)
	}
	if got := (&hostError{what: "what"}).Error(); got != "what" {
		t.Error(got)
	}
}
