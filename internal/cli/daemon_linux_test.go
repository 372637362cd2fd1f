package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

// nobody is a user without rights; which one does not matter.
const nobody = 65534

// visitor is a user of this host without root, whose configuration names a
// daemon.
type visitor struct {
	t         *testing.T
	dir, conf string
	callcell  string
}

// visit makes one. His copy of the command stands alone: no helper is beside it.
func visit(t *testing.T, bin, address, secret string) *visitor {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "callcell-visitor-") // every directory above is root's, and open
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	v := &visitor{t: t, dir: dir, conf: filepath.Join(dir, "callcell.yaml"), callcell: filepath.Join(dir, "callcell")}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(bin, "callcell"), v.callcell); err != nil {
		program, err := os.ReadFile(filepath.Join(bin, "callcell"))
		if err != nil {
			t.Fatal(err)
		}
		v.write("callcell", string(program), 0o755)
	}
	v.write("key", secret, 0o600)
	v.configure(address)
	return v
}

func (v *visitor) write(name, text string, mode os.FileMode) {
	v.t.Helper()
	path := filepath.Join(v.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		v.t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, mode), os.Chown(path, nobody, nobody)); err != nil {
		v.t.Fatal(err)
	}
}

func (v *visitor) configure(address string) {
	v.write("callcell.yaml", fmt.Sprintf("version: 1\nstate: %s/state\ndaemon: {address: %q, key: 'file:%s/key'}\n", v.dir, address, v.dir), 0o600)
}

func (v *visitor) command(args ...string) *exec.Cmd {
	cmd := exec.Command(v.callcell, append([]string{"--config", v.conf}, args...)...)
	cmd.Dir = v.dir
	cmd.Env = []string{"HOME=" + v.dir, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// does runs a command, and holds its exit status and what it says to what is
// wanted.
func (v *visitor) does(status int, stdout, stderr string, args ...string) {
	v.t.Helper()
	cmd := v.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the status says it
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(out.String(), stdout) || !strings.Contains(errs.String(), stderr) {
		v.t.Errorf("%q: status %d, want %d\nstdout (want %q): %s\nstderr (want %q): %s", args, got, status, stdout, out.String(), stderr, errs.String())
	}
}

// TestDaemonMakesTheCallsOfCommands has a user without any right run calls by a
// daemon that his configuration names: by its profiles, with its rows; and by
// nothing else when it is gone.
func TestDaemonMakesTheCallsOfCommands(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	secret := secretOf(t, bin, conf, "call")
	d := startDaemon(t, bin, conf)
	v := visit(t, bin, d.address, secret+"\n")
	v.write("main.py", "print(6*7)\n", 0o600)
	v.write("words.txt", "a colour\n", 0o600)

	v.does(0, "42\n", "", "run", "--lang", "python", "main.py")
	v.does(3, "", "", "run", "--", "sh", "-c", "exit 3")
	v.does(0, "9 words.txt", "row ", "run", "-v", "--in", "words.txt", "--", "wc", "-c", "words.txt")
	v.does(124, "", "wall", "run", "--timeout", "300ms", "--", "sleep", "60")
	v.does(121, "", "the profile allows", "run", "--memory", "4Gi", "--", "true")
	v.does(121, "", "may not use the profile", "run", "--profile", "none", "--", "true")
	v.does(120, "", "its profiles say what", "run", "--envelope", "main.py", "--", "true")
	v.does(121, "", "policy", "fetch", "https://example.com/")
	v.does(0, "level      container", "", "explain", "--", "true")
	v.does(0, "+ ", "", "explain", "--", "true")
	v.tree()
	v.hook()
	v.rows(conf, bin)
	v.interrupt()

	if _, err := os.Stat(filepath.Join(v.dir, "state", "audit.db")); err == nil {
		t.Error("there is a log of calls here too")
	}
	v.write("key", "cck_nosuchkey", 0o600)
	v.does(121, "", "see that daemon.key leads to a key", "run", "--", "true")
	v.write("key", secret, 0o644)
	v.does(122, "", "daemon.key: file:"+v.dir+"/key: everybody can read it", "run", "--", "true")
	v.write("key", secret+"\n\n", 0o600)
	v.does(122, "", "daemon.key: file:"+v.dir+"/key: what it has is no key", "run", "--", "true")
	v.does(122, "daemon.key: file:"+v.dir+"/key: what it has is no key", "", "explain", "--", "true")
	v.does(0, "work-read", "who runs it takes the profiles", "init")
	v.does(0, "", "these are of this host and user; those of the daemon at "+d.address, "levels")
	v.does(0, "", "the daemon at "+d.address+" has its own: GET /v1/images", "image", "list")
	v.does(0, "", "the daemon at "+d.address+" has its own: GET /v1/usage", "usage")
	v.write("key", secret, 0o600)
	v.configure("https" + strings.TrimPrefix(d.address, "http"))
	v.does(122, "", "daemon.address is http where", "run", "--", "true")
	v.configure(d.address)
	if err := d.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	v.does(122, "", "does not answer", "run", "--trust", "reviewed", "--", "true")
	v.does(122, "", "does not answer", "fetch", "https://example.com/")
	v.does(122, "does not answer", "", "explain", "--", "true")
	v.does(122, `"reason":"setup"`, "", "run", "--json", "--", "true")
}

// tree has a tree changed: it goes to the daemon, and comes back as changes.
func (v *visitor) tree() {
	v.t.Helper()
	dir := filepath.Join(v.dir, "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		v.t.Fatal(err)
	}
	v.write("project/doc.txt", "colour\n", 0o644)
	v.does(0, "", "doc.txt", "run", "-v", "--apply", "--tree", dir, "--", "sed", "-i", "s/colour/color/", "doc.txt")
	text, err := os.ReadFile(filepath.Join(dir, "doc.txt"))
	if err != nil || string(text) != "color\n" {
		v.t.Errorf("the tree has %q, %v", text, err)
	}
}

// hook has an assistant's shell command run by the daemon, as long as that lets
// any run.
func (v *visitor) hook() {
	v.t.Helper()
	cmd := v.command("hook", "claude-code", "--project", filepath.Join(v.dir, "project"), "--mode", "answer")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id": "s", "cwd": %q, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "cat doc.txt"}}`, filepath.Join(v.dir, "project")))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "color") || !strings.Contains(string(out), "Exit status 0") {
		v.t.Errorf("%s %v", out, err)
	}
}

// rows looks for the calls in the daemon's log: each is there, of the key.
func (v *visitor) rows(conf, bin string) {
	v.t.Helper()
	out, err := v.command("run", "--json", "--task", "mine", "--", "true").Output()
	if err != nil {
		v.t.Fatal(err)
	}
	var r envelope.Result
	if err := json.Unmarshal(out, &r); err != nil {
		v.t.Fatal(err)
	}
	row, err := exec.Command(filepath.Join(bin, "callcell"), "--config", conf, "audit", "show", r.ID).CombinedOutput()
	if err != nil || !strings.Contains(string(row), "load") || !strings.Contains(string(row), "mine") {
		v.t.Errorf("%s %v", row, err)
	}
}

// interrupt has the user interrupt his call: it ends, at the daemon too.
func (v *visitor) interrupt() {
	v.t.Helper()
	const sleep = "86399.75" // nobody else does
	sleeps := func() bool {
		return len(processes(func(_, cmdline string) bool { return strings.HasPrefix(cmdline, "sleep "+sleep) })) > 0
	}
	cmd := v.command("run", "--", "sleep", sleep)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.until("the program runs", sleeps)
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 || !strings.Contains(errs.String(), "cancelled") {
		v.t.Errorf("status %d: %s", got, errs.String())
	}
	v.until("the program is gone", func() bool { return !sleeps() })
}

func (v *visitor) until(what string, is func() bool) {
	v.t.Helper()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-late:
			v.t.Fatalf("waited for: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
