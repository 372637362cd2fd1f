package guest

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// wants reads what the host wants of a stream.
func wants(s *mux.Stream) []string {
	var w wire.Wanted
	if wire.ReadFrom(s, wire.MaxWanted, &w) != nil {
		return nil
	}
	return w.Names
}

// numbered are so many names.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, "dir/"+strconv.Itoa(i))
	}
	return names
}

// taken are files that Get has handed on, in their order.
type taken struct {
	t     *testing.T
	names []string
	files []string // contents, or errors
}

func (k *taken) take(i int, out Output, err error) {
	if i != len(k.files) || i >= len(k.names) {
		k.t.Errorf("file %d after %d of %d", i, len(k.files), len(k.names))
	}
	var file *FileError
	if err == nil {
		k.files = append(k.files, string(out.Data))
	} else if errors.As(err, &file) && file.Name == k.names[i] && out.Data == nil {
		k.files = append(k.files, file.Err.Error())
	} else {
		k.t.Errorf("file %d: %v", i, err)
	}
}

// TestFilesAreAskedForAhead: a host that has not taken the first file has asked
// for all of them, and the guest is not asked again.
func TestFilesAreAskedForAhead(t *testing.T) {
	asked := make(chan int, 10)
	h, _ := lie(t, func(s *mux.Stream, _ wire.Note) {
		names := wants(s)
		asked <- len(names)
		for _, name := range names {
			_ = wire.WriteTo(s, &wire.Found{Size: int64(len(name))})
			_, _ = io.WriteString(s, name)
		}
		_ = s.CloseWrite()
	})
	k := &taken{t: t, names: numbered(1000)}
	if err := h.Get(t.Context(), k.names, 1<<20, k.take); err != nil || strings.Join(k.files, " ") != strings.Join(k.names, " ") {
		t.Errorf("%v, %q", err, k.files)
	}
	if n := <-asked; n != 1000 || len(asked) > 0 {
		t.Errorf("asked for %d, and %d times more", n, len(asked))
	}
}

// TestNamesThatAreTooManyForOneRequest are asked for in several, and one that
// cannot be said is missed by itself. The room is that of all requests.
func TestNamesThatAreTooManyForOneRequest(t *testing.T) {
	var requests int
	var last int64
	h, _ := lie(t, func(s *mux.Stream, n wire.Note) {
		requests, last = requests+1, n.Most // one after the other
		for range wants(s) {
			_ = wire.WriteTo(s, &wire.Found{Size: 1})
			_, _ = io.WriteString(s, "x")
		}
		_ = s.CloseWrite()
	})
	k := &taken{t: t}
	for range 100 {
		k.names = append(k.names, strings.Repeat("n", wire.MaxName))
	}
	k.names[50] += "n"
	err := h.Get(t.Context(), k.names, 1000, k.take)
	if err != nil || len(k.files) != 100 || k.files[49] != "x" || k.files[50] != ErrRequest.Error() || k.files[99] != "x" {
		t.Errorf("%v, %q", err, k.files)
	}
	if requests != 4 || last != 1000-50-31 { // 31 names, 19 and the one that cannot be said, 31, 18
		t.Errorf("%d requests, the last one with room for %d bytes", requests, last)
	}
}

// TestAFileThatEndsShort is missed, and those after it are asked for anew.
func TestAFileThatEndsShort(t *testing.T) {
	h, _ := lie(t, func(s *mux.Stream, _ wire.Note) {
		names := wants(s)
		for i, name := range names {
			if name == "dir/3" {
				hands(s, &wire.Found{Size: 5}, "four")
				return
			}
			if name == "dir/5" {
				_ = wire.WriteTo(s, &wire.Found{Status: wire.Status{Cause: wire.CauseErrno, Errno: 2}})
				continue
			}
			_ = wire.WriteTo(s, &wire.Found{Size: 1})
			_, _ = io.WriteString(s, strconv.Itoa(len(names)-i))
		}
		_ = s.CloseWrite()
	})
	k := &taken{t: t, names: numbered(8)}
	want := []string{"8", "7", "6", io.ErrUnexpectedEOF.Error(), "4", syscall.ENOENT.Error(), "2", "1"}
	if err := h.Get(t.Context(), k.names, 100, k.take); err != nil || strings.Join(k.files, ",") != strings.Join(want, ",") {
		t.Errorf("%v, %q, want %q", err, k.files, want)
	}
}

// TestAGuestThatDiesBetweenFiles has handed over those before: each of them is
// whole, and of the rest there is none.
func TestAGuestThatDiesBetweenFiles(t *testing.T) {
	for name, dies := range map[string]func(s *mux.Stream, l *liar){
		"the channel ends":        func(_ *mux.Stream, l *liar) { l.m.Fail(io.EOF) },
		"the stream ends":         func(s *mux.Stream, _ *liar) { _ = s.CloseWrite() },
		"the stream is reset":     func(s *mux.Stream, _ *liar) { _ = s.Reset() },
		"more than there is room": func(s *mux.Stream, _ *liar) { hands(s, &wire.Found{Size: 95}, "") },
		"half a file, and a reset": func(s *mux.Stream, _ *liar) {
			_ = wire.WriteTo(s, &wire.Found{Size: 5})
			_, _ = io.WriteString(s, "ab")
			_ = s.Reset()
		},
	} {
		t.Run(name, func(t *testing.T) {
			took, guest := make(chan struct{}), make(chan *liar, 1)
			h, l := lie(t, func(s *mux.Stream, _ wire.Note) {
				for range wants(s)[:3] {
					_ = wire.WriteTo(s, &wire.Found{Size: 2})
					_, _ = io.WriteString(s, "ok")
				}
				<-took
				dies(s, <-guest)
			})
			guest <- l
			k := &taken{t: t, names: numbered(8)}
			err := h.Get(t.Context(), k.names, 100, func(i int, out Output, err error) {
				if k.take(i, out, err); i == 2 {
					close(took)
				}
			})
			if !errors.Is(err, ErrBroken) || strings.Join(k.files, ",") != "ok,ok,ok" {
				t.Errorf("%v, %q", err, k.files)
			}
		})
	}
}

// TestAGuestThatIsSlowBetweenFiles is waited for as long as the caller wants to.
// What had come is kept, and the channel is of use.
func TestAGuestThatIsSlowBetweenFiles(t *testing.T) {
	h, _ := lie(t, func(s *mux.Stream, n wire.Note) {
		if n.Op != wire.OpGet {
			says(s, &wire.Status{})
			return
		}
		for range wants(s)[:2] {
			_ = wire.WriteTo(s, &wire.Found{Size: 2})
			_, _ = io.WriteString(s, "ok")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k := &taken{t: t, names: numbered(8)}
	err := h.Get(ctx, k.names, 100, func(i int, out Output, err error) {
		if k.take(i, out, err); i == 1 {
			cancel() // it is of no interest any more
		}
	})
	if !errors.Is(err, context.Canceled) || strings.Join(k.files, ",") != "ok,ok" {
		t.Errorf("%v, %q", err, k.files)
	}
	if err := h.Stop(t.Context()); err != nil || h.Err() != nil {
		t.Errorf("%v, %v", err, h.Err())
	}
}
