package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/systime"
	"github.com/callcell/callcell/internal/testing/remains"
)

// stubborn is code that does what it can to outlive its cell.
const stubborn = `
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
print("ran", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/bin/sleep", ["callcell-stubborn", "300"])
    os._exit(0)
time.sleep(0.02)
`

// stand is a configuration of its own for one test.
func stand(t testing.TB) (conf, state string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	conf, state = filepath.Join(dir, "callcell.yaml"), filepath.Join(dir, "state")
	if err := os.WriteFile(conf, []byte("version: 1\nstate: "+state+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return conf, state
}

func places() remains.Places {
	uids := conf.Default()
	return remains.Places{
		Process: func(comm, cmdline string) bool {
			return strings.HasPrefix(comm, "callcell") || strings.HasPrefix(cmdline, "callcell-")
		},
		Groups: []string{"/sys/fs/cgroup/memory/callcell", "/sys/fs/cgroup/pids/callcell", "/sys/fs/cgroup/cpu/callcell", "/sys/fs/cgroup/callcell"},
		Dirs:   []string{"/run/callcell", "/dev/shm"},
		Locks:  "/run/callcell/uids",
		UIDs:   [2]int{uids.UIDsFirst, uids.UIDsFirst + uids.UIDsCount},
	}
}

// TestKilledAtRandom runs calls one after another and kills, in some of them,
// the front, the launcher or the reaper at a random moment. Whatever died:
// nothing is left over, every call that ran has its row, and the chain is
// whole.
func TestKilledAtRandom(t *testing.T) {
	calls, kills := 200, 40
	if os.Getenv("CALLCELL_LONG") != "" {
		calls, kills = 1000, 200
	}
	bin := binaries(t)
	conf, state := stand(t)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	// Once before the snapshot, for what is made once and stays.
	if out, err := crashCall(bin, conf, "first", func(*exec.Cmd) {}); err != nil || !strings.Contains(out, "ran") {
		t.Fatal(out, err)
	}
	before := remains.Take(places())
	ran := map[string]bool{}
	killed := map[string]int{}
	for i := range calls {
		tool := fmt.Sprintf("crash-%d", i)
		victim := ""
		if i%(calls/kills) == 0 {
			victim = []string{"front", "launcher", "reaper"}[rng.IntN(3)]
			killed[victim]++
		}
		delay := time.Duration(rng.IntN(45_000)) * time.Microsecond
		out, err := crashCall(bin, conf, tool, func(c *exec.Cmd) { strike(c.Process.Pid, victim, delay) })
		ran[tool] = strings.Contains(out, "ran")
		if victim == "" && (err != nil || !ran[tool]) {
			t.Fatalf("call %d, after the deaths %v: %v\n%s", i, killed, err, out)
		}
	}
	if left := leftOver(t, bin, before); len(left) > 0 {
		t.Errorf("left over after the deaths %v:\n%s", killed, strings.Join(left, "\n"))
	}
	checkRows(t, state, ran)
}

func crashCall(bin, conf, tool string, meanwhile func(*exec.Cmd)) (string, error) {
	c := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "run", "--trust", "reviewed", "--level", "container",
		"--tool", tool, "--lang", "python", "--timeout", "60s")
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stubborn), &out, &out
	if err := c.Start(); err != nil {
		return "", err
	}
	meanwhile(c)
	err := c.Wait()
	return out.String(), err
}

// strike waits and then kills the front itself, its child the launcher, or
// that one's child the reaper. One that is not there yet, or any longer, is
// not killed.
func strike(front int, victim string, delay time.Duration) {
	if victim == "" {
		return
	}
	<-time.After(delay)
	pid := front
	for _, step := range []string{"launcher", "reaper"} {
		if victim == "front" {
			break
		}
		pid = childOf(pid)
		if step == victim || pid == 0 {
			break
		}
	}
	if pid > 0 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// childOf returns the first child of pid by number.
func childOf(pid int) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		if f := strings.Fields(string(b)); len(f) > 0 {
			n, _ := strconv.Atoi(f[0])
			return n
		}
	}
	return 0
}

// checkRows completes what died, by the clock of a day later, and then holds
// the rows against what was seen.
func checkRows(t *testing.T, state string, ran map[string]bool) {
	t.Helper()
	ctx := context.Background()
	after := aDayLater(t, state)
	rows, err := after.log.List(ctx, audit.Filter{Limit: audit.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]string{}
	for _, r := range rows {
		ended[r.Tool] = r.Outcome.String() + r.Reason.String()
		if r.Open() {
			t.Errorf("row %s of %s is open", r.ID, r.Tool)
		}
	}
	for tool, did := range ran {
		if did && ended[tool] == "" {
			t.Errorf("%s ran and has no row", tool)
		}
	}
	t.Logf("%d rows, %d of them lost", len(rows), after.lost)
}

// An aftermath is what a state holds when the leases of dead processes are over.
type aftermath struct {
	db          *store.DB
	log         *audit.Log
	calls, lost int64
}

// aDayLater opens what a state holds, for as long as the test lasts, and
// completes as lost what died, as a daemon does. The chain must be whole then,
// with no call open.
func aDayLater(t *testing.T, state string) aftermath {
	t.Helper()
	ctx := context.Background()
	db, err := store.Open(ctx, filepath.Join(state, "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	log, err := audit.New(db.Audit(), audit.Options{Clock: later{systime.Clock{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(ctx) }) // nothing waits in it
	lost, err := log.Recover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	report, err := log.Verify(ctx, audit.VerifyOptions{})
	if err != nil || !report.Intact() || report.Open != 0 {
		b, _ := json.Marshal(report)
		t.Errorf("chain: %v %s", err, b)
	}
	return aftermath{db, log, report.Calls, int64(len(lost))}
}

// later is a clock a day ahead: every lease has run out.
type later struct{ audit.Clock }

func (c later) Now() time.Time { return c.Clock.Now().Add(24 * time.Hour) }
