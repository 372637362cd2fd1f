package source

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/testing/leak"
)

// script makes a program of lines of shell.
func script(t *testing.T, lines ...string) string {
	t.Helper()
	return write(t, "#!/bin/sh\n"+strings.Join(lines, "\n")+"\n", 0o700)
}

func TestCommand(t *testing.T) {
	leak.Check(t)
	set := newSet(t, Settings{}, Host{Home: "/home-of-ours"})
	long := script(t, `head -c `+strconv.Itoa(secret.MaxBytes)+` /dev/zero | tr '\0' x; printf '\r\n'`)
	for _, c := range []struct {
		name, words, want string
	}{
		{"what it writes", script(t, "echo s3cr3t"), "s3cr3t"},
		{"its standard error is another thing", script(t, "echo noise >&2", "printf s3cr3t"), "s3cr3t"},
		{"its words", script(t, `printf '%s|' "$@"`) + ` a 'b c' $HOME "*"`, "a|b c|$HOME|*|"},
		{"nothing to read", script(t, "cat; printf s3cr3t"), "s3cr3t"},
		{"where it runs", script(t, "pwd"), "/"},
		{"as long as goes", long, strings.Repeat("x", secret.MaxBytes)},
		{"a child that stays, in its group", script(t, "sleep 600 &", "printf s3cr3t"), "s3cr3t"},
	} {
		if got, g, err := fetch(t, set, "command:"+c.words); err != nil || got[""] != c.want || g.TTL != 0 {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// TestCommandEnvironment: nothing of this process's environment gets there.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("CANARY_TOKEN", "abc")
	t.Setenv("LD_PRELOAD", "")
	set := newSet(t, Settings{}, Host{Home: "/home-of-ours"})
	got, _, err := fetch(t, set, "command:/usr/bin/env", "read", "write")
	want := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nLANG=C.UTF-8\nCALLCELL_CALL=call-1\nHOME=/home-of-ours\nCALLCELL_SCOPES=read write"
	if err != nil || got[""] != want {
		t.Errorf("%s, %v", got[""], err)
	}
}

func TestCommandFaults(t *testing.T) {
	leak.Check(t)
	set := newSet(t, Settings{}, Host{})
	for _, c := range []struct {
		name, words string
		reason      Reason
	}{
		{"an error", script(t, "echo s3cr3t", "echo s3cr3t-error >&2", "exit 3"), Failed},
		{"a signal", script(t, "kill -9 $$"), Failed},
		{"nothing written", script(t, "true"), Invalid},
		{"too much written", script(t, "exec cat /dev/zero"), Invalid},
		{"a little too much written", script(t, `head -c `+strconv.Itoa(secret.MaxBytes+1)+` /dev/zero`), Invalid},
		{"no program", "/no/such/program", Absent},
		{"not executable", write(t, "echo x", 0o600), Failed},
		{"not a program", write(t, "\x7fELF", 0o700), Failed},
		{"others can write it", write(t, "#!/bin/sh\necho x", 0o722), Unsafe},
		{"a directory", t.TempDir(), Invalid},
		{"not from / on", "echo x", Invalid},
		{"a quote that is not closed", "/bin/echo 'x", Invalid},
		{"nothing", " ", Invalid},
	} {
		_, _, err := fetch(t, set, "command:"+c.words)
		wantFault(t, c.name, err, Command, c.reason)
		if err != nil && (strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "/tmp")) {
			t.Errorf("%s: the error says too much: %v", c.name, err)
		}
	}
}

// TestCommandIsEndedInTime, with everything that it started in its group. One
// that leaves the group keeps nobody waiting.
func TestCommandIsEndedInTime(t *testing.T) {
	leak.Check(t)
	set := newSet(t, Settings{}, Host{})
	pids := filepath.Join(t.TempDir(), "pids")
	hangs := script(t, "echo $$ >> "+pids, "(trap '' TERM; echo $$; exec sleep 600) & echo $! >> "+pids, "trap '' TERM INT HUP", "echo half-a-secret", "wait")
	src, err := set.Open(envelope.Credential{Source: "command:" + hangs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if text, _ := os.ReadFile(pids); strings.Count(string(text), "\n") == 2 {
				cancel()
			}
		}
	}()
	_, err = src.Fetch(ctx, Request{Fields: []string{""}})
	wantFault(t, "one that hangs", err, Command, Timeout)
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(word)
		if !gone(t, pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// TestCommandDiesWithUs kills a process that waits for a command: the command is
// dead too.
func TestCommandDiesWithUs(t *testing.T) {
	const front = "CALLCELL_TEST_FRONT"
	if words := os.Getenv(front); words != "" {
		_, _, _ = fetch(t, newSet(t, Settings{}, Host{}), words) // we are killed meanwhile
		return
	}
	pids := filepath.Join(t.TempDir(), "pids")
	us := exec.Command(os.Args[0], "-test.run=^TestCommandDiesWithUs$")
	us.Env = append(us.Environ(), front+"=command:"+script(t, "echo $$ > "+pids, "exec sleep 600"))
	if err := us.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	await(t, "the command begins", func() bool {
		text, _ := os.ReadFile(pids) // not there yet
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		pid = n
		return err == nil
	})
	if err := us.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = us.Wait() // killed
	await(t, "the command is dead", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // nobody may have waited for it
	})
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-late:
			t.Fatal("waited for: " + what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestCommandThatLeavesAChild(t *testing.T) {
	leak.Check(t)
	set := newSet(t, Settings{}, Host{})
	pids := filepath.Join(t.TempDir(), "pids")
	leaves := script(t, "setsid sh -c 'echo $$ > "+pids+"; exec sleep 600' &", "while ! test -s "+pids+"; do :; done", "echo s3cr3t")
	begin := time.Now()
	got, _, err := fetch(t, set, "command:"+leaves)
	if err != nil || got[""] != "s3cr3t" || time.Since(begin) > time.Minute {
		t.Errorf("%q, %v after %s", got, err, time.Since(begin))
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("the child that left its group: %v", err)
	}
}

// gone waits until a process is dead, or a zombie that waits for its parent.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}
