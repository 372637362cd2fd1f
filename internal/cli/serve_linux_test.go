package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/remains"
)

// A daemon is a callcell serve that runs.
type daemon struct {
	cmd     *exec.Cmd
	address string
	log     []string // its lines, once it has ended
	ended   chan struct{}
	dev     string // the key that it printed before it served
}

// startDaemon starts a daemon of a stand and waits until it serves.
func startDaemon(t *testing.T, bin, conf string, more ...string) *daemon {
	t.Helper()
	return startBy(t, exec.Command(filepath.Join(bin, "callcell"), serveArgs(conf, more...)...))
}

func serveArgs(conf string, more ...string) []string {
	return append([]string{"--config", conf, "serve", "--log", "json", "--listen", "127.0.0.1:0"}, more...)
}

// startBy starts a daemon by a command that becomes it, and waits until it
// serves.
func startBy(t *testing.T, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{cmd: cmd, ended: make(chan struct{})}
	out, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startHearing(d.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that failed meanwhile
		select {
		case <-d.ended:
		default:
			_ = d.end(syscall.SIGKILL)
		}
	})
	serving := make(chan string, 1)
	go func() {
		defer close(d.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct{ Msg, Address string }
			d.log = append(d.log, lines.Text())
			if _, key, ok := strings.Cut(lines.Text(), "a key for this run: "); ok {
				d.dev = key // read after serving alone
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				serving <- line.Address
			}
		}
	}()
	select {
	case d.address = <-serving:
	case <-d.ended:
		t.Fatalf("it does not serve: %v\n%s", d.cmd.Wait(), strings.Join(d.log, "\n"))
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not serve")
	}
	return d
}

// devKey is the key that a daemon with --dev printed.
func (d *daemon) devKey(t *testing.T) string {
	t.Helper()
	if d.dev == "" {
		t.Fatal("it printed no key")
	}
	return d.dev
}

// end ends the daemon by a signal, and returns how it ended.
func (d *daemon) end(signal syscall.Signal) error {
	_ = d.cmd.Process.Signal(signal) // it may have ended
	<-d.ended
	return d.cmd.Wait()
}

// reviewed has calls of a stand's default profile run at the container level, and
// as many of a key as there are.
func reviewed(t *testing.T, conf string) {
	t.Helper()
	addTo(t, conf, "profiles: {default: {trust: reviewed, task: {calls: 1M, tokens: 100M, cpuTime: 720h}}}\n"+
		"gateway: {tiers: {enterprise: {rate: 100k}}}\n")
}

// addTo adds a text to a configuration.
func addTo(t *testing.T, conf, text string) {
	t.Helper()
	f, err := os.OpenFile(conf, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// secretOf makes a team and a key by the command line.
func secretOf(t *testing.T, bin, conf string, role string) string {
	t.Helper()
	_, _ = exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "team", "create", "load", "--tier", "enterprise").CombinedOutput() // it may be there
	out, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "key", "create", "--team", "load", "--role", role).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestDaemonKilledAtRandom kills a daemon under load at random moments. Every
// call that was answered has its row, complete; no intent stays open; the chain
// is whole; budgets are settled; nothing of a cell is left.
func TestDaemonKilledAtRandom(t *testing.T) {
	rounds := 10
	if os.Getenv("CALLCELL_LONG") != "" {
		rounds = 100
	}
	bin := binaries(t)
	conf, state := stand(t)
	reviewed(t, conf)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	secret := secretOf(t, bin, conf, "call")
	first := startDaemon(t, bin, conf)
	load(t, first.address, secret, time.Second)
	if err := first.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(first.log, "\n"))
	}
	before := remains.Take(places())
	answered := map[string]bool{}
	for n := 0; n < rounds || len(answered) < rounds && n < 10*rounds; n++ { // a busy machine answers few before the end
		d := startDaemon(t, bin, conf)
		for _, id := range load(t, d.address, secret, time.Duration(100+rng.IntN(900))*time.Millisecond, func() { _ = d.end(syscall.SIGKILL) }) {
			answered[id] = true
		}
	}
	last := startDaemon(t, bin, conf)
	if err := last.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(last.log, "\n"))
	}
	if left := leftOver(t, bin, before); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
	if len(answered) < rounds {
		t.Errorf("%d calls were answered", len(answered))
	}
	checkLoad(t, state, answered)
}

// load makes calls, eight at a time, for a time, and returns the ids of those
// that were answered. after comes while they are under way.
func load(t *testing.T, address, secret string, d time.Duration, after ...func()) (ids []string) {
	t.Helper()
	c, err := client.New(address, secret)
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 8}
	defer c.HTTP.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := c.Run(ctx, &envelope.Call{Task: "load", Argv: []string{"echo", "hello"}})
				var p *client.Problem
				switch {
				case err == nil && r.OK():
					mu.Lock()
					ids = append(ids, r.ID)
					mu.Unlock()
				case errors.As(err, &p) && p.Retry: // rate, or no turn
				case err == nil:
					t.Errorf("%s %+v %q", r.Outcome, r.Exit, r.Warnings)
					return
				case len(after) == 0 && ctx.Err() == nil:
					t.Error(err)
					return
				default: // the daemon is gone
					return
				}
			}
		})
	}
	<-time.After(d)
	for _, f := range after {
		f()
	}
	cancel()
	all.Wait()
	return ids
}

// checkLoad holds the log and the usage of a state to what was answered.
func checkLoad(t *testing.T, state string, answered map[string]bool) {
	t.Helper()
	ctx := t.Context()
	after := aDayLater(t, state)
	for id := range answered {
		if row, err := after.log.Row(ctx, id); err != nil || row.Outcome != envelope.OutcomeCompleted || row.Ending.Usage.ResultTokens != 2 {
			t.Errorf("%s was answered: %+v %v", id, row, err)
		}
	}
	var held []gateway.Admission
	err := after.db.Gateway().Update(ctx, func(tx gateway.Tx) (err error) {
		held, err = tx.Held(10)
		return err
	})
	usage, failed := after.db.Gateway().Usage(ctx, gateway.UsageQuery{})
	if err != nil || failed != nil || len(held) > 0 || len(usage) == 0 {
		t.Fatalf("held %+v, %d lines of usage, %v %v", held, len(usage), err, failed)
	}
	calls, tokens := int64(0), int64(0)
	for _, u := range usage {
		calls, tokens = calls+u.Calls, tokens+u.Result
	}
	if calls < int64(len(answered)) || calls > after.calls+100*8 || tokens < 2*int64(len(answered)) || tokens > 2*calls {
		t.Errorf("%d calls and %d tokens are charged, of %d answered and %d rows", calls, tokens, len(answered), after.calls)
	}
}

// TestDaemonDrains: on SIGTERM calls under way are answered, no new ones are
// taken, and the status is 0; a second daemon is refused meanwhile; a key that
// is revoked by the command line is no good within a second.
func TestDaemonDrains(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	out, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "serve", "--listen", "127.0.0.1:0").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 125 || !strings.Contains(string(out), "another daemon serves") {
		t.Errorf("a second daemon: %v\n%s", err, out)
	}
	c, err := client.New(d.address, secret)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	_, err = c.Stream(t.Context(), &envelope.Call{Argv: []string{"sh", "-c", "echo on; sleep 1; echo done"}}, func(e client.Event) error {
		if string(e.Data) == "on\n" {
			go func() { answer <- d.end(syscall.SIGTERM) }()
		}
		if e.Result != nil && string(e.Result.Stdout.Head) != "on\ndone\n" {
			return fmt.Errorf("%+v", e.Result)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	again := startDaemon(t, bin, conf)
	if c, err = client.New(again.address, secret); err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context()); err != nil {
		t.Error(err)
	}
	list, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "key", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(string(list), " ")
	if out, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "key", "revoke", id).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		var p *client.Problem
		if _, err := c.List(t.Context()); errors.As(err, &p) && p.Code == "key" {
			tick.Stop()
			break
		}
		select {
		case <-tick.C:
			continue
		case <-deadline:
			t.Fatal("the key is still good")
		}
	}
	if err := again.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestDaemonPosture: a daemon that was started as root serves as another user,
// without a capability or a group; what it
// wrote is that user's alone.
func TestDaemonPosture(t *testing.T) {
	bin := binaries(t)
	conf, state := stand(t)
	if err := errors.Join(os.Chmod(filepath.Dir(conf), 0o711), os.Chmod(filepath.Dir(filepath.Dir(conf)), 0o711)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(conf, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, "serve: {user: nobody}\n")
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, bin, conf, "--dev")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nUid:\t65534\t65534\t65534\t65534\n", "\nGid:\t65534\t65534\t65534\t65534\n", "\nGroups:\t \n",
		"\nCapInh:\t0000000000000000\n", "\nCapPrm:\t0000000000000000\n", "\nCapEff:\t0000000000000000\n", "\nCapAmb:\t0000000000000000\n", "\nNoNewPrivs:\t1\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	entries, err := os.ReadDir(state)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was there for a moment
		}
		if err != nil || info.Mode().Perm()&0o077 != 0 || info.Sys().(*syscall.Stat_t).Uid != 65534 {
			t.Errorf("%s: %v %v", e.Name(), info, err)
		}
	}
	key := secretOf(t, bin, conf, "call") // by root, whose commands are that user's then
	until(t, func() string { return "a key that root made is no good" }, func() bool {
		status, _, _ := ask(t, d, "GET", "/v1/levels", key, "")
		return status == 200
	})
	for _, args := range [][]string{{"audit", "verify"}, {"usage"}, {"image", "list"}, {"image", "gc", "--dry-run"}, {"workspace", "list"}, {"workspace", "gc"}} {
		if out, err := exec.Command(filepath.Join(bin, "callcell"), append([]string{"--config", conf}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("%q by root: %v\n%s", args, err, out)
		}
	}
	all := fs.WalkDir(os.DirFS(state), ".", func(name string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was there for a moment
		}
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != 65534 {
			err = fmt.Errorf("%s is another's", name)
		}
		return err
	})
	if err := errors.Join(all, d.end(syscall.SIGTERM)); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	other := startDaemon(t, bin, conf, "--dev") // over a state that is there
	if err := other.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestDevKeysEnd: a key for trying it out ends with its daemon, killed or not.
func TestDevKeysEnd(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	d := startDaemon(t, bin, conf, "--dev")
	_ = d.end(syscall.SIGKILL) // that is how it ended
	_, secret, _ := strings.Cut(strings.Join(d.log, "\n"), "a key for this run: ")
	secret, _, _ = strings.Cut(secret, "\n")
	after := startDaemon(t, bin, conf)
	c, err := client.New(after.address, secret)
	if err != nil {
		t.Fatal(err)
	}
	var p *client.Problem
	if _, err := c.List(t.Context()); !errors.As(err, &p) || p.Code != "key" {
		t.Errorf("the key %.8s... of a daemon that was killed: %v", secret, err)
	}
	if err := after.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
