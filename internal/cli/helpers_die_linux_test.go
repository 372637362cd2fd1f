package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/systime"
	"github.com/callcell/callcell/internal/testing/remains"
)

// startersOf are the processes that start launchers for a daemon.
func startersOf(daemon int) []int {
	return slices.DeleteFunc(launchersOf(daemon, "callcell-launch"), func(pid int) bool { return !isStarter(pid) })
}

func isStarter(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone: none
	return strings.Contains(string(line), "\x00-starter\x00")
}

// launchersIn are the launchers of the binaries in bin, whoever started them: the
// parent of some may not be there any more.
func launchersIn(t *testing.T, bin string) (pids []int) {
	t.Helper()
	for _, word := range processes(func(exe, _ string) bool { return exe == filepath.Join(bin, "callcell-launcher") }) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		if !isStarter(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// launchersFor are the launchers of a daemon, whoever started them.
func launchersFor(daemon int) []int {
	pids := slices.DeleteFunc(launchersOf(daemon, "callcell-launch"), isStarter)
	for _, s := range startersOf(daemon) {
		pids = append(pids, launchersOf(s, "callcell-launch")...)
	}
	return pids
}

// helpersOf are the processes that the launchers of a daemon started under a
// name.
func helpersOf(daemon int, name string) (pids []int) {
	for _, l := range launchersFor(daemon) {
		for _, pid := range launchersOf(l, "callcell") {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone: none
			if argv0, _, _ := strings.Cut(string(line), "\x00"); filepath.Base(argv0) == name {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Visitors make calls until they are sent home.
type visitors struct {
	client *client.Client

	mu       sync.Mutex                  // guards the following
	outcomes map[string]envelope.Outcome // of the calls that were answered, by id
	turns    chan struct{}               // has one for each call that completed, while somebody looks
}

// visit makes calls, four at a time, two of them with a way out, until ctx ends
// or the daemon does.
func (c *visitors) visit(ctx context.Context) {
	var all sync.WaitGroup
	for i := range 4 {
		call := envelope.Call{Argv: []string{"sh", "-c", "sleep 0.02; echo hello"}}
		if i%2 == 1 {
			call.Profile = "out"
		}
		all.Go(func() {
			for ctx.Err() == nil && c.one(ctx, call) {
			}
		})
	}
	all.Wait()
}

// one makes a call, and reports whether there is a daemon.
func (c *visitors) one(ctx context.Context, call envelope.Call) (served bool) {
	r, err := c.client.Run(ctx, &call)
	if err != nil || r.Refusal != nil {
		var refused *client.Problem
		return err == nil || errors.As(err, &refused)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[r.ID] = r.Outcome
	if r.OK() && string(r.Stdout.Head) == "hello\n" {
		select {
		case c.turns <- struct{}{}:
		default:
		}
	}
	return true
}

// served waits until as many calls have completed as began before now and some
// more.
func (c *visitors) served(t *testing.T, when string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for range 12 {
		select {
		case <-c.turns:
		case <-ctx.Done():
			t.Fatal("no call completes " + when)
		}
	}
}

// TestDaemonWhoseHelpersDie kills, of a daemon that has given up its privileges
// and is under load, what works for it: launchers, reapers, the egress process.
// Calls complete again without a hand. It goes on without the starter; when the
// last launcher goes as well, it ends by itself, with a status. Every answered
// call has its row, and nothing is left over.
func TestDaemonWhoseHelpersDie(t *testing.T) {
	bin := binaries(t)
	conf, state := stand(t)
	if err := errors.Join(os.Chmod(filepath.Dir(conf), 0o711), os.Chmod(filepath.Dir(filepath.Dir(conf)), 0o711)); err != nil {
		t.Fatal(err)
	}
	addTo(t, conf, "serve: {user: nobody}\ngateway: {tiers: {enterprise: {rate: 100k}}}\nprofiles:\n"+
		"  default: {trust: reviewed, task: {calls: 1M, tokens: 100M, cpuTime: 720h}}\n"+
		"  out: {trust: reviewed, network: {allow: [{host: example.com, ports: [443]}]}, task: {calls: 1M, tokens: 100M, cpuTime: 720h}}\n")
	first := startDaemon(t, bin, conf, "--dev") // makes the state, for its user
	if err := first.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(first.log, "\n"))
	}
	before := remains.Take(places())
	d := startDaemon(t, bin, conf, "--dev")
	c := newVisitors(t, d)
	ctx, leave := context.WithCancel(t.Context())
	var visit sync.WaitGroup
	visit.Go(func() { c.visit(ctx) })
	defer visit.Wait()
	defer leave()
	c.served(t, "at first")
	daemon := d.cmd.Process.Pid
	defer func() { _ = d.cmd.Process.Kill() }() // it has ended, unless the test has failed
	launchers := func() []int { return launchersFor(daemon) }
	reapers := func() []int { return helpersOf(daemon, "callcell-reaper") }
	for _, death := range []struct {
		what    string
		victims func() []int
	}{
		{"launchers", launchers},
		{"reapers", reapers},
		{"egress", func() []int { return helpersOf(daemon, "callcell-egress") }},
		{"launchers and reapers", func() []int { return append(reapers(), launchers()...) }},
	} {
		kill(t, death.what, death.victims)
		c.served(t, "after the death of "+death.what)
	}
	becomes(t, d, 200, "")
	kill(t, "starter", func() []int { return startersOf(daemon) })
	c.served(t, "without the starter")
	kill(t, "launchers", func() []int { return launchersIn(t, bin) })
	var exit *exec.ExitError
	if err := awaitEnd(t, d); !errors.As(err, &exit) || exit.ExitCode() != 125 {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	visit.Wait() // nobody is left waiting
	if log := strings.Join(d.log, "\n"); !strings.Contains(log, "the starter of launchers is gone") || !strings.Contains(log, "no cell can be built any more") {
		t.Errorf("the log:\n%s", log)
	}
	after := startDaemon(t, bin, conf) // sweeps, as the one does that systemd starts
	if err := after.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(after.log, "\n"))
	}
	if left := leftOver(t, bin, before); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
	c.recorded(t, state)
}

// newVisitors takes the key that a daemon has printed.
func newVisitors(t *testing.T, d *daemon) *visitors {
	t.Helper()
	api, err := client.New(d.address, d.devKey(t))
	if err != nil {
		t.Fatal(err)
	}
	api.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(api.HTTP.CloseIdleConnections)
	return &visitors{client: api, outcomes: map[string]envelope.Outcome{}, turns: make(chan struct{})}
}

// kill kills what there is of some processes; there is one at least.
func kill(t *testing.T, what string, find func() []int) {
	t.Helper()
	var pids []int
	until(t, func() string { return "there is none to kill: " + what }, func() bool {
		pids = find()
		return len(pids) > 0
	})
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one may have gone with another
	}
}

// awaitEnd waits until a daemon has ended by itself, and returns how.
func awaitEnd(t *testing.T, d *daemon) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	select {
	case <-d.ended:
		return d.cmd.Wait()
	case <-ctx.Done():
		t.Error("the daemon does not end")
		return d.end(syscall.SIGKILL)
	}
}

// recorded holds the log of a state to what was answered.
func (c *visitors) recorded(t *testing.T, state string) {
	t.Helper()
	ctx := t.Context()
	err := filepath.WalkDir(state, func(path string, _ fs.DirEntry, err error) error { // it is the daemon's user's
		return errors.Join(err, os.Lchown(path, os.Geteuid(), os.Getegid()))
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(ctx, filepath.Join(state, "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	log, err := audit.New(db.Audit(), audit.Options{Clock: later{systime.Clock{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(ctx)
	if _, err := log.Recover(ctx); err != nil {
		t.Fatal(err)
	}
	if report, err := log.Verify(ctx, audit.VerifyOptions{}); err != nil || !report.Intact() || report.Open != 0 {
		t.Errorf("%+v %v", report, err)
	}
	broken := 0
	for id, want := range c.outcomes {
		row, err := log.Row(ctx, id)
		if err != nil || row.Outcome != want {
			t.Errorf("%s was answered with %s: %+v %v", id, want, row, err)
		}
		if want != envelope.OutcomeCompleted {
			broken++
		}
	}
	t.Logf("%d calls were answered, %d of them broken", len(c.outcomes), broken)
}
