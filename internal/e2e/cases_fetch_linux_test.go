package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/world"
)

// public lets the fetch tool reach any public host.
const public = "  fetch: public\n"

// fetch has callcell fetch an address, for a profile of that network or, where
// it is public, for none.
func (s *stand) fetch(network, address string, flags ...string) *answer {
	s.t.Helper()
	args := append([]string{"fetch", "--json"}, flags...)
	if network != public {
		s.write("callcell.yaml", s.text+"profiles:\n  fetching:\n    version: 1\n    network:\n    "+strings.ReplaceAll(strings.TrimSuffix(network, "\n"), "\n", "\n    ")+"\n")
		defer s.write("callcell.yaml", s.text)
		args = append(args, "--profile", "fetching")
	}
	return s.callcell(call{}, append(args, address))
}

// body is what came, "" where nothing did.
func (a *answer) body() string {
	if a.Fetched == nil {
		return ""
	}
	return string(a.Fetched.Body)
}

// why is why nothing came, "" where something did.
func (a *answer) why() string {
	switch {
	case a.Refusal != nil:
		return a.Refusal.Message
	case a.Fetched == nil:
		return "no answer at all"
	}
	return a.Fetched.Failure
}

// TestFetchCases replays what went wrong with the fetch tools of others.
func TestFetchCases(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(*testing.T, *stand)
	}{
		{"29 mapped IPv4 in other spellings", func(t *testing.T, s *stand) {
			fetchesNothing(t, s, "http://[::ffff:7f00:1]:9931/", "http://[::ffff:127.0.0.1]:9931/", "http://[0:0:0:0:0:ffff:7f00:1]:9931/", "http://[::]:9931/", "http://[::1]:9931/", "http://[::1%25lo]:9931/")
		}},
		{"30 IPv6 that carries IPv4", func(t *testing.T, s *stand) {
			var urls []string
			for addr := range notPublic() {
				if strings.Contains(addr, ":") {
					addr = "[" + addr + "]"
				}
				urls = append(urls, "http://"+addr+":9931/")
			}
			fetchesNothing(t, s, urls...)
		}},
		{"31 other spellings of an IPv4 address", func(t *testing.T, s *stand) {
			fetchesNothing(t, s, "http://2130706433:9931/", "http://0x7f000001:9931/", "http://0177.0.0.1:9931/", "http://127.1:9931/", "http://0:9931/",
				"http://127.0.0.1.:9931/", "http://①②⑦.⓪.⓪.①:9931/", "http://127.0.0.1:9931/", "http://localhost:9931/", "http://localhost/", "http://127。0。0。1:9931/", "http://0x7f.1/", "http://%31%32%37.0.0.1/")
		}},
		{"33 a name that changes its address", changingNames},
		{"35 the last address is judged too late", redirectsAreJudged},
		{"36 a redirect to another scheme", schemes},
		{"39 a small answer that is large when unpacked", bombs},
		{"40 an answer without an end", endless},
		{"41 the cache answers one with another's page", caches},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.play(t, newStand(t, egressConf+"  roots: ROOTS\n  limits: {total: 20s}\n  fetch: {ports: [80, 443, 8080, 8443, 9931], total: 5s}\n"))
		})
	}
}

// fetchesNothing wants addresses refused before anything leaves this host.
func fetchesNothing(t *testing.T, s *stand, urls ...string) {
	t.Helper()
	m := s.world.Mark(t)
	for _, u := range urls {
		a := s.fetch(public, u)
		if a.why() == "" || a.body() != "" || a.status == 0 {
			t.Errorf("%s: %s %q", u, a.end(), a.body())
		}
		if strings.Contains(a.why(), "timeout") || a.took > 18*time.Second {
			t.Errorf("%s: %q after %v", u, a.why(), a.took)
		}
	}
	m.Nothing(t)
}

func changingNames(t *testing.T, s *stand) {
	s.world.Set("flip.test", world.ByTurns("93.184.216.10", "127.0.0.1"))
	s.world.Set("flop.test", world.ByTurns("93.184.216.10", "127.0.0.1", world.NearAddr))
	m := s.world.Mark(t)
	// Each tool has connections of its own, and each connection is resolved
	// anew: half of them lead to the host itself.
	a := s.run(call{
		network: "  allow: [{host: flip.test, ports: [8080], protocol: http}, {host: flop.test, ports: [9931], protocol: tcp}]\n",
		sh:      "good=0; for i in $(seq 200); do curl -s -f -m5 -o /dev/null http://flip.test:8080/ && good=$((good+1)); curl -s -m5 -o /dev/null --noproxy '*' http://flop.test:9931/; done; echo $good",
		wall:    "120s",
	})
	a.ok(t)
	if good, err := strconv.Atoi(strings.TrimSpace(a.stdout)); err != nil || good < 60 || good > 140 {
		t.Errorf("%q of 200 were answered\n%s", a.stdout, a.end())
	}
	for _, stray := range m.Strays() {
		if stray.To.Addr() != s.world.Addr("allowed.test") {
			t.Errorf("INT was hit: %v", stray)
		}
	}
	m = s.world.Mark(t)
	good := 0
	for range 40 {
		if a := s.fetch(public, "http://flip.test:8080/", "--fresh"); a.body() != "" {
			good++
		}
	}
	if strays := m.Strays(); len(strays) > 0 || good < 10 || good > 30 {
		t.Errorf("INT was hit: %v; %d of 40 were answered", strays, good)
	}
}

func redirectsAreJudged(t *testing.T, s *stand) {
	to := func(u string) string { return "http://allowed.test/to?u=" + url.QueryEscape(u) }
	hops := "http://127.0.0.1:9931/wipe"
	for range 5 {
		hops = to(hops)
	}
	for _, u := range []string{
		to("http://127.0.0.1:9931/wipe"), to("http://127.0.0.1:9931/wipe") + "&code=307", to("http://127.0.0.1:9931/wipe") + "&code=308", to("http://127.0.0.1:9931/wipe") + "&code=301",
		to("http://[::ffff:7f00:1]:9931/"), to("//127.0.0.1:9931/"), to("https://allowed.test/to?u=http://10.0.0.5:9931/"), to("http://" + world.NearAddr + ":9931/"), hops,
	} {
		m := s.world.Mark(t)
		a := s.fetch(public, u)
		if a.why() == "" || a.body() != "" {
			t.Errorf("%s: %s %q", u, a.end(), a.body())
		}
		m.Only(t, "allowed.test:80", "allowed.test:443")
	}
	m := s.world.Mark(t)
	if a := s.fetch(public, "http://allowed.test/refresh?u=http://127.0.0.1:9931/"); a.body() != "wait\n" {
		t.Errorf("a Refresh header: %s %q", a.end(), a.body())
	}
	m.Only(t, "allowed.test:80")
	// With a list, a redirect to what is not on it is refused as well.
	m = s.world.Mark(t)
	if a := s.fetch("  allow: [{host: allowed.test, ports: [80]}]\n", to("http://other.test/")); a.why() == "" || a.body() != "" {
		t.Errorf("off the list: %s %q", a.end(), a.body())
	}
	m.Only(t, "allowed.test:80")
	m = s.world.Mark(t)
	if a := s.fetch(public, to("https://other.test/echo")); a.Fetched == nil || a.Fetched.Status != 200 || len(a.Fetched.Hops) != 1 || a.Fetched.URL != "https://other.test/echo" {
		t.Errorf("an ordinary redirect: %s %+v", a.end(), a.Fetched)
	}
	m.Only(t, "allowed.test:80", "other.test:443")
}

func schemes(t *testing.T, s *stand) {
	canary := s.write("canary", "CANARY-4711")
	targets := []string{"file://" + canary, "FILE://" + canary, "gopher://127.0.0.1:9931/_x", "ftp://127.0.0.1/", "data:text/plain,hi", "//127.0.0.1:9931/", "javascript:1", "ws://127.0.0.1:9931/", "unix:///run/x"}
	for _, u := range targets {
		m := s.world.Mark(t)
		if a := s.fetch(public, "http://allowed.test/to?u="+url.QueryEscape(u)); a.why() == "" || a.body() != "" || strings.Contains(a.why(), "CANARY") {
			t.Errorf("a redirect to %s: %s %q", u, a.end(), a.body())
		}
		m.Only(t, "allowed.test:80")
		m = s.world.Mark(t)
		if a := s.fetch(public, u); a.Refusal == nil || a.Refusal.Field == "" {
			t.Errorf("%s: %s %q", u, a.end(), a.body())
		}
		m.Nothing(t)
	}
	m := s.world.Mark(t)
	for _, u := range []string{"http://user:secret@allowed.test/", "http://allowed.test@127.0.0.1/", "http:///x", "http://", "allowed.test"} {
		if a := s.fetch(public, u); a.Refusal == nil || strings.Contains(a.Refusal.Message, "secret") {
			t.Errorf("%s: %s %q", u, a.end(), a.body())
		}
	}
	m.Nothing(t)
}

func bombs(t *testing.T, s *stand) {
	most := s.watchMemory("callcell-egress")
	for range 3 {
		a := s.fetch(public, "http://allowed.test/bomb?mb=2048")
		if f := a.Fetched; f == nil || !f.Cut && f.Failure == "" || f.Bytes > 3<<20 || len(f.Body) > 3<<20 || a.took > time.Minute {
			t.Errorf("%v, %s", a.took, a.end())
		}
	}
	peak := most()
	t.Logf("at most %d MiB", peak>>20)
	if peak == 0 || peak > 96<<20 {
		t.Errorf("the egress process had %d MiB", peak>>20)
	}
}

// peakMemory is the most memory that a process has had, in bytes; 0 where
// nobody knows.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

func endless(t *testing.T, s *stand) {
	a := s.fetch(public, "http://allowed.test/flow")
	if f := a.Fetched; f == nil || !f.Cut && f.Failure == "" || f.Bytes > 3<<20 {
		t.Errorf("flow: %s", a.end())
	}
	a = s.fetch(public, "http://allowed.test/drip")
	if a.Fetched == nil || a.Fetched.Failure == "" && !a.Fetched.Cut || a.took < 4*time.Second || a.took > time.Minute {
		t.Errorf("drip, after %v: %s", a.took, a.end())
	}
	a = s.fetch(public, "http://allowed.test/header?mb=10")
	if a.why() == "" || a.body() != "" {
		t.Errorf("headers of 10 MiB: %s", a.end())
	}
	a = s.fetch(public, "https://allowed.test/header?mb=10")
	if a.why() == "" || a.body() != "" {
		t.Errorf("headers of 10 MiB, HTTP/2: %s", a.end())
	}
}

// caches: one command is one process with its own cache, which ends with it.
// What a process keeps between calls is tried where it lives on.
func caches(t *testing.T, s *stand) {
	m := s.world.Mark(t)
	for range 3 {
		a := s.fetch(public, "http://allowed.test/echo")
		var e world.Echo
		if err := json.Unmarshal([]byte(a.body()), &e); err != nil || a.Fetched.Cached || !a.Fetched.Untrusted {
			t.Errorf("%v: %s %q", err, a.end(), a.body())
		}
		for name := range e.Headers {
			if name != "Accept" && name != "Accept-Encoding" && name != "User-Agent" && name != "Accept-Language" && name != "Connection" {
				t.Errorf("a header that nobody asked for: %s: %q", name, e.Headers[name])
			}
		}
	}
	if hits := m.Hits(); len(hits) != 3 {
		t.Errorf("%d requests came, want 3", len(hits))
	}
}

// TestFetchedIsWhatCame: bytes, type, text and the line of the row.
func TestFetchedIsWhatCame(t *testing.T) {
	s := usual(t)
	m := s.world.Mark(t)
	a := s.fetch("  allow: [{host: allowed.test, ports: [443]}]\n", "https://allowed.test/say?text="+url.QueryEscape("<title>A</title><p>one</p><p>two</p>")+"&type=text/html", "--text")
	if f := a.Fetched; a.status != 0 || f == nil || f.Status != 200 || f.Type != "text/html" || f.Title != "A" || !strings.Contains(string(f.Body), "one") || strings.Contains(string(f.Body), "<p>") {
		t.Errorf("%s %+v %q", a.end(), a.Fetched, a.body())
	}
	if a.Level != envelope.LevelNone {
		t.Errorf("level %v", a.Level)
	}
	a.row(t, "allowed.test", 443, envelope.VerdictAllowed, "")
	m.Only(t, "allowed.test:443")
	if a := s.fetch("  allow: [{host: allowed.test, ports: [443]}]\n", "https://other.test/"); a.Refusal == nil || a.Refusal.Reason != envelope.ReasonPolicy {
		t.Errorf("off the list: %s", a.end())
	}
	if a := s.fetch("  allow: []\n", "https://allowed.test/"); a.Refusal == nil || a.Refusal.Reason != envelope.ReasonPolicy {
		t.Errorf("no network: %s", a.end())
	}
	m.Only(t, "allowed.test:443")
}
