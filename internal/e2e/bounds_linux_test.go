package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

// long reports whether tests may take minutes.
func long() bool { return os.Getenv("CALLCELL_LONG") != "" }

// tool is a C program of testdata.
func (s *stand) tool(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.tools, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// watchMemory notes the most memory that a process of a binary has, until what
// it returns is called.
func (s *stand) watchMemory(binary string) (most func() int64) {
	var peak int64
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, pid := range s.processes(binary) {
				peak = max(peak, peakMemory(pid))
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() int64 {
		close(done)
		watching.Wait()
		return peak
	}
}

// TestManyNamesAreBounded: names without number, each another one, grow
// neither the row nor the process that answers.
func TestManyNamesAreBounded(t *testing.T) {
	s := usual(t)
	count := 100_000
	if long() {
		count = 1_000_000
	}
	for _, tt := range []struct {
		name, network, suffix string
		with                  int // of the names get an address
	}{
		{"none of them allowed", everyday, "leak.test", 0},
		{"all of them allowed", "  allow: [{host: '*.flood.test', ports: [443]}]\n", "flood.test", 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			most := s.watchMemory("callcell-egress")
			a := s.run(call{network: tt.network, files: map[string]string{"flood": s.tool("flood")},
				sh: fmt.Sprintf("chmod +x flood; ./flood %d %s", count, tt.suffix), wall: "5m"})
			peak := most()
			a.ok(t)
			var with, without, lost int
			if _, err := fmt.Sscan(a.stdout, &with, &without, &lost); err != nil || with != tt.with || lost > 0 || with+without != count {
				t.Errorf("answers with an address %d, without %d, none %d: %v", with, without, lost, err)
			}
			row, err := json.Marshal(a.Egress)
			if err != nil || len(row) > 128<<10 || len(a.attempts()) > envelope.MaxAttempts {
				t.Errorf("the row has %d bytes and %d lines, %v", len(row), len(a.attempts()), err)
			}
			if e := a.Egress; e != nil && (e.Names != int64(count) || e.More+int64(len(e.Attempts)) < int64(count-tt.with)) {
				t.Errorf("counters: names %d, more %d, denied %d", e.Names, e.More, e.Denied)
			}
			t.Logf("%v; at most %d MiB; the row has %d bytes", a.took, peak>>20, len(row))
			if peak == 0 || peak > 64<<20 {
				t.Errorf("the egress process had %d MiB", peak>>20)
			}
			m.Nothing(t)
		})
	}
}

// TestConnectionsAreBounded: what a call may have at once, in all, and in
// bytes.
func TestConnectionsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name, limits, python, want string
	}{
		{"at once", "connections: 8", `
import socket
held, refused = [], 0
for i in range(20):
    try:
        s = socket.create_connection(("allowed.test", 8080), 25)
        s.sendall(b"GET /drip HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n")
        ok = s.recv(1)
    except OSError: ok = b""
    if ok: held.append(s)
    else: refused += 1
print(len(held), refused)
`, "8 12\n"},
		{"in all", "callConnections: 8", `
import urllib.request
good = bad = 0
for i in range(20):
    try: urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://allowed.test:8080/", timeout=25).read(); good += 1
    except OSError: bad += 1
print(good, bad)
`, "8 12\n"},
		{"in bytes", "bytes: 1Mi", `
import urllib.request
try: print(len(urllib.request.urlopen("http://allowed.test:8080/size?n=8000000", timeout=25).read()) < 2000000)
except Exception as e: print(True)
try: print(urllib.request.urlopen("http://allowed.test:8080/", timeout=25).status)
except Exception as e: print("refused")
`, "True\nrefused\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStand(t, egressConf+"  roots: ROOTS\n  limits: {"+tt.limits+"}\n")
			a := s.run(call{network: everyday, python: tt.python})
			if a.ok(t); a.stdout != tt.want {
				t.Errorf("%q, want %q\n%s\n%s", a.stdout, tt.want, a.stderr, a.end())
			}
		})
	}
}

// TestHalfOpenConnectionsAreBounded: many connections that say nothing hold
// little memory, and go with the call.
func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	s := usual(t)
	most := s.watchMemory("callcell-egress")
	m := s.world.Mark(t)
	a := s.run(call{network: everyday, python: `
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for port in (443, 8080):
    for i in range(480):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("198.18.1.0", port))
        held.append(s)
        s = None
for s in held:
    try: s.send(b"\x16\x03\x01\x3f\xff" + b"x" * 100000)
    except OSError: pass
print(len(held))
`})
	peak := most()
	if a.ok(t); a.stdout != "960\n" {
		t.Errorf("%s%s", a.stdout, a.stderr)
	}
	t.Logf("at most %d MiB", peak>>20)
	if peak == 0 || peak > 96<<20 {
		t.Errorf("the egress process had %d MiB", peak>>20)
	}
	m.Nothing(t)
}
