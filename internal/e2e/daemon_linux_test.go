package e2e_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A daemon is a callcell serve, in this host's own network, with a key.
type daemon struct {
	s                *stand
	address, metrics string
	key, keyID       string

	mu    sync.Mutex // guards lines
	lines []string   // of its log
}

// daemon starts one with the profiles of the tests of MCP, and ends it with the
// test. more is of its configuration.
func (s *stand) daemon(t *testing.T, more string) *daemon {
	t.Helper()
	d := &daemon{s: s}
	s.conf = s.write("daemon.yaml", s.text+s.profiles()+more)
	s.cli(t, "team", "create", "blue", "--tier", "enterprise")
	d.key = strings.TrimSpace(s.cli(t, "key", "create", "--team", "blue", "--role", "call", "--profile", "*"))
	d.keyID, _, _ = strings.Cut(s.cli(t, "key", "list"), " ")
	cmd := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "serve", "--log", "json", "--listen", "127.0.0.1:0")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	serving, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if d.heard(lines.Text()) {
				close(serving)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("callcell serve: %v\n%s", err, d.log())
		}
	})
	select {
	case <-serving:
	case <-ended:
		t.Fatalf("it does not serve:\n%s", d.log())
	case <-time.After(time.Minute):
		t.Fatal("it does not serve")
	}
	return d
}

// heard takes a line of the log, and reports whether it says that it serves.
func (d *daemon) heard(text string) (serving bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, text)
	var line struct{ Msg, Address string }
	if json.Unmarshal([]byte(text), &line) != nil {
		return false
	}
	switch line.Msg {
	case "metrics":
		d.metrics = strings.TrimSuffix(strings.TrimPrefix(line.Address, "http://"), "/metrics")
	case "serving":
		d.address = strings.TrimPrefix(line.Address, "http://")
		return true
	}
	return false
}

func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n")
}

// refused is how many requests were refused for where they came from, or what
// they called the daemon.
func (d *daemon) refused() (n int) {
	for line := range strings.Lines(d.log()) {
		if strings.Contains(line, `"status":403`) || strings.Contains(line, `"status":421`) {
			n++
		}
	}
	return n
}

// cli runs a command of the stand's configuration, and returns what it
// prints.
func (s *stand) cli(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "callcell"), append([]string{"--config", s.conf}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("callcell %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// all fails the test where the log has not so many rows.
func (s *stand) all(want int) {
	s.t.Helper()
	if got := strings.Count(s.cli(s.t, "audit", "list", "--json"), "\n"); got != want {
		s.t.Errorf("the log has %d rows, want %d", got, want)
	}
}
