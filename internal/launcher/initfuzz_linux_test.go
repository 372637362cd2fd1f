package launcher

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// at returns a copy of a payload with a number of n bytes written at an
// offset.
func at(payload []byte, offset int, value uint64, n int) []byte {
	b := bytes.Clone(payload)
	var le [8]byte
	binary.LittleEndian.PutUint64(le[:], value)
	copy(b[offset:offset+n], le[:n])
	return b
}

// The offsets of a payload's numbers: the header, and a file that follows 8
// bytes of strings.
const (
	atMagic, atArgc, atEnvc, atFiles, atStrings = 0, 4, 8, 12, 16
	atText                                      = 24
	atFileSize, atNameLen                       = 32, 40
	atName                                      = 48
)

func TestInitRefusesWhatIsNoPayload(t *testing.T) {
	valid := payloadOf(t, []string{"/x"}, []string{"A=1"}, wire.PayloadFile{Name: "name", Data: []byte("data")})
	if string(valid[atText:atText+7]) != "/x\x00A=1\x00" || string(valid[atName:atName+5]) != "name\x00" {
		t.Fatalf("the test looks in the wrong places:\n% x", valid)
	}
	for _, c := range []struct {
		name    string
		payload []byte
	}{
		{"nothing", nil},
		{"less than a header", valid[:23]},
		{"a header alone", valid[:24]},
		{"cut in the strings", valid[:31]},
		{"cut before the file", valid[:32]},
		{"cut in the file's header", valid[:47]},
		{"cut in its name", valid[:55]},
		{"cut in its data", valid[:len(valid)-1]},
		{"another magic", at(valid, atMagic, 0, 4)},
		{"no argv", at(valid, atArgc, 0, 4)},
		{"more strings than there are", at(valid, atArgc, 2, 4)},
		{"more of the environment than there is", at(valid, atEnvc, 2, 4)},
		{"more strings than bytes", at(valid, atArgc, 1<<20, 4)},
		{"the most strings", at(at(valid, atArgc, math.MaxUint32, 4), atEnvc, math.MaxUint32, 4)},
		{"no strings", at(valid, atStrings, 0, 8)},
		{"strings past the end", at(valid, atStrings, 1<<20, 8)},
		{"strings all round", at(valid, atStrings, math.MaxUint64, 8)},
		{"strings that wrap when padded", at(valid, atStrings, math.MaxUint64-6, 8)},
		{"strings without an end", at(valid, atText+6, 'x', 1)},
		{"more files than there are", at(valid, atFiles, 2, 4)},
		{"the most files", at(valid, atFiles, math.MaxUint32, 4)},
		{"a file of the largest size", at(valid, atFileSize, math.MaxUint64, 8)},
		{"a file that ends just past the end", at(valid, atFileSize, 9, 8)},
		{"no name", at(valid, atNameLen, 0, 4)},
		{"a name past the end", at(valid, atNameLen, math.MaxUint32, 4)},
		{"a name without its end", at(valid, atNameLen, 4, 4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			stage, value, _ := runInit(t, c.payload, nil)
			if stage != stagePayload || syscall.Errno(value) != syscall.EINVAL {
				t.Errorf("stage %d, %v; want stage %d and EINVAL", stage, syscall.Errno(value), stagePayload)
			}
		})
	}
}

func TestInitRefusesWhatCannotBeMapped(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r, w := pipe(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	unreadable := memfd(t, payloadOf(t, []string{"/x"}, nil))
	path, err := os.OpenFile("/proc/self/fd/"+itoa(int(unreadable.Fd())), unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	for name, payload := range map[string]*os.File{
		"a directory": dir, "a pipe": r, "the other end": w, "a device": null, "a mere handle": path,
	} {
		t.Run(name, func(t *testing.T) {
			run := newInit(t, payload)
			run.launch(t)
			if record, _ := run.end(t); word(record, 1) != stagePayload || word(record, 2) == 0 {
				t.Errorf("% x", record)
			}
		})
	}
}

// initRoot is a root with init and one program in it, below which no name that a
// mutation makes can reach.
func initRoot(t testing.TB) string {
	t.Helper()
	needRoot(t)
	root := t.TempDir()
	for _, name := range []string{"callcell-init", "nothing"} {
		text, err := os.ReadFile(helper(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// survive runs any bytes as a payload. Init ends, by itself, with at most one
// record, and leaves its own text alone. What files it writes is not its to
// judge: the front holds names to its rules, and the mount namespace the rest.
func survive(t testing.TB, root string, payload []byte) {
	t.Helper()
	work, err := os.MkdirTemp(root, "w")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	run := newInit(t, memfd(t, payload))
	run.Path, run.Dir = "/callcell-init", "/"+filepath.Base(work)
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	run.launch(t)
	record, exit := run.end(t)
	if !exit.Exited() {
		t.Fatalf("init died of %v\n%x", exit.Signal(), payload)
	}
	switch exit.ExitStatus() {
	case 0, 1:
		if len(record) != statusSize || word(record, 0) != statusMagic || word(record, 1) < stageExited || word(record, 1) > stagePayload {
			t.Fatalf("exit %d, record % x\n%x", exit.ExitStatus(), record, payload)
		}
	default:
		t.Fatalf("exit %d, record % x\n%x", exit.ExitStatus(), record, payload)
	}
}

func seedPayloads(t testing.TB) [][]byte {
	t.Helper()
	return [][]byte{
		payloadOf(t, []string{"/nothing"}, nil),
		payloadOf(t, []string{"nothing", "a", ""}, []string{"PATH=/none:/", "B="}),
		payloadOf(t, []string{"/nothing"}, []string{"A=1"}, wire.PayloadFile{Name: "a", Data: []byte("data")},
			wire.PayloadFile{Name: "d/e/f", Executable: true}, wire.PayloadFile{Name: "d/g", Data: make([]byte, 100)},
			wire.PayloadFile{Name: "d/h", Data: []byte("ours"), Run: true}, wire.PayloadFile{Name: "k", Run: true, Private: true}),
	}
}

// TestInitSurvivesEveryByte sets each byte of a payload to what is most likely
// to hurt, and cuts it at each.
func TestInitSurvivesEveryByte(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of processes")
	}
	root := initRoot(t)
	for _, seed := range seedPayloads(t)[2:] {
		for i := range seed {
			for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, '/', seed[i] + 1} {
				survive(t, root, at(seed, i, uint64(v), 1))
			}
			survive(t, root, seed[:i])
		}
	}
}

func FuzzInit(f *testing.F) {
	root := initRoot(f)
	for _, seed := range seedPayloads(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload []byte) { survive(t, root, payload) })
}
