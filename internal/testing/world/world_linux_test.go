package world

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	w.Near(func() { c, err = net.DialTimeout(network, addr, time.Minute) })
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
