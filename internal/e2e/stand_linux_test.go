package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// A stand is a configuration of callcell in near, for one test.
type stand struct {
	*shared
	t    testing.TB
	dir  string
	conf string // its file
	text string // and what is in it

	level, image string   // where its calls run
	wrap         []string // a command that callcell is started by, where there is one
}

// egressConf is what most tests have of the configuration's egress section.
const egressConf = "  resolvers: [\"" + world.Resolver + "\"]\n"

// newStand makes a configuration. egress is the text of its egress section,
// two spaces in; ROOTS in it is the file of the world's authority.
func newStand(t testing.TB, egress string) *stand {
	t.Helper()
	s := &stand{shared: get(t), t: t, dir: t.TempDir(), level: level(), image: "host"}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.conf = filepath.Join(s.dir, "callcell.yaml")
	s.write("roots.pem", string(s.world.CA()))
	s.text = fmt.Sprintf("version: 1\nstate: %s\nhelpers: %s\n", filepath.Join(s.dir, "state"), s.bin)
	if egress != "" {
		s.text += "egress:\n" + strings.ReplaceAll(egress, "ROOTS", filepath.Join(s.dir, "roots.pem"))
	}
	s.write("callcell.yaml", s.text)
	if s.level != "container" {
		s.withSnapshot(t)
	}
	return s
}

// level is where the calls of most tests run: CALLCELL_TEST_LEVEL=userkernel
// plays them in cells with a kernel of their own.
func level() string {
	if name := os.Getenv("CALLCELL_TEST_LEVEL"); name != "" {
		return name
	}
	return "container"
}

// withSnapshot gives the stand the snapshot of this host, which is made once for
// all.
func (s *stand) withSnapshot(t testing.TB) {
	t.Helper()
	s.snapshot.Do(func() {
		conf := filepath.Join(sharedDir, "snapshot.yaml")
		text := fmt.Sprintf("version: 1\nstate: %s\nhelpers: %s\n", filepath.Join(sharedDir, "state"), s.bin)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(filepath.Join(s.bin, "callcell"), "--config", conf, "image", "host").CombinedOutput(); err != nil {
			t.Fatalf("image host: %v\n%s", err, out)
		}
	})
	s.withImagesOf(t, filepath.Join(sharedDir, "state"))
}

// withImagesOf gives the stand the records of images of a state directory.
func (s *stand) withImagesOf(t testing.TB, from string) {
	t.Helper()
	state := filepath.Join(s.dir, "state")
	err := os.Mkdir(state, 0o700)
	if err == nil {
		err = os.CopyFS(filepath.Join(state, "image"), os.DirFS(filepath.Join(from, "image")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// usual is a stand with the world's resolver and authority.
func usual(t testing.TB) *stand {
	t.Helper()
	return newStand(t, egressConf+"  roots: ROOTS\n")
}

// write writes a file of the stand and returns its name.
func (s *stand) write(name, text string) string {
	s.t.Helper()
	full := filepath.Join(s.dir, name)
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return full
}

// A call is one callcell run.
type call struct {
	network string // of the envelope, two spaces in; "" is none
	argv    []string
	sh      string            // instead of argv: a script of the shell
	python  string            // instead of argv: a script of Python
	files   map[string]string // in the working directory, beside ca.pem
	out     []string          // to be collected
	front   []string          // variables of the callcell process
	wrap    []string          // a command that callcell is started by
	wall    string            // "" is 60s
	during  func()            // done while it runs
	outside bool              // in this machine's own network instead
}

// An answer is what came of it.
type answer struct {
	envelope.Result
	stdout, stderr string
	status         int
	took           time.Duration
}

const callEnvelope = `version: 1
level: LEVEL
image: IMAGE
trust: reviewed
files: {scratch: 256Mi}
resources: {cpu: 2, cpuTime: 120s, wall: WALL, memory: 2Gi, pids: 512, openFiles: 1024, output: {keep: 256Ki, total: 64Mi}}
network:
`

// envelopeOf is the envelope of a call that has so much time, without a network.
func (s *stand) envelopeOf(wall string) string {
	return strings.NewReplacer("WALL", wall, "LEVEL", s.level, "IMAGE", fmt.Sprintf("%q", s.image)).Replace(callEnvelope)
}

// run runs a call in near.
func (s *stand) run(c call) *answer {
	s.t.Helper()
	if c.wall == "" {
		c.wall = "60s"
	}
	if c.network == "" {
		c.network = "  allow: []\n"
	}
	env := s.write("envelope.yaml", s.envelopeOf(c.wall)+c.network)
	args := []string{"run", "--json", "--envelope", env}
	files := map[string]string{"ca.pem": string(s.world.CA())}
	maps.Copy(files, c.files)
	switch {
	case c.sh != "":
		files["main.sh"], c.argv = c.sh, []string{"/bin/bash", "main.sh"}
	case c.python != "":
		files["main.py"], c.argv = c.python, []string{"/usr/bin/python3", "main.py"}
	}
	for i, name := range sortedKeys(files) {
		args = append(args, "--in", s.write(fmt.Sprintf("in-%d", i), files[name])+"="+name)
	}
	for _, name := range c.out {
		args = append(args, "--out", name)
	}
	return s.callcell(c, append(append(args, "--"), c.argv...))
}

// callcell runs the command in near.
func (s *stand) callcell(c call, args []string) *answer {
	s.t.Helper()
	argv := append(append(slices.Clone(c.wrap), s.wrap...), filepath.Join(s.bin, "callcell"), "--config", s.conf)
	argv = append(argv, args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir}, c.front...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	start := s.world.Start
	if c.outside {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		s.t.Fatal(err)
	}
	if c.during != nil {
		c.during()
	}
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		s.t.Fatal(err)
	}
	a := &answer{status: cmd.ProcessState.ExitCode(), took: time.Since(began)}
	if err := json.Unmarshal(stdout.Bytes(), &a.Result); err != nil {
		s.t.Fatalf("callcell %q: status %d, %v\n%s%s", args, a.status, err, stdout.String(), stderr.String())
	}
	a.stdout, a.stderr = text(a.Stdout), text(a.Stderr)
	sane(s.t, a.attempts())
	if a.Teardown != nil && !a.Teardown.Complete {
		s.t.Errorf("teardown: %+v", *a.Teardown)
	}
	return a
}

func text(s envelope.Stream) string { return string(s.Head) + string(s.Tail) }

// ok fails the test where the program did not exit with 0.
func (a *answer) ok(t testing.TB) bool {
	t.Helper()
	if a.OK() {
		return true
	}
	t.Errorf("%s\n%s%s", a.end(), a.stdout, a.stderr)
	return false
}

// end is how the call ended, and what it tried to reach.
func (a *answer) end() string {
	text := fmt.Sprintf("status %d, outcome %s, exit %+v, events %+v", a.status, a.Outcome, a.Exit, a.Events)
	if a.Refusal != nil {
		text += fmt.Sprintf(", refused: %+v", *a.Refusal)
	}
	lines := a.attempts()
	for _, line := range lines[:min(len(lines), 20)] {
		text += "\n  " + attempt(line)
	}
	if a.Egress != nil {
		text += fmt.Sprintf("\n  %d lines, %d more, %d carried, %d denied, %d failed, %d names", len(lines), a.Egress.More, a.Egress.Connections, a.Egress.Denied, a.Egress.Failed, a.Egress.Names)
	}
	return text
}

func (a *answer) attempts() []envelope.Attempt {
	if a.Egress == nil {
		return nil
	}
	return a.Egress.Attempts
}

// attempt is a line of the row, short.
func attempt(l envelope.Attempt) string {
	text := fmt.Sprintf("%s:%d %s %s", l.Host, l.Port, l.Protocol, l.Verdict)
	for _, more := range []string{l.Address, l.Unchecked, l.Why} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// tried returns the lines of a host and port; port 0 is a name that was asked
// for.
func (a *answer) tried(host string, port int) []envelope.Attempt {
	return slices.DeleteFunc(slices.Clone(a.attempts()), func(l envelope.Attempt) bool { return l.Host != host || l.Port != port })
}

// row fails the test where the row has no line of host and port with the
// verdict whose reason contains why.
func (a *answer) row(t testing.TB, host string, port int, verdict envelope.Verdict, why string) {
	t.Helper()
	lines := a.tried(host, port)
	if !slices.ContainsFunc(lines, func(l envelope.Attempt) bool { return l.Verdict == verdict && strings.Contains(l.Why, why) }) {
		t.Errorf("no line %s:%d %s, ...%s...: %s", host, port, verdict, why, a.end())
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// need fails the test where a program is not where cells see it.
func need(t testing.TB, program string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v (scripts/setup installs it)", err)
	}
}
