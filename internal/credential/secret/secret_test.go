package secret

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func mustNew(t testing.TB, text string) Secret {
	t.Helper()
	s, err := New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Destroy)
	return s
}

func reveal(s Secret) (text string, ok bool) {
	ok = s.Reveal(func(value []byte) { text = string(value) })
	return text, ok
}

func TestNewTakesTheBytesAway(t *testing.T) {
	value := []byte("hunter2-hunter2")
	s, err := New(value)
	if err != nil || s.Len() != 15 {
		t.Fatalf("%d bytes, %v", s.Len(), err)
	}
	defer s.Destroy()
	if strings.Trim(string(value), "\x00") != "" {
		t.Errorf("the caller's copy is still there: %q", value)
	}
	if text, ok := reveal(s); !ok || text != "hunter2-hunter2" {
		t.Errorf("reveals %q, %v", text, ok)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		n    int
		want error
	}{{0, ErrEmpty}, {1, nil}, {MaxBytes, nil}, {MaxBytes + 1, ErrSize}} {
		value := []byte(strings.Repeat("x", c.n))
		s, err := New(value)
		if !errors.Is(err, c.want) || (err == nil) != (s.Len() == c.n && c.n > 0) {
			t.Errorf("%d bytes: %v, want %v", c.n, err, c.want)
		}
		if strings.Contains(string(value), "x") {
			t.Errorf("%d bytes: the caller's copy is still there", c.n)
		}
		s.Destroy()
	}
}

func TestMake(t *testing.T) {
	fault := errors.New("fault")
	for _, c := range []struct {
		name   string
		n      int
		err    error
		want   error
		length int
	}{
		{"what is used of a wide room", 3, nil, nil, 3},
		{"the whole room", 10_000, nil, nil, 10_000},
		{"nothing", 0, nil, ErrEmpty, 0},
		{"less than nothing", -1, nil, ErrEmpty, 0},
		{"more than there is", 10_001, nil, ErrSize, 0},
		{"a fault", 3, fault, fault, 0},
	} {
		var kept []byte
		s, err := Make(10_000, func(room []byte) (int, error) {
			kept = room
			return c.n, errors.Join(c.err, fillWith(room, 'k'))
		})
		if !errors.Is(err, c.want) || s.Len() != c.length {
			t.Errorf("%s: %d bytes, %v", c.name, s.Len(), err)
		}
		if len(kept) != 10_000 || cap(kept) != 10_000 {
			t.Errorf("%s: a room of %d bytes", c.name, len(kept))
		}
		s.Destroy()
	}
	if _, err := Make(0, nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("no room: %v", err)
	}
}

func fillWith(room []byte, b byte) error {
	for i := range room {
		room[i] = b
	}
	return nil
}

func TestDestroy(t *testing.T) {
	s := mustNew(t, "hunter2-hunter2")
	twin := s
	s.Destroy()
	s.Destroy()
	for _, one := range []Secret{s, twin, {}} {
		if text, ok := reveal(one); ok || text != "" || one.Len() != 0 {
			t.Errorf("after Destroy: %q, %v, %d bytes", text, ok, one.Len())
		}
	}
	Secret{}.Destroy()
}

// A secret that is destroyed while somebody uses it stays until then, and is
// not handed out again.
func TestDestroyWhileRevealed(t *testing.T) {
	s := mustNew(t, "hunter2-hunter2")
	box := s.box()
	s.Reveal(func(value []byte) {
		s.Destroy()
		if string(value) != "hunter2-hunter2" {
			t.Error("gone under a user's hands")
		}
		if _, ok := reveal(s); ok {
			t.Error("handed out after Destroy")
		}
	})
	if box.room != nil {
		t.Error("still there after the last user")
	}
}

func TestEqual(t *testing.T) {
	a, same, other, short := mustNew(t, "aaaaaaaa"), mustNew(t, "aaaaaaaa"), mustNew(t, "aaaaaaab"), mustNew(t, "aaaa")
	gone := mustNew(t, "aaaaaaaa")
	gone.Destroy()
	for _, c := range []struct {
		name string
		x, y Secret
		want bool
	}{
		{"itself", a, a, true}, {"the same bytes", a, same, true}, {"others", a, other, false}, {"fewer", a, short, false},
		{"one that is gone", a, gone, false}, {"two that are gone", gone, gone, false}, {"none", Secret{}, Secret{}, false},
	} {
		if c.x.Equal(c.y) != c.want || c.y.Equal(c.x) != c.want {
			t.Errorf("%s: want %v", c.name, c.want)
		}
	}
}

// TestHammer reveals and destroys at once; under the race detector it shows
// that the bytes are not taken from a user.
func TestHammer(t *testing.T) {
	for range 200 {
		s := mustNew(t, "hunter2-hunter2")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 20 {
					s.Reveal(func(value []byte) {
						if string(value) != "hunter2-hunter2" {
							t.Error("other bytes")
						}
					})
				}
				if i == 0 {
					s.Destroy()
				}
			})
		}
		all.Wait()
		if box := s.box(); box.room != nil || box.users != 0 {
			t.Fatalf("%d users left, %d bytes", box.users, len(box.room))
		}
	}
}

func ExampleSecret() {
	s, _ := New([]byte("hunter2-hunter2"))
	defer s.Destroy()
	fmt.Println(s)
	s.Reveal(func(value []byte) { fmt.Println(len(value), "bytes") })
	// Output:
	// [secret]
	// 15 bytes
}
