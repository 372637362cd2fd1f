package e2e_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// sane fails the test where a line of a row has what a program must not be
// able to put there.
func sane(t testing.TB, lines []envelope.Attempt) {
	t.Helper()
	for _, l := range lines {
		for _, text := range []string{l.Host, l.Why, l.Address, l.Protocol, l.Unchecked} {
			if len(text) > 600 || render.Line(text, 0) != text {
				t.Errorf("a line of the row: %+q", attempt(l))
			}
		}
		if !l.Verdict.Valid() || l.Port < 0 || l.Port > 65535 || l.Sent < 0 || l.Received < 0 || l.Took < 0 {
			t.Errorf("a line of the row: %+v", l)
		}
	}
}

// hostileNames asks for names, hosts and requests that are not meant to be
// printed.
const hostileNames = `
import socket, struct
odd = [b"\x1b[31mred", b"two\nlines", b"nul\x00byte", "\u202egnp.exe".encode(), b"\xff\xfe", b"a b", b'quote"', b"comma,", b"<script>", b"%n%s", b"x" * 63, "\U000e0041tag".encode(), b"."]
def ask(label):
    q = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\x04evil\x04test\0" + struct.pack(">HH", 1, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
    s.sendto(q, ("127.0.0.53", 53))
    try: s.recv(512)
    except socket.timeout: pass
def say(host, port, data):
    try:
        s = socket.create_connection((host, port), 2); s.settimeout(2)
        s.sendall(data); s.recv(4096)
    except OSError: pass
for o in odd:
    ask(o)
    say("127.0.0.53", 3128, b"CONNECT " + o + b".evil.test:443 HTTP/1.1\r\n\r\n")
    say("127.0.0.53", 3128, b"GET http://" + o + b".evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
    say("allowed.test", 8080, b"GET / HTTP/1.1\r\nHost: " + o + b".evil.test\r\n\r\n")
    name = o + b".evil.test"
    sni = struct.pack(">HBH", len(name) + 3, 0, len(name)) + name
    ext = struct.pack(">HH", 0, len(sni)) + sni
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + struct.pack(">H", len(ext)) + ext
    msg = b"\x01" + struct.pack(">I", len(body))[1:] + body
    say("allowed.test", 443, b"\x16\x03\x01" + struct.pack(">H", len(msg)) + msg)
print("done")
`

// TestHostileNamesInTheRow: what a program asks for stands in the row as data,
// escaped, on one line.
func TestHostileNamesInTheRow(t *testing.T) {
	s := usual(t)
	m := s.world.Mark(t)
	a := s.run(call{network: everyday, python: hostileNames})
	if a.ok(t); a.stdout != "done\n" || a.Egress == nil || a.Egress.Denied < 40 {
		t.Errorf("%s%s%s", a.stdout, a.stderr, a.end())
	}
	m.Nothing(t)
	show := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "audit", "show", a.ID)
	shown, err := show.CombinedOutput()
	if err != nil {
		t.Errorf("audit show: %v\n%s", err, shown)
	}
	if bytes.ContainsFunc(shown, func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) || err != nil {
		t.Errorf("audit show prints %q", shown)
	}
}

// TestTheLogHasWhatTheResultHas, and it holds together.
func TestTheLogHasWhatTheResultHas(t *testing.T) {
	s := usual(t)
	a := s.run(call{network: everyday, sh: "curl -sS -f --cacert ca.pem https://allowed.test/echo; curl -s https://denied.test/; true"})
	a.ok(t)
	shown := s.output("audit", "show", a.ID)
	var row struct {
		Ending struct {
			Egress *envelope.Egress `json:"egress"`
		} `json:"ending"`
	}
	if err := json.Unmarshal(shown, &row); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(row.Ending.Egress)
	want, failed := json.Marshal(a.Egress)
	if err != nil || failed != nil || !bytes.Equal(got, want) {
		t.Errorf("the row has\n%s\nand the result\n%s", got, want)
	}
	fetched := s.fetch(public, "https://allowed.test/")
	if shown := s.output("audit", "show", fetched.ID); !bytes.Contains(shown, []byte(`"host":"allowed.test"`)) && !bytes.Contains(shown, []byte(`"host": "allowed.test"`)) {
		t.Errorf("the row of a fetch: %s", shown)
	}
	for host, want := range map[string]int{"allowed.test": 2, "denied.test": 1, "never.test": 0} {
		if found := s.output("audit", "list", "--host", host); bytes.Count(found, []byte("\n")) != want {
			t.Errorf("calls that tried to reach %s: %s", host, found)
		}
	}
	s.output("audit", "verify")
}

// output runs callcell and returns what it prints.
func (s *stand) output(args ...string) []byte {
	s.t.Helper()
	argv := append(append(slices.Clone(s.wrap), filepath.Join(s.bin, "callcell"), "--config", s.conf), args...)
	c := exec.Command(argv[0], argv[1:]...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		s.t.Errorf("callcell %q: %v\n%s%s", args, err, out, stderr.String())
	}
	return out
}

// TestAnyDeathIsTheEndOfTheWayOut: whichever process of ours is killed in the
// middle of a call, its connections end, and nothing of it goes on.
func TestAnyDeathIsTheEndOfTheWayOut(t *testing.T) {
	s := usual(t)
	for _, victim := range []string{"callcell", "callcell-launcher", "callcell-egress", "callcell-init"} {
		t.Run(victim, func(t *testing.T) {
			m := s.world.Mark(t)
			env := s.write("envelope.yaml", s.envelopeOf("60s")+everyday)
			code := s.write("main.sh", "setsid curl -s http://allowed.test:8080/drip & curl -s http://allowed.test:8080/drip; sleep 50")
			c := exec.Command(filepath.Join(s.bin, "callcell"), "--config", s.conf, "run", "--json", "--envelope", env, "--in", code, "--", "/bin/bash", "main.sh")
			c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir}
			if err := s.world.Start(c); err != nil {
				t.Fatal(err)
			}
			await(t, "the call does not get out", func() bool { return len(m.Hits()) == 2 })
			pids := s.processes(victim)
			if len(pids) == 0 {
				t.Errorf("there is no %s", victim)
			}
			slices.Sort(pids)
			for _, pid := range pids[:min(len(pids), 1)] {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
			await(t, "connections are left", func() bool { return s.world.Connections() == 0 })
			_ = c.Wait() // it may have been the victim
			await(t, "processes are left", func() bool {
				return len(slices.Concat(s.processes("callcell"), s.processes("callcell-launcher"), s.processes("callcell-egress"), s.processes("callcell-init"))) == 0
			})
			m.Only(t, "allowed.test:8080")
		})
	}
}
