package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/kept"
	"github.com/callcell/callcell/internal/store"
	"github.com/callcell/callcell/internal/systime"
)

// A disk is a small file system at a path, in a mount namespace of its own, which
// a process holds: nobody else sees it.
type disk struct {
	t      *testing.T
	path   string
	holder *exec.Cmd
}

// newDisk mounts a disk of so many MiB, or skips where that cannot be.
func newDisk(t *testing.T, path string, size int) *disk {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	d := &disk{t: t, path: path, holder: exec.Command("sh", "-c", fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=700 callcell-test %s && echo mounted && exec cat", size, path))}
	d.holder.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	in, err := d.holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.holder.Start(); err != nil {
		t.Skip("no mount namespace of our own here:", err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = d.holder.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		t.Skipf("no file system of our own here: %q %v", line, err)
	}
	return d
}

// command is a command that sees the disk.
func (d *disk) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{fmt.Sprintf("--mount=/proc/%d/ns/mnt", d.holder.Process.Pid), "--", name}, args...)...)
}

// place is where this process finds a file of the disk.
func (d *disk) place(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", d.holder.Process.Pid), d.path, name)
}

// fill takes all the room there is.
func (d *disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.place("ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// free gives it back.
func (d *disk) free() {
	d.t.Helper()
	if err := os.Remove(d.place("ballast")); err != nil {
		d.t.Fatal(err)
	}
}

// copyTo copies the store to a directory.
func (d *disk) copyTo(dir string) {
	d.t.Helper()
	for _, name := range []string{"audit.db", "audit.db-wal"} {
		data, err := os.ReadFile(d.place(name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			d.t.Fatal(err)
		}
	}
}

// A press makes calls without a pause, and knows what became of them.
type press struct {
	mu       sync.Mutex
	answered map[string]bool // ids
	ok, full int             // answers since it was last asked
	odd      []string
}

func (p *press) take(r *envelope.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var problem *client.Problem
	switch {
	case err == nil && r.Receipt == nil && strings.Contains(strings.Join(r.Warnings, " "), "could not be completed"):
		// It ended on the full disk: its row waits, and is lost where that lasts longer than the lease.
	case err == nil:
		p.answered[r.ID] = true
		if r.OK() {
			p.ok++
		}
	case errors.As(err, &problem) && problem.Status == http.StatusServiceUnavailable && problem.Code == "setup" && problem.Retry && strings.Contains(problem.Hint, "make room"):
		p.full++
	default:
		p.odd = append(p.odd, fmt.Sprintf("%v %+v", err, problem))
	}
}

// await waits until so many more calls have been answered that way.
func (p *press) await(t *testing.T, what string, n int, count func() *int) {
	t.Helper()
	p.mu.Lock()
	*count() = 0
	p.mu.Unlock()
	waitUntil(t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return *count() >= n
	})
}

// waitUntil waits for a condition.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within a minute: ", what)
		}
	}
}

// ready asks a daemon whether it is.
func ready(t *testing.T, address string) int {
	t.Helper()
	resp, err := http.Get(address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestDaemonOnAFullDisk fills the disk of a daemon under load, and makes room
// again, twice. Meanwhile calls are refused with what mends it, and it says
// that it is not ready; then they run, without a hand. Every call that was
// answered has its row; the chain is whole; budgets are settled. A daemon that is
// started on a full or a read-only disk says so.
func TestDaemonOnAFullDisk(t *testing.T) {
	bin := binaries(t)
	conf, state := stand(t)
	reviewed(t, conf)
	addTo(t, conf, "health: {disk: 1Mi, inodes: 16}\n") // the disk is small by intent
	d := newDisk(t, state, 128)                         // some hundred calls take 10 to 20, as fast as this host is
	callcell := func(args ...string) (string, error) {
		out, err := d.command(filepath.Join(bin, "callcell"), append([]string{"--config", conf}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := callcell("team", "create", "load", "--tier", "enterprise"); err != nil {
		t.Fatal(out, err)
	}
	secret, err := callcell("key", "create", "--team", "load", "--role", "call")
	if err != nil {
		t.Fatal(secret, err)
	}
	secret = secret[strings.LastIndex(secret, "cck_"):]
	serve := startBy(t, d.command(filepath.Join(bin, "callcell"), serveArgs(conf)...))
	p := &press{answered: map[string]bool{}}
	stop := p.start(t, serve.address, secret)
	for range 2 {
		p.await(t, "calls run", 3, func() *int { return &p.ok })
		d.fill()
		p.await(t, "calls are refused", 5, func() *int { return &p.full })
		waitUntil(t, "it is not ready", func() bool { return ready(t, serve.address) == http.StatusServiceUnavailable })
		d.free()
		p.await(t, "calls run again", 3, func() *int { return &p.ok })
		waitUntil(t, "it is ready", func() bool { return ready(t, serve.address) == http.StatusOK })
	}
	stop()
	if err := serve.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(serve.log, "\n"))
	}
	if len(p.odd) > 0 {
		t.Errorf("%d other answers: %s", len(p.odd), p.odd[0])
	}
	copied := t.TempDir()
	if err := os.Chmod(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	d.copyTo(copied)
	checkLoad(t, copied, p.answered)
	d.startsWithout(bin, conf)
}

// start makes calls until stop is called.
func (p *press) start(t *testing.T, address, secret string) (stop func()) {
	to := connect(t, address, secret)
	end := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(20 * time.Millisecond): // a rate that a key may have
				}
				p.take(to.Run(t.Context(), &envelope.Call{Task: "load", Argv: []string{"echo", "hello"}}))
			}
		})
	}
	return func() {
		close(end)
		all.Wait()
		to.HTTP.CloseIdleConnections()
	}
}

// startsWithout starts daemons on a disk that takes no writes, and one on a disk
// that does again.
func (d *disk) startsWithout(bin, conf string) {
	d.t.Helper()
	remount := func(how string) {
		if out, err := d.command("mount", "-o", "remount,"+how, d.path).CombinedOutput(); err != nil {
			d.t.Fatalf("%v %s", err, out)
		}
	}
	for name, step := range map[string]struct{ before, after func() }{
		"full":      {d.fill, d.free},
		"read-only": {func() { remount("ro") }, func() { remount("rw") }},
	} {
		step.before()
		run := []string{"--config", conf, "run", "--trust", "reviewed", "--level", "container", "--", "echo", "it-ran"}
		for status, args := range map[int][]string{125: serveArgs(conf), 122: run} {
			out, err := d.command(filepath.Join(bin, "callcell"), args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != status || strings.Contains(string(out), "it-ran") || !strings.Contains(string(out), "hint: ") {
				d.t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
		step.after()
	}
	again := startBy(d.t, d.command(filepath.Join(bin, "callcell"), serveArgs(conf)...))
	if err := again.end(syscall.SIGTERM); err != nil {
		d.t.Errorf("%v\n%s", err, strings.Join(again.log, "\n"))
	}
}

// TestDaemonAfterADayBack starts a daemon on what one has left whose clock was a
// day ahead, and died: a call that ran, its reservation, and an idempotency key
// that stands for it. Calls run at once; the rate of the key is not held up by
// calls of tomorrow; what was left is settled, lost, and does not run again.
func TestDaemonAfterADayBack(t *testing.T) {
	bin := binaries(t)
	conf, state := stand(t)
	reviewed(t, conf)
	secret := secretOf(t, bin, conf, "call")
	left := leaveBehind(t, state)
	d := startDaemon(t, bin, conf)
	to := connect(t, d.address, secret)
	answered := map[string]bool{}
	for range 5 {
		r, err := to.Run(t.Context(), &envelope.Call{Task: "load", Argv: []string{"echo", "hello"}})
		if err != nil || !r.OK() || r.Receipt == nil {
			t.Fatalf("%+v %v", r, err)
		}
		answered[r.ID] = true
	}
	list, err := to.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != left || list[0].Outcome != envelope.OutcomeLost {
		t.Errorf("%+v %v", list, err)
	}
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
	checkLoad(t, state, answered)
}

// leaveBehind leaves in a state what a daemon has that dies under a call, whose
// clock is a day ahead, and returns the call's id.
func leaveBehind(t *testing.T, state string) (id string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ahead := later{systime.Clock{}}
	db, err := store.Open(t.Context(), filepath.Join(state, "audit.db"))
	must(err)
	log, err := audit.New(db.Audit(), audit.Options{Clock: ahead})
	must(err)
	id = log.NewID()
	env, call := envelope.Default(), &envelope.Call{Task: "load", Argv: []string{"sleep", "60"}}
	must(log.Intend(t.Context(), audit.IntentOf(id, "key:dead", call, &env, envelope.LevelContainer, nil, nil)))
	keys, err := gateway.NewAdmin(db.Gateway(), nil, ahead).Keys(t.Context(), "load")
	must(err)
	must(db.Gateway().Update(t.Context(), func(tx gateway.Tx) error {
		return tx.Hold(gateway.Admission{ID: id, Key: keys[0].ID, Team: "load", Task: "load", Month: gateway.MonthOf(ahead.Now()), At: ahead.Now(), Arguments: 3, Result: 100, CPU: time.Second})
	}))
	must(db.Kept().Begin(t.Context(), kept.Call{ID: id, Key: keys[0].ID, Team: "load", Name: kept.NameOf(keys[0].ID, "/v1/calls", "k"), Task: "load", Began: ahead.Now()}))
	db.Leave() // as a process that dies
	return id
}
