package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/internal/mcp"
)

// A server is a callcell mcp in near, and what a client sees of it.
type server struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	stderr *bytes.Buffer
	ended  func() error // waits for it; may be called more than once
}

// mcpCommand is the command line of a server.
func (s *stand) mcpCommand(args ...string) []string {
	s.t.Helper()
	return s.mcpServer(s.profiles(), args...)
}

// mcpServer is that of one with profiles of its own.
func (s *stand) mcpServer(profiles string, args ...string) []string {
	s.t.Helper()
	conf := s.write("mcp.yaml", s.text+profiles)
	return append(append(slices.Clone(s.wrap), filepath.Join(s.bin, "callcell"), "--config", conf, "mcp"), args...)
}

func (s *stand) serve(args ...string) *server {
	s.t.Helper()
	argv := s.mcpCommand(args...)
	v := &server{t: s.t, cmd: exec.Command(argv[0], argv[1:]...), stderr: &bytes.Buffer{}}
	v.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir}
	v.cmd.Stderr = v.stderr
	in, err := v.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	r, w, err := os.Pipe() // and not StdoutPipe, which Wait closes
	if err != nil {
		s.t.Fatal(err)
	}
	v.in, v.out, v.cmd.Stdout = in, r, w
	if err := s.world.Start(v.cmd); err != nil {
		s.t.Fatal(err)
	}
	w.Close()
	v.ended = sync.OnceValue(v.cmd.Wait)
	s.t.Cleanup(func() {
		in.Close()
		if err := v.ended(); err != nil {
			s.t.Errorf("callcell mcp: %v\n%s", err, v.stderr)
		}
		r.Close()
	})
	return v
}

// session is a client of the Go SDK.
func (v *server) session() *sdk.ClientSession {
	v.t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := c.Connect(context.Background(), &sdk.IOTransport{Reader: io.NopCloser(v.out), Writer: v.in}, nil)
	if err != nil {
		v.t.Fatalf("%v\n%s", err, v.stderr)
	}
	return session
}

// sh runs a script of the shell and returns the answer.
func sh(t testing.TB, s *sdk.ClientSession, code string, more map[string]any) (*mcp.Answer, bool) {
	t.Helper()
	args := map[string]any{"language": "sh", "code": code}
	for k, v := range more {
		args[k] = v
	}
	return called(t, s, "run_code", args)
}

func called(t testing.TB, s *sdk.ClientSession, tool string, args map[string]any) (*mcp.Answer, bool) {
	t.Helper()
	r, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var a mcp.Answer
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &a, r.IsError
}

// inCells are the processes with exactly this command line that are no client's.
func inCells(line string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.TrimRight(strings.ReplaceAll(string(data), "\x00", " "), " ") == line {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// nap is a program of this run of the tests alone, by a number that no other
// test has.
func nap(n int) string { return fmt.Sprintf("sleep %d.%d", n, os.Getpid()) }

// until waits for something for at most so long.
func until(t testing.TB, what string, most time.Duration, done func() bool) {
	t.Helper()
	deadline := time.After(most)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s", what, most)
		case <-tick.C:
		}
	}
}

// TestMCPHardships: what goes wrong in a cell is a typed error of the tool, and
// the server lives.
func TestMCPHardships(t *testing.T) { atLevels(t, mcpHardships) }

func mcpHardships(t *testing.T, s *stand) {
	t.Helper()
	session := s.serve("--task", "hard").session()
	for _, c := range []struct {
		name, code string
		more       map[string]any
		outcome    string
		failed     bool
	}{
		{"an exit code is no error", "exit 3", nil, "completed", false},
		{"200 MB on stdout", "yes | head -c 200000000", nil, "output", true},
		{"200 MB on stderr", "yes >&2 | head -c 200000000 >&2; yes >&2", nil, "output", true},
		{"a hang", "sleep 600", map[string]any{"narrow": map[string]any{"resources": map[string]any{"wall": "700ms"}}}, "wall_time", true},
		{"a hang that ignores TERM", "trap '' TERM INT; while :; do sleep 600; done", map[string]any{"narrow": map[string]any{"resources": map[string]any{"wall": "700ms"}}}, "wall_time", true},
		{"a crash", "kill -SEGV $$", nil, "signalled", true},
		{"all of the memory", "exec python3 -c 'x = bytearray(1 << 30)'", nil, "memory", true},
	} {
		a, failed := sh(t, session, c.code, c.more)
		if a.Outcome != c.outcome || failed != c.failed || len(a.Left) > 0 {
			t.Errorf("%s: %+v, error %v", c.name, a, failed)
		}
		if a.Level != s.level {
			t.Errorf("%s: at %s", c.name, a.Level)
		}
		if a.Untrusted == nil || len(a.Untrusted.Stdout.Text)+len(a.Untrusted.Stderr.Text) > 80<<10 {
			t.Errorf("%s: more is shown than may be", c.name)
		}
	}
	if a, failed := sh(t, session, "echo alive", nil); failed || a.Untrusted.Stdout.Text != "alive\n" || a.Task != "hard" {
		t.Errorf("%+v", a)
	}
	s.rows("hard", 8)
}

// rows fails the test where the log has not so many rows of a task.
func (s *stand) rows(task string, want int) {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "audit", "list", "--task", task, "--json").Output()
	if got := bytes.Count(out, []byte("\n")); err != nil || got != want {
		s.t.Errorf("task %s has %d rows, want %d; %v\n%s", task, got, want, err, out)
	}
}

// TestMCPCrashOfTheCell: the first process of a cell is killed from outside.
func TestMCPCrashOfTheCell(t *testing.T) { atLevels(t, mcpCrashOfTheCell) }

func mcpCrashOfTheCell(t *testing.T, s *stand) {
	t.Helper()
	session, m := s.serve().session(), s.world.Mark(t)
	line := nap(4301)
	killed := make(chan bool, 1)
	go func() {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
			if pid := s.first(line); pid > 0 && s.said(m, line) {
				killed <- syscall.Kill(pid, syscall.SIGKILL) == nil
				return
			}
		}
		killed <- false
	}()
	a, failed := sh(t, session, s.saying(line), map[string]any{"profile": "web"})
	if !<-killed || !failed || a.Outcome != "broken" || a.Level != s.level {
		t.Errorf("%+v", a)
	}
	until(t, "the program of the cell is dead", time.Minute, func() bool { return len(s.alive(line)) == 0 })
	if a, failed := sh(t, session, "echo alive", nil); failed {
		t.Errorf("%+v", a)
	}
}

// TestMCPCancel: the cell is dead within a second of the client's word. A machine
// that does much else may be late; it is not every time.
func TestMCPCancel(t *testing.T) { atLevels(t, mcpCancel) }

func mcpCancel(t *testing.T, s *stand) {
	t.Helper()
	session := s.serve().session()
	const soon = time.Second
	best := time.Hour
	for i := range 20 {
		if best = min(best, s.cancelled(session, i)); best < soon {
			break
		}
	}
	if best >= soon {
		t.Errorf("dead %s after the client's word, at best", best)
	}
	t.Logf("dead %s after the client's word, at best", best)
	if a, failed := sh(t, session, "echo alive", nil); failed {
		t.Errorf("%+v", a)
	}
}

// cancelled cancels a call that runs, the i-th of the test, and returns how long its
// program lived on.
func (s *stand) cancelled(session *sdk.ClientSession, i int) time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := s.hang(ctx, session, nap(43020+i))
	began := time.Now()
	cancel()
	until(s.t, "it is dead", time.Minute, func() bool { return len(s.alive(h.line)) == 0 })
	took := time.Since(began)
	if err := <-h.ended; err == nil {
		s.t.Error("a cancelled call has an answer")
	}
	return took
}

// TestMCPEnds: the end of input, and a signal, end calls and server with
// status 0, and nothing is left of either.
func TestMCPEnds(t *testing.T) { atLevels(t, mcpEnds) }

func mcpEnds(t *testing.T, first *stand) {
	t.Helper()
	for i, c := range []struct {
		name string
		end  func(*server)
	}{
		{"the end of input", func(v *server) { v.in.Close() }},
		{"a signal", func(v *server) { _ = v.cmd.Process.Signal(syscall.SIGTERM) }},
		{"a client that is gone", func(v *server) { v.out.(*os.File).Close(); v.in.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := first.again(t)
			v := s.serve("--task", "end")
			h := s.hang(context.Background(), v.session(), nap(4310+i))
			c.end(v)
			ended := make(chan error, 1)
			go func() { ended <- v.ended() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%v\n%s", err, v.stderr)
				}
			case <-time.After(time.Minute):
				t.Fatal("the server lives on")
			}
			if pids := s.alive(h.line); len(pids) > 0 {
				t.Errorf("left: %v", pids)
			}
			s.rows("end", 1)
		})
	}
}

// TestMCPStandardOutput has messages of the protocol and nothing else, whatever
// the client sends.
func TestMCPStandardOutput(t *testing.T) {
	s := usual(t)
	v := s.serve("-v")
	go func() {
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"\u001b[31m\u202ex","version":"0"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			"\x00\xff\xfe", "{", "[[[[", `{"jsonrpc":"1.0"}`, `{"jsonrpc":"2.0","id":{},"method":1}`, `{"jsonrpc":"2.0","id":2,"method":"no/such"}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"run_code","arguments":[]}}`,
			`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run_code","arguments":"x"}}`,
			`{"a":"` + strings.Repeat("x", mcp.MaxMessage) + `"}`,
			`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"sh","code":"printf '{\"jsonrpc\":\"2.0\",\"id\":1}\\n'"}}}`,
		} {
			if _, err := io.WriteString(v.in, line+"\n"); err != nil {
				return
			}
		}
	}()
	lines := bufio.NewScanner(v.out)
	lines.Buffer(nil, 1<<20)
	answers := map[string]bool{}
	for !answers["99"] && lines.Scan() {
		var m struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  struct {
				ProtocolVersion string `json:"protocolVersion"`
				IsError         bool   `json:"isError"`
			} `json:"result"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.Version != "2.0" {
			t.Errorf("not a message: %q", lines.Text())
		}
		answers[string(m.ID)] = true
		if string(m.ID) == "1" && m.Result.ProtocolVersion != "2024-11-05" {
			t.Errorf("an older revision is not taken: %s", lines.Text())
		}
		if id := string(m.ID); (id == "4" || id == "5") && !m.Result.IsError {
			t.Errorf("%s", lines.Text())
		}
	}
	for _, id := range []string{"1", "2", "4", "5", "99", "null"} {
		if !answers[id] {
			t.Errorf("no answer to %s: %v\n%s", id, answers, v.stderr)
		}
	}
	if strings.ContainsAny(v.stderr.String(), "\x1b\u202e") {
		t.Errorf("stderr: %q", v.stderr)
	}
}

// TestMCPFetchAndNetwork: the way out is the profile's, and what was denied is
// told.
func TestMCPFetchAndNetwork(t *testing.T) { atLevels(t, mcpFetchAndNetwork) }

func mcpFetchAndNetwork(t *testing.T, s *stand) {
	t.Helper()
	session := s.serve().session()
	a, failed := called(t, session, "fetch", map[string]any{"url": "https://allowed.test/echo", "profile": "web", "raw": true})
	if failed || a.Level != "none" || a.Untrusted.Document == nil || a.Untrusted.Document.Status != 200 || a.Untrusted.Document.Body.Text == "" {
		t.Errorf("%+v", a)
	}
	if a, failed := called(t, session, "fetch", map[string]any{"url": "http://169.254.169.254/latest", "profile": "web"}); !failed || a.Ran && a.Untrusted.Document.Failure == "" {
		t.Errorf("%+v", a)
	}
	if a, failed := called(t, session, "fetch", map[string]any{"url": "https://allowed.test/"}); !failed || a.Refusal == nil || a.Refusal.Reason != "policy" {
		t.Errorf("%+v", a)
	}
	a, failed = sh(t, session, "curl -sS -m5 https://denied.test/ ; curl -sS -m20 -k https://allowed.test/echo", map[string]any{"profile": "web"})
	if failed || a.Exit.Code != 0 || !strings.Contains(strings.Join(a.Untrusted.Denied, " "), "denied.test") {
		t.Errorf("%+v %+v", a, a.Untrusted)
	}
	none := map[string]any{"profile": "web", "narrow": map[string]any{"hosts": []any{}}}
	if a, _ := sh(t, session, "curl -sS -m2 -k https://allowed.test/echo", none); a.Exit.Code == 0 {
		t.Errorf("narrowed to no network: %+v", a)
	}
}

// TestMCPOnlyNarrows replays what models ask for: boundary test 4.
func TestMCPOnlyNarrows(t *testing.T) {
	s := usual(t)
	session := s.serve("--profile", "plain", "--profile", "read").session()
	for name, more := range map[string]map[string]any{
		"more memory":      {"narrow": map[string]any{"resources": map[string]any{"memory": "1Gi"}}},
		"a host":           {"narrow": map[string]any{"hosts": []any{map[string]any{"host": "evil.test", "ports": []int{443}}}}},
		"to be reviewed":   {"narrow": map[string]any{"trust": "reviewed"}},
		"no isolation":     {"narrow": map[string]any{"level": "none"}},
		"another profile":  {"profile": "web"},
		"a mount":          {"narrow": map[string]any{"mounts": []string{"etc"}}},
		"a credential":     {"narrow": map[string]any{"credentials": []string{"gh"}}},
		"a host's file":    {"files": []any{map[string]any{"name": "x", "from": "/etc/shadow"}}},
		"a way up":         {"files": []any{map[string]any{"name": "../x", "text": ""}}},
		"a variable":       {"env": map[string]string{"LD_PRELOAD": "x"}},
		"strangers' code":  {"needs": []string{"third-party-code"}},
		"a task of others": {"task": "x"},
	} {
		if a, failed := sh(t, session, "echo ran", more); !failed || a.Ran || a.Refusal == nil || a.Refusal.Hint == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	out, err := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "audit", "list", "--json").Output()
	if err != nil || bytes.Contains(out, []byte(`"outcome"`)) {
		t.Errorf("something ran: %v %s", err, out)
	}
	a, failed := sh(t, session, "echo ran", map[string]any{"profile": "read"})
	if failed || !strings.Contains(string(s.row(a.ID)), `"trust": "model"`) {
		t.Errorf("a profile of reviewed code makes a model's code reviewed: %+v", a)
	}
}

// row is a row of the log, as JSON.
func (s *stand) row(id string) []byte {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "audit", "show", id).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}
