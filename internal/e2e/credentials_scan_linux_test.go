package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// A held call is one whose program has used the credential, uses it still, and
// waits.
type heldCall struct {
	*stand
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	value, control string
	kept           string // a secret that the program does have, by the same call
	key, temp      string
	began          time.Time
	mark           world.Mark
}

const heldNetwork = `  allow: [{host: allowed.test, ports: [443]}]
credentials:
  gh: {source: "file:KEY", use: {header: Authorization, format: "Bearer {}", host: allowed.test, methods: [GET], path: /}}
  kept: {source: "file:KEPT", use: {file: true}}
`

const heldScript = `
echo $CONTROL >control; echo $CONTROL >/tmp/control; echo $CONTROL >/dev/shm/control; echo >/tmp/name-$CONTROL
curl -sS -f https://allowed.test/repos/a >body || exit 9
curl -sN https://allowed.test/drip >drip &
python3 holds.py "$CONTROL" &
curl -sSN -f "https://allowed.test/latch?name=$CONTROL" >latch || exit 8
for f in /proc/[0-9]*/{environ,cmdline,maps,status,mountinfo,comm} /proc/{mounts,version,cmdline,net/*,sys/kernel/*}; do cat $f; done >seen 2>/dev/null
cat body; cat body >&2; kill %1 %2; wait; exit 0
`

const heldPython = `
import base64, os, sys, time, urllib.request as u
word = sys.argv[1].encode()
coded = [word.hex(), word.hex().upper(), word.decode().encode("utf-16-le")] + [base64.b64encode(b"x" * n + word) for n in range(3)]
kept = open("/run/credentials/kept", "rb").read()
answer = u.urlopen("https://allowed.test/repos/b").read(); open("python", "wb").write(answer)
u.urlopen("https://allowed.test/waits"); time.sleep(290)
`

// hold starts one, and returns when its program waits.
func hold(t *testing.T, s *stand) *heldCall {
	t.Helper()
	h := &heldCall{stand: s, t: t, value: newSecret(), control: "C0NTR0L-" + newSecret(), kept: newSecret(), began: time.Now()}
	h.key, h.temp = h.write("key", h.value), filepath.Join(h.dir, "temp")
	if err := os.Mkdir(h.temp, 0o700); err != nil {
		t.Fatal(err)
	}
	env := h.write("envelope.yaml", h.envelopeOf("5m")+strings.NewReplacer("KEY", h.key, "KEPT", h.write("kept", h.kept)).Replace(heldNetwork))
	code := h.write("main.sh", "export CONTROL="+h.control+"\n"+heldScript)
	h.cmd = exec.Command(filepath.Join(h.bin, "callcell"), "--config", h.conf, "run", "--json", "--envelope", env, "--in", code, "--in", h.write("holds.py", heldPython), "--out", "body", "--out", "seen", "--", "/bin/bash", "main.sh")
	h.cmd.Dir, h.cmd.Stdout, h.cmd.Stderr = h.dir, &h.stdout, &h.stderr
	h.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + h.dir, "TMPDIR=" + h.temp}
	h.mark = h.world.Mark(t)
	if err := h.world.Start(h.cmd); err != nil {
		t.Fatal(err)
	}
	await(t, "the call does not get out", func() bool {
		hits := h.mark.Hits()
		return slices.ContainsFunc(hits, func(h world.Hit) bool { return h.Path == "/drip" }) &&
			slices.ContainsFunc(hits, func(h world.Hit) bool { return h.Path == "/waits" }) &&
			slices.ContainsFunc(hits, func(h world.Hit) bool { return strings.HasPrefix(h.Path, "/latch?") })
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

// TestTheCellNeverHasAHeaderCredential: while a call uses it, and after, the
// secret is in no process of the cell, in no file in it, and in nothing that
// is written of it.
func TestTheCellNeverHasAHeaderCredential(t *testing.T) { neverHas(t, usual(t)) }

func neverHas(t *testing.T, s *stand) {
	t.Helper()
	h := hold(t, s)
	during := newScan(h.value, h.control)
	during.other = []byte(h.kept)
	during.cell(t, h)
	h.disk(during)
	for _, pid := range slices.Concat(h.processes("callcell"), h.processes("callcell-launcher"), h.processes("callcell-egress")) {
		for _, kind := range []string{"environ", "cmdline"} {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, kind))
			during.look("ours", kind, data)
		}
	}
	during.clean(t, h.places()...)
	h.world.Release(h.control)
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
	h.told()
}

// places are the kinds of places that the control is to be found in. Files and
// environments of a cell with a kernel of its own are memory for this host.
func (h *heldCall) places() []string {
	if h.level == "userkernel" {
		return []string{"memory", "stand"}
	}
	return []string{"memory", "environ", "cmdline", "file", "stand"}
}

// told: the result has what was used and what was masked, and what /proc in the
// cell said, and there was no secret to be masked in that.
func (h *heldCall) told() {
	h.t.Helper()
	var r envelope.Result
	if err := json.Unmarshal(h.stdout.Bytes(), &r); err != nil {
		h.t.Fatal(err)
	}
	if r.Egress == nil || r.Egress.Credentials["gh"] != 5 {
		h.t.Errorf("used: %+v", r.Egress)
	}
	for _, f := range r.Outputs {
		if f.Name == "seen" && (!bytes.Contains(f.Data, []byte(h.control)) || bytes.Contains(f.Data, []byte("redacted:"))) {
			h.t.Errorf("what /proc says in the cell: %q", f.Data)
		}
	}
	if len(r.Outputs) != 2 || r.Masked["gh"] != 0 {
		h.t.Errorf("%d outputs, masked %v", len(r.Outputs), r.Masked)
	}
}

// TestAKilledCallLeavesNoSecret: with the command gone in the middle of a
// call, nothing of the secret is on the disk.
func TestAKilledCallLeavesNoSecret(t *testing.T) {
	killedLeaves(t, usual(t), "callcell", "callcell-egress", "callcell-launcher")
}

func killedLeaves(t *testing.T, s *stand, victims ...string) {
	t.Helper()
	for _, victim := range victims {
		t.Run(victim, func(t *testing.T) {
			h := hold(t, s.again(t))
			during := newScan(h.value, h.control)
			during.cell(t, h)
			during.clean(t, h.places()[0])
			for _, pid := range h.processes(victim) {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH { // it may have ended with another
					t.Error(err)
				}
			}
			_ = h.cmd.Wait() // it may have been the victim
			await(t, "processes are left", func() bool {
				return len(slices.Concat(h.processes("callcell"), h.processes("callcell-launcher"), h.processes("callcell-egress"), h.processes("callcell-init"), h.processes("callcell-runsc"))) == 0
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
