package launcher

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// TestRefusedHost: a launcher that can build nothing says so, and ends.
func TestRefusedHost(t *testing.T) {
	p := newPlace(t)
	for name, c := range map[string]struct{ conf, words string }{
		"no such file":      {"/nowhere/launcher.conf", "no such file"},
		"an unknown key":    {write(t, "cellz = 1\n"), "cellz"},
		"an unsafe run.dir": {write(t, "run.dir = /tmp\ncgroup.parent = "+p.parent+"\n"), "only this user"},
		"no cgroups":        {write(t, "cgroup.root = /proc\nrun.dir = "+p.run+"\n"), "ceilings cannot be enforced"},
		"too many cells":    {write(t, "cells = 1025\nrun.dir = "+p.run+"\ncgroup.parent = "+p.parent+"\n"), "1024"},
	} {
		t.Run(name, func(t *testing.T) {
			at := p
			at.conf = c.conf
			cl := dial(t, at)
			if !strings.Contains(cl.hello.Refused, c.words) {
				t.Errorf("%q, want %q in it", cl.hello.Refused, c.words)
			}
			await(t, "the hang-up", cl.over)
			cl.ended(t, 1)
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "launcher.conf")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestFewDescriptors: the cells are held to what there is.
func TestFewDescriptors(t *testing.T) {
	p := newPlace(t)
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	c, remote := newClient(t, p)
	sh := fmt.Sprintf("ulimit -n 800; exec %s -config %s", helper("callcell-launcher"), p.conf)
	cmd := shell(sh, remote)
	must(t, cmd.Start(), remote.Close())
	c.greet(t)
	if want := uint32((800 - otherFDs) / fdsPerCell); c.hello.MaxCells != want || !slices.ContainsFunc(c.hello.Missing, func(m string) bool { return strings.Contains(m, "cells") }) {
		t.Errorf("%d cells, want %d, and words: %q", c.hello.MaxCells, want, c.hello.Missing)
	}
	var all []*process
	for range c.hello.MaxCells {
		s := spec()
		pr := c.start(t, c.open(t, s), "sh", "-c", "echo ready; read x")
		pr.says(t, "ready")
		all = append(all, pr)
	}
	for _, pr := range all {
		must(t, pr.stdin.Close())
		pr.exit(t)
		c.close(t, pr.slot)
	}
	c.hangUp(t)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestUmask: that of who starts the launcher does not reach what cells see.
func TestUmask(t *testing.T) {
	p := newPlace(t)
	c, remote := newClient(t, p)
	cmd := shell(fmt.Sprintf("umask 777; exec %s -config %s", helper("callcell-launcher"), p.conf), remote)
	must(t, cmd.Start(), remote.Close())
	c.greet(t)
	pr := c.start(t, c.open(t, spec()), "sh", "-c", "cat /etc/hostname && umask && touch /tmp/x && ls -l /tmp/x | cut -c1-10")
	for _, want := range []string{"cell", "0022", "-rw-r--r--"} {
		pr.says(t, want)
	}
	pr.exit(t)
	c.close(t, pr.slot)
	c.hangUp(t)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestStartedByHand: it says what it is.
func TestStartedByHand(t *testing.T) {
	for name, file := range map[string]func() (*os.File, error){
		"nothing": func() (*os.File, error) { return nil, nil },
		"a file":  func() (*os.File, error) { return os.Open(os.DevNull) },
		"another socket": func() (*os.File, error) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			return os.NewFile(uintptr(fd), "s"), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := file()
			must(t, err)
			cmd := shell("exec "+helper("callcell-launcher"), f)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			_ = cmd.Run() // its status is looked at
			if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(errs.String(), "started by callcell") {
				t.Errorf("exit status %d, says %q", code, errs.String())
			}
			if f != nil {
				f.Close()
			}
		})
	}
}

// TestSweepThatFails: what cannot be removed is said, keeps its uid, and does
// not keep cells from being built.
func TestSweepThatFails(t *testing.T) {
	p := newPlace(t, "uids.count = 2", "cells = 2")
	groups, err := cgroup.Open(cgroups, p.parent)
	must(t, err)
	goes, stays := fmt.Sprintf("c%d-0123456789ab", p.first), fmt.Sprintf("c%d-0123456789ab", p.first+1)
	for _, name := range []string{goes, stays} {
		g, err := groups.Make(name, cgroup.Limits{Memory: 1 << 20, Pids: 1, CPU: 100})
		must(t, err)
		must(t, g.Close())
	}
	must(t, groups.Close())
	below := groupDirs(p.parent, stays)[0] + "/below"
	must(t, os.Mkdir(below, 0o755))
	c := dial(t, p)
	if c.hello.Refused != "" || !slices.ContainsFunc(c.hello.Missing, func(m string) bool { return strings.Contains(m, stays) }) {
		t.Errorf("%+v", c.hello)
	}
	if left := groupDirs(p.parent, goes); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	slot := c.open(t, spec()) // the one uid that is free
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	c.close(t, slot)
	c.hangUp(t)
	must(t, os.Remove(below))
	dial(t, p).hangUp(t)
	if left := groupDirs(p.parent, "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
