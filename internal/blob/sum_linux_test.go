package blob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/testing/leak"
)

// checkSum holds what is written down of a team to what it has.
func checkSum(t *testing.T, s *Store, team string) (sum Usage) {
	t.Helper()
	dir, err := s.teamDir(team)
	if err != nil {
		t.Fatal(err)
	}
	sum, err = s.used(dir)
	counted, odd := s.Usage(team)
	if err != nil || odd != nil || sum != counted {
		t.Errorf("%+v, counted %+v; %v, %v", sum, counted, err, odd)
	}
	return sum
}

// TestWhoPutsDoesNotCount: how much a team has is written down. It is right
// whatever was put, also by others at once, what was damaged and what was
// collected; and what was not written by who holds this boot is not believed.
func TestWhoPutsDoesNotCount(t *testing.T) {
	leak.Check(t)
	limits := Limits{Bytes: 30, Blobs: 8}
	s := New(t.TempDir(), limits)
	list := putAll(t, s, "blue", "one", "two", "one", "three")
	if sum := checkSum(t, s, "blue"); sum != (Usage{Bytes: 11, Blobs: 3}) {
		t.Errorf("%+v", sum)
	}
	dir, err := s.teamDir("blue")
	if err != nil {
		t.Fatal(err)
	}
	path := s.sumPath(dir)
	written, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(written), " 3 11\n") {
		t.Fatalf("%q, %v", written, err)
	}
	var all sync.WaitGroup
	for range 4 { // as many processes
		all.Go(func() {
			h, err := New(s.dir, limits).Hold(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err = h.Put(t.Context(), "blue", [][]byte{[]byte("one"), []byte("four"), []byte("five")}); errors.Join(err, h.Release()) != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sum := checkSum(t, s, "blue"); sum != (Usage{Bytes: 19, Blobs: 5}) {
		t.Errorf("%+v", sum)
	}
	take(t, s, "blue", "six")
	if err := os.WriteFile(filepath.Join(dir, list[0].String()), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	putAll(t, s, "blue", "one", "seven")
	if sum := checkSum(t, s, "blue"); sum != (Usage{Bytes: 27, Blobs: 7}) {
		t.Errorf("%+v", sum)
	}
	if _, err := s.Take(t.Context(), "blue", strings.NewReader("eight"), 100); !errors.Is(err, ErrQuota) {
		t.Errorf("%v, want ErrQuota", err)
	}
	checkSum(t, s, "blue")
	if _, err := New(s.dir, limits).GC(t.Context(), keep(map[string][]Digest{"blue": list[:1]})); err != nil {
		t.Error(err)
	}
	if sum := checkSum(t, s, "blue"); sum != (Usage{Bytes: 6, Blobs: 2}) {
		t.Errorf("%+v", sum)
	}
	for _, text := range []string{"", "x", "another-boot 0 0\n", string(written[:len(written)-1]), strings.Replace(string(written), " 3 ", " 03 ", 1), string(written) + "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		checkSum(t, s, "blue")
	}
	// It is what is believed: nobody counts who need not.
	if err := os.WriteFile(path, written, 0o600); err != nil {
		t.Fatal(err)
	}
	if u, err := s.used(dir); err != nil || u != (Usage{Bytes: 11, Blobs: 3}) {
		t.Errorf("%+v, %v", u, err)
	}
}
