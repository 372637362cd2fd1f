package blob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// put gives texts to a team and returns their digests.
func putAll(t *testing.T, s *Store, team string, texts ...string) []Digest {
	t.Helper()
	h, err := s.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	var data [][]byte
	for _, text := range texts {
		data = append(data, []byte(text))
	}
	list, err := h.Put(t.Context(), team, data)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func keep(all map[string][]Digest) func(string) (map[Digest]bool, error) {
	return func(team string) (map[Digest]bool, error) {
		kept := map[Digest]bool{}
		for _, d := range all[team] {
			kept[d] = true
		}
		return kept, nil
	}
}

func TestATeamHasWhatItHasPut(t *testing.T) {
	leak.Check(t)
	s := New(filepath.Join(t.TempDir(), "blobs"), DefaultLimits())
	if _, err := s.Get("blue", Sum([]byte("x")), 10); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an empty store: %v", err)
	}
	list := putAll(t, s, "blue", "one", "two", "one", "")
	if list[0] != Sum([]byte("one")) || list[2] != list[0] {
		t.Errorf("digests %v", list)
	}
	for i, text := range []string{"one", "two", "one", ""} {
		if data, err := s.Get("blue", list[i], 10); err != nil || string(data) != text {
			t.Errorf("%q, %v; want %q", data, err, text)
		}
	}
	if _, err := s.Get("blue", list[0], 2); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	// Knowing a digest is not having the bytes: what others have is as what
	// nobody has.
	_, others := s.Get("red", list[0], 10)
	_, nobodys := s.Get("red", Sum([]byte("nobody's")), 10)
	if !errors.Is(others, ErrNotFound) || others.Error() != nobodys.Error() {
		t.Errorf("%v and %v", others, nobodys)
	}
	for _, team := range []string{"../blue", "t626c7565", "", "BLUE", "blue/", "\x00"} {
		if _, err := s.Get(team, list[0], 10); !errors.Is(err, ErrNotFound) {
			t.Errorf("team %q has it: %v", team, err)
		}
	}
	putAll(t, s, "red", "one")
	if data, err := s.Get("red", list[0], 10); err != nil || string(data) != "one" {
		t.Errorf("%q, %v", data, err)
	}
	if u, err := s.Usage("blue"); err != nil || u != (Usage{Bytes: 6, Blobs: 3}) {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestGCByReachability(t *testing.T) {
	leak.Check(t)
	s := New(t.TempDir(), DefaultLimits())
	blue, red := putAll(t, s, "blue", "both", "kept", "dropped"), putAll(t, s, "red", "both", "gone")
	r, err := s.GC(t.Context(), keep(map[string][]Digest{"blue": blue[:2]}))
	if err != nil || r != (Report{Blobs: 2, Bytes: 11, Kept: 2, Released: 3}) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Get("blue", blue[0], 10); err != nil {
		t.Error(err)
	}
	if _, err := s.Get("red", red[0], 10); !errors.Is(err, ErrNotFound) {
		t.Errorf("red keeps what nothing of it reaches: %v", err)
	}
	no := errors.New("no")
	if _, err := s.GC(t.Context(), func(string) (map[Digest]bool, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if _, err := s.Get("blue", blue[0], 10); err != nil {
		t.Errorf("taken though nobody could say what is kept: %v", err)
	}
}

func TestHoldKeepsGCAway(t *testing.T) {
	leak.Check(t)
	s := New(t.TempDir(), DefaultLimits())
	h, err := s.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Put(t.Context(), "blue", [][]byte{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.GC(ctx, keep(nil)); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.GC(t.Context(), keep(nil)); err != nil || r.Blobs != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestQuotas(t *testing.T) {
	s := New(t.TempDir(), Limits{Bytes: 10, Blobs: 3})
	h, err := s.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	put := func(team string, texts ...string) error {
		var data [][]byte
		for _, text := range texts {
			data = append(data, []byte(text))
		}
		_, err := h.Put(t.Context(), team, data)
		return err
	}
	if err := errors.Join(put("blue", "12345", "12345"), put("blue", "67890"), put("blue", "12345")); err != nil {
		t.Fatal(err)
	}
	if err := put("blue", "x"); !errors.Is(err, ErrQuota) {
		t.Errorf("bytes: %v", err)
	}
	if err := put("red", "1", "2", "3", "4"); !errors.Is(err, ErrQuota) {
		t.Errorf("blobs: %v", err)
	}
	if err := put("red", "1"); err != nil {
		t.Errorf("what was refused counts: %v", err)
	}
}

func TestDamageIsFoundAndMended(t *testing.T) {
	s := New(t.TempDir(), DefaultLimits())
	d := putAll(t, s, "blue", "content")[0]
	if err := os.WriteFile(s.dataPath(d), []byte("tampered"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Get("blue", d, 100); !errors.Is(err, ErrCorrupt) || data != nil {
		t.Errorf("%q, %v; want ErrCorrupt", data, err)
	}
	putAll(t, s, "blue", "content")
	if data, err := s.Get("blue", d, 100); err != nil || string(data) != "content" {
		t.Errorf("%q, %v", data, err)
	}
	putAll(t, s, "red", "content")
	if data, err := s.Get("red", d, 100); err != nil || string(data) != "content" {
		t.Errorf("%q, %v", data, err)
	}
	for name, plant := range map[string]func(string) error{
		"a link": func(at string) error { return os.Symlink("/etc/passwd", at) },
		"a FIFO": func(at string) error { return syscall.Mkfifo(at, 0o600) },
	} {
		ref, _ := s.teamDir("blue")
		at := filepath.Join(ref, d.String())
		if err := errors.Join(os.Remove(at), plant(at)); err != nil {
			t.Fatal(err)
		}
		if data, err := s.Get("blue", d, 1<<20); err == nil {
			t.Errorf("%s: %q", name, data)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	leak.Check(t)
	s := New(t.TempDir(), DefaultLimits())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			h, err := s.Hold(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Release()
			var data [][]byte
			for k := range 50 {
				data = append(data, fmt.Appendf(nil, "%d", k*(i%2+1)))
			}
			if _, err := h.Put(t.Context(), fmt.Sprint("team", i%3), data); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if u, err := s.Usage("team0"); err != nil || u.Blobs < 50 || u.Blobs > 100 {
		t.Errorf("%+v, %v", u, err)
	}
}

// killEnv makes the test binary put "old", or collect, and kill itself at the
// Nth step: "put|gc DIR N".
const killEnv = "CALLCELL_TEST_KILL"

func TestMain(m *testing.M) {
	order, ok := os.LookupEnv(killEnv)
	if !ok {
		os.Exit(m.Run())
	}
	f := strings.Fields(order)
	left, err := strconv.Atoi(f[2])
	s := New(f[1], DefaultLimits())
	s.step = func(string) {
		if left--; left < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if err == nil {
		err = victim(s, f[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func victim(s *Store, what string) error {
	if what == "gc" {
		_, err := s.GC(context.Background(), keep(map[string][]Digest{"blue": {Sum([]byte("kept"))}}))
		return err
	}
	if what == "take" {
		for _, text := range []string{"one", "two", "kept"} {
			if _, err := s.Take(context.Background(), "blue", strings.NewReader(text), 100); err != nil {
				return err
			}
		}
		return nil
	}
	h, err := s.Hold(context.Background())
	if err != nil {
		return err
	}
	defer h.Release()
	_, err = h.Put(context.Background(), "blue", [][]byte{[]byte("one"), []byte("two"), []byte("kept")})
	return err
}

// TestKilledWriters: wherever a writer or a GC is killed, every blob that is
// there is whole, the next one goes on, and nothing stays for ever.
func TestKilledWriters(t *testing.T) {
	for _, what := range []string{"put", "take", "gc"} {
		steps := 0
		for n := 0; ; n++ {
			s := New(t.TempDir(), DefaultLimits())
			putAll(t, s, "blue", "kept", "old", "older")
			putAll(t, s, "red", "old")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", killEnv, what, s.dir, n))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if err != nil && !killed {
				t.Fatalf("%s: %v: %s", what, err, out)
			}
			for _, text := range []string{"one", "two", "old", "older"} {
				if data, err := s.Get("blue", Sum([]byte(text)), 10); err == nil && string(data) != text || err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("%s, killed at step %d: %q is %q, %v", what, n, text, data, err)
				}
			}
			if data, err := s.Get("red", Sum([]byte("old")), 10); what != "gc" && (err != nil || string(data) != "old") {
				t.Errorf("%s, killed at step %d: red's is %q, %v", what, n, data, err)
			}
			checkSum(t, s, "blue")
			if err := victim(s, "put"); err != nil {
				t.Errorf("%s, killed at step %d: the next one: %v", what, n, err)
			}
			for _, text := range []string{"one", "two"} { // a mark is of what is there
				if _, err := s.LetGo("blue", Sum([]byte(text))); err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("%s, killed at step %d: %v", what, n, err)
				}
			}
			r, err := s.GC(t.Context(), keep(map[string][]Digest{"blue": {Sum([]byte("kept"))}}))
			left, globErr := filepath.Glob(filepath.Join(s.dir, "[ni][ne][wc]*", "*"))
			if err != nil || globErr != nil || r.Kept != 1 || len(left) > 0 {
				t.Errorf("%s, killed at step %d: %+v, %v; left %v", what, n, r, err, left)
			}
			if data, err := s.Get("blue", Sum([]byte("kept")), 10); err != nil || string(data) != "kept" {
				t.Errorf("%s, killed at step %d: kept is %q, %v", what, n, data, err)
			}
			checkSum(t, s, "blue")
			if steps = n; !killed {
				break
			}
		}
		if steps < 4 {
			t.Errorf("%s: only %d steps", what, steps)
		}
	}
}
