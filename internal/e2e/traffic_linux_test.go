package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// echoing has a port at which a server says back what it is told.
const echoing = "  allow: [{host: allowed.test, ports: [7], protocol: tcp}, {host: allowed.test, ports: [8080], protocol: http}, {host: allowed.test, ports: [443]}]\n"

// TestMuchIsCarriedUnchanged: many bytes both ways, many connections at once,
// ends of either side.
func TestMuchIsCarriedUnchanged(t *testing.T) {
	s := usual(t)
	for _, tt := range []struct{ name, python, want string }{
		{"both ways at once, and half an end", `
import hashlib, os, socket, threading
block = os.urandom(1 << 20)
def one(n):
    s = socket.create_connection(("allowed.test", 7), 30)
    sent, got = hashlib.sha256(), hashlib.sha256()
    def push():
        for i in range(n):
            s.sendall(block); sent.update(block)
        s.shutdown(socket.SHUT_WR)
    t = threading.Thread(target=push); t.start()
    while data := s.recv(1 << 20): got.update(data)
    t.join()
    return sent.digest() == got.digest()
print(one(64), one(0))
`, "True True\n"},
		{"many at once", `
import concurrent.futures, os, socket
def one(i):
    s = socket.create_connection(("allowed.test", 7), 30)
    data = os.urandom(1000 + i)
    s.sendall(data); s.shutdown(socket.SHUT_WR)
    return data == b"".join(iter(lambda: s.recv(65536), b""))
with concurrent.futures.ThreadPoolExecutor(32) as p: print(sum(p.map(one, range(500))))
`, "500\n"},
		{"a long answer, in the clear", `
import urllib.request
print(len(urllib.request.urlopen("http://allowed.test:8080/size?n=50000000", timeout=30).read()))
`, "50000000\n"},
		{"a long answer, by TLS", `
import ssl, urllib.request
print(len(urllib.request.urlopen("https://allowed.test/size?n=50000000", timeout=30, context=ssl.create_default_context(cafile="ca.pem")).read()))
`, "50000000\n"},
		{"a reset", `
import socket, struct
for i in range(50):
    s = socket.create_connection(("allowed.test", 7), 30)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.sendall(b"x")
    s.close()
s = socket.create_connection(("allowed.test", 7), 30)
s.sendall(b"last"); print(s.recv(10))
`, "b'last'\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			a := s.run(call{network: echoing, python: tt.python})
			if a.ok(t); a.stdout != tt.want {
				t.Errorf("%q, want %q\n%s%s", a.stdout, tt.want, a.stderr, a.end())
			}
			m.Only(t, "allowed.test:7", "allowed.test:8080", "allowed.test:443")
			t.Log(a.took, a.Egress.Sent>>20, "MiB out", a.Egress.Received>>20, "MiB in")
		})
	}
}

// TestEveryConnectionIsInTheRow, those too that were made just before the
// program ended.
func TestEveryConnectionIsInTheRow(t *testing.T) {
	s := usual(t)
	h := s.house(map[string]string{"default": "      allow: [{host: allowed.test, ports: [7], protocol: tcp}, {host: allowed.test, ports: [443]}]\n"})
	const quick = "exec 3<>/dev/tcp/allowed.test/7; echo hello >&3; read -r line <&3; test $line = hello; exit"
	for i := range 30 {
		a := h.run("", s.shell(quick))
		a.ok(t)
		lines := a.tried("allowed.test", 7)
		if len(lines) != 1 || lines[0].Verdict != envelope.VerdictAllowed || lines[0].Sent != 6 || lines[0].Received != 6 || lines[0].Unchecked != "content" {
			t.Errorf("call %d: %s", i, a.end())
		}
		if a.Egress == nil || a.Egress.Connections != 1 || a.Egress.Sent != 6 || a.Egress.Received != 6 {
			t.Errorf("call %d: %+v", i, a.Egress)
		}
	}
}

// TestTheEndOfACallIsTheEndOfItsConnections, of those too that a process holds
// that it left behind.
func TestTheEndOfACallIsTheEndOfItsConnections(t *testing.T) {
	s := usual(t)
	h := s.house(map[string]string{"default": "      allow: [{host: allowed.test, ports: [8080], protocol: http}]\n"})
	m := s.world.Mark(t)
	a := h.run("", s.shell("(setsid curl -sN http://allowed.test:8080/drip >out 2>&1 &) ; until grep -q x out; do sleep 0.05; done"))
	a.ok(t)
	if lines := a.tried("allowed.test", 8080); len(lines) != 1 || lines[0].Received == 0 {
		t.Errorf("the row: %s", a.end())
	}
	for _, check := range a.Teardown.Checks {
		if check.What == "egress" && !check.Gone {
			t.Errorf("teardown: %+v", check)
		}
	}
	await(t, "the server still has the connection", func() bool { return s.world.Connections() == 0 })
	m.Only(t, "allowed.test:8080")
}

// TestServersThatDoNotAnswer: nobody waits longer than the operator says.
func TestServersThatDoNotAnswer(t *testing.T) {
	s := newStand(t, egressConf+"  roots: ROOTS\n  limits: {dial: 4s, idle: 8s}\n  fetch: {total: 2s}\n")
	const network = "  allow: [{host: silent.test, ports: [443]}, {host: silent.test, ports: [8080], protocol: http}, {host: allowed.test, ports: [7], protocol: tcp}]\n"
	began := time.Now()
	a := s.run(call{network: network, sh: `
curl -s -m20 https://silent.test/; test $? = 28 && exit 1
curl -s -f -m20 http://silent.test:8080/; test $? = 28 && exit 2
` + unset + `
curl -s -m20 https://silent.test/; test $? = 28 && exit 3
timeout 20 bash -c 'exec 3<>/dev/tcp/allowed.test/7; read -r line <&3'; test $? = 124 && exit 4
true`})
	if a.ok(t); time.Since(began) > 50*time.Second {
		t.Errorf("after %v", time.Since(began))
	}
	a.row(t, "silent.test", 443, envelope.VerdictFailed, "")
	a.row(t, "silent.test", 8080, envelope.VerdictFailed, "")
	if lines := a.tried("allowed.test", 7); len(lines) != 1 || lines[0].Verdict != envelope.VerdictCut || lines[0].Why == "" {
		t.Errorf("an idle connection: %s", a.end())
	}
	if a := s.fetch(public, "http://silent.test/"); a.why() == "" || a.took > 18*time.Second {
		t.Errorf("fetch, after %v: %s", a.took, a.end())
	}
}

// TestNamesThatAreNotThere: a name that may be reached and does not exist fails,
// and says so.
func TestNamesThatAreNotThere(t *testing.T) {
	s := usual(t)
	s.world.Set("empty.test", world.Answers{{}})
	const network = "  allow: [{host: gone.test, ports: [443]}, {host: empty.test, ports: [443]}]\n"
	m := s.world.Mark(t)
	a := s.run(call{network: network, sh: "for h in gone.test empty.test; do curl -s -m25 https://$h/; test $? != 0 -a $? != 28 || exit 1; done; " + unset + " for h in gone.test empty.test; do curl -s -m25 https://$h/; test $? != 0 -a $? != 28 || exit 2; done"})
	a.ok(t)
	for _, host := range []string{"gone.test", "empty.test"} {
		lines := a.tried(host, 443)
		if len(lines) != 2 || slices.ContainsFunc(lines, func(l envelope.Attempt) bool { return l.Verdict != envelope.VerdictFailed || l.Why == "" }) {
			t.Errorf("%s: %s", host, a.end())
		}
	}
	m.Only(t, "gone.test:443", "empty.test:443")
}
