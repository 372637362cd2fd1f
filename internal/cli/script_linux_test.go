package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // to change a log behind its back
)

var update = flag.Bool("update", false, "write what is printed into the scripts of testdata")

// TestScripts runs the real command by the scripts of testdata/script. Beside
// testscript's own commands they have those of commands. Each script has a
// state directory and a configuration of its own, which every callcell of it is
// given.
func TestScripts(t *testing.T) {
	bin := binaries(t)
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Files:         scripts,
		UpdateScripts: *update,
		Cmds:          commands(),
		Setup: func(e *testscript.Env) error {
			own := filepath.Join(e.WorkDir, "bin") // so that what runs can be told from another script's
			if err := link(bin, own); err != nil {
				return err
			}
			e.Setenv("PATH", own+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("HELPERS", own)
			e.Setenv("CONF", filepath.Join(e.WorkDir, "callcell.yaml"))
			e.Setenv("STATE", filepath.Join(e.WorkDir, "state"))
			e.Setenv("TZ", "UTC")
			e.Setenv("LONG", strings.Repeat("n", 255))
			e.Setenv("HOSTILE", "\x1b[31m\u202ex") // turns text red and around
			if err := os.Chmod(e.WorkDir, 0o700); err != nil {
				return err
			}
			text, err := os.ReadFile(e.Getenv("CONF")) // of the script
			if errors.Is(err, os.ErrNotExist) {
				text, err = []byte("version: 1\n"), nil
			}
			if err != nil {
				return err
			}
			text = bytes.ReplaceAll(text, []byte("$WORK"), []byte(e.WorkDir))
			text = fmt.Appendf(text, "state: %s\nhelpers: %s\n", e.Getenv("STATE"), own)
			return errors.Join(os.WriteFile(e.Getenv("CONF"), text, 0o600), os.Chmod(e.Getenv("CONF"), 0o600))
		},
	})
}

// link makes names for the files of a directory in another one. A copy that was
// just written may be busy: another test may have forked meanwhile.
func link(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"callcell", "callcell-launcher", "callcell-egress", "callcell-image", "callcell-init"} {
		if err := os.Link(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"callcell":  func(ts *testscript.TestScript, _ bool, args []string) { exits(ts, 0, args) },
		"exits":     cmdExits,
		"normalise": cmdNormalise,
		"sql":       cmdSQL,
		"signal":    cmdSignal,
		"tty":       cmdTTY,
		"ttyint":    cmdTTYInterrupt,
		"ttysays":   cmdTTYSays,
		"gone":      cmdGone,
		"await":     cmdAwait,
		"end":       cmdEnd,
		"receipt":   cmdReceipt,
		"file":      cmdFile,
		"mode":      cmdMode,
		"fifo":      cmdFifo,
		"only":      cmdOnly,

		"helpers-gone": cmdHelpersGone,
	}
}

// cmdExits runs callcell and wants an exit status:
//
//	exits STATUS ARG...
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: exits STATUS ARG...")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	exits(ts, status, args[1:])
}

func exits(ts *testscript.TestScript, status int, args []string) {
	err := ts.Exec("callcell", append([]string{"--config", ts.Getenv("CONF")}, args...)...)
	got := 0
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.ExitCode() >= 0:
		got = failed.ExitCode()
	case err != nil:
		ts.Fatalf("callcell: %v", err)
	}
	if got != status {
		ts.Fatalf("exit status %d, want %d", got, status)
	}
}

// cmdSQL changes the log behind its back:
//
//	sql STATEMENT
func cmdSQL(ts *testscript.TestScript, _ bool, args []string) {
	// A call may be under way, whose lease is being renewed just now.
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("STATE"), "audit.db")+"?_pragma=busy_timeout(60000)")
	ts.Check(err)
	defer db.Close()
	done, err := db.Exec(strings.Join(args, " "))
	ts.Check(err)
	if n, err := done.RowsAffected(); err == nil {
		ts.Logf("%d rows", n)
	}
}

// awaitTime bounds the commands that wait.
const awaitTime = time.Minute

// cmdSignal runs callcell, sends it a signal when a program sleeps for so long in
// its cell, and wants an exit status; -1 is that the signal has ended it. @FIFO
// waits until somebody reads that named pipe instead.
//
//	signal NAME STATUS SECONDS ARG...
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	c := exec.Command(filepath.Join(ts.Getenv("HELPERS"), "callcell"), append([]string{"--config", ts.Getenv("CONF")}, args[3:]...)...)
	c.Dir, c.Stdout, c.Stderr = ts.MkAbs("."), ts.Stdout(), ts.Stderr()
	ts.Check(startHearing(c))
	ts.Defer(func() { c.Process.Kill() })
	if fifo, ok := strings.CutPrefix(args[2], "@"); ok {
		awaitReader(ts, fifo)
	} else {
		poll(ts, "nobody sleeps "+args[2], func() bool { return len(sleeping(args[2])) > 0 })
	}
	ts.Check(c.Process.Signal(unix.SignalNum("SIG" + args[0])))
	_ = c.Wait() // its status is looked at
	if got := c.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// startHearing starts a program that is ended by the signals that end programs,
// also where the tests were started with some of them ignored (nohup, a job in
// the background), which goes through an exec; a handler does not.
func startHearing(c *exec.Cmd) error {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(heard)
	return c.Start()
}

// cmdAwait waits until a program sleeps for so long in a cell, and cmdEnd ends
// it:
//
//	await SECONDS
//	end SECONDS
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, "nobody sleeps "+args[0], func() bool { return len(sleeping(args[0])) > 0 })
}

func cmdEnd(ts *testscript.TestScript, _ bool, args []string) {
	for _, pid := range sleeping(args[0]) {
		n, err := strconv.Atoi(pid)
		ts.Check(err)
		ts.Check(syscall.Kill(n, syscall.SIGTERM))
	}
}

func sleeping(seconds string) []string {
	return processes(func(_, cmdline string) bool { return cmdline == "sleep "+seconds+" " })
}

// cmdGone waits until no process has the text in its command line:
//
//	gone TEXT
func cmdGone(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, "a process still has "+args[0], func() bool { return len(running(args[0])) == 0 })
}

// cmdHelpersGone waits until nothing runs of what callcell starts: launcher,
// reaper, first process of a cell.
func cmdHelpersGone(ts *testscript.TestScript, _ bool, _ []string) {
	poll(ts, "a helper still runs", func() bool {
		return len(processes(func(exe, _ string) bool { return strings.HasPrefix(exe, ts.Getenv("HELPERS")+"/callcell-") })) == 0
	})
}

// awaitReader waits until somebody has opened a named pipe to read from it,
// and then leaves him waiting.
func awaitReader(ts *testscript.TestScript, fifo string) {
	poll(ts, "nobody reads "+fifo, func() bool {
		f, err := os.OpenFile(ts.MkAbs(fifo), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			ts.Defer(func() { f.Close() })
		}
		return err == nil
	})
}

// running are the processes of cells with the text in their command line: the
// command's own has it as well.
func running(text string) []string {
	return processes(func(exe, cmdline string) bool {
		return filepath.Base(exe) != "callcell" && strings.Contains(cmdline, text)
	})
}

func poll(ts *testscript.TestScript, fault string, done func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), awaitTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			ts.Fatalf("%s after %v", fault, awaitTime)
		case <-tick.C:
		}
	}
}

// cmdFile writes a file with Go's escapes, for bytes that a script cannot
// have; with a number before it, so many times:
//
//	file NAME TEXT [TIMES]
func cmdFile(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	times := 1
	if len(args) > 2 {
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(text, times)), 0o600))
}

// cmdMode wants a file to have a mode:
//
//	mode MODE FILE
func cmdMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// cmdOnly wants a directory to have these names and no other:
//
//	only DIR NAME...
func cmdOnly(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(args[1:])
	if !slices.Equal(got, args[1:]) {
		ts.Fatalf("%s has %q, want %q", args[0], got, args[1:])
	}
}
