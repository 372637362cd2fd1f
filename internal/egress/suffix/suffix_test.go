package suffix

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/policy"
)

func TestPublic(t *testing.T) {
	for name, want := range map[string]bool{
		"com": true, "test": true, "internal": true, "no-such-registry": true,
		"co.uk": true, "CO.UK.": true, "uk": true,
		"github.io": true, "GitHub.io": true, "blogspot.com": true, "s3.amazonaws.com": true, "pages.dev": true,
		"kawasaki.jp": true, "anything.kawasaki.jp": true, "city.kawasaki.jp": false, // an exception of the list
		"ck": true, "www.ck": false,
		"example.com": false, "example.co.uk": false, "mine.github.io": false, "a.b.example.com": false,
		"api.test": false, "db.internal": false, "amazonaws.com": false,
		"": false, ".": false, "..": false, ".com": false, "com..": false,
	} {
		if got := Public(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// A wildcard at what Public calls a suffix is no policy.
func TestPublicInAPolicy(t *testing.T) {
	for host, refused := range map[string]bool{
		"*.github.io": true, "*.co.uk": true, "*.kawasaki.jp": true, "*.compute.amazonaws.com": true,
		"*.example.com": false, "*.mine.github.io": false, "github.io": false, "*.db.internal": false,
	} {
		n := envelope.Network{Allow: []envelope.Allow{{Host: host, Ports: []int{443}}}}
		_, err := policy.New(n, policy.Options{PublicSuffix: Public})
		if (err != nil) != refused {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func accepted() map[string]string {
	return map[string]string{
		"example.com":           "example.com",
		"EXAMPLE.com.":          "example.com.",
		"a_b.test":              "a_b.test",
		"r3---sn-x.test":        "r3---sn-x.test",
		"127.0.0.1":             "127.0.0.1",
		"2130706433":            "2130706433",
		"::1":                   "::1",
		"":                      "",
		"bücher.test":           "xn--bcher-kva.test",
		"BÜCHER.test":           "xn--bcher-kva.test",
		"bu\u0308cher.test":     "xn--bcher-kva.test",
		"faß.test":              "xn--fa-hia.test",
		"日本語.test":              "xn--wgv71a119e.test",
		"example。com":           "example.com",
		"ｅｘａｍｐｌｅ.com":           "example.com",
		"xn--bcher-kva.test":    "xn--bcher-kva.test",
		"XN--BCHER-KVA.TEST":    "xn--bcher-kva.test",
		"①.test":                "1.test",
		"日本.xn--wgv71a119e":     "xn--wgv71a.xn--wgv71a119e",
		"exa\u00admple.test":    "example.test",
		"xn--bcher-kva.Bücher":  "xn--bcher-kva.xn--bcher-kva",
		"пример.испытание.test": "xn--e1afmkfd.xn--80akhbyknj4f.test",
	}
}

func TestToASCIITakes(t *testing.T) {
	for host, want := range accepted() {
		got, err := ToASCII(host)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", host, got, err, want)
		}
	}
}

// refusals are hosts that IDNA does not let through, or that it would make an
// address of.
func refusals() []string {
	return []string{
		"①②⑦.⓪.⓪.①", "１２７.０.０.１", "127。0。0。1", "１２７.1", "２１３０７０６４３３", "⓪ｘ7f.1", "bücher.①", "a.٣",
		"[ⓕⓔ80::1]", "fe80::1%é", "é:443", "é/x", "é@x.test", "a b.é", "é\x00.test", "é%2e.test",
		"xn--a.test", "xn--a-.test", "xn--0.test", "xn--zca\xff.test", "\xff.test", "\u200d.test",
		"bücher_x.test", "-é.test", "é-.test", "a\u200c.test", "\u0300a.test", "א1a.test", "é\ufffd.test", "\u2488.test", "㏂.é/",
	}
}

func TestToASCIIRefuses(t *testing.T) {
	for _, host := range append(refusals(), strings.Repeat("a.", maxHost), strings.Repeat("é.", maxHost)) {
		got, err := ToASCII(host)
		var e *policy.HostError
		if !errors.As(err, &e) || got != "" || e.Host != host {
			t.Errorf("%.80q: %q, %v", host, got, err)
		}
	}
}

// What IDNA lets through is still judged.
func TestToASCIIIsNotTheLastWord(t *testing.T) {
	for _, host := range []string{"xn--.test", strings.Repeat("é", 64) + ".test", "é..test", "\u3002é.test"} {
		got, err := ToASCII(host)
		if err == nil {
			got, err = policy.Canonical(got)
		}
		if err == nil {
			t.Errorf("%q became %q", host, got)
		}
	}
}

// checkToASCII holds one host to what ToASCII promises.
func checkToASCII(t interface{ Fatalf(string, ...any) }, host string) {
	got, err := ToASCII(host)
	if err != nil {
		var e *policy.HostError
		if !errors.As(err, &e) || got != "" {
			t.Fatalf("%q: %q, %v", host, got, err)
		}
		return
	}
	if !ascii(got) || got != strings.ToLower(got) {
		t.Fatalf("%q is %q", host, got)
	}
	if again, err := ToASCII(got); err != nil || again != got {
		t.Fatalf("%q is not idempotent: %q, then %q, %v", host, got, again, err)
	}
	name, err := policy.Canonical(got)
	if err != nil {
		return
	}
	if direct, err := policy.Canonical(host); err == nil && direct != name {
		t.Fatalf("%q is %q by itself and %q by way of IDNA", host, direct, name)
	}
	if _, err := netip.ParseAddr(name); err == nil && !ascii(host) {
		t.Fatalf("%q has become the address %s", host, name)
	}
	Public(name)
}

func FuzzToASCII(f *testing.F) {
	for host := range accepted() {
		f.Add(host)
	}
	for _, host := range refusals() {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) { checkToASCII(t, host) })
}
