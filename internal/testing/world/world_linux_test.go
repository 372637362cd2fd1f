package world

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

// client is an HTTP client whose connections are made in near, to the
// addresses of the host table.
func (w *World) client(t *testing.T) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.CA())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			return w.dial("tcp", net.JoinHostPort(w.Addr(host).String(), port))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (w *World) dial(network, addr string) (c net.Conn, err error) {
	w.Near(func() { c, err = net.DialTimeout(network, addr, 30*time.Second) })
	return c, err
}

func TestServersAreReachedFromNear(t *testing.T) {
	leak.Check(t)
	w := New(t)
	for _, tt := range []struct{ url, host, sni, at string }{
		{"https://allowed.test/echo?a=1", "allowed.test", "allowed.test", "93.184.216.10:443"},
		{"http://allowed.test/echo", "allowed.test", "", "93.184.216.10:80"},
		{"http://other.test:8080/echo", "other.test:8080", "", "93.184.216.11:8080"},
		{"https://six.test:8443/echo", "six.test:8443", "six.test", "[2606:2800:220::14]:8443"},
	} {
		m := w.Mark(t)
		resp, err := w.client(t).Get(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		var e Echo
		err = json.NewDecoder(resp.Body).Decode(&e)
		resp.Body.Close()
		if err != nil || e.Host != tt.host || e.SNI != tt.sni {
			t.Errorf("%s: %+v, %v", tt.url, e, err)
		}
		if hits := m.Hits(); len(hits) != 1 || hits[0].At.String() != tt.at || hits[0].Host != tt.host {
			t.Errorf("%s: hits %+v", tt.url, hits)
		}
		if sent := m.Packets(t); len(sent) == 0 || sent[0] != (Packet{"tcp", netip.MustParseAddrPort(tt.at), true}) {
			t.Errorf("%s: packets %+v", tt.url, sent)
		}
	}
}

func TestEverythingElseIsStray(t *testing.T) {
	leak.Check(t)
	w := New(t)
	for _, addr := range []string{
		"10.0.0.5:9931", "169.254.169.254:80", "[fd00:ec2::254]:443", "[64:ff9b::7f00:1]:9931", "203.0.113.7:8080", "93.184.216.10:9931",
		"127.0.0.1:9931", "[::1]:9931", NearAddr + ":80", "[" + NearAddr6 + "]:2375", "93.184.216.20:443",
	} {
		m := w.Mark(t)
		c, err := w.dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s answers", addr)
		}
		c.Close()
		if got := m.Strays(); !slices.Equal(got, []Stray{{"tcp", netip.MustParseAddrPort(addr)}}) {
			t.Errorf("%s: %v", addr, got)
		}
	}
	m := w.Mark(t)
	c, err := w.dial("udp", "10.0.0.5:9931")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if sent := m.Packets(t); !slices.Equal(sent, []Packet{{Protocol: "udp", To: netip.MustParseAddrPort("10.0.0.5:9931")}}) {
		t.Errorf("%v", sent)
	}
}

func TestNothingOfTheWorldIsOutside(t *testing.T) {
	leak.Check(t)
	w := New(t)
	m := w.Mark(t)
	for _, addr := range []string{NearAddr + ":443", FarAddr + ":9931", "127.0.0.1:9931"} {
		if c, err := net.DialTimeout("tcp", addr, 300*time.Millisecond); err == nil {
			c.Close() // of somebody else
		}
	}
	if got := m.Strays(); len(got) > 0 {
		t.Errorf("reached from outside: %v", got)
	}
	devices, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.Name == "near0" || d.Name == "far0" {
			t.Errorf("%s is outside", d.Name)
		}
	}
	var inside string
	w.Near(func() { inside, err = os.Readlink("/proc/thread-self/ns/net") })
	outside, failed := os.Readlink("/proc/self/ns/net")
	if err != nil || failed != nil || inside == outside {
		t.Errorf("near is %s, outside is %s", inside, outside)
	}
	c := exec.Command("readlink", "/proc/self/ns/net")
	var out bytes.Buffer
	c.Stdout = &out
	if err := w.Run(c); err != nil || strings.TrimSpace(out.String()) != inside {
		t.Errorf("a process is in %s, near is %s, %v", out.String(), inside, err)
	}
}

func TestNamespacesEndWithTheWorld(t *testing.T) {
	leak.Check(t)
	var spaces []string
	for range 5 {
		w, err := Open()
		if err != nil {
			t.Skip(err)
		}
		for _, in := range []func(func()){w.Near, w.Far} {
			in(func() {
				link, err := os.Readlink("/proc/thread-self/ns/net")
				if err != nil {
					t.Error(err)
				}
				spaces = append(spaces, link)
			})
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		held := threadsIn(spaces)
		if len(held) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("threads still in namespaces of the world: %q", held)
		case <-tick.C:
		}
	}
}

// threadsIn are the threads of this process in one of the namespaces.
func threadsIn(spaces []string) (held []string) {
	links, _ := filepath.Glob("/proc/self/task/*/ns/net")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && slices.Contains(spaces, to) {
			held = append(held, l)
		}
	}
	return held
}

func TestResolver(t *testing.T) {
	leak.Check(t)
	w := New(t)
	w.Set("turns.test", ByTurns("93.184.216.10", "127.0.0.1"))
	w.Set("*.many.test", Always("93.184.216.10"))
	w.Set("gone.test", nil)
	for _, network := range []string{"udp", "tcp"} {
		r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return w.dial(network, Resolver) }}
		m := w.Mark(t)
		for _, tt := range []struct{ name, family, want string }{
			{"turns.test.", "ip4", "93.184.216.10"},
			{"turns.test.", "ip4", "127.0.0.1"},
			{"dual.test.", "ip6", "2606:2800:220::13"},
			{"dual.test.", "ip", "2606:2800:220::13 93.184.216.13"},
			{"a.b.many.test.", "ip4", "93.184.216.10"},
			{"many.test.", "ip4", ""},
			{"gone.test.", "ip4", ""},
		} {
			addrs, err := r.LookupNetIP(t.Context(), tt.family, tt.name)
			var got []string
			for _, a := range addrs {
				got = append(got, a.Unmap().String())
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("%s %s: %v, %v, want %s", tt.name, tt.family, got, err, tt.want)
			}
		}
		asked := m.Queries()
		if len(asked) != 8 || asked[0] != (Query{"turns.test.", "A"}) || asked[5].Name != "a.b.many.test." || !slices.Contains(asked, Query{"dual.test.", "AAAA"}) {
			t.Errorf("%s: asked %v", network, asked)
		}
	}
}

func TestMarksTellApart(t *testing.T) {
	leak.Check(t)
	w := New(t)
	m := w.Mark(t)
	if faults := m.beyond(t, nil); len(faults) > 0 {
		t.Errorf("nothing was done: %q", faults)
	}
	resp, err := w.client(t).Get("https://allowed.test/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if faults := m.beyond(t, []string{"allowed.test:443"}); len(faults) > 0 {
		t.Errorf("reached what may be reached: %q", faults)
	}
	for _, places := range [][]string{nil, {"allowed.test:80"}, {"other.test:443"}} {
		if faults := m.beyond(t, places); len(faults) != 1 || !strings.Contains(faults[0], "a packet left: tcp to 93.184.216.10:443") {
			t.Errorf("%v: %q", places, faults)
		}
	}
	m = w.Mark(t)
	for _, f := range []struct {
		family, kind, protocol int
		to                     unix.Sockaddr
	}{
		{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 5}}},
		{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP, &unix.SockaddrInet6{Port: 443, Addr: netip.MustParseAddr("2606:2800:220::12").As16()}},
		{unix.AF_INET, unix.SOCK_RAW, 47, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 6}}},
	} {
		w.Near(func() {
			fd, err := unix.Socket(f.family, f.kind|unix.SOCK_CLOEXEC, f.protocol)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			if err := unix.Sendto(fd, []byte{8, 0, 0, 0, 0, 0, 0, 0}, 0, f.to); err != nil {
				t.Error(err)
			}
		})
	}
	want := []string{"a packet left: 47 to 10.0.0.6:0", "a packet left: icmp to 10.0.0.5:0", "a packet left: udp to [2606:2800:220::12]:443"}
	if faults := m.beyond(t, []string{"allowed.test:443"}); !slices.Equal(faults, want) {
		t.Errorf("%q", faults)
	}
}

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

// FuzzPacket: whatever lies on the wire, reading it does not fail, and an
// address is one of the packet's own bytes.
func FuzzPacket(f *testing.F) {
	f.Add(uint16(unix.ETH_P_IP), []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 11, 0, 0, 2, 93, 184, 216, 10, 0, 1, 1, 187, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2})
	f.Add(uint16(unix.ETH_P_IP), []byte{0x4f, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 11, 0, 0, 2, 93, 184, 216, 10})
	f.Add(uint16(unix.ETH_P_IPV6), append([]byte{0x60, 0, 0, 0, 0, 8, 58, 64}, make([]byte, 40)...))
	f.Add(uint16(unix.ETH_P_ARP), []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, protocol uint16, b []byte) {
		p, ok := packet(protocol, b)
		if ok && (!p.To.Addr().IsValid() || !bytes.Contains(b, p.To.Addr().AsSlice())) {
			t.Errorf("%+v of %x", p, b)
		}
	})
}
