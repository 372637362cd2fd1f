package inside_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/internal/guest"
)

func files(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	in := []guest.File{{Name: "one", Mode: 0o644, Data: []byte("one")}, {Name: "deep/er/er/two", Mode: 0o755, Data: bytes.Repeat([]byte("2"), 300_000)}}
	must(t, s.Put(s.ctx, in))
	for name, want := range map[string]error{"one": syscall.EEXIST, "../out": syscall.EXDEV, "/abs": syscall.EXDEV, "": syscall.ENOENT, "one/below": syscall.ENOTDIR} {
		err := s.Put(s.ctx, []guest.File{{Name: name, Mode: 0o644, Data: make([]byte, 1<<20)}})
		var file *guest.FileError
		if !errors.As(err, &file) || file.Name != name || !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	_, out, _ := s.probe("leave")
	if out != "" {
		t.Fatal(out)
	}
	must(t, s.Stop(s.ctx))
	outputs(t, s)
}

// get takes one file.
func (s *stand) get(name string, most int64) (out guest.Output, err error) {
	failed := s.Get(s.ctx, []string{name}, most, func(_ int, o guest.Output, e error) { out, err = o, e })
	if failed != nil {
		return out, failed
	}
	return out, err
}

// outputs takes what the probe has left.
func outputs(t *testing.T, s *stand) {
	for name, want := range map[string]string{"one": "one", "plain": "plain", "deep/er/file": "deep", "bad\n\xffname": ""} {
		got, err := s.get(name, 1<<20)
		if err != nil || string(got.Data) != want || got.Executable {
			t.Errorf("%q: %q %v, %v", name, got.Data, got.Executable, err)
		}
	}
	for name, bytes := range map[string]int{"deep/er/er/two": 300_000, "sparse": 1 << 20} {
		if got, err := s.get(name, 1<<20); err != nil || len(got.Data) != bytes || got.Executable != (name != "sparse") {
			t.Errorf("%s: %d bytes %v, %v", name, len(got.Data), got.Executable, err)
		}
	}
	for name, want := range map[string]error{
		"link": guest.ErrIrregular, "dirlink/er/file": guest.ErrIrregular, "fifo": guest.ErrIrregular, "deep": guest.ErrIrregular, ".": guest.ErrIrregular,
		"../etc/passwd": guest.ErrIrregular, "/etc/passwd": guest.ErrIrregular, "absent": syscall.ENOENT, "sparse": guest.ErrTooLong,
	} {
		_, err := s.get(name, 1<<20-1)
		var file *guest.FileError
		if !errors.As(err, &file) || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	together(t, s)
	found, cut, err := s.List(s.ctx, ".", 100)
	names := map[string]bool{}
	for _, e := range found {
		names[e.Name] = e.Regular
	}
	if want := fmt.Sprint(map[string]bool{"one": true, "deep/er/er/two": true, "plain": true, "run.sh": true, "deep/er/file": true, "link": false, "dirlink": false,
		"fifo": false, "bad\n\xffname": true, "sparse": true}); err != nil || cut || fmt.Sprint(names) != want {
		t.Errorf("%v %v\n%v, want\n%v", cut, err, names, want)
	}
	if found, cut, err := s.List(s.ctx, "deep", 1); err != nil || !cut || len(found) != 1 || !strings.HasPrefix(found[0].Name, "deep/er/") {
		t.Errorf("%v %v %v", found, cut, err)
	}
	for _, name := range []string{"dirlink", "plain", "..", "absent"} {
		if _, _, err := s.List(s.ctx, name, 1); err == nil || errors.Is(err, guest.ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// together takes many at once: each has its own answer, in its place, and all
// have the room together.
func together(t *testing.T, s *stand) {
	var got []string
	names := []string{"one", "deep/er/file", "dirlink/er/file", "deep/er/er/two", "deep/er/file", "absent/file", "one/file", "deep/er", "deep/er/fifo", "fifo", "one"}
	err := s.Get(s.ctx, names, 3+4+4+3, func(i int, out guest.Output, err error) {
		var file *guest.FileError
		if errors.As(err, &file) {
			got = append(got, fmt.Sprint(i, " ", file.Err))
			return
		}
		got = append(got, fmt.Sprint(i, " ", string(out.Data)))
	})
	want := []string{"0 one", "1 deep", "2 " + guest.ErrIrregular.Error(), "3 " + guest.ErrTooLong.Error(), "4 deep", "5 " + syscall.ENOENT.Error(),
		"6 " + syscall.ENOTDIR.Error(), "7 " + guest.ErrIrregular.Error(), "8 " + syscall.ENOENT.Error(), "9 " + guest.ErrIrregular.Error(), "10 one"}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s, want\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
