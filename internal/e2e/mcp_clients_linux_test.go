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

// registryUnreachable is the exit status of scripts/mcp-clients where there is
// no registry.
const registryUnreachable = 75

// clients installs the clients of others, once, and returns where.
var clients = sync.OnceValues(func() (string, error) {
	c := exec.Command(filepath.Join(helpers.Root(), "scripts/mcp-clients"))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
})

func installed(t testing.TB) string {
	t.Helper()
	dir, err := clients()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == registryUnreachable {
		t.Skipf("the registries of npm and Python cannot be reached, so that the clients of others are not tried: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// seen is what a client says it saw of one call.
type seen struct {
	IsError               bool
	Outcome, Reason, Hint string
	Stdout                int64
	Text                  int
	Said                  string
	Progress              int
}

// TestMCPClients: the SDKs of others list our tools, call them, read a file
// that came out, and cancel; what goes wrong is a typed error and the server
// lives.
func TestMCPClients(t *testing.T) {
	dir := installed(t)
	for _, c := range []struct {
		name string
		argv []string
	}{
		{"TypeScript SDK 1", []string{"node", "testdata/clients/client.mjs", "v1"}},
		{"TypeScript SDK 2", []string{"node", "testdata/clients/client.mjs", "v2"}},
		{"Python SDK, the newest revision", []string{"python3", "testdata/clients/client.py", "auto"}},
		{"Python SDK, an older revision", []string{"python3", "testdata/clients/client.py", "legacy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := usual(t)
			cmd := exec.Command(c.argv[0], append(c.argv[1:], s.mcpCommand("--task", "client")...)...)
			cmd.Env = append(cmd.Environ(), "CLIENTS="+dir, "PYTHONPATH="+filepath.Join(dir, "python"))
			checkSeen(t, watch(t, cmd, s.world.Start))
			s.rows("client", 7)
		})
	}
}

// watch runs a client. After its word that a call was cancelled the program of that
// call is dead; TestMCPCancel holds that to a second.
func watch(t *testing.T, cmd *exec.Cmd, start func(*exec.Cmd) error) map[string]json.RawMessage {
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
			until(t, "the cell of a cancelled call is dead", time.Minute, func() bool { return len(inCells("sleep 4242")) == 0 })
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return all
}

func checkSeen(t *testing.T, all map[string]json.RawMessage) {
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
		"answer":    {Outcome: "completed", Said: "42\n"},
		"print":     {IsError: true, Outcome: "output"},
		"hang":      {IsError: true, Outcome: "wall_time"},
		"crash":     {IsError: true, Outcome: "signalled"},
		"refusal":   {IsError: true, Reason: "policy"},
		"cancelled": {Progress: 2},
		"after":     {Outcome: "completed"},
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
