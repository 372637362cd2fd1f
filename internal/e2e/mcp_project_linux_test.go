package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// aProject is a project of two files, below the stand's directory.
func (s *stand) aProject() string {
	s.t.Helper()
	dir := filepath.Join(s.dir, "project")
	for _, d := range []string{"src", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	s.write("project/data.csv", "a,b\n1,2\n3,4\n")
	s.write("project/src/main.py", "import csv\nprint(sum(int(r['a']) for r in csv.DictReader(open('data.csv'))))\n")
	return dir
}

// TestMCPProject: a call runs over the project as it is, what it changed there
// is shown, and nothing of it is applied.
func TestMCPProject(t *testing.T) { atLevels(t, mcpProject) }

func mcpProject(t *testing.T, s *stand) {
	t.Helper()
	dir := s.aProject()
	session := s.serve("--tree", dir, "--task", "project").session()
	a, failed := sh(t, session, "python3 src/main.py && echo 5,6 >> data.csv && echo new > src/new.txt && rm src/main.py", nil)
	if failed || a.Untrusted.Stdout.Text != "4\n" || a.Level != s.level {
		t.Errorf("%+v %+v", a, a.Untrusted)
	}
	if d := a.Untrusted.Diff; d == nil || !strings.Contains(d.Text, "\n+5,6\n") || len(a.Untrusted.Changes) != 3 || a.Untrusted.DiffURI == "" {
		t.Errorf("%+v", a.Untrusted)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "data.csv")); err != nil || string(data) != "a,b\n1,2\n3,4\n" {
		t.Errorf("the project was changed: %q, %v", data, err)
	}
	s.taken(t, session, a.Untrusted.DiffURI, dir)
	s.write("project/data.csv", "a,b\n10,2\n")
	if a, _ := sh(t, session, "python3 src/main.py", nil); a.Untrusted.Stdout.Text != "10\n" || len(a.Untrusted.Changes) != 0 {
		t.Errorf("the project as it was: %+v", a.Untrusted)
	}
	s.rows("project", 2)
}

// taken applies the diff of an answer to a copy of the project, as its user may.
func (s *stand) taken(t *testing.T, session *sdk.ClientSession, uri, dir string) {
	t.Helper()
	whole, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.CopyFS(own, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	apply := exec.Command("git", "apply", "-")
	apply.Dir, apply.Stdin = own, bytes.NewReader(whole.Contents[0].Blob)
	apply.Env = append(apply.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(own))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Errorf("git apply: %v\n%s\n%s", err, out, whole.Contents[0].Blob)
	}
	data, err := os.ReadFile(filepath.Join(own, "data.csv"))
	made, madeErr := os.ReadFile(filepath.Join(own, "src/new.txt"))
	_, gone := os.Stat(filepath.Join(own, "src/main.py"))
	if string(data) != "a,b\n1,2\n3,4\n5,6\n" || string(made) != "new\n" || gone == nil {
		t.Errorf("applied: %q %v, %q %v", data, err, made, madeErr)
	}
}

// TestHookRunsTheShellInACell plays the client: it takes the answer, and runs
// the command in it with its own shell.
func TestHookRunsTheShellInACell(t *testing.T) {
	s := usual(t)
	dir := s.aProject()
	argv := s.mcpCommand() // for its configuration
	argv = append(argv[:len(argv)-1], "hook", "claude-code", "--profile", "plain")
	for _, c := range []struct {
		command, below string
		flags          []string
		status         int
		says           string
		changed        bool
	}{
		{"python3 src/main.py; pwd", "", nil, 0, "4\n/work\n", false},
		{`echo "it's" $((6*7)) > src/x && exit 3`, "", nil, 3, "+it's 42", false},
		{"pwd; cat ../data.csv", "src", nil, 0, "/work/src\na,b\n", false},
		{"pwd", "empty", nil, 0, "/work/empty\n", false},
		{"cat /etc/shadow; ls -a ~", "", nil, 0, "shadow", false},
		{`printf '\033[2J\342\200\256'`, "", nil, 0, `␛[2J\u{202e}`, false},
		{"echo 5,6 >> data.csv", "", []string{"--apply"}, 0, "applied", true},
	} {
		event, err := json.Marshal(map[string]any{"session_id": "s1", "cwd": filepath.Join(dir, c.below), "hook_event_name": "PreToolUse",
			"tool_name": "Bash", "tool_input": map[string]any{"command": c.command, "timeout": 20000}})
		if err != nil {
			t.Fatal(err)
		}
		hook := exec.Command(argv[0], append(argv[1:], c.flags...)...)
		hook.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir, "CLAUDE_PROJECT_DIR=" + dir}
		hook.Stdin = bytes.NewReader(event)
		answer, err := hook.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.command, err)
		}
		var doc struct {
			Output struct {
				Input struct{ Command string } `json:"updatedInput"`
			} `json:"hookSpecificOutput"`
		}
		if err := json.Unmarshal(answer, &doc); err != nil {
			t.Fatal(err)
		}
		shell := exec.Command("/bin/bash", "-c", doc.Output.Input.Command)
		shell.Dir, shell.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir}
		out, _ := shell.CombinedOutput() // its status is looked at
		if got := shell.ProcessState.ExitCode(); got != c.status || !strings.Contains(string(out), c.says) || strings.ContainsAny(string(out), "\x1b\u202e") {
			t.Errorf("%s: status %d\n%s", c.command, got, out)
		}
		data, err := os.ReadFile(filepath.Join(dir, "data.csv"))
		if applied := strings.Contains(string(data), "5,6"); err != nil || applied != c.changed {
			t.Errorf("%s: applied %v: %q, %v", c.command, applied, data, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "src/x")); err == nil {
		t.Error("what was not to be applied was")
	}
	s.rows("claude-code-s1", 7)
}

// TestHookAnswers: with --mode answer the client is told to run nothing, and
// reads what the call wrote.
func TestHookAnswers(t *testing.T) {
	s := usual(t)
	dir := s.aProject()
	argv := s.mcpCommand()
	argv = append(argv[:len(argv)-1], "hook", "codex", "--profile", "plain", "--mode", "answer", "--project", dir)
	hook := exec.Command(argv[0], argv[1:]...)
	hook.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir}
	hook.Stdin = strings.NewReader(`{"session_id":"s2","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"pwd; exit 7"}}`)
	out, err := hook.Output()
	if err != nil || !bytes.Contains(out, []byte(`"permissionDecision":"deny"`)) || !bytes.Contains(out, []byte("Exit status 7")) || !bytes.Contains(out, []byte(`]\n/work\n[end of`)) || bytes.Contains(out, []byte("updatedInput")) {
		t.Errorf("%v\n%s", err, out)
	}
	s.rows("codex-s2", 1)
}
