package policy

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func long(n int) string { // a name of n bytes
	name := strings.Repeat(strings.Repeat("a", 60)+".", 5)
	return name[len(name)-(n-4):] + "test"
}

// hosts are spellings that are taken, and what they are.
func hosts() map[string]string {
	return map[string]string{
		"api.test":                        "api.test",
		"API.Test":                        "api.test",
		"api.test.":                       "api.test",
		"ALLOWED.TEST.":                   "allowed.test",
		"localhost":                       "localhost",
		"localhost.":                      "localhost",
		"a":                               "a",
		"1a.test":                         "1a.test",
		"127.0.0.1.test":                  "127.0.0.1.test",
		"0x7f.test":                       "0x7f.test",
		"1.2.3.4a.x1":                     "1.2.3.4a.x1",
		"a_b.test":                        "a_b.test",
		"_dmarc._tcp.api.test":            "_dmarc._tcp.api.test",
		"xn--bcher-kva.test":              "xn--bcher-kva.test",
		"XN--BCHER-KVA.test":              "xn--bcher-kva.test",
		"r3---sn-x.test":                  "r3---sn-x.test",
		strings.Repeat("a", 63) + ".test": strings.Repeat("a", 63) + ".test",
		long(253):                         long(253),
		long(253) + ".":                   long(253),
		"127.0.0.1":                       "127.0.0.1",
		"255.255.255.255":                 "255.255.255.255",
		"0.0.0.0":                         "0.0.0.0",
		"::":                              "::",
		"[::]":                            "::",
		"::1":                             "::1",
		"[::1]":                           "::1",
		"0:0:0:0:0:0:0:1":                 "::1",
		"[2001:DB8:0:0::1]":               "2001:db8::1",
		"2001:db8::192.0.2.1":             "2001:db8::c000:201",
		"::ffff:127.0.0.1":                "127.0.0.1",
		"[::ffff:127.0.0.1]":              "127.0.0.1",
		"[::ffff:7f00:1]":                 "127.0.0.1",
		"[::FFFF:7F00:1]":                 "127.0.0.1",
		"[0:0:0:0:0:ffff:7f00:1]":         "127.0.0.1",
		"0000:0000:0000:0000:0000:ffff:7f00:0001": "127.0.0.1",
		"[64:ff9b::7f00:1]":                       "64:ff9b::7f00:1",
		"[::7f00:1]":                              "::7f00:1",
	}
}

// strangers are spellings that are refused, and what the refusal says.
func strangers() map[string]string {
	return map[string]string{
		"":                                "empty",
		".":                               "empty",
		"..":                              "empty label",
		"a..test":                         "empty label",
		".a.test":                         "empty label",
		"a.test..":                        "empty label",
		"2130706433":                      "reads as an address",
		"2130706433.":                     "reads as an address",
		"0":                               "reads as an address",
		"0x7f000001":                      "reads as an address",
		"0X7F000001":                      "reads as an address",
		"017700000001":                    "reads as an address",
		"0177.0.0.1":                      "reads as an address",
		"0x7f.0.0.1":                      "reads as an address",
		"127.1":                           "reads as an address",
		"127.0.1":                         "reads as an address",
		"127.0.0.1.":                      "reads as an address",
		"127.0.0.01":                      "reads as an address",
		"127.0.0.0x1":                     "reads as an address",
		"127.0.0.0x":                      "reads as an address",
		"127.0.0.256":                     "reads as an address",
		"127.0.0.1.5":                     "reads as an address",
		"00127.0.0.1":                     "reads as an address",
		"a.1":                             "reads as an address",
		"a.0x7f":                          "reads as an address",
		"a.test.9":                        "reads as an address",
		"①②⑦.⓪.⓪.①":                       "not ASCII",
		"１２７.0.0.1":                       "not ASCII",
		"127。0。0。1":                       "not ASCII",
		"bücher.test":                     "not ASCII",
		"a\u200b.test":                    "not ASCII",
		"a\u00ad.test":                    "not ASCII",
		"\xff.test":                       "not ASCII",
		"api.test\x00":                    "NUL",
		"api.test\x00.evil.test":          "NUL",
		"127.0.0.1\x00":                   "NUL",
		" api.test":                       "space",
		"api.test ":                       "space",
		"127.0.0.1 ":                      "space",
		"api.test\r\nHost":                "space",
		"a\x1b.test":                      "control",
		"a\x7f.test":                      "control",
		"api%2etest":                      "character %",
		"127.0.0.1%25":                    "character %",
		"%31.test":                        "character %",
		"me@api.test":                     "user information",
		"api.test@evil.test":              "user information",
		"me:pw@api.test":                  "colon",
		"api.test/x":                      "character /",
		"api.test\\x":                     "character \\",
		"api.test#":                       "character #",
		"api.test?":                       "character ?",
		"a,b.test":                        "character ,",
		"*.api.test":                      "wildcard",
		"*":                               "wildcard",
		"api.test:443":                    "colon",
		"127.0.0.1:80":                    "colon",
		"http://api.test":                 "colon",
		"[::1]:80":                        "brackets",
		"[::1":                            "brackets",
		"::1]":                            "colon",
		"[]":                              "brackets",
		"[":                               "brackets",
		"[127.0.0.1]":                     "brackets",
		"[api.test]":                      "brackets",
		"[[::1]]":                         "colon",
		"fe80::1%eth0":                    "zone",
		"[fe80::1%25eth0]":                "zone",
		"::1%":                            "colon",
		"::1%lo":                          "zone",
		"::ffff:127.0.0.1%1":              "zone",
		"::1.":                            "colon",
		"[::1].":                          "brackets",
		"::ffff:127.1":                    "colon",
		"::ffff:0177.0.0.1":               "colon",
		"1:2:3":                           "colon",
		":::":                             "colon",
		":":                               "colon",
		"::" + strings.Repeat("0", 80):    "not an address",
		strings.Repeat("a", 64) + ".test": "63 bytes",
		long(254):                         "253 bytes",
		long(254) + ".":                   "253 bytes",
		strings.Repeat("a.", 1<<20):       "253 bytes",
		"-a.test":                         "hyphen",
		"a-.test":                         "hyphen",
		"a.-":                             "hyphen",
	}
}

func TestCanonicalTakes(t *testing.T) {
	for host, want := range hosts() {
		got, err := Canonical(host)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", host, got, err, want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for host, want := range strangers() {
		got, err := Canonical(host)
		var e *HostError
		if !errors.As(err, &e) || got != "" || e.Host != host || !strings.Contains(e.Msg, want) {
			t.Errorf("%.80q: %q, %v, want %q", host, got, err, want)
			continue
		}
		if text := e.Error(); len(text) > 400 || strings.ContainsFunc(text, unprintable) {
			t.Errorf("%.80q: the error cannot be shown: %q", host, text)
		}
	}
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// reads returns the IPv4 address that a lenient reader (inet_aton, a browser)
// finds in a host. It is written apart from Canonical, to judge it.
func reads(host string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		digits, base := strings.ToLower(part), 10
		if rest, ok := strings.CutPrefix(digits, "0x"); ok {
			digits, base = "0"+rest, 16
		} else if len(digits) > 1 && digits[0] == '0' {
			base = 8
		}
		n, err := strconv.ParseUint(digits, base, 32)
		most := uint64(255)
		if i == len(parts)-1 {
			most = 1<<(8*(5-len(parts))) - 1
		}
		if err != nil || n > most {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			value |= n
		} else {
			value |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func TestTheLenientReaderReads(t *testing.T) {
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "0x7f.1", "127.0.1", "017700000001", "127.0.0.1"} {
		if a, ok := reads(host); !ok || a.String() != "127.0.0.1" {
			t.Errorf("%s: %v, %v", host, a, ok)
		}
	}
	for _, host := range []string{"", "a", "127.0.0.1.5", "256.0.0.1", "08.0.0.1", "4294967296", "a.1"} {
		if a, ok := reads(host); ok {
			t.Errorf("%s: %v", host, a)
		}
	}
}

// checkCanonical holds one host to everything that Canonical promises.
func checkCanonical(t interface{ Fatalf(string, ...any) }, host string) {
	got, err := Canonical(host)
	if err != nil {
		var e *HostError
		if !errors.As(err, &e) || got != "" || e.Msg == "" || strings.ContainsFunc(e.Error(), unprintable) {
			t.Fatalf("%q: an error that is no HostError, or cannot be shown: %q, %q", host, got, err)
		}
		return
	}
	if again, err := Canonical(got); err != nil || again != got {
		t.Fatalf("%q is not idempotent: %q, then %q, %v", host, got, again, err)
	}
	if a, ok := reads(host); ok && got != a.String() {
		t.Fatalf("%q is %q here and %v elsewhere", host, got, a)
	}
	if upper, err := Canonical(strings.ToUpper(host)); err != nil || upper != got {
		t.Fatalf("%q flips with its case: %q, %q, %v", host, got, upper, err)
	}
	if a, err := netip.ParseAddr(got); err == nil {
		if a.Zone() != "" || a.Is4In6() || a.String() != got {
			t.Fatalf("%q: the address %q is not canonical", host, got)
		}
		return
	}
	if dot, err := Canonical(got + "."); err != nil || dot != got {
		t.Fatalf("%q flips with a final dot: %q, %q, %v", host, got, dot, err)
	}
	checkName(t, got)
}

// checkName holds a canonical name to its shape.
func checkName(t interface{ Fatalf(string, ...any) }, name string) {
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if len(label) < 1 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || strings.Trim(label, "-") != label {
			t.Fatalf("%q has the label %q", name, label)
		}
	}
	last := labels[len(labels)-1]
	if len(name) > 253 || last[0] >= '0' && last[0] <= '9' {
		t.Fatalf("%q is no name", name)
	}
}

func FuzzCanonical(f *testing.F) {
	for host := range hosts() {
		f.Add(host)
	}
	for host := range strangers() {
		if len(host) < 1024 {
			f.Add(host)
		}
	}
	f.Fuzz(func(t *testing.T, host string) { checkCanonical(t, host) })
}

func TestCanonicalProperties(t *testing.T) {
	label := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9_-]{0,8}`), rapid.StringMatching(`(0x)?[0-9a-f]{0,4}`), rapid.SampledFrom([]string{"①", "%2e", "[", "]", ":", "::", "@", "\x00", "ffff"}))
	sep := rapid.SampledFrom([]string{".", ".", ".", ":", "..", "。"})
	rapid.Check(t, func(t *rapid.T) {
		var host string
		for range rapid.IntRange(0, 5).Draw(t, "labels") {
			host += label.Draw(t, "label") + sep.Draw(t, "sep")
		}
		checkCanonical(t, host+label.Draw(t, "last"))
	})
}
