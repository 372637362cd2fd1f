package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// program builds a command of testdata and returns its name.
func program(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		out := filepath.Join(sharedDir, name)
		c := exec.Command("go", "build", "-o", out, "./testdata/"+name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, text)
		}
		return out, nil
	})
}

var houseProgram = program("house")

// A house is a process in near that lives on between calls.
type house struct {
	t       *testing.T
	stdin   io.WriteCloser
	pid     int
	mu      sync.Mutex // guards what follows, and writes to stdin
	n       int
	waiting map[int]chan *envelope.Result
}

// house starts one, with profiles by name. Each is the text of its network,
// four spaces in.
func (s *stand) house(profiles map[string]string) *house {
	s.t.Helper()
	t := s.t.(*testing.T)
	bin, err := houseProgram()
	if err != nil {
		t.Fatal(err)
	}
	text := s.text + "defaultProfile: " + sortedKeys(profiles)[0] + "\nprofiles:\n"
	for _, name := range sortedKeys(profiles) {
		text += "  " + name + ":\n    version: 1\n    level: container\n    trust: reviewed\n    resources: {wall: 2m}\n    network:\n" + profiles[name]
	}
	h := &house{t: t, waiting: map[int]chan *envelope.Result{}}
	c := exec.Command(bin, s.write("house.yaml", text))
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir}
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if h.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.world.Start(c); err != nil {
		t.Fatal(err)
	}
	h.pid = c.Process.Pid
	read := make(chan struct{})
	go func() {
		defer close(read)
		h.read(out)
	}()
	t.Cleanup(func() {
		h.stdin.Close()
		<-read
		if err := c.Wait(); err != nil {
			t.Errorf("the house: %v\n%s", err, stderr.String())
		}
	})
	return h
}

// read hands results on until there are no more.
func (h *house) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r struct {
			N      int              `json:"n"`
			Result *envelope.Result `json:"result"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			h.t.Errorf("the house says %q: %v", lines.Text(), err)
			continue
		}
		h.mu.Lock()
		h.waiting[r.N] <- r.Result
		delete(h.waiting, r.N)
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, wait := range h.waiting {
		close(wait)
	}
}

// begin begins a call and returns where its result comes; it is nil where the
// house has ended.
func (h *house) begin(team string, c envelope.Call) <-chan *envelope.Result {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	line, err := json.Marshal(map[string]any{"n": h.n, "team": team, "call": c})
	if err != nil {
		h.t.Fatal(err)
	}
	wait := make(chan *envelope.Result, 1)
	h.waiting[h.n] = wait
	if _, err := h.stdin.Write(append(line, '\n')); err != nil {
		h.t.Fatal(err)
	}
	return wait
}

// run runs a call.
func (h *house) run(team string, c envelope.Call) *answer {
	h.t.Helper()
	r := <-h.begin(team, c)
	if r == nil {
		h.t.Fatal("the house has ended")
	}
	return &answer{Result: *r, stdout: text(r.Stdout), stderr: text(r.Stderr)}
}

// shell is a call of a script of the shell.
func (s *stand) shell(code string, files ...envelope.File) envelope.Call {
	return envelope.Call{Argv: []string{"/bin/bash", "main.sh"},
		Inputs: append(files, envelope.File{Name: "main.sh", Data: []byte(code)}, envelope.File{Name: "ca.pem", Data: s.world.CA()})}
}

const houseNetwork = "      allow: [{host: allowed.test, ports: [443]}, {host: allowed.test, ports: [8080], protocol: http}]\n"

// TestFirstInstructionIsAQuery: the resolver of a cell is there before the
// cell's program is, every time.
func TestFirstInstructionIsAQuery(t *testing.T) {
	cells := 500
	if long() {
		cells = 10_000
	}
	firstInstructionIsAQuery(t, usual(t), cells)
}

func firstInstructionIsAQuery(t *testing.T, s *stand, cells int) {
	t.Helper()
	h := s.house(map[string]string{"default": houseNetwork})
	query := envelope.Call{Argv: []string{"./firstquery"}, Inputs: []envelope.File{{Name: "firstquery", Data: []byte(s.tool("firstquery")), Executable: true}}}
	m := s.world.Mark(t)
	const atOnce = 4
	var waiting []<-chan *envelope.Result
	for i := range cells + atOnce {
		if i < cells {
			waiting = append(waiting, h.begin("", query))
		}
		if i < atOnce {
			continue
		}
		r := <-waiting[i-atOnce]
		if r == nil || !r.OK() {
			t.Fatalf("cell %d: %+v\n%s", i-atOnce, r, text(r.Stdout))
		}
	}
	m.Nothing(t)
}

// TestNextCallHasAGuardAgain: the calls of a dead egress process end as
// broken, each, and later ones have another process.
func TestNextCallHasAGuardAgain(t *testing.T) {
	s := usual(t)
	h := s.house(map[string]string{"default": houseNetwork})
	hold := s.shell("curl -s -f --cacert ca.pem https://allowed.test/echo >/dev/null && curl -s http://allowed.test:8080/drip >/dev/null; sleep 60")
	for round := range 3 {
		m := s.world.Mark(t)
		calls := []<-chan *envelope.Result{h.begin("", hold), h.begin("", hold)}
		await(t, "the calls do not get out", func() bool {
			return len(slices.DeleteFunc(m.Hits(), func(hit world.Hit) bool { return hit.Path != "/drip" })) == len(calls)
		})
		pids := s.processes("callcell-egress")
		if len(pids) != 1 {
			t.Fatalf("round %d: egress processes %v", round, pids)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			if r := <-call; r == nil || r.Outcome != envelope.OutcomeBroken || r.Teardown == nil || !r.Teardown.Complete {
				t.Errorf("round %d: %+v", round, r)
			}
		}
		a := h.run("", s.shell("curl -sS -f --cacert ca.pem https://allowed.test/echo && ! curl -s -m5 https://denied.test/"))
		a.ok(t)
		m.Only(t, "allowed.test:443", "allowed.test:8080")
	}
}

// TestCallsAreApart: many calls at once, each with its own list, and none has
// anything of another one's.
func TestCallsAreApart(t *testing.T) {
	s := usual(t)
	names := []string{"allowed.test", "other.test", "git.test", "index.test"}
	profiles := map[string]string{}
	for i, name := range names {
		profiles[fmt.Sprintf("p%d", i)] = "      allow: [{host: " + name + ", ports: [443]}]\n"
	}
	h := s.house(profiles)
	script := "bad=0; for i in 1 2 3; do for h in " + strings.Join(names, " ") + "; do code=$(curl -s -m25 --cacert ca.pem -o /dev/null -w '%{http_code}' https://$h/); " +
		"if [ $h = $OWN ]; then [ $code = 200 ] || bad=1; else [ $code = 000 ] || bad=2; fi; done; done; exit $bad"
	var waiting []<-chan *envelope.Result
	for i := range 16 {
		c := s.shell("OWN=" + names[i%len(names)] + "\n" + script)
		c.Profile = fmt.Sprintf("p%d", i%len(names))
		waiting = append(waiting, h.begin("", c))
	}
	for i, wait := range waiting {
		r := <-wait
		if r == nil {
			t.Fatal("the house has ended")
		}
		a := &answer{Result: *r, stdout: text(r.Stdout), stderr: text(r.Stderr)}
		a.ok(t)
		own := names[i%len(names)]
		for _, l := range a.attempts() {
			if (l.Verdict == envelope.VerdictAllowed) != (l.Host == own && l.Port == 443) {
				t.Errorf("call %d: %s", i, attempt(l))
			}
		}
		if a.Egress == nil || a.Egress.Connections != 3 {
			t.Errorf("call %d: %s", i, a.end())
		}
	}
}

// TestCacheOfFetchIsATeams: what one team has fetched, another one fetches for
// itself, and who may not reach a host is not told what another one got there.
func TestCacheOfFetchIsATeams(t *testing.T) {
	s := newStand(t, egressConf+"  roots: ROOTS\n")
	h := s.house(map[string]string{"default": "      fetch: public\n", "other": "      allow: [{host: other.test, ports: [80]}]\n", "closed": "      allow: []\n"})
	get := func(team, profile, path string, fresh bool) *answer {
		return h.run(team, envelope.Call{Profile: profile, Fetch: &envelope.Fetch{URL: "http://allowed.test" + path, Fresh: fresh}})
	}
	page := "/say?cache=max-age%3D600&text=page"
	m := s.world.Mark(t)
	for i, tt := range []struct {
		team, profile, path string
		fresh               bool
		cached              bool
		requests            int // that have come by then
	}{
		{"a", "default", page, false, false, 1},
		{"a", "default", page, false, true, 1},
		{"b", "default", page, false, false, 2},
		{"", "default", page, false, false, 3},
		{"a", "default", page, true, false, 4},
		{"a", "default", page + "&x", false, false, 5},
		{"b", "default", page, false, true, 5},
	} {
		a := get(tt.team, tt.profile, tt.path, tt.fresh)
		if a.body() != "page" || a.Fetched.Cached != tt.cached || len(m.Hits()) != tt.requests {
			t.Errorf("%d: %q, %d requests, %s %+v", i, a.body(), len(m.Hits()), a.end(), a.Fetched)
		}
	}
	for _, profile := range []string{"other", "closed"} {
		if a := get("a", profile, page, false); a.Refusal == nil || a.body() != "" {
			t.Errorf("%s: %s %q", profile, a.end(), a.body())
		}
	}
	m.Only(t, "allowed.test:80")
}
