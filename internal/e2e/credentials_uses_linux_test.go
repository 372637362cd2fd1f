package e2e_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

// TestSecretsOfCallsDoNotMix: calls at once, of one egress process, with other
// secrets under one name.
func TestSecretsOfCallsDoNotMix(t *testing.T) {
	s := usual(t)
	values, profiles := map[string]string{}, map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("p%d", i)
		values[name] = newSecret()
		profiles[name] = "      allow: [{host: allowed.test, ports: [443]}]\n    credentials:\n      gh: {source: \"file:" + s.write("key-"+name, values[name]) +
			"\", use: {header: Authorization, format: \"Bearer {}\", host: allowed.test, methods: [GET], path: /repos/}}\n"
	}
	h := s.house(profiles)
	m := s.world.Mark(t)
	var waiting []<-chan *envelope.Result
	const calls, each = 12, 5
	for i := range calls {
		name := fmt.Sprintf("p%d", i%len(values))
		c := s.shell(fmt.Sprintf("for i in $(seq %d); do curl -sS -f 'https://allowed.test/repos/?who=%s' || exit 1; done", each, name))
		c.Profile = name
		waiting = append(waiting, h.begin("", c))
	}
	for i, wait := range waiting {
		r := <-wait
		if r == nil {
			t.Fatal("the house has ended")
		}
		a := &answer{Result: *r, stdout: text(r.Stdout), stderr: text(r.Stderr)}
		a.ok(t)
		for _, value := range values {
			clean(t, fmt.Sprintf("call %d", i), a.stdout+a.stderr, value)
		}
		if a.Egress == nil || a.Egress.Credentials["gh"] != each || a.Egress.Masked != each {
			t.Errorf("call %d: %+v", i, a.Egress)
		}
	}
	for _, hit := range m.Hits() {
		u, err := url.Parse(hit.Path)
		if err != nil || bearer(hit, values[u.Query().Get("who")]) != 1 || strings.Count(hit.Header, "Authorization") != 1 {
			t.Errorf("%s came with another header than its own", hit.Path)
		}
	}
	if n := len(m.Hits()); n != calls*each {
		t.Errorf("%d requests came", n)
	}
}

const usesScript = `
set -e
test "$(stat -c %a /run/credentials/key)" = 400
test "$(wc -c </run/credentials/key)" = WIDTH
test "$TOKEN" = "$(cat /run/credentials/key)"
! (echo x >/run/credentials/key) 2>/dev/null
tr '\0' '\n' </proc/1/environ | grep -c . || true
v=$(cat /run/credentials/key)
for i in $(seq 20); do printf 'a%s' "${v:0:$i}"; read -t 0.01 <><(:) || true; printf '%sz\n' "${v:$i}"; done
printf '<%s>' "$v" >&2
printf '%s' "$v" | base64 >&2
head -c 65530 /dev/zero | tr '\0' n >out; printf '%s' "$v" >>out
`

// TestFileAndEnvironmentCredentials: a program has them where it is said, and
// what it writes of them is masked, however it cuts it.
func TestFileAndEnvironmentCredentials(t *testing.T) { fileAndEnvironment(t, usual(t)) }

func fileAndEnvironment(t *testing.T, s *stand) {
	t.Helper()
	value := newSecret()
	source := "file:" + s.write("key", value+"\n")
	a := s.run(call{out: []string{"out"}, sh: strings.ReplaceAll(usesScript, "WIDTH", fmt.Sprint(len(value))), network: "  allow: []\ncredentials:\n" +
		"  key: {source: \"" + source + "\", use: {file: true}}\n  old: {source: \"" + source + "\", use: {env: TOKEN}}\n"})
	a.ok(t)
	clean(t, "stdout", a.stdout, value)
	clean(t, "stderr", a.stderr, value)
	if len(a.Outputs) != 1 {
		t.Fatalf("outputs: %+v", a.Missing)
	}
	clean(t, "out", string(a.Outputs[0].Data), value)
	masks := func(text string) int { return strings.Count(text, "redacted:") }
	if o, e, f := masks(a.stdout), masks(a.stderr), masks(string(a.Outputs[0].Data)); o != 20 || e != 2 || f != 1 {
		t.Errorf("masks: %d on stdout, %d on stderr, %d in the file\n%s%s", o, e, f, a.stdout, a.stderr)
	}
	if a.Masked["key"]+a.Masked["old"] != 23 {
		t.Errorf("counted: %v", a.Masked)
	}
	if !strings.Contains(strings.Join(a.Warnings, "\n"), "credentials.old") {
		t.Errorf("warnings: %q", a.Warnings)
	}
	clean(t, "the row", string(s.output("audit", "show", a.ID)), value)
	after := newScan(value, "version: 1")
	after.files("stand", s.dir, time.Time{}, filepath.Join(s.dir, "key"))
	after.clean(t, "stand")
}

// TestSourceThatFailsRefuses: nothing runs, nothing stays, and neither what
// the source said nor its words are told.
func TestSourceThatFailsRefuses(t *testing.T) {
	s, value := usual(t), newSecret()
	s.text += `credentials:
  vault: {address: "https://11.0.0.1:8201", token: "env:VAULT"}
  oauth2: {down: {tokenURL: "https://11.0.0.1:8201/token", clientID: me, secret: "env:VAULT"}}
`
	s.write("callcell.yaml", s.text)
	good := "file:" + s.write("key", value)
	script := s.write("fails", "#!/bin/sh\necho "+value+"; echo "+value+" >&2; exit 3\n")
	sleeps := fmt.Sprintf("/bin/sleep 1009.%d", os.Getpid()) // of this run of the tests alone
	hangs := s.write("hangs", "#!/bin/sh\necho "+value+"; "+sleeps+"; exit\n")
	if err := exec.Command("chmod", "700", script, hangs).Run(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, source string }{
		{"a file that is missing", "file:" + filepath.Join(s.dir, "none-w0rd")},
		{"a file that all can read", "file:/etc/passwd"},
		{"a variable that is missing", "env:MISSING_W0RD"},
		{"a command that fails", "command:" + script + " w0rd"},
		{"a command that is missing", "command:/none/such w0rd"},
		{"a command that hangs", "command:" + hangs + " w0rd"},
		{"a vault that is down", "vault:secret/w0rd#field"},
		{"a token server that is down", "oauth2:down"},
		{"a client that is not there", "oauth2:w0rd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			began := time.Now()
			a := s.run(call{sh: "curl -s http://allowed.test:8080/", front: []string{"VAULT=" + value}, network: "  allow: [{host: allowed.test, ports: [8080], protocol: http}]\ncredentials:\n" +
				"  good: {source: \"" + good + "\", use: {file: true}}\n  bad: {source: \"" + tt.source + "\", use: {file: true}}\n"})
			if a.Refusal == nil || !strings.Contains(a.Refusal.Message+a.Refusal.Field, "bad") || a.stdout+a.stderr != "" || time.Since(began) > 50*time.Second {
				t.Fatalf("after %s: %s", time.Since(began), a.end())
			}
			said := fmt.Sprintf("%+v %q", *a.Refusal, a.Warnings)
			clean(t, "the refusal", said, value)
			if strings.Contains(strings.ToLower(said), "w0rd") || strings.Contains(said, s.dir) {
				t.Errorf("the words of the source are told: %s", said)
			}
			if len(m.Hits()) > 0 {
				t.Errorf("it ran: %+v", m.Hits())
			}
			for _, name := range []string{"callcell", "callcell-launcher", "callcell-egress", "callcell-init"} {
				await(t, name+" stays", func() bool { return len(s.processes(name)) == 0 })
			}
			await(t, "the command stays", func() bool { return len(inCells(sleeps)) == 0 })
		})
	}
}

// TestPagesTellNoSecret: what explains, prints and refuses has neither secrets
// nor the words of commands in it.
func TestPagesTellNoSecret(t *testing.T) {
	s, value := usual(t), newSecret()
	words := "command:/bin/echo " + value
	s.text += "credentials:\n  vault: {address: \"https://vault.test\", token: \"" + words + "\"}\n" +
		"  oauth2: {x: {tokenURL: \"https://vault.test/token\", clientID: me, secret: \"" + words + "\"}}\n" +
		"profiles:\n  one:\n    version: 1\n    level: container\n    trust: reviewed\n    network:\n      allow: [{host: allowed.test, ports: [443]}]\n" +
		"    credentials:\n      gh: {source: \"" + words + "\", use: {header: X-Key, host: allowed.test, methods: [GET], path: /}}\n      old: {source: \"" + words + "\", use: {env: TOKEN}}\n"
	s.write("callcell.yaml", s.text)
	bad := func(change ...string) string {
		return s.write("bad-"+rand.Text(), strings.NewReplacer(change...).Replace("version: 1\nlevel: container\ntrust: reviewed\nnetwork:\n  allow: [{host: allowed.test, ports: [443]}]\ncredentials:\n  gh: {source: \""+words+"\", use: {header: X-Key, host: allowed.test, methods: [GET], path: /}}\n"))
	}
	for _, tt := range []struct {
		name string
		ok   bool
		args []string
	}{
		{"config", true, []string{"config"}},
		{"explain", true, []string{"explain", "--profile", "one", "--", "/bin/true"}},
		{"explain, JSON", true, []string{"explain", "--json", "--profile", "one", "--", "/bin/true"}},
		{"run", true, []string{"run", "--json", "--profile", "one", "--", "/bin/sh", "-c", "echo $TOKEN; echo $TOKEN >&2"}},
		{"run, for people", true, []string{"run", "--profile", "one", "--", "/bin/sh", "-c", "echo $TOKEN; echo $TOKEN >&2"}},
		{"a value as source", false, []string{"run", "--envelope", bad(words, value), "--", "/bin/true"}},
		{"another kind of source", false, []string{"run", "--envelope", bad("command:", "shell:"), "--", "/bin/true"}},
		{"a relative command", false, []string{"run", "--envelope", bad("/bin/", ""), "--", "/bin/true"}},
		{"an open quote", false, []string{"run", "--envelope", bad("echo ", "echo '"), "--", "/bin/true"}},
		{"two uses", false, []string{"run", "--envelope", bad("use: {", "use: {file: true, "), "--", "/bin/true"}},
		{"broken YAML", false, []string{"run", "--envelope", bad("\", use", ", use"), "--", "/bin/true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := exec.Command(filepath.Join(s.bin, "callcell"), append([]string{"--config", s.conf}, tt.args...)...)
			out, err := c.CombinedOutput()
			if (err == nil) != tt.ok {
				t.Errorf("%v\n%s", err, strings.ReplaceAll(string(out), value, "SECRET"))
			}
			for _, id := range idsIn(string(out)) {
				out = append(out, s.output("audit", "show", id)...)
			}
			for _, form := range append(forms(value), "/bin/echo") {
				if strings.Contains(string(out), form) {
					t.Errorf("%.9s is told:\n%s", form, strings.ReplaceAll(string(out), value, "SECRET"))
				}
			}
		})
	}
}
