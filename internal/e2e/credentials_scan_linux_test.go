package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/world"
)

// A scan looks for a secret, and for a word that has to be found, so that one
// that looks nowhere fails.
type scan struct {
	needles [][]byte
	control []byte
	found   []string // where the secret is
	seen    map[string]int
}

func newScan(value, control string) *scan {
	s := &scan{control: []byte(control), seen: map[string]int{}}
	for _, form := range forms(value) {
		s.needles = append(s.needles, []byte(form))
	}
	return s
}

// look looks through bytes of a kind of place.
func (s *scan) look(kind, where string, data []byte) {
	if bytes.Contains(data, s.control) {
		s.seen[kind]++
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
		if _, err := fmt.Sscanf(line.Text(), "%x-%x %s", &from, &to, &mode); err == nil && mode[0] == 'r' && to > 0 {
			s.memory(mem, from, to, string(name)+line.Text())
		}
	}
}

// memory looks through a mapping, in pieces that overlap.
func (s *scan) memory(mem io.ReaderAt, from, to int64, where string) {
	const piece, overlap = 4 << 20, 256
	buf := make([]byte, piece)
	for at := from; at < to; at += piece - overlap {
		n, err := mem.ReadAt(buf[:min(piece, to-at)], at)
		s.look("memory", where, buf[:n])
		if err != nil {
			return // a page that is not there
		}
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

// cell looks at every process of the cell, and at the files in it.
func (s *scan) cell(t *testing.T) {
	t.Helper()
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
	for _, kind := range kinds {
		if s.seen[kind] == 0 {
			t.Errorf("nothing was looked at: %s (%v)", kind, s.seen)
		}
	}
}

// A held call is one whose program has used the credential, uses it still, and
// waits.
type heldCall struct {
	*stand
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	value, control string
	key, temp      string
	began          time.Time
	mark           world.Mark
}

const heldNetwork = `  allow: [{host: allowed.test, ports: [443]}]
credentials:
  gh: {source: "file:KEY", use: {header: Authorization, format: "Bearer {}", host: allowed.test, methods: [GET], path: /}}
`

const heldScript = `
echo $CONTROL >control; echo $CONTROL >/tmp/control; echo $CONTROL >/dev/shm/control
curl -sS -f https://allowed.test/repos/a >body || exit 9
curl -sN https://allowed.test/drip >drip &
python3 -c 'import urllib.request as u, time
answer = u.urlopen("https://allowed.test/repos/b").read(); open("python", "wb").write(answer)
u.urlopen("https://allowed.test/waits"); time.sleep(100)' "$CONTROL" &
until test -e go; do read -t 0.05 <><(:); done
cat body; cat body >&2; kill %1 %2; wait; exit 0
`

// hold starts one, and returns when its program waits.
func hold(t *testing.T) *heldCall {
	t.Helper()
	if level() != "container" {
		t.Skip("the processes of a cell with a kernel of its own are not the host's to look into")
	}
	h := &heldCall{stand: usual(t), t: t, value: newSecret(), control: "C0NTR0L-" + newSecret(), began: time.Now()}
	h.key, h.temp = h.write("key", h.value), filepath.Join(h.dir, "temp")
	if err := os.Mkdir(h.temp, 0o700); err != nil {
		t.Fatal(err)
	}
	env := h.write("envelope.yaml", h.envelopeOf("60s")+strings.ReplaceAll(heldNetwork, "KEY", h.key))
	code := h.write("main.sh", "export CONTROL="+h.control+"\n"+heldScript)
	h.cmd = exec.Command(filepath.Join(h.bin, "callcell"), "--config", h.conf, "run", "--json", "--envelope", env, "--in", code, "--out", "body", "--", "/bin/bash", "main.sh")
	h.cmd.Dir, h.cmd.Stdout, h.cmd.Stderr = h.dir, &h.stdout, &h.stderr
	h.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + h.dir, "TMPDIR=" + h.temp}
	h.mark = h.world.Mark(t)
	if err := h.world.Start(h.cmd); err != nil {
		t.Fatal(err)
	}
	await(t, "the call does not get out", func() bool {
		hits := h.mark.Hits()
		return slices.ContainsFunc(hits, func(h world.Hit) bool { return h.Path == "/drip" }) &&
			slices.ContainsFunc(hits, func(h world.Hit) bool { return h.Path == "/waits" })
	})
	for _, hit := range h.mark.Hits() {
		if bearer(hit, h.value) != 1 {
			t.Errorf("%s came without the credential", hit.Path)
		}
	}
	return h
}

// disk looks at what is left on this host's disk.
func (h *heldCall) disk(s *scan) {
	s.files("stand", h.dir, time.Time{}, h.key)
	for _, dir := range []string{os.TempDir(), "/var/tmp", "/run", "/dev/shm", "/var/crash", "/var/lib/systemd/coredump"} {
		s.files("temp", dir, h.began, h.key)
	}
}

// resume has the program go on.
func (h *heldCall) resume() {
	for _, pid := range cellProcesses(h.t, h.control) {
		dir := fmt.Sprintf("/proc/%d/root/work", pid)
		if _, err := os.Stat(dir + "/control"); err == nil {
			if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
				h.t.Error(err)
			}
			return
		}
	}
	h.t.Error("nowhere to say go")
}

// TestTheCellNeverHasAHeaderCredential: while a call uses it, and after, the
// secret is in no process of the cell, in no file in it, and in nothing that
// is written of it.
func TestTheCellNeverHasAHeaderCredential(t *testing.T) {
	h := hold(t)
	during := newScan(h.value, h.control)
	during.cell(t)
	h.disk(during)
	for _, pid := range slices.Concat(h.processes("callcell"), h.processes("callcell-launcher"), h.processes("callcell-egress")) {
		for _, kind := range []string{"environ", "cmdline"} {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, kind))
			during.look("ours", kind, data)
		}
	}
	during.clean(t, "memory", "environ", "cmdline", "file", "stand")
	h.resume()
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s%s", err, h.stdout.String(), h.stderr.String())
	}
	after := newScan(h.value, "redacted:gh")
	after.look("json", "", h.stdout.Bytes())
	after.look("stderr", "", h.stderr.Bytes())
	for _, id := range idsIn(h.stdout.String()) {
		after.look("row", id, h.output("audit", "show", id))
	}
	h.disk(after)
	after.clean(t)
	clean(t, "what is printed", h.stdout.String(), h.value)
	if !strings.Contains(h.stdout.String(), `"credentials":{"gh":4}`) && !strings.Contains(h.stdout.String(), `"gh": 4`) {
		t.Errorf("the result: %s", h.stdout.String())
	}
}

// TestAKilledCallLeavesNoSecret: with the command gone in the middle of a
// call, nothing of the secret is on the disk.
func TestAKilledCallLeavesNoSecret(t *testing.T) {
	for _, victim := range []string{"callcell", "callcell-egress", "callcell-launcher"} {
		t.Run(victim, func(t *testing.T) {
			h := hold(t)
			during := newScan(h.value, h.control)
			during.cell(t)
			during.clean(t, "memory", "file")
			for _, pid := range h.processes(victim) {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
			_ = h.cmd.Wait() // it may have been the victim
			await(t, "processes are left", func() bool {
				return len(slices.Concat(h.processes("callcell"), h.processes("callcell-launcher"), h.processes("callcell-egress"), h.processes("callcell-init"))) == 0
			})
			after := newScan(h.value, h.control)
			h.disk(after)
			after.look("json", "", h.stdout.Bytes())
			after.look("stderr", "", h.stderr.Bytes())
			after.clean(t, "stand")
		})
	}
}

// idsIn are the ids of calls in a result as it is printed.
func idsIn(result string) (ids []string) {
	for _, part := range strings.Split(result, `"id":`)[1:] {
		if fields := strings.Split(part, `"`); len(fields) > 1 {
			ids = append(ids, fields[1])
		}
	}
	return ids
}
