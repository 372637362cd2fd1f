package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/helpers"
)

// clients installs the clients of others, once, and returns where.
var clients = sync.OnceValues(func() (string, error) { return helpers.Fetched("locked", "internal/e2e/testdata/clients") })

// orSkip fails the test where there is an error. It skips it where that is for
// want of a registry.
func orSkip(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, helpers.ErrUnreachable) {
		t.Skipf("what comes from a registry is not tried: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func installed(t testing.TB) string {
	t.Helper()
	dir, err := clients()
	orSkip(t, err)
	return dir
}

// seen is what a client says it saw of one call.
type seen struct {
	IsError                      bool
	Level, Outcome, Reason, Hint string
	Stdout                       int64
	Text                         int
	Said                         string
	Progress                     int
}

// A foreign is a client of others, and how it is started.
type foreign struct {
	name string
	argv []string
}

// others are those that are tried at a level. What differs between them is the same
// at every one.
func others(level string) []foreign {
	all := []foreign{
		{"TypeScript SDK 1", []string{"node", "testdata/clients/client.mjs", "v1"}},
		{"TypeScript SDK 2", []string{"node", "testdata/clients/client.mjs", "v2"}},
		{"Python SDK, the newest revision", []string{"python3", "testdata/clients/client.py", "auto"}},
		{"Python SDK, an older revision", []string{"python3", "testdata/clients/client.py", "legacy"}},
	}
	if level != "container" {
		return all[1:2]
	}
	return all
}

// TestMCPClients: the SDKs of others list our tools, call them, read a file
// that came out, and cancel; what goes wrong is a typed error and the server
// lives.
func TestMCPClients(t *testing.T) {
	dir := installed(t)
	atLevels(t, func(t *testing.T, first *stand) {
		for _, c := range others(first.level) {
			t.Run(c.name, func(t *testing.T) {
				s := first.again(t)
				cmd := exec.Command(c.argv[0], append(c.argv[1:], s.mcpCommand("--task", "client")...)...)
				cmd.Env = append(cmd.Environ(), "CLIENTS="+dir, "PYTHONPATH="+filepath.Join(dir, "python"))
				s.checkSeen(s.watch(cmd, s.world.Start))
				s.rows("client", 7)
			})
		}
	})
}

// watch runs a client. Soon after its word that a call was cancelled, the program
// of that call is dead; TestMCPCancel is about how soon.
func (s *stand) watch(cmd *exec.Cmd, start func(*exec.Cmd) error) map[string]json.RawMessage {
	t := s.t
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	all := map[string]json.RawMessage{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &all); err != nil {
			t.Errorf("%q: %v", lines.Text(), err)
		}
		if strings.HasPrefix(lines.Text(), `{"cancelled"`) {
			until(t, "the cell of a cancelled call is dead", time.Minute, func() bool { return len(s.alive("sleep 4242")) == 0 })
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return all
}

func (s *stand) checkSeen(all map[string]json.RawMessage) {
	t := s.t
	t.Helper()
	var tools []string
	if err := json.Unmarshal(all["tools"], &tools); err != nil || !slices.Equal(tools, []string{"fetch", "list_profiles", "run_code", "run_command"}) {
		t.Errorf("tools %q, %v", tools, err)
	}
	var file string
	if err := json.Unmarshal(all["file"], &file); err != nil || !strings.HasPrefix(file, "[untrusted ") || !strings.Contains(file, "]\nnamed out.txt\n\nseven\n[end") {
		t.Errorf("file %q, %v", file, err)
	}
	for name, want := range map[string]seen{
		"answer":    {Level: s.level, Outcome: "completed", Said: "42\n"},
		"print":     {Level: s.level, IsError: true, Outcome: "output"},
		"hang":      {Level: s.level, IsError: true, Outcome: "wall_time"},
		"crash":     {Level: s.level, IsError: true, Outcome: "signalled"},
		"refusal":   {IsError: true, Reason: "policy"},
		"cancelled": {Progress: 2},
		"after":     {Level: s.level, Outcome: "completed"},
	} {
		var got seen
		if err := json.Unmarshal(all[name], &got); err != nil {
			t.Errorf("%s: %v: %s", name, err, all[name])
			continue
		}
		if (got.Hint != "") != (want.Reason != "") || got.Text > 100<<10 || name == "print" && got.Stdout < 64<<20 {
			t.Errorf("%s: %+v", name, got)
		}
		got.Stdout, got.Text, got.Hint = 0, 0, ""
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestMCPInspector: the inspector's command line lists our tools and calls them.
func TestMCPInspector(t *testing.T) {
	cli := filepath.Join(installed(t), "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js")
	s := usual(t)
	argv := s.mcpCommand("--task", "inspector")
	conf, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"callcell": map[string]any{"command": argv[0], "args": argv[1:]}}})
	if err != nil {
		t.Fatal(err)
	}
	file := s.write("inspector.json", string(conf))
	for _, c := range []struct{ args, says string }{
		{"--method tools/list", `"name": "run_command"`},
		{"--method tools/call --tool-name run_code --tool-arg language=python --tool-arg code=print(6*7)", `"text": "42\n"`},
		{`--method tools/call --tool-name run_command --tool-arg argv=["echo","hi"]`, `"text": "hi\n"`},
	} {
		cmd := exec.Command("node", append([]string{cli, "--cli", "--config", file, "--server", "callcell"}, strings.Fields(c.args)...)...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := s.world.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), c.says) || !json.Valid(out.Bytes()) {
			t.Errorf("%s: %v\n%s\n%s", c.args, err, out.String(), stderr.String())
		}
	}
	s.rows("inspector", 2)
}
