package inspect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/egress/trust"
)

// cellar is a host with an inspecting door at localhost, and the files and
// variables that programs in a cell would have.
type cellar struct {
	*door
	to  *site
	url string
	env []string
}

func newCellar(t *testing.T, secure bool, h http.HandlerFunc) *cellar {
	t.Helper()
	to := newSite(t, "localhost", secure, h)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	o := Options{Host: "localhost", Port: port, TLS: secure, CA: authority(t, "localhost")}
	c := &cellar{door: openAt(t, l, to, o), to: to, url: fmt.Sprintf("http://localhost:%d", port)}
	if secure {
		c.url = strings.Replace(c.url, "http:", "https:", 1)
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasSuffix(strings.ToLower(name), "_proxy") && !strings.Contains(name, "CA_") && !strings.Contains(name, "CERT") {
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, c.bundle(t)...)
	return c
}

// bundle writes the files and returns the variables.
func (c *cellar) bundle(t *testing.T) (env []string) {
	t.Helper()
	roots, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Log("no system authorities here:", err)
	}
	files, err := trust.Bundle(c.o.CA.PEM(), roots)
	if err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	for name, data := range files {
		file := filepath.Join(run, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range trust.Variables(run) {
		env = append(env, name+"="+value)
	}
	return env
}

// run runs a program, or skips where there is none.
func (c *cellar) run(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skipf("there is no %s here", argv[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = append(append([]string(nil), c.env...), env...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const (
	pythonURL      = `import sys, urllib.request; r = urllib.request.urlopen(sys.argv[1], data=b"hi"); print(r.status, r.read().decode())`
	pythonStrict   = `import sys, ssl, urllib.request; c = ssl.create_default_context(); c.verify_flags |= ssl.VERIFY_X509_STRICT; print(urllib.request.urlopen(sys.argv[1], context=c).read().decode())`
	pythonRequests = `
import sys
try: import requests
except ImportError: print("SKIP requests"); sys.exit()
r = requests.post(sys.argv[1], data="hi"); print(r.status_code, r.text)`
	nodeFetch = `fetch(process.argv[1], {method: "POST", body: "hi"}).then(async r => console.log(r.status, await r.text()))`
	nodeHTTP  = `const u = process.argv[1]; require(u.split(":")[0]).get(u, r => r.on("data", d => console.log(r.statusCode, String(d))))`
)

// Programs as they are reach an inspected host, with the files and variables
// alone.
func TestRealProgramsReachAnInspectedHost(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		env  []string
		want string
	}{
		"curl HTTP/2":     {[]string{"curl", "-sS", "--http2", "-w", " %{http_version}", "-d", "hi", "{url}"}, nil, "localhost:{port} says hi 2"},
		"curl HTTP/1.1":   {[]string{"curl", "-sS", "--http1.1", "-w", " %{http_version}", "-d", "hi", "{url}"}, nil, "localhost:{port} says hi 1.1"},
		"curl large body": {[]string{"curl", "-sS", "--http1.1", "-H", "Expect: 100-continue", "-d", strings.Repeat("x", 5000), "{url}"}, nil, "localhost:{port} says xxx"},
		"python urllib":   {[]string{"python3", "-c", pythonURL, "{url}"}, nil, "200 localhost:{port} says hi"},
		"python strict":   {[]string{"python3", "-c", pythonStrict, "{url}"}, nil, "localhost:{port} says"},
		"python requests": {[]string{"python3", "-c", pythonRequests, "{url}"}, nil, "200 localhost:{port} says hi"},
		"node fetch":      {[]string{"node", "-e", nodeFetch, "{url}"}, nil, "200 localhost:{port} says hi"},
		"node https":      {[]string{"node", "-e", nodeHTTP, "{url}"}, nil, "200 localhost:{port} says"},
		"java":            {[]string{"java", "{ask}", "{url}"}, nil, "client HTTP_2 200 localhost:{port} says \nold 200 localhost:{port} says"},
		"openssl":         {[]string{"openssl", "s_client", "-verify_return_error", "-brief", "-connect", "{authority}", "-servername", "localhost"}, nil, "Verification: OK"},
	} {
		t.Run(name, func(t *testing.T) { reach(t, true, c.argv, c.env, c.want) })
	}
}

func TestRealProgramsReachAPlainHost(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		want string
	}{
		"curl":        {[]string{"curl", "-sS", "-d", "hi", "{url}"}, "localhost:{port} says hi"},
		"curl h2c":    {[]string{"curl", "-sS", "--http2", "{url}"}, "localhost:{port} says"},
		"python":      {[]string{"python3", "-c", pythonURL, "{url}"}, "200 localhost:{port} says hi"},
		"node":        {[]string{"node", "-e", nodeHTTP, "{url}"}, "200 localhost:{port} says"},
		"java of h2c": {[]string{"java", "{ask}", "{url}"}, "client HTTP_1_1 200 localhost:{port} says \nold 200 localhost:{port} says"},
	} {
		t.Run(name, func(t *testing.T) { reach(t, false, c.argv, nil, c.want) })
	}
}

func reach(t *testing.T, secure bool, argv, env []string, want string) {
	t.Helper()
	c := newCellar(t, secure, nil)
	_, source, _, _ := runtime.Caller(0)
	_, authority, _ := strings.Cut(c.url, "//")
	_, port, _ := net.SplitHostPort(authority)
	fill := strings.NewReplacer("{url}", c.url, "{authority}", authority, "{port}", port, "{ask}", filepath.Join(filepath.Dir(source), "testdata/Ask.java"))
	full := make([]string, len(argv))
	for i, arg := range argv {
		full[i] = fill.Replace(arg)
	}
	out, err := c.run(t, env, full...)
	if strings.HasPrefix(out, "SKIP") {
		t.Skip(out)
	}
	if err != nil || !strings.Contains(out, fill.Replace(want)) {
		t.Errorf("%v: %s\nwant %s", err, out, fill.Replace(want))
	}
}

// Tools that fetch from an index of their own: it is enough that they believe
// it and ask.
func TestRealToolsAskAnInspectedIndex(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		env  []string
		want string
	}{
		"pip":   {[]string{"python3", "-m", "pip", "--disable-pip-version-check", "--retries", "0", "download", "--index-url", "{url}/simple", "nothing-here"}, nil, "/simple/nothing-here/"},
		"npm":   {[]string{"npm", "view", "nothing-here", "--registry", "{url}/", "--fetch-retries", "0"}, []string{"NPM_CONFIG_UPDATE_NOTIFIER=false", "NPM_CONFIG_CACHE={tmp}"}, "/nothing-here"},
		"go":    {[]string{"go", "list", "-m", "-versions", "ok.test/x"}, []string{"GOPROXY={url}", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-mod=mod", "GO111MODULE=on", "GOTOOLCHAIN=local", "GOMODCACHE={tmp}"}, "/ok.test/x/@v/list"},
		"cargo": {[]string{"cargo", "search", "--index", "sparse+{url}/", "nothing-here"}, []string{"CARGO_HOME={tmp}"}, "/config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			cellar := newCellar(t, true, http.NotFound)
			fill := strings.NewReplacer("{url}", cellar.url, "{tmp}", t.TempDir())
			for i := range c.argv {
				c.argv[i] = fill.Replace(c.argv[i])
			}
			for i := range c.env {
				c.env[i] = fill.Replace(c.env[i])
			}
			out, _ := cellar.run(t, c.env, c.argv...)
			if !strings.Contains(strings.Join(cellar.to.saw(), "\n"), c.want) {
				t.Errorf("the origin saw %q, not %s\n%s", cellar.to.saw(), c.want, out)
			}
		})
	}
}

// git clones and pushes over its smart protocol: large bodies, both ways.
func TestGitClonesAndPushes(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git here")
	}
	execPath, err := exec.Command(git, "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend")
	if _, statErr := os.Stat(backend); err != nil || statErr != nil {
		t.Skip("git has no http-backend here")
	}
	root := t.TempDir()
	h := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=somebody"}, Stderr: io.Discard}
	c := newCellar(t, true, h.ServeHTTP)
	script := `set -e
export GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 HOME=$PWD
git init -q --bare "$1/a.git"; git -C "$1/a.git" config http.receivepack true
git init -q -b main src; cd src
git config user.email a@ok.test; git config user.name a; git config http.postBuffer 1000
head -c 300000 /dev/urandom > big; git add big; git commit -q -m one
git push -q "$2/a.git" main; cd ..
git clone -q -b main "$2/a.git" dst
cmp src/big dst/big && echo same`
	out, err := c.run(t, nil, "sh", "-c", script, "sh", root, c.url)
	if err != nil || !strings.Contains(out, "same") {
		t.Errorf("%v: %s", err, out)
	}
}

// A front is cut for real programs too, and they are told.
func TestCurlIsToldWhyItWasCut(t *testing.T) {
	c := newCellar(t, true, nil)
	out, err := c.run(t, nil, "curl", "-sS", "-i", "-H", "Host: evil.test", c.url)
	if err != nil || !strings.Contains(out, "421") || !strings.Contains(strings.ToLower(out), "callcell-egress: denied") || !strings.Contains(out, "evil.test") {
		t.Errorf("%v: %s", err, out)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(c.url, "https://"), ":")
	out, err = c.run(t, nil, "curl", "-sS", "--connect-to", "evil.test:443:localhost:"+port, "https://evil.test/")
	if err == nil || !strings.Contains(out, "unrecognized name") {
		t.Errorf("%v: %s", err, out)
	}
	if saw := c.to.saw(); len(saw) != 0 {
		t.Errorf("the origin saw %q", saw)
	}
}
