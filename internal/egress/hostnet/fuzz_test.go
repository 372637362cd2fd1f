package hostnet

import (
	"bytes"
	"encoding/pem"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// FuzzResolvers: what is found is at most three addresses of somebody, and is
// found again in a file that names just them.
func FuzzResolvers(f *testing.F) {
	f.Add([]byte("# a\nnameserver 192.0.2.53\nnameserver 2001:db8::53\noptions ndots:1\n"))
	f.Add([]byte("nameserver fe80::1%eth0\nnameserver ::ffff:192.0.2.1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list := ParseResolvers(text)
		if len(list) > maxResolvers {
			t.Fatalf("%q", list)
		}
		var again strings.Builder
		for _, at := range list {
			ap, err := netip.ParseAddrPort(at)
			if err != nil || ap.Port() != 53 || ap.Addr().Zone() != "" || ap.Addr().Is4In6() || ap.Addr().IsUnspecified() {
				t.Fatalf("%q: %v", at, err)
			}
			again.WriteString("nameserver " + ap.Addr().String() + "\n")
		}
		if got := ParseResolvers([]byte(again.String())); !reflect.DeepEqual(got, list) {
			t.Fatalf("%q, then %q", list, got)
		}
	})
}

// FuzzHosts: what is found is bounded and canonical, each name once, and is
// found again in a file that says just that.
func FuzzHosts(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n10.0.0.5 DB.example.test. db # ours\nfd00::5 db.example.test\n"))
	f.Add([]byte("fe80::1%eth0 a.test\n::ffff:10.0.0.1\tb.test\r\n0.0.0.0 ads.test -x.test a..b"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table := ParseHosts(text)
		seen := map[string]bool{}
		var again strings.Builder
		for _, h := range table {
			if name, ok := canonical(h.Name); !ok || name != h.Name || seen[name] || len(h.Addrs) == 0 || len(h.Addrs) > maxAddrs {
				t.Fatalf("%+v", h)
			}
			seen[h.Name] = true
			for _, a := range h.Addrs {
				if a.Zone() != "" || a.Is4In6() {
					t.Fatalf("%+v", h)
				}
				again.WriteString(a.String() + " " + h.Name + "\n")
			}
		}
		if len(table) > maxNames {
			t.Fatalf("%d names", len(table))
		}
		if got := ParseHosts([]byte(again.String())); !reflect.DeepEqual(got, table) {
			t.Fatalf("%v, then %v", table, got)
		}
	})
}

// FuzzRoots: what is found is certificates and nothing else, and finds itself
// again.
func FuzzRoots(f *testing.F) {
	f.Add([]byte("# one\n" + block("CERTIFICATE", "one") + block("PRIVATE KEY", "secret") + block("CERTIFICATE", "two")))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nA: b\n\nb25l\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		found := ParseRoots(text)
		if again := ParseRoots(found); !bytes.Equal(again, found) {
			t.Fatalf("%q, then %q", found, again)
		}
		for rest := found; len(rest) > 0; {
			var b *pem.Block
			if b, rest = pem.Decode(rest); b == nil || b.Type != "CERTIFICATE" {
				t.Fatalf("%q", found)
			}
		}
	})
}
