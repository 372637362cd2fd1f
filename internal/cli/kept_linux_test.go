package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// says runs a command that is to end well, and returns what it prints.
func (v *visitor) says(args ...string) string {
	v.t.Helper()
	return printed(v.t, v.command(args...))
}

func printed(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", cmd.Args, err, errs.String())
	}
	return string(out)
}

// TestDaemonTellsCommandsWhatItHas has a user without any right look at the rows
// and workspaces of a daemon that his configuration names: he sees what is seen
// where the daemon is, of his own; and when it is gone, nothing.
func TestDaemonTellsCommandsWhatItHas(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	reviewed(t, conf)
	secret, foreign := secretOf(t, bin, conf, "call"), secretOf(t, bin, conf, "call")
	reader := secretOf(t, bin, conf, "read")
	d := startDaemon(t, bin, conf)
	v := visit(t, bin, d.address, foreign)
	v.does(0, "", "", "run", "--task", "theirs", "--", "true")
	v.write("key", secret, 0o600)

	v.keptRows(bin, conf)
	v.keptTrees()
	v.keptThere()
	if _, err := os.Stat(filepath.Join(v.dir, "state", "audit.db")); err == nil {
		t.Error("there is a log of calls here too")
	}
	keptByBoth(t, bin, conf, d.address, secret)
	v.write("key", reader, 0o644)
	v.does(122, "", "daemon.key: file:"+v.dir+"/key: everybody can read it", "audit", "list", "--json")
	v.write("key", reader, 0o600)
	v.does(0, " run theirs", "", "audit", "list", "--task", "theirs")
	v.does(0, "notes@2  ", "", "workspace", "list")
	v.does(121, "", "the key's role is read", "workspace", "export", "notes", "none")
	v.write("key", secret, 0o600)

	if err := d.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"audit", "list"}, {"audit", "show", "01"}, {"audit", "tail"}, {"workspace", "list"}, {"workspace", "show", "notes"},
		{"workspace", "diff", "notes"}, {"workspace", "export", "notes", "out"}, {"workspace", "rm", "notes"}, {"init", "--from-row", "01"}} {
		v.does(122, "", "does not answer", args...)
	}
	v.does(0, "", "no such calls", "audit", "list", "--here")
	v.does(0, "", "no workspaces", "workspace", "--here", "list")
}

// keptRows looks at rows: those of the key are as they are where the daemon is.
func (v *visitor) keptRows(bin, conf string) {
	v.t.Helper()
	var r envelope.Result
	if err := json.Unmarshal([]byte(v.says("run", "--json", "--task", "mine", "--tool", "a<b>&c", "--", "sh", "-c", "echo hi")), &r); err != nil {
		v.t.Fatal(err)
	}
	v.does(3, "", "", "run", "--task", "mine", "--", "sh", "-c", "exit 3")
	there := func(args ...string) string {
		return printed(v.t, exec.Command(filepath.Join(bin, "callcell"), append([]string{"--config", conf}, args...)...))
	}
	for _, args := range [][]string{
		{"audit", "list", "--task", "mine"}, {"audit", "list", "--json", "--task", "mine"}, {"audit", "show", r.ID}, {"audit", "show", "--json", r.ID},
		{"audit", "tail", "--task", "mine"}, {"audit", "tail", "-n", "1", "--json", "--tool", "a<b>&c"}, {"audit", "list", "--limit", "1", "--since", "24h", "--outcome", "completed", "--team", "load", "--task", "mine"},
	} {
		if got, want := v.says(args...), there(args...); got != want || want == "" {
			v.t.Errorf("%q: %s\nwhere the daemon is: %s", args, got, want)
		}
	}
	if got, want := v.says("audit", "show", r.ID[:len(r.ID)-4]), there("audit", "show", r.ID); got != want {
		v.t.Errorf("%s, want %s", got, want)
	}
	v.does(120, "", "ambiguous id: 0 (", "audit", "show", "0")
	v.does(1, "", "no such call: "+r.ID[:len(r.ID)-12]+"000000000000", "audit", "show", r.ID[:len(r.ID)-12]+"000000000000")
	v.does(120, "", "want the beginning of a UUID", "audit", "show", "X")
	v.does(120, "", "want 1 to 1000", "audit", "list", "--limit", "1001")
	v.does(0, "", "no such calls", "audit", "list", "--task", "theirs")
	v.does(0, "", "no such calls", "audit", "list", "--team", "blue")
	v.does(0, "", "no such calls", "audit", "list", "--since", "1h", "--until", "59m")
	v.does(0, "profiles:", "", "init", "--from-row", r.ID)
}

// keptTrees looks at workspaces, takes one out, and removes it.
func (v *visitor) keptTrees() {
	v.t.Helper()
	v.does(0, "", "no workspaces", "workspace", "list")
	v.does(0, "", "version 1 written", "run", "--workspace", "notes", "--", "sh", "-c", `for i in $(seq 40); do echo $i >f$i; done; printf '\0\1' >data; echo 'echo x' >tool; mkdir "a b"; echo 1 >"a b/ž"; echo gone >gone`)
	v.does(0, "", "version 2 written", "run", "--workspace", "notes", "--", "sh", "-c", `for i in $(seq 20); do echo $i more >>f$i; done; printf '\0\2' >data; chmod +x tool; echo 2 >>"a b/ž"; rm gone f40; echo >new`)
	v.does(0, "notes@2  ", "", "workspace", "list")
	v.does(0, "\nnotes@1  ", "", "workspace", "show", "notes")
	v.does(0, `"entries":[{"name":"a b/ž","size":2,"sha256":"`, "", "workspace", "show", "notes@1", "--json")
	v.does(0, "x        7 B  ", "", "workspace", "show", "notes@2")
	v.does(1, "", "no such workspace or version: notes has no version 9", "workspace", "show", "notes@9")
	v.does(1, "", "no such workspace or version: other", "workspace", "diff", "other")
	v.does(0, "", "44 files in", "workspace", "export", "notes@1", "one")
	v.does(0, "", "43 files in", "workspace", "export", "notes", "two")
	v.does(120, "", "nothing is overwritten", "workspace", "export", "notes", "two")
	var d client.WorkspaceDiff
	if err := json.Unmarshal([]byte(v.says("workspace", "diff", "notes@1", "notes@2", "--json")), &d); err != nil || d.From != 1 || d.To != 2 || len(d.Files) != 26 {
		v.t.Errorf("%+v %v", d, err)
	}
	for i, patch := range []string{d.Patch, v.says("workspace", "diff", "notes")} {
		patched(v.t, v.dir, fmt.Sprintf("from%d", i), patch)
	}
	v.does(0, "+21\n", "", "workspace", "diff", "notes@1")
	v.does(120, "", "newest version", "workspace", "rm", "notes@2")
	v.does(0, `{"removed":1}`, "", "workspace", "rm", "notes@1", "--json")
	for range 2 {
		v.does(0, "", "written", "run", "--workspace", "late", "--", "sh", "-c", "echo >>x")
	}
	v.does(0, "@@ -1 +1,2 @@\n", "", "workspace", "diff", "late") // of one file, which is asked for by itself
	v.does(0, "", "2 versions removed; their bytes go when the daemon collects", "workspace", "rm", "late")
}

// patched has git make the second version of the first, by a patch.
func patched(t *testing.T, dir, name, patch string) {
	t.Helper()
	at := filepath.Join(dir, name)
	if out, err := exec.Command("cp", "-r", filepath.Join(dir, "one"), at).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := os.WriteFile(at+".diff", []byte(patch), 0o600); err != nil {
		t.Fatal(err)
	}
	gitIn(t, at, "apply", at+".diff")
	if out, err := exec.Command("diff", "-r", at, filepath.Join(dir, "two")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(at, "tool")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("%v %v", info, err)
	}
}

// TestGitAppliesThePatchOfThisHost: workspace diff --json has it beside the texts
// that are to be read.
func TestGitAppliesThePatchOfThisHost(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	dir := t.TempDir()
	does := func(args ...string) string {
		cmd := exec.Command(filepath.Join(bin, "callcell"), append([]string{"--config", conf}, args...)...)
		cmd.Dir = dir
		return printed(t, cmd)
	}
	does("run", "--trust", "reviewed", "--workspace", "notes", "--", "sh", "-c", `printf '\0\1' >data; echo x >tool; echo 1 >"a b"; echo gone >gone`)
	does("run", "--trust", "reviewed", "--workspace", "notes", "--", "sh", "-c", `printf '\0\2' >data; chmod +x tool; echo 2 >>"a b"; rm gone; echo >new`)
	does("workspace", "export", "notes@1", "one")
	does("workspace", "export", "notes@2", "two")
	var d client.WorkspaceDiff
	if err := json.Unmarshal([]byte(does("workspace", "diff", "notes", "--json")), &d); err != nil || len(d.Files) != 5 || !strings.Contains(d.Files[1].Diff, "binary") {
		t.Errorf("%+v %v", d, err)
	}
	patched(t, dir, "three", d.Patch)
}

// keptByBoth has who runs the daemon name it in the configuration that it has
// itself: with --here the log is looked at that is here, else it is asked.
func keptByBoth(t *testing.T, bin, conf, address, secret string) {
	t.Helper()
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(conf)
	both, key := filepath.Join(dir, "both.yaml"), filepath.Join(dir, "key")
	text = fmt.Appendf(text, "daemon: {address: %q, key: 'file:%s'}\n", address, key)
	if err := errors.Join(os.WriteFile(both, text, 0o600), os.WriteFile(key, []byte(secret), 0o600)); err != nil {
		t.Fatal(err)
	}
	does := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "callcell"), append([]string{"--config", both}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"audit", "verify", "--here"}, {"audit", "list", "--here", "--task", "theirs"}, {"workspace", "list", "--here"}} {
		if out, err := does(args...); err != nil || args[1] == "list" && args[0] == "audit" && !strings.Contains(out, "run theirs") || args[0] == "workspace" && !strings.Contains(out, "no workspaces") {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
	var row audit.Row
	if out, err := does("audit", "list", "--here", "--task", "theirs", "--json"); err != nil || json.Unmarshal([]byte(out), &row) != nil {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := does("init", "--from-row", row.ID, "--here"); err != nil || !strings.Contains(out, "profiles:") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := does("init", "--from-row", row.ID); err == nil || !strings.Contains(out, "no such call") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := does("audit", "verify"); err == nil || !strings.Contains(out, "refused (unsupported): the log is that of the daemon") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := does("workspace", "list"); err != nil || !strings.Contains(out, "notes@2") {
		t.Errorf("%v %s", err, out)
	}
}

// keptThere tries what the daemon is not asked for.
func (v *visitor) keptThere() {
	v.t.Helper()
	for _, args := range [][]string{{"audit", "verify"}, {"audit", "export"}, {"audit", "export", "--format", "events"}, {"audit", "key"}, {"audit", "tail", "-f"},
		{"audit", "prune", "--older-than", "1h"}, {"audit", "erase", "01", "--yes"}, {"workspace", "gc"}} {
		v.does(122, "", "refused (unsupported): the ", args...)
		v.does(122, "", "hint: it is done where the daemon is", args...)
	}
}
