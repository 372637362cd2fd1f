package inside_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/guest"
	"github.com/callcell/callcell/internal/guest/wire"
)

// TestGuest runs guests for real.
func TestGuest(t *testing.T) {
	each(t, map[string]func(*testing.T, place){
		"how a program ends":                ends,
		"what a program finds":              finds,
		"what a program cannot do":          cannot,
		"a program that is not there":       absent,
		"files come and go":                 files,
		"a file that does not fit":          full,
		"limits":                            limits,
		"input and output of 50 MB":         large,
		"nobody outlives the program":       outlives,
		"a program is ended":                ended,
		"a program is asked to end":         asked,
		"a writer that refuses":             refuses,
		"connections are handed over":       connections,
		"names are asked for":               names,
		"a guest whose host has gone, goes": hangUp,
		"a program that fills its output":   stuck,
	})
}

func ends(t *testing.T, p place) {
	for _, row := range []struct {
		args         []string
		code, signal int
		out, err     string
	}{
		{[]string{"exit", "0"}, 0, 0, "out\n", "err\n"},
		{[]string{"exit", "255"}, 255, 0, "out\n", "err\n"},
		{[]string{"signal", "9"}, -1, 9, "", ""},
		{[]string{"signal", "15"}, -1, 15, "", ""},
	} {
		s := p.prepared(t, guest.Place{})
		exit, out, err := s.probe(row.args...)
		if exit.Code != row.code || exit.Signal != row.signal || out != row.out || err != row.err || exit.Wall <= 0 || exit.Refused {
			t.Errorf("%v: %+v %q %q", row.args, exit, out, err)
		}
		must(t, s.Stop(s.ctx))
		if _, err := s.Exec(s.ctx, guest.Command{Argv: []string{"probe", "exit", "0"}}); err == nil {
			t.Error("it runs two programs")
		}
		_ = s.Close()
	}
}

// finds: all that a program sees of its place that is not the image's.
func finds(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{Covers: []guest.Cover{{Path: "/etc/resolv.conf", Data: []byte("nameserver 127.0.0.53\n")}}})
	must(t, s.Put(s.ctx, []guest.File{{Name: "a/b", Mode: 0o755, Data: []byte("b")}, {Name: "callcell/ca.pem", Run: true, Mode: 0o400, Data: []byte("ca")}}))
	_, out, _ := s.exec(guest.Command{Env: []string{"PATH=/nowhere:/bin", "A=1", "B"}, Limits: guest.Limits{FileSize: 1 << 20, OpenFiles: 64, Processes: 50}}, "show")
	want := `ids 1000 1000 1000 1000 []
session true parent 1 dir /work
limit 4 0 0
limit 1 1048576 1048576
limit 6 50 50
descriptor 0
descriptor 1
descriptor 2
`
	if !strings.HasPrefix(out, want) {
		t.Errorf("%s", out)
	}
	if !strings.HasSuffix(out, "variable PATH=/nowhere:/bin\nvariable A=1\nvariable B\n") {
		t.Errorf("%s", out)
	}
	if p.gvisor { // there is no procfs on the other
		for _, line := range []string{"CapInh: 0000000000000000", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "CapBnd: 0000000000000000"} {
			if !strings.Contains(out, line) {
				t.Errorf("no %q in %s", line, out)
			}
		}
	}
	s = p.prepared(t, guest.Place{Covers: []guest.Cover{{Path: "/etc/resolv.conf", Data: []byte("nameserver 127.0.0.53\n")}}})
	must(t, s.Put(s.ctx, []guest.File{{Name: "a/b", Mode: 0o755, Data: []byte("b")}, {Name: "c", Mode: 0o644}, {Name: "callcell/ca.pem", Run: true, Mode: 0o400, Data: []byte("ca")}}))
	_, out, _ = s.probe("read", "a/b", "c", "/run/callcell/ca.pem", "/etc/resolv.conf", "/etc/passwd")
	want = `a/b "b" <nil> -rwxr-xr-x
c "" <nil> -rw-r--r--
/run/callcell/ca.pem "ca" <nil> -r--------
/etc/resolv.conf "nameserver 127.0.0.53\n" <nil> -r--r--r--
/etc/passwd "of the image\n" <nil> -rw-r--r--
`
	if out != want {
		t.Errorf("%s", out)
	}
}

// cannot: the guest is another's, and what it has is not for the program.
func cannot(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{Covers: []guest.Cover{{Path: "/etc/resolv.conf", Data: []byte("x")}}})
	_, out, _ := s.probe("attack")
	for line := range strings.Lines(out) {
		what, said, _ := strings.Cut(line, ": ")
		if what == "run" {
			continue // it is the program's: a part of its scratch
		}
		if strings.TrimSpace(said) == "<nil>" || said == "" {
			t.Errorf("it can: %s", line)
		}
	}
	if n := strings.Count(out, "\n"); n != 10 {
		t.Errorf("%d attacks: %s", n, out)
	}
	must(t, s.Stop(s.ctx))
}

func absent(t *testing.T, p place) {
	for _, row := range []struct {
		argv []string
		dir  string
		want error
	}{
		{[]string{"nothing"}, "", syscall.ENOENT},
		{[]string{"/bin/nothing"}, "", syscall.ENOENT},
		{[]string{""}, "", syscall.ENOENT},
		{[]string{"/etc/passwd"}, "", syscall.EACCES},
		{[]string{"probe"}, "/nowhere", syscall.ENOENT},
		{[]string{strings.Repeat("x", 5000)}, "", syscall.ENOENT},
		{[]string{strings.Repeat("x", 300)}, "", syscall.ENAMETOOLONG},
		{[]string{"a\x00b"}, "", syscall.EINVAL},
		{[]string{"text"}, "", syscall.ENOEXEC},
	} {
		s := p.prepared(t, guest.Place{})
		must(t, s.Put(s.ctx, []guest.File{{Name: "text", Mode: 0o755, Data: []byte("no program")}}))
		_, err := s.Exec(s.ctx, guest.Command{Argv: row.argv, Dir: row.dir, Env: []string{"PATH=/sbin::/bin:/work"}, Stdin: make([]byte, 1<<20)})
		var step *guest.StepError
		if !errors.As(err, &step) || step.Step != wire.StepExec || !errors.Is(err, row.want) {
			t.Errorf("%q: %v, want %v", row.argv, err, row.want)
		}
		must(t, s.Stop(s.ctx))
		_ = s.Close()
	}
	s := p.prepared(t, guest.Place{})
	if _, err := s.Exec(s.ctx, guest.Command{}); err == nil || errors.Is(err, guest.ErrBroken) {
		t.Errorf("no argv: %v", err)
	}
}

func full(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{Scratch: 1 << 20, Inodes: 64})
	err := s.Put(s.ctx, []guest.File{{Name: "fits", Mode: 0o644, Data: make([]byte, 1000)}, {Name: "does/not", Mode: 0o644, Data: make([]byte, 2<<20)}, {Name: "third", Mode: 0o644}})
	var file *guest.FileError
	if !errors.As(err, &file) || file.Name != "does/not" || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	exit, out, _ := s.probe("fill", "/tmp/x", "4000000")
	if !strings.Contains(out, "no space") || exit.Scratch.MaxBytes != 1<<20 || exit.Scratch.Bytes != 1<<20 || exit.Scratch.MaxInodes != 64 || exit.Scratch.Inodes < 5 {
		t.Errorf("%q, %+v", out, exit.Scratch)
	}
}

func limits(t *testing.T, p place) {
	for name, row := range map[string]struct {
		limits guest.Limits
		args   []string
		out    string
		signal int
	}{
		"file size": {guest.Limits{FileSize: 1 << 20}, []string{"fill", "x", "2000000"}, "", int(syscall.SIGXFSZ)},
		"files":     {guest.Limits{OpenFiles: 20}, []string{"files"}, "too many open files\n", 0},
		"processes": {guest.Limits{Processes: 60}, []string{"bomb"}, "resource temporarily unavailable\n", 0},
	} {
		s := p.prepared(t, guest.Place{Ports: []uint16{80, 443, 8080}})
		exit, out, _ := s.exec(guest.Command{Limits: row.limits}, row.args...)
		if exit.Signal != row.signal && !strings.Contains(out, "file too large") || !strings.HasSuffix(out, row.out) {
			t.Errorf("%s: %+v, %q", name, exit, out)
		}
		must(t, s.Stop(s.ctx))
		_ = s.Close()
	}
}

func large(t *testing.T, p place) {
	const size = 50 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 31 >> 7)
	}
	s := p.prepared(t, guest.Place{Scratch: 256 << 20, Inodes: 100})
	speed := func(what string, began time.Time) {
		t.Logf("%s: %.0f MB/s", what, size/1e6/time.Since(began).Seconds())
	}
	began := time.Now()
	must(t, s.Put(s.ctx, []guest.File{{Name: "large", Mode: 0o644, Data: data}}))
	speed("put", began)
	began = time.Now()
	var out bytes.Buffer
	if _, err := s.Exec(s.ctx, guest.Command{Argv: []string{"/bin/probe", "echo"}, Stdin: data, Stdout: &out}); err != nil || !bytes.Equal(out.Bytes(), data) {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	speed("stdin and stdout", began)
	must(t, s.Stop(s.ctx))
	began = time.Now()
	got, err := s.get("large", size)
	speed("get", began)
	if err != nil || !bytes.Equal(got.Data, data) {
		t.Errorf("%d bytes, %v", len(got.Data), err)
	}
}

// outlives: those that a program leaves behind hold its output open, and end
// with it.
func outlives(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	began := time.Now()
	exit, out, _ := s.probe("orphan")
	if took := time.Since(began); exit.Code != 0 || !strings.Contains(out, "gone\n") || took > patience/2 {
		t.Errorf("%+v %q after %v", exit, out, took)
	}
	must(t, s.Stop(s.ctx))
}

func ended(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	ctx, cancel := context.WithCancel(s.ctx)
	exit, err := s.Exec(ctx, guest.Command{Argv: []string{"/bin/probe", "sleep"}, Started: cancel})
	if err != nil || exit.Signal != int(syscall.SIGKILL) || exit.Code != -1 {
		t.Errorf("%+v, %v", exit, err)
	}
	s = p.prepared(t, guest.Place{})
	must(t, s.Signal(s.ctx, syscall.SIGKILL)) // before it was started
	if _, err := s.Exec(s.ctx, guest.Command{Argv: []string{"/bin/probe", "sleep"}}); !errors.Is(err, syscall.ECANCELED) {
		t.Error(err)
	}
}

func asked(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	exit, err := s.Exec(s.ctx, guest.Command{Argv: []string{"/bin/probe", "sleep"}, Started: func() { go s.Signal(s.ctx, syscall.SIGTERM) }})
	if err != nil || exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("%+v, %v", exit, err)
	}
}

type refuser struct{ left int }

func (r *refuser) Write(b []byte) (int, error) {
	if r.left -= len(b); r.left < 0 {
		return 0, errors.New("enough")
	}
	return len(b), nil
}

func refuses(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	exit, err := s.Exec(s.ctx, guest.Command{Argv: []string{"/bin/probe", "flood", "100000000000"}, Stdout: &refuser{1 << 20}})
	if err != nil || !exit.Refused || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v, %v", exit, err)
	}
}

// stuck: a host that does not take what a program writes holds up nobody but
// that program, and can still end it.
func stuck(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	ctx, cancel := context.WithCancel(s.ctx)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, guest.Command{Argv: []string{"/bin/probe", "flood", "100000000"}, Stdout: w})
		done <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, 1<<20)); err != nil { // and no more
		t.Error(err)
	}
	must(t, s.Put(s.ctx, []guest.File{{Name: "meanwhile", Mode: 0o644, Data: make([]byte, 1<<20)}}))
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = w.Close()
}

// connections: what a program connects to comes with its address, and is as a
// connection is.
func connections(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{Ports: []uint16{443, 8080}})
	var all sync.WaitGroup
	all.Go(func() {
		for range 4 {
			c, err := s.Tunnels().Accept(s.ctx)
			if err != nil {
				t.Error(err)
				return
			}
			all.Go(func() {
				switch c.Local().Port() {
				case 8080:
					_, _ = io.WriteString(c, "half")
					_ = c.Reset()
				case 3128: // it says nothing, and ends
				default:
					b, err := io.ReadAll(c)
					if c.Datagrams() || err != nil || string(b) != "hello" {
						t.Errorf("%v: %q, %v", c.Local(), b, err)
					}
					_, _ = io.WriteString(c, c.Local().String())
				}
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
		}
	})
	_, out, _ := s.probe("talk", "127.0.0.53:53", "127.0.0.53:3128", "127.9.9.9:443", "127.0.0.1:8080", "127.0.0.1:81", "10.1.1.1:443")
	all.Wait()
	for _, want := range []string{"127.0.0.53:53 \"127.0.0.53:53\" <nil>\n", "127.0.0.53:3128 \"\" <nil>\n", "127.9.9.9:443 \"127.9.9.9:443\" <nil>\n",
		"connection reset by peer\n", "127.0.0.1:81 connect dial tcp 127.0.0.1:81: connect: connection refused\n", "10.1.1.1:443 connect"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	must(t, s.Stop(s.ctx))
}

// names: datagrams come in order on one stream, and go to who has asked.
func names(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{Ports: []uint16{443}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := s.Tunnels().Accept(s.ctx)
		if err != nil || !c.Datagrams() || c.Local() != netip.MustParseAddrPort("127.0.0.53:53") {
			t.Errorf("%v, %v", c, err)
			return
		}
		defer c.Close()
		for _, want := range []string{"one", "none", "two"} {
			head := make([]byte, 2)
			if _, err := io.ReadFull(c, head); err != nil {
				t.Error(err)
				return
			}
			b := make([]byte, int(head[0])<<8|int(head[1]))
			if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
				t.Errorf("%q, %v", b, err)
			}
			answer := "to " + want
			if want == "none" {
				answer = ""
			}
			_, _ = c.Write(append([]byte{0, byte(len(answer))}, answer...))
		}
		_, _ = io.Copy(io.Discard, c)
	}()
	_, out, _ := s.probe("resolve", "one", "none", "two")
	if !strings.HasPrefix(out, "\"to one\" <nil>\n\"to two\" <nil>\n") {
		t.Error(out)
	}
	must(t, s.Stop(s.ctx))
	<-done
}

func hangUp(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{Ports: []uint16{443}})
	go func() {
		_, _ = s.Exec(s.ctx, guest.Command{Argv: []string{"/bin/probe", "sleep"}, Started: func() { _ = s.Close() }})
	}()
	select {
	case err := <-s.ended:
		s.ended <- err
	case <-time.After(patience):
		t.Error("it stays")
	}
}
