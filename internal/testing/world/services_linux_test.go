package world

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/callcell/callcell/internal/testing/leak"
)

func TestWebServer(t *testing.T) {
	leak.Check(t)
	w := New(t)
	client := w.client(t)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, tt := range []struct {
		path   string
		status int
		header string
		body   string // its beginning
		length int    // -1: it does not end
	}{
		{"/x", 200, "", "ok\n", 3},
		{"/to?u=http://127.0.0.1/%3fa", 302, "Location: http://127.0.0.1/?a", "", 0},
		{"/to?u=//x&code=307", 307, "Location: //x", "", 0},
		{"/refresh?u=/x", 200, "Refresh: 0;url=/x", "wait\n", 5},
		{"/say?text=hi&type=text/html&cache=no-store", 200, "Cache-Control: no-store", "hi", 2},
		{"/size?n=5000", 200, "", "xxx", 5000},
		{"/bomb?mb=3", 200, "", "\x00", 3 << 20},
		{"/flow", 200, "", "\x00", -1},
		{"/drip", 200, "", "x", -1},
		{"/simple/" + Package + "/", 200, "Content-Type: text/html", "<!DOCTYPE", 0},
		{"/npm/" + Package, 200, "Content-Type: application/json", "{", 0},
	} {
		resp, err := client.Get("https://allowed.test" + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, len(tt.body))
		_, err = io.ReadFull(resp.Body, begin)
		name, value, _ := strings.Cut(tt.header, ": ")
		if err != nil || resp.StatusCode != tt.status || resp.Header.Get(name) != value || string(begin) != tt.body {
			t.Errorf("%s: %d, %v, %q, %v", tt.path, resp.StatusCode, resp.Header, begin, err)
		}
		if tt.length > 0 {
			rest, err := io.Copy(io.Discard, resp.Body)
			if err != nil || int(rest)+len(begin) != tt.length {
				t.Errorf("%s: %d bytes, %v", tt.path, int(rest)+len(begin), err)
			}
		}
		resp.Body.Close()
	}
	if _, err := client.Get("https://allowed.test/header?mb=12"); err == nil {
		t.Error("headers of 12 MiB are read by a client that takes 10 MiB")
	}
}

func TestEchoUpgradeAndSilence(t *testing.T) {
	leak.Check(t)
	w := New(t)
	c, err := w.dial("tcp", w.Addr("allowed.test").String()+":7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil || c.(*net.TCPConn).CloseWrite() != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	m := w.Mark(t)
	u, err := w.dial("tcp", w.Addr("allowed.test").String()+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.Write([]byte("GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\nraw bytes\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(u); err != nil || !strings.Contains(string(got), "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing") {
		t.Errorf("%q, %v", got, err)
	}
	if hits := m.Hits(); len(hits) != 2 || hits[1] != (Hit{Method: "RAW", Path: "raw bytes\n"}) {
		t.Errorf("%+v", hits)
	}
	w.Near(func() {
		var slow net.Error
		if c, err := net.DialTimeout("tcp", SilentAddr+":443", 100*time.Millisecond); !errors.As(err, &slow) || !slow.Timeout() {
			t.Errorf("%v, %v", c, err)
		}
	})
}

func TestWebSocketServer(t *testing.T) {
	leak.Check(t)
	w := New(t)
	c, _, err := websocket.Dial(t.Context(), "wss://allowed.test/ws", &websocket.DialOptions{HTTPClient: w.client(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := c.Read(t.Context()); err != nil || string(data) != "hello" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestToolsReachTheirServers runs ordinary tools in near: what they do there
// is what they are to do in a cell.
func TestToolsReachTheirServers(t *testing.T) {
	leak.Check(t)
	w := New(t)
	w.Database(t)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, w.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	web := w.Addr("git.test").String()
	for _, tt := range []struct {
		argv, env []string
		want      string
	}{
		{[]string{"curl", "-sS", "--cacert", ca, "--resolve", "allowed.test:443:" + web, "https://allowed.test/"}, nil, "ok\n"},
		{[]string{"git", "clone", "-q", "https://" + web + "/git/repo.git", dir + "/clone"}, []string{"GIT_SSL_CAINFO=" + ca}, ""},
		{[]string{"cat", filepath.Join(dir, "clone", GitFile)}, nil, GitText},
		{[]string{"psql", "-Atc", "select 6*7", "host=" + DatabaseHost + " hostaddr=" + w.Addr(DatabaseHost).String() + " user=" + DatabaseUser + " dbname=postgres sslmode=verify-full sslrootcert=" + ca},
			[]string{"PGPASSWORD=" + DatabasePassword}, "42\n"},
		{[]string{"/usr/bin/python3", "-m", "pip", "-q", "install", "--no-input", "--target", dir + "/py", "--index-url", "https://" + web + "/simple/", "--cert", ca, Package},
			[]string{"PIP_CONFIG_FILE=/dev/null"}, ""},
		{[]string{"/usr/bin/python3", "-c", "import callcell_tiny; print(callcell_tiny.answer)"}, []string{"PYTHONPATH=" + dir + "/py"}, "42\n"},
		{[]string{"npm", "install", "--silent", "--prefix", dir + "/js", "--cafile", ca, "--registry", "https://" + web + "/npm/", Package}, nil, ""},
		{[]string{"node", "-p", "require('" + dir + "/js/node_modules/" + Package + "').answer"}, nil, "42\n"},
	} {
		if _, err := exec.LookPath(tt.argv[0]); errors.Is(err, exec.ErrNotFound) {
			t.Logf("this host has no %s", tt.argv[0])
			continue
		}
		c := exec.Command(tt.argv[0], tt.argv[1:]...)
		c.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}, tt.env...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if err := w.Run(c); err != nil || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %v\n%s", tt.argv, err, out.String())
		}
	}
}
