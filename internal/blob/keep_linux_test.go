package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// take puts a text for a team to keep.
func take(t *testing.T, s *Store, team, text string) Digest {
	t.Helper()
	k, err := s.Take(t.Context(), team, iotest.OneByteReader(strings.NewReader(text)), 100)
	if err != nil || k.Digest != Sum([]byte(text)) || k.Bytes != int64(len(text)) || k.At.IsZero() {
		t.Fatalf("%+v, %v", k, err)
	}
	return k.Digest
}

// kept reads what a team keeps.
func kept(s *Store, team string, d Digest) (string, error) {
	r, k, err := s.OpenKept(team, d)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil && (k.Bytes != int64(len(data)) || k.Digest != d) {
		err = fmt.Errorf("%+v of %d bytes", k, len(data))
	}
	return string(data), err
}

// TestATeamKeepsWhatItPuts: until it lets go, whatever is collected; nobody else
// sees it, and what a team has by other means it does not keep.
func TestATeamKeepsWhatItPuts(t *testing.T) {
	leak.Check(t)
	s := New(t.TempDir(), DefaultLimits())
	d, empty := take(t, s, "blue", "content"), take(t, s, "blue", "")
	other := putAll(t, s, "blue", "of a workspace")[0]
	nothing := func(string) (map[Digest]bool, error) { return nil, nil }
	if r, err := s.GC(t.Context(), nothing); err != nil || r.Kept != 2 || r.Blobs != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := kept(s, "blue", d); err != nil || text != "content" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := kept(s, "blue", empty); err != nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	putAll(t, s, "blue", "of a workspace")
	for team, d := range map[string]Digest{"red": d, "blue": other, "../blue": d} {
		if _, err := kept(s, team, d); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", team, err)
		}
		if _, err := s.LetGo(team, d); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", team, err)
		}
	}
	if k, err := s.LetGo("blue", d); err != nil || k.Bytes != 7 {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := kept(s, "blue", d); !errors.Is(err, ErrNotFound) {
		t.Errorf("it was let go of: %v", err)
	}
	if r, err := s.GC(t.Context(), nothing); err != nil || r.Kept != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestKeptBlobsComeInPages, by digest, each once.
func TestKeptBlobsComeInPages(t *testing.T) {
	s := New(t.TempDir(), DefaultLimits())
	want := map[Digest]bool{}
	for i := range 7 {
		want[take(t, s, "blue", fmt.Sprint(i))] = true
	}
	var after Digest
	pages := 0
	for ; ; pages++ {
		list, err := s.Kept("blue", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, k := range list {
			if !want[k.Digest] || bytes.Compare(k.Digest[:], after[:]) <= 0 {
				t.Errorf("%+v after %s", k, after)
			}
			delete(want, k.Digest)
			after = k.Digest
		}
	}
	if len(want) > 0 || pages != 3 {
		t.Errorf("%d pages, without %v", pages, want)
	}
}

// TestKeptForATime: what nobody has put again for that long is as what is not
// there, and goes.
func TestKeptForATime(t *testing.T) {
	limits := DefaultLimits()
	limits.Keep = time.Hour
	s := New(t.TempDir(), limits)
	old, again := take(t, s, "blue", "old"), take(t, s, "blue", "again")
	for _, d := range []Digest{old, again} {
		dir, _ := s.markDir("blue")
		before := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(markPath(dir, d), before, before); err != nil {
			t.Fatal(err)
		}
	}
	take(t, s, "blue", "again")
	if _, err := kept(s, "blue", old); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if list, err := s.Kept("blue", Digest{}, 10); err != nil || len(list) != 1 || list[0].Digest != again || list[0].Until.Sub(list[0].At) != time.Hour {
		t.Errorf("%+v, %v", list, err)
	}
	if r, err := s.GC(t.Context(), func(string) (map[Digest]bool, error) { return nil, nil }); err != nil || r.Blobs != 1 || r.Kept != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWhatIsNotTaken leaves nothing behind, and counts for nothing.
func TestWhatIsNotTaken(t *testing.T) {
	s := New(t.TempDir(), Limits{Bytes: 10, Blobs: 2})
	no := errors.New("no")
	for name, c := range map[string]struct {
		r    io.Reader
		max  int64
		want error
	}{
		"too large":     {strings.NewReader("123456"), 5, ErrTooLarge},
		"over quota":    {strings.NewReader("12345678901"), 100, ErrQuota},
		"a broken body": {io.MultiReader(strings.NewReader("123"), iotest.ErrReader(no)), 100, no},
	} {
		if k, err := s.Take(t.Context(), "blue", c.r, c.max); !errors.Is(err, c.want) || k != (Kept{}) {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
	take(t, s, "blue", "12345")
	take(t, s, "blue", "12345") // again is no more
	if _, err := s.Take(t.Context(), "blue", strings.NewReader("123456"), 100); !errors.Is(err, ErrQuota) {
		t.Errorf("%v", err)
	}
	if u, err := s.Usage("blue"); err != nil || u != (Usage{Bytes: 5, Blobs: 1}) {
		t.Errorf("%+v, %v", u, err)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "incoming", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestDamagedBytesAreNotHandedOut: the last of them are held back, wherever the
// damage is.
func TestDamagedBytesAreNotHandedOut(t *testing.T) {
	s := New(t.TempDir(), DefaultLimits())
	text := strings.Repeat("content ", 1000)
	k, err := s.Take(t.Context(), "blue", strings.NewReader(text), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"at the beginning": func(b []byte) []byte { b[0]++; return b },
		"at the end":       func(b []byte) []byte { b[len(b)-1]++; return b },
		"cut":              func(b []byte) []byte { return b[:len(b)-1] },
		"emptied":          func(b []byte) []byte { return b[:0] },
	} {
		if err := os.WriteFile(s.dataPath(k.Digest), damage([]byte(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := s.Open("blue", k.Digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if !errors.Is(err, ErrCorrupt) || len(got) >= len(text) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		r.Close()
	}
}

// TestNobodyWaitsForWhatComesSlowly: while a blob is received, others are put
// and all is collected; what a killed process has left of one goes.
func TestNobodyWaitsForWhatComesSlowly(t *testing.T) {
	leak.Check(t)
	s := New(t.TempDir(), DefaultLimits())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Take(t.Context(), "blue", r, 100)
		done <- err
	}()
	if _, err := w.Write([]byte("slow")); err != nil {
		t.Fatal(err)
	}
	orphan := filepath.Join(s.dir, "incoming", "orphan")
	if err := os.WriteFile(orphan, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	take(t, s, "blue", "fast")
	if _, err := s.GC(t.Context(), func(string) (map[Digest]bool, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there still: %v", err)
	}
	if err := errors.Join(w.Close(), <-done); err != nil {
		t.Error(err)
	}
	if text, err := kept(s, "blue", Sum([]byte("slow"))); err != nil || text != "slow" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestKeepersAndCollectors at once: what was kept is there.
func TestKeepersAndCollectors(t *testing.T) {
	leak.Check(t)
	s := New(t.TempDir(), DefaultLimits())
	ctx, stop := context.WithCancel(t.Context())
	var all, collecting sync.WaitGroup
	collecting.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.GC(ctx, func(string) (map[Digest]bool, error) { return nil, nil }); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for i := range 4 {
		all.Go(func() {
			for k := range 20 {
				text := fmt.Sprint(i%2, k)
				if _, err := s.Take(t.Context(), "blue", strings.NewReader(text), 100); err != nil {
					t.Error(err)
				}
				if got, err := kept(s, "blue", Sum([]byte(text))); err != nil || got != text {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	stop()
	collecting.Wait()
	if list, err := s.Kept("blue", Digest{}, 100); err != nil || len(list) != 40 {
		t.Errorf("%d, %v", len(list), err)
	}
}

// FuzzParse: what is read is what is written.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{Sum(nil).Name(), "sha256:", Sum(nil).String(), strings.ToUpper(Sum(nil).Name()), Sum(nil).Name() + "0", "sha512:" + Sum(nil).String(), ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := Parse(text); err == nil && d.Name() != text {
			t.Errorf("%q is %s", text, d.Name())
		}
	})
}
