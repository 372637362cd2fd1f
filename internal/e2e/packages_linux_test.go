package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/world"
)

const (
	pipInstall = "python3 -m pip -q install --no-input --no-cache-dir --disable-pip-version-check --retries 1 --timeout 15 --target py "
	npmInstall = "npm install --no-audit --no-fund --loglevel error --fetch-retries 1 "
)

// TestPackagesAreInstalled from indexes that the call may reach: with the
// proxy variables of the cell, without them, and with TLS looked into.
func TestPackagesAreInstalled(t *testing.T) {
	s := usual(t)
	for _, tt := range []struct{ name, needs, host, install, trusted, use string }{
		{"pip", "/usr/lib/python3/dist-packages/pip", "index.test", pipInstall + "--index-url https://index.test/simple/ ", "--cert ca.pem ",
			"PYTHONPATH=py python3 -c 'import callcell_tiny; print(callcell_tiny.answer)'; rm -r py"},
		{"npm", "/usr/bin/npm", "registry.test", npmInstall + "--registry https://registry.test/npm/ ", "--cafile ca.pem ",
			"node -p \"require('" + world.Package + "').answer\"; rm -r node_modules"},
	} {
		for _, inspect := range []string{"false", "true"} {
			t.Run(tt.name+", inspect "+inspect, func(t *testing.T) {
				need(t, tt.needs)
				install := tt.install
				if inspect == "false" {
					install += tt.trusted
				}
				m := s.world.Mark(t)
				script := install + world.Package + "\n" + tt.use + "\n"
				a := s.run(call{network: "  allow: [{host: " + tt.host + ", ports: [443], inspect: " + inspect + "}]\n", sh: "set -e\n" + script + unset + script})
				if a.ok(t); strings.Count(a.stdout, "42\n") != 2 {
					t.Errorf("%s\n%s\n%s", a.stdout, a.stderr, a.end())
				}
				m.Only(t, tt.host+":443")
			})
		}
	}
}

// TestPackagesThatMayNotBeReachedFailFast: an installer does not try for
// minutes.
func TestPackagesThatMayNotBeReachedFailFast(t *testing.T) {
	s := usual(t)
	for _, tt := range []struct{ name, script string }{
		{"pip", "python3 -m pip download --no-input --no-cache-dir --cert ca.pem --index-url https://index.test/simple/ " + world.Package},
		{"npm", "npm view --registry https://registry.test/npm/ --cafile ca.pem --fetch-retries 0 " + world.Package},
		{"git", "GIT_SSL_CAINFO=$PWD/ca.pem git clone https://git.test/git/repo.git"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.world.Mark(t)
			a := s.run(call{network: everyday, sh: "! " + tt.script})
			a.ok(t)
			if a.took > 50*time.Second {
				t.Errorf("after %v", a.took)
			}
			m.Nothing(t)
		})
	}
}

// A registry is one that this host installs packages from.
type registry struct {
	hosts   []string
	install string
	use     string
}

// TestPackagesFromTheRegistriesOfThisHost installs a package each from where
// this host does. Where that leads to an address that is not public, which is
// so on machines with a mirror, the call is allowed that one address.
func TestPackagesFromTheRegistriesOfThisHost(t *testing.T) {
	s := newStand(t, "")
	for name, find := range map[string]func(*testing.T) registry{"pip": pythonIndex, "npm": npmRegistry} {
		t.Run(name, func(t *testing.T) {
			r := find(t)
			network := networkOf(t, r.hosts)
			a := s.run(call{outside: true, network: network, sh: "set -e\nexport NO_COLOR=1\n" + r.install + "\n" + r.use, wall: "2m"})
			if a.ok(t); !strings.Contains(a.stdout, "used\n") {
				t.Errorf("%s\n%s\n%s", a.stdout, a.stderr, a.end())
			}
			for _, l := range a.attempts() {
				t.Log(attempt(l))
			}
		})
	}
}

// networkOf allows hosts at port 443, with what they need. It skips the test
// where one of them is not to be had.
func networkOf(t *testing.T, hosts []string) string {
	t.Helper()
	allow, private := "  allow:\n", map[string]string{}
	for _, host := range hosts {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
		cancel()
		if err != nil || len(addrs) == 0 {
			t.Skipf("no way to %s from here: %v", host, err)
		}
		allow += fmt.Sprintf("  - {host: %s, ports: [443]}\n", host)
		for _, a := range addrs {
			if a = a.Unmap(); !public4(a) {
				private[a.String()] = fmt.Sprintf("{cidr: %s/32, why: a mirror of this machine}", a)
			}
		}
	}
	var list []string
	for _, addr := range sortedKeys(private) {
		list = append(list, private[addr])
	}
	return allow + "  private: [" + strings.Join(list, ", ") + "]\n"
}

// public4 is a rough guess, for what the machines of developers have.
func public4(a netip.Addr) bool {
	for _, no := range []string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "100.64.0.0/10"} {
		if netip.MustParsePrefix(no).Contains(a) {
			return false
		}
	}
	return a.IsGlobalUnicast() && !a.IsPrivate()
}

// pythonIndex asks pip where it installs from, and that index where its files
// are.
func pythonIndex(t *testing.T) registry {
	t.Helper()
	const ask = "from pip._internal.commands import create_command; print(create_command('install').parser.get_default_values().index_url)"
	index := output(t, "/usr/bin/python3", "-c", ask)
	base, err := url.Parse(index)
	if err != nil || base.Host == "" {
		t.Skipf("pip says %q", index)
	}
	hosts := []string{base.Hostname()}
	page := get(t).page(t, strings.TrimSuffix(index, "/")+"/six/")
	if m := regexp.MustCompile(`href="https://([^/":]+)/`).FindStringSubmatch(page); m != nil && m[1] != hosts[0] {
		hosts = append(hosts, m[1])
	}
	return registry{hosts, pipInstall + "--index-url " + index + " six", "PYTHONPATH=py python3 -c 'import six; print(\"used\")'"}
}

func npmRegistry(t *testing.T) registry {
	t.Helper()
	address := output(t, "npm", "config", "get", "registry")
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		t.Skipf("npm says %q", address)
	}
	return registry{[]string{base.Hostname()}, npmInstall + "--registry " + address + " left-pad", "node -p \"require('left-pad')('x', 1) && 'used'\""}
}

// output is what a program of this host prints, on a line.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Skipf("%s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// page gets a page from outside of the world. It skips the test where there is
// none.
func (s *shared) page(t *testing.T, address string) string {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	answer, err := client.Get(address)
	if err != nil {
		t.Skipf("no way to %s from here: %v", address, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Skipf("%s: %s, %v", address, answer.Status, err)
	}
	return string(body)
}
