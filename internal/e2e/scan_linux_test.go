package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A scan looks for a secret, in each of its forms, and for a word that has to be
// found, so that one that looks nowhere fails.
type scan struct {
	needles [][]byte
	control []byte
	coded   map[string]bool // the forms of control, and whether they were seen
	found   []string        // where the secret is
	seen    map[string]int  // how often control was, by the kind of place

	other     []byte // a secret that is to be found in memory; may be none
	otherSeen bool
}

func newScan(value, control string) *scan {
	s := &scan{control: []byte(control), coded: map[string]bool{}, seen: map[string]int{}}
	for _, form := range forms(value) {
		s.needles = append(s.needles, []byte(form))
	}
	for _, form := range forms(control) {
		s.coded[form] = false
	}
	return s
}

// look looks through bytes of a kind of place.
func (s *scan) look(kind, where string, data []byte) {
	if bytes.Contains(data, s.control) {
		s.seen[kind]++
	}
	for form, seen := range s.coded {
		if !seen {
			s.coded[form] = bytes.Contains(data, []byte(form))
		}
	}
	if len(s.other) > 0 && kind == "memory" && !s.otherSeen {
		s.otherSeen = bytes.Contains(data, s.other)
	}
	if slices.ContainsFunc(s.needles, func(n []byte) bool { return bytes.Contains(data, n) }) {
		s.found = append(s.found, kind+" "+where)
	}
}

// process looks at what the host sees of a process: memory, environment,
// words.
func (s *scan) process(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	name, _ := os.ReadFile(dir + "/comm")
	for _, kind := range []string{"environ", "cmdline"} {
		data, _ := os.ReadFile(filepath.Join(dir, kind)) // it may be over
		s.look(kind, string(name), data)
	}
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		return
	}
	defer mem.Close()
	maps, _ := os.ReadFile(dir + "/maps")
	for line := bufio.NewScanner(bytes.NewReader(maps)); line.Scan(); {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line.Text(), "%x-%x %s", &from, &to, &mode); err != nil || mode[0] != 'r' || to <= 0 || strings.Contains(line.Text(), "/memfd:") {
			continue // to read what a file in memory has not would fill it: see held
		}
		s.memory(mem, from, to, string(name)+line.Text())
	}
}

// memory looks through a mapping, or a part of a file, in pieces that overlap.
func (s *scan) memory(mem io.ReaderAt, from, to int64, where string) {
	const piece, overlap = 4 << 20, 256
	buf, zero := make([]byte, piece), make([]byte, piece)
	for at := from; at < to; at += piece - overlap {
		n, err := mem.ReadAt(buf[:min(piece, to-at)], at)
		if !bytes.Equal(buf[:n], zero[:n]) {
			s.look("memory", where, buf[:n])
		}
		if err != nil {
			return // a page that is not there
		}
	}
}

// held looks through the files in memory that processes hold: what the programs
// of a cell with a kernel of its own have is in one of its sentry's. The same file
// is looked through once.
func (s *scan) held(t *testing.T, pids []int) {
	t.Helper()
	done := map[uint64]bool{}
	for _, pid := range pids {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // it may be over
		for _, link := range links {
			to, err := os.Readlink(link)
			if err != nil || !strings.HasPrefix(to, "/memfd:") {
				continue
			}
			f, err := os.Open(link)
			if err != nil {
				t.Errorf("%s: %v", to, err)
				continue
			}
			var st unix.Stat_t
			if err := unix.Fstat(int(f.Fd()), &st); err != nil {
				t.Error(err)
			} else if !done[st.Ino] {
				done[st.Ino] = true
				s.extents(t, f, to)
			}
			f.Close()
		}
	}
}

// extents looks through the parts of a file that are there.
func (s *scan) extents(t *testing.T, f *os.File, where string) {
	t.Helper()
	for end := int64(0); ; {
		from, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return // nothing more
		}
		if err == nil {
			end, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		}
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		s.memory(f, from, end, where)
	}
}

// files looks at every file below dir that was changed since, and at the names
// of all. skip is a file that is to have the secret.
func (s *scan) files(kind, dir string, since time.Time, skip string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == skip {
			return nil // gone meanwhile
		}
		s.look(kind, name, []byte(name))
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() < 64<<20 && info.ModTime().After(since) {
			data, _ := os.ReadFile(name)
			s.look(kind, name, data)
		}
		return nil
	})
}

// cell looks at every process of the calls of a stand, and at the files in it.
func (s *scan) cell(t *testing.T, h *heldCall) {
	t.Helper()
	if h.level == "userkernel" {
		s.sandbox(t, h)
		return
	}
	pids := cellProcesses(t, string(s.control))
	if len(pids) < 4 {
		t.Errorf("processes in the cell: %v", pids)
	}
	for _, pid := range pids {
		s.process(pid)
		for _, dir := range []string{"work", "tmp", "run", "dev/shm"} {
			s.files("file", fmt.Sprintf("/proc/%d/root/%s", pid, dir), time.Time{}, "")
		}
	}
}

// sandbox looks at every process of the groups of cells with a kernel of their
// own: the sentry, which is that kernel, and those that it runs programs in.
// Files, environments and all else that a program of the cell has is in their
// memory and nowhere else on this host.
func (s *scan) sandbox(t *testing.T, h *heldCall) {
	t.Helper()
	groups := map[string]bool{}
	for _, pid := range h.processes("callcell-runsc") {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)) // it may be over
		groups[string(text)] = true
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || groups[string(own)] {
		t.Fatalf("a sandbox in our own group, %v", err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range all {
		text, err := os.ReadFile(name)
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && bad == nil && groups[string(text)] && len(text) > 0 {
			pids = append(pids, pid)
		}
	}
	if len(pids) < 2 {
		t.Errorf("processes of the cell: %v", pids)
	}
	s.held(t, pids) // first: a cell whose time is over has none
	for _, pid := range pids {
		s.process(pid)
	}
}

// cellProcesses are those of the cell that has control in some command's
// words: all of its group, and all of its process namespace.
func cellProcesses(t *testing.T, control string) (pids []int) {
	t.Helper()
	of := func(dir string) [2]string {
		group, _ := os.ReadFile(dir + "/cgroup") // it may be over
		space, _ := os.Readlink(dir + "/ns/pid")
		return [2]string{string(group), space}
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var cell, own [2]string = [2]string{}, of("/proc/self")
	for _, dir := range all {
		if words, err := os.ReadFile(dir + "/cmdline"); err == nil && bytes.Contains(words, []byte(control)) {
			cell = of(dir)
		}
	}
	if cell[0] == "" || cell[0] == own[0] || cell[1] == own[1] {
		t.Fatalf("there is no cell: %q", cell)
	}
	for _, dir := range all {
		is := of(dir)
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && (is[0] == cell[0] || is[1] == cell[1]) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// clean fails the test where the secret was found, or the control was not in a
// kind of place.
func (s *scan) clean(t *testing.T, kinds ...string) {
	t.Helper()
	for _, where := range s.found {
		t.Errorf("the secret is in: %s", where)
	}
	if len(s.other) > 0 && !s.otherSeen {
		t.Error("the secret that the program has was not found in memory")
	}
	for form, seen := range s.coded {
		if len(kinds) > 0 && kinds[0] == "memory" && !seen {
			t.Errorf("the program holds it, and it was not found: %q", form)
		}
	}
	for _, kind := range kinds {
		if s.seen[kind] == 0 {
			t.Errorf("nothing was looked at: %s (%v)", kind, s.seen)
		}
	}
}
