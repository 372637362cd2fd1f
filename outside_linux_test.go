package callcell_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/helpers"
	"github.com/callcell/callcell/internal/testing/world"
)

// outsider builds the program of testdata/embedder in a module of its own, which
// replaces this one by the tree and has everything else from go.mod.
var outsider = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "callcell-outside-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	root := helpers.Root()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(mod), "module github.com/callcell/callcell\n")
	if !ok {
		return "", errors.New("go.mod does not begin with the module")
	}
	text := fmt.Sprintf("module example.com/embedder\n%s\nrequire github.com/callcell/callcell v0.0.0\n\nreplace github.com/callcell/callcell => %s\n", rest, root)
	for name, from := range map[string]string{"go.sum": "go.sum", "main.go": "testdata/embedder/main.go"} {
		data, err := os.ReadFile(filepath.Join(root, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		return "", err
	}
	bins, err := helperDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(bins, "embedder")
	c := exec.Command("go", "build", "-o", bin, ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("a module outside cannot be built: %w\n%s", err, out)
	}
	return bin, nil
})

// TestOutsideBuilds: whoever imports the public packages alone builds against
// them.
func TestOutsideBuilds(t *testing.T) {
	if _, err := outsider(); err != nil {
		t.Fatal(err)
	}
}

// An embedder is that program, at work in a world.
type embedder struct {
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
}

type answer struct {
	Result *envelope.Result
	Image  *client.Image
	Error  string
	Ended  []string
}

// embed starts it with a configuration, whose state and helpers are added. It
// ends with the test, by itself, with nothing left and nothing said.
func embed(t *testing.T, w *world.World, conf string, env ...string) *embedder {
	t.Helper()
	bin, err := outsider()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "callcell.yaml")
	conf = fmt.Sprintf("version: 1\nstate: %s\n%s", filepath.Join(t.TempDir(), "state"), conf)
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(bin, path)
	c.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	var said strings.Builder
	c.Stderr = &said
	e := &embedder{t: t}
	out, err := c.StdoutPipe()
	if err == nil {
		e.in, err = c.StdinPipe()
	}
	if err == nil {
		err = w.Start(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.lines = bufio.NewScanner(out)
	e.lines.Buffer(nil, 16<<20)
	t.Cleanup(func() {
		e.in.Close()
		if e.lines.Scan() {
			t.Errorf("it says more than it was asked: %s", e.lines.Text())
		}
		if err := c.Wait(); err != nil || said.Len() > 0 {
			t.Errorf("the embedder: %v\n%s", err, said.String())
		}
		gone(t, filepath.Dir(bin))
	})
	return e
}

// gone waits until no process has its program below a directory: what Close has
// ended may be a moment in going.
func gone(t *testing.T, dir string) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		var left []string
		links, _ := filepath.Glob("/proc/[0-9]*/exe")
		for _, l := range links {
			if exe, err := os.Readlink(l); err == nil && strings.HasPrefix(exe, dir+"/") {
				left = append(left, l+" "+exe)
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Errorf("left behind by Close: %q", left)
			return
		}
	}
}

func (e *embedder) order(kind string, what any) answer {
	e.t.Helper()
	line, err := json.Marshal(map[string]any{kind: what})
	if err == nil {
		_, err = e.in.Write(append(line, '\n'))
	}
	if err != nil {
		e.t.Fatal(err)
	}
	var a answer
	if !e.lines.Scan() || json.Unmarshal(e.lines.Bytes(), &a) != nil {
		e.t.Fatalf("no answer: %q %v", e.lines.Text(), e.lines.Err())
	}
	return a
}

// call runs one and holds its teardown to being complete.
func (e *embedder) call(c envelope.Call) answer {
	e.t.Helper()
	a := e.order("call", c)
	if r := a.Result; r == nil || r.Receipt == nil || r.Ran() && (r.Teardown == nil || !r.Teardown.Complete) {
		e.t.Fatalf("%+v", a)
	}
	return a
}

func sh(code string) envelope.Call {
	return envelope.Call{Profile: "web", Script: &envelope.Script{Lang: "sh", Code: code}}
}

// attempt is what a call tried, as its row has it.
func attempt(r *envelope.Result, host string) string {
	if r.Egress != nil {
		for _, a := range r.Egress.Attempts {
			if a.Host == host {
				return a.Verdict.String()
			}
		}
	}
	return "none"
}

const webConf = `egress: {resolvers: ["RESOLVER"], roots: ROOTS, limits: {callConnections: 8}, fetch: {bytes: 2Ki}}
profiles:
  web:
    trust: reviewed
    level: container
    network:
      allow:
      - {host: allowed.test, ports: [443]}
      - {host: pointed.test, ports: [9931], protocol: tcp}
      - {host: elsewhere.test, ports: [9931], protocol: tcp}
      private: [{cidr: 10.0.0.5/32, why: a test of it}]
    credentials:
      gh: {source: "env:GH", use: {header: Authorization, format: "Bearer {}", host: allowed.test, methods: [GET], path: /repos/}}
`

// worldConf is webConf in a world.
func worldConf(t *testing.T, w *world.World) string {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, w.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("RESOLVER", world.Resolver, "ROOTS", roots).Replace(webConf)
}

// TestOutsideReaches: calls of an embedding program reach what their profile
// allows, by the configuration's resolver and authorities, and nothing else;
// a credential is used and not given.
func TestOutsideReaches(t *testing.T) {
	w := world.New(t)
	w.Set("pointed.test", world.Always("10.0.0.5"))
	w.Set("elsewhere.test", world.Always("10.0.0.6"))
	const secret = "s3cr-of-the-embedding-program"
	e := embed(t, w, worldConf(t, w), "GH="+secret)

	m := w.Mark(t)
	a := e.call(sh("curl -sS -f https://allowed.test/repos/a"))
	if !a.Result.OK() || attempt(a.Result, "allowed.test") != "allowed" {
		t.Fatalf("%+v\n%s", a.Result.Egress, a.Result.Stderr.Head)
	}
	if out := string(a.Result.Stdout.Head); strings.Contains(out, secret) || !strings.Contains(out, "redacted:gh") {
		t.Errorf("the program saw %s", out)
	}
	if hits := m.Hits(); len(hits) != 1 || !strings.Contains(hits[0].Header, "Authorization: Bearer "+secret) {
		t.Errorf("the server saw %+v", hits)
	}

	m = w.Mark(t)
	a = e.call(sh("curl -sS -m5 https://denied.test/ || echo no"))
	if string(a.Result.Stdout.Head) != "no\n" || attempt(a.Result, "denied.test") != "denied" {
		t.Errorf("%+v %s", a.Result.Egress, a.Result.Stdout.Head)
	}
	m.Nothing(t)

	c := sh("curl -sS -m5 https://allowed.test/ || echo no")
	c.Request = &envelope.Request{Network: &envelope.NetworkRequest{Allow: &[]envelope.Allow{}}}
	m = w.Mark(t)
	if a = e.call(c); string(a.Result.Stdout.Head) != "no\n" {
		t.Errorf("a call that gave up its network: %+v %s", a.Result.Refusal, a.Result.Stdout.Head)
	}
	m.Nothing(t)
}

// TestOutsideAddresses: the address exceptions of a profile hold for its calls,
// to the last bit.
func TestOutsideAddresses(t *testing.T) {
	w := world.New(t)
	w.Set("pointed.test", world.Always("10.0.0.5"))
	w.Set("elsewhere.test", world.Always("10.0.0.6"))
	e := embed(t, w, worldConf(t, w), "GH=s3cr-of-nobody")
	const knock = "exec 3<>/dev/tcp/%s/9931 && cat <&3" // until the other side is done with it
	for host, want := range map[string]string{"pointed.test": "allowed", "elsewhere.test": "denied"} {
		a := e.call(envelope.Call{Profile: "web", Argv: []string{"/bin/bash", "-c", fmt.Sprintf(knock, host)}})
		if attempt(a.Result, host) != want {
			t.Errorf("%s: %+v %s%s", host, a.Result.Egress, a.Result.Stdout.Head, a.Result.Stderr.Head)
		}
	}
}

// TestOutsideFetches: a fetch is a call like any other; its limits are the
// configuration's, and who watches hears of its refusal.
func TestOutsideFetches(t *testing.T) {
	w := world.New(t)
	e := embed(t, w, worldConf(t, w), "GH=s3cr-of-nobody")
	fetch := func(url string) answer {
		return e.call(envelope.Call{Profile: "web", Fetch: &envelope.Fetch{URL: url}})
	}
	a := fetch("https://allowed.test/say?text=hello")
	if f := a.Result.Fetched; !a.Result.Ran() || f == nil || string(f.Body) != "hello" || a.Ended != nil {
		t.Errorf("%+v %v", a.Result, a.Result.Refusal)
	}
	if a = fetch("https://allowed.test/size?n=9000"); a.Result.Fetched == nil || len(a.Result.Fetched.Body) > 2<<10 || !a.Result.Fetched.Cut {
		t.Errorf("%+v %v", a.Result, a.Result.Refusal)
	}
	m := w.Mark(t)
	a = fetch("https://denied.test/")
	if a.Result.Refusal == nil || len(a.Ended) != 1 || a.Ended[0] != a.Result.ID+" "+a.Result.Refusal.Reason.String() {
		t.Errorf("%+v, heard %q", a.Result, a.Ended)
	}
	m.Nothing(t)
}

const imageConf = `floors: {model: container, thirdparty: container}
profiles:
  small: {trust: reviewed, level: container, image: "oci:registry.test/tools/small:1"}
  kernel: {level: userkernel, image: "oci:registry.test/tools/small:1"}
`

// TestOutsideImages: a program pulls an image, in a cell that reaches its
// registry alone, and runs calls in it, at both levels.
func TestOutsideImages(t *testing.T) {
	w := world.New(t)
	if _, err := w.Push("registry.test/tools/small:1"); err != nil {
		t.Fatal(err)
	}
	dir, err := kernelDir()
	if err != nil {
		t.Fatal(err)
	}
	conf, _, _ := strings.Cut(worldConf(t, w), "profiles:")
	e := embed(t, w, "helpers: "+dir+"\n"+conf+imageConf)
	m := w.Mark(t)
	a := e.order("pull", client.Pull{Ref: "registry.test/tools/small:1", Reach: client.Reach{CA: string(w.CA())}})
	if a.Error != "" || a.Image == nil || a.Image.Name != "oci:registry.test/tools/small:1" {
		t.Fatalf("%+v", a)
	}
	m.Only(t, "registry.test:443")
	for profile, level := range map[string]envelope.Level{"small": envelope.LevelContainer, "kernel": envelope.LevelUserKernel} {
		r := e.call(envelope.Call{Profile: profile, Argv: []string{"/bin/sh", "-c", "cat /etc/greeting"}}).Result
		if !r.OK() || r.Level != level || r.Image != a.Image.Digest || len(r.Stdout.Head) == 0 {
			t.Errorf("%s: %v %+v", profile, r.Refusal, r)
		}
	}
	if a := e.order("drop", a.Image.Name); a.Error != "" {
		t.Error(a.Error)
	}
	m = w.Mark(t)
	if a = e.order("pull", client.Pull{Ref: "-no-"}); a.Error == "" {
		t.Errorf("%+v", a)
	}
	m.Nothing(t)
	if a = e.order("pull", client.Pull{Ref: "denied.test/x:1"}); a.Error == "" || a.Image != nil {
		t.Errorf("what is no registry: %+v", a)
	}
}
