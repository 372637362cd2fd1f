package e2e_test

import (
	_ "embed"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

var (
	//go:embed testdata/Fetch.java
	fetchJava string
	//go:embed testdata/fetch.py
	fetchPy string
	//go:embed testdata/fetch.js
	fetchJS string
	//go:embed testdata/socket.js
	socketJS string
)

// everyday is the network of most tests.
const everyday = `  allow:
  - {host: allowed.test, ports: [443]}
  - {host: allowed.test, ports: [8080], protocol: http}
  - {host: db.test, ports: [5432], protocol: postgres}
`

// unset takes the proxy variables away.
const unset = "unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY\n"

// A tool is an ordinary program that reaches a host in the ordinary way.
type tool struct {
	name   string
	needs  string
	script string // of bash; it prints answer
	host   string
	port   int
	answer string
	hits   int // requests that the server counts for it; 0 is any number
}

const trustStore = "-Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit"

func tools() []tool {
	url := "https://allowed.test/echo?"
	return []tool{
		{"curl", "/usr/bin/curl", "curl -sS --cacert ca.pem " + url + "curl", "allowed.test", 443, `"sni":"allowed.test"`, 1},
		{"curl -4", "/usr/bin/curl", "curl -4 -sS --cacert ca.pem " + url + "curl4", "allowed.test", 443, `"sni":"allowed.test"`, 1},
		{"curl, plain", "/usr/bin/curl", "curl -sS http://allowed.test:8080/echo", "allowed.test", 8080, `"host":"allowed.test:8080"`, 1},
		{"wget", "/usr/bin/wget", "wget -nv -O - --ca-certificate ca.pem " + url + "wget", "allowed.test", 443, `"sni":"allowed.test"`, 1},
		{"urllib", "/usr/bin/python3", "python3 fetch.py " + url + "urllib ca.pem", "allowed.test", 443, `"sni":"allowed.test"`, 1},
		{"urllib, plain", "/usr/bin/python3", "python3 fetch.py http://allowed.test:8080/echo ca.pem", "allowed.test", 8080, `"host":"allowed.test:8080"`, 1},
		{"node", "/usr/bin/node", "NODE_EXTRA_CA_CERTS=ca.pem node fetch.mjs " + url + "node", "allowed.test", 443, `"sni":"allowed.test"`, 1},
		{"WebSocket", "/usr/bin/node", "NODE_EXTRA_CA_CERTS=ca.pem node --experimental-websocket socket.mjs wss://allowed.test/ws hello", "allowed.test", 443, "hello", 1},
		{"WebSocket, plain", "/usr/bin/node", "node --experimental-websocket socket.mjs ws://allowed.test:8080/ws hello", "allowed.test", 8080, "hello", 1},
		{"java", "/usr/bin/java", "java -Xshare:auto -XX:TieredStopAtLevel=1 " + trustStore + " Fetch.java " + url + "java", "allowed.test", 443, `"sni":"allowed.test"`, 1},
		{"git", "/usr/bin/git", "rm -rf clone; GIT_SSL_CAINFO=$PWD/ca.pem git clone -q https://allowed.test/git/repo.git clone && cat clone/" + world.GitFile,
			"allowed.test", 443, world.GitText, 0},
		{"psql", "/usr/bin/psql", "PGPASSWORD=" + world.DatabasePassword + " PSQL -Atc 'select 6*7' 'host=db.test user=" + world.DatabaseUser +
			" dbname=postgres sslmode=verify-full sslrootcert=ca.pem'", "db.test", 5432, "42\n", -1},
	}
}

// needSocket skips a test of node's WebSocket where it has none yet.
func needSocket(t *testing.T, script string) {
	t.Helper()
	const flag = "--experimental-websocket"
	if strings.Contains(script, flag) && exec.Command("/usr/bin/node", flag, "-e", "new WebSocket('ws://127.0.0.1:1').onerror = () => process.exit(0)").Run() != nil {
		t.Skip("this host's node has no WebSocket")
	}
}

// TestOrdinaryToolsReachWhatIsAllowed runs tools as they are: with the proxy
// variables that a cell sets, and without any.
func TestOrdinaryToolsReachWhatIsAllowed(t *testing.T) {
	s := usual(t)
	s.world.Database(t)
	store, err := s.world.KeyStore("changeit")
	if err != nil {
		t.Fatal(err)
	}
	toolsReach(t, s, tools(), map[string]string{"trust.p12": string(store)})
}

// toolsReach runs tools with these files beside their own.
func toolsReach(t *testing.T, s *stand, tools []tool, more map[string]string) {
	t.Helper()
	psql, err := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if err != nil || len(psql) == 0 {
		psql = []string{"psql"}
	}
	files := map[string]string{"fetch.py": fetchPy, "fetch.mjs": fetchJS, "socket.mjs": socketJS, "Fetch.java": fetchJava}
	maps.Copy(files, more)
	for _, tt := range tools {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.needs)
			needSocket(t, tt.script)
			script := strings.ReplaceAll(tt.script, "PSQL", psql[0]) + "\n"
			m := s.world.Mark(t)
			a := s.run(call{network: everyday, files: files, sh: "set -e\n" + `test -n "$HTTPS_PROXY" -a -n "$https_proxy"` + "\n" + script + "echo ==\n" + unset + script})
			a.ok(t)
			with, without, _ := strings.Cut(a.stdout, "==\n")
			if !strings.Contains(with, tt.answer) || !strings.Contains(without, tt.answer) {
				t.Errorf("with proxy variables:\n%s\nwithout:\n%s\n%s", with, without, a.stderr)
			}
			m.Only(t, fmt.Sprintf("%s:%d", tt.host, tt.port))
			if hits := m.Hits(); tt.hits > 0 && len(hits) != 2*tt.hits {
				t.Errorf("requests that came: %+v", hits)
			}
			tt.checkRow(t, a)
		})
	}
}

// checkRow: every connection is in the row, with what was not looked into.
func (tt tool) checkRow(t *testing.T, a *answer) {
	t.Helper()
	unchecked := "fronting"
	if tt.port == 8080 {
		unchecked = ""
	}
	lines := a.tried(tt.host, tt.port)
	good := func(l envelope.Attempt) bool {
		return l.Verdict == envelope.VerdictAllowed && l.Unchecked == unchecked && l.Sent > 0 && l.Received > 0 && l.Address != ""
	}
	if len(lines) < 2 || !slices.ContainsFunc(lines, good) {
		t.Errorf("the row: %s", a.end())
	}
	if a.Egress != nil && (a.Egress.Denied != 0 || a.Egress.Connections < 2 || a.Egress.Received == 0) {
		t.Errorf("counters: %+v", *a.Egress)
	}
}

// TestNamesResolveWhateverFamiliesAreAskedFor asks for addresses as programs do that look at
// which families the machine has: they are to find the allowed name.
func TestNamesResolveWhateverFamiliesAreAskedFor(t *testing.T) { namesResolve(t, usual(t)) }

func namesResolve(t *testing.T, s *stand) {
	t.Helper()
	a := s.run(call{network: everyday, python: `
import socket
for flags in (0, socket.AI_ADDRCONFIG, socket.AI_ADDRCONFIG | socket.AI_V4MAPPED):
    for family in (socket.AF_UNSPEC, socket.AF_INET):
        got = {a[4][0] for a in socket.getaddrinfo("allowed.test", 443, family=family, type=socket.SOCK_STREAM, flags=flags)}
        assert len(got) == 1 and got.pop().startswith("198.18."), (flags, family, got)
for flags in (0, socket.AI_ADDRCONFIG):
    try: print(socket.getaddrinfo("allowed.test", 443, family=socket.AF_INET6, flags=flags))
    except socket.gaierror as e: pass
print(socket.gethostbyname("allowed.test").startswith("198.18."), socket.gethostbyname("localhost"))
`})
	if a.ok(t); a.stdout != "True 127.0.0.1\n" {
		t.Errorf("%s\n%s", a.stdout, a.stderr)
	}
}
