package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// ranged is a policy with private ranges that no envelope could list: what
// must not be reached must not be reached through them either.
func ranged(cidrs ...string) *Policy {
	p := &Policy{never: envelope.MetadataAddresses(), special: specialRanges()}
	for _, text := range cidrs {
		p.private = append(p.private, private{netip.MustParsePrefix(text), text})
	}
	return p
}

func everything() *Policy { return ranged("0.0.0.0/0", "::/0") }

// registered are the special-purpose address registries of IANA for both
// families, as of 2026, and what the address space registries reserve beside
// them.
func registered() []string {
	return []string{
		"0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32",
		"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16",
		"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
		"224.0.0.0/4",

		"::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32",
		"2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28",
		"2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16",
		"fc00::/7", "fe80::/10",
		"::/96", "::ffff:0:0:0/96", "200::/7", "400::/6", "800::/5", "1000::/4", "4000::/3", "6000::/3", "8000::/3",
		"a000::/3", "c000::/3", "e000::/4", "f000::/5", "f800::/6", "fe00::/9", "fec0::/10", "ff00::/8",
	}
}

// samples are the first, the last and some addresses within a range.
func samples(r netip.Prefix) []netip.Addr {
	first := r.Masked().Addr()
	all := first.AsSlice()
	for i := range all {
		if low := r.Bits() - 8*i; low < 8 {
			all[i] |= byte(0xff >> max(low, 0))
		}
	}
	last, _ := netip.AddrFromSlice(all)
	mid := slices.Clone(all)
	mid[len(mid)-1] ^= 0x55 & (all[len(all)-1] ^ first.AsSlice()[len(all)-1])
	middle, _ := netip.AddrFromSlice(mid)
	return []netip.Addr{first, middle, last}
}

func TestSpecialPurposeRangesAreNotPublic(t *testing.T) {
	p, open := ranged(), everything()
	for _, text := range registered() {
		r := netip.MustParsePrefix(text)
		for _, a := range samples(r) {
			if !r.Contains(a) {
				t.Fatalf("%v is not of %v", a, r)
			}
			if v := p.JudgeAddr(a, nil); v.OK || !strings.Contains(v.Why, a.String()) {
				t.Errorf("%v of %v: %+v", a, r, v)
			}
			if v := open.JudgePublicAddr(a, nil); v.OK {
				t.Errorf("%v of %v is public: %+v", a, r, v)
			}
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, text := range []string{
		"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255",
		"203.0.112.255", "203.0.114.0", "223.255.255.255", "168.63.129.15", "168.63.129.17",
		"2000::", "2001:200::", "2001:4860:4860::8888", "2001:db7:ffff::", "2001:db9::", "2003::", "2606:4700::1111", "2a00::1", "3ffe::1", "3fff:1000::",
		"64:ff9b::808:808", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8",
	} {
		for _, p := range []*Policy{ranged(), everything()} {
			v, pub := p.JudgeAddr(addr(text), nil), p.JudgePublicAddr(addr(text), nil)
			if !v.OK || v != pub || v.Why == "" {
				t.Errorf("%s: %+v, %+v", text, v, pub)
			}
		}
	}
}

// What no private range opens, even one of exactly that address.
func TestNeverDialled(t *testing.T) {
	cases := map[string]string{ // and what the refusal says
		"0.0.0.0": "this network", "0.0.0.1": "this network", "::": "unspecified", "::ffff:0.0.0.0": "this network",
		"224.0.0.1": "multicast", "239.255.255.250": "multicast", "255.255.255.255": "broadcast", "ff02::1": "multicast", "ff0e::1": "multicast",
		"::7f00:1": "IPv6 form", "::8.8.8.8": "IPv6 form", "::ffff:0:127.0.0.1": "translated", "::ffff:0:8.8.8.8": "translated",
		"64:ff9b::7f00:1": "127.0.0.1", "64:ff9b::a9fe:a9fe": "metadata", "64:ff9b::10.0.0.1": "private", "64:ff9b::0.0.0.0": "this network",
		"64:ff9b::168.63.129.16": "metadata",
		"64:ff9b:1::7f00:1":      "translated", "64:ff9b:1::808:808": "translated", "64:ff9b:1:7f00:0:100::": "translated",
		"2002:7f00:1::1": "6to4", "2002:808:808::1": "6to4", "2002:a9fe:a9fe::": "6to4",
		"2001::80ff:fffe": "Teredo", "2001:0:808:808::f7f7:f7f7": "Teredo",
		"fe80::5efe:a00:1": "ISATAP", "2001:db8::5efe:a00:1": "ISATAP", "2a00::200:5efe:808:808": "ISATAP", "fe80::200:5efe:127.0.0.1": "ISATAP",
		"fe80::1%eth0": "zone", "2a00::1%1": "zone", "::ffff:8.8.8.8%1": "zone",
	}
	for _, m := range envelope.MetadataAddresses() {
		cases[m.String()] = "metadata"
	}
	for text, want := range cases {
		a := addr(text)
		exact := ranged(netip.PrefixFrom(a.WithZone("").Unmap(), a.WithZone("").Unmap().BitLen()).String())
		for _, p := range []*Policy{ranged(), everything(), exact} {
			for _, own := range [][]netip.Addr{nil, {a}} {
				if v := p.JudgeAddr(a, own); v.OK || !strings.Contains(v.Why, want) || strings.ContainsFunc(v.Why, unprintable) {
					t.Errorf("%s: %+v, want %q", text, v, want)
				}
			}
		}
	}
	if v := everything().JudgeAddr(netip.Addr{}, nil); v.OK || v.Why == "" {
		t.Errorf("no address: %+v", v)
	}
}

func TestMetadataAddressesAreThere(t *testing.T) {
	for _, text := range []string{"169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fe80::a9fe:a9fe"} {
		if !slices.Contains(envelope.MetadataAddresses(), addr(text)) {
			t.Errorf("%s is missing", text)
		}
	}
}

func TestPrivateRangesOpen(t *testing.T) {
	for cidr, texts := range map[string][]string{
		"10.1.2.0/24":     {"10.1.2.0", "10.1.2.255", "::ffff:10.1.2.3"},
		"192.0.2.0/24":    {"192.0.2.7"},
		"100.64.0.0/16":   {"100.64.255.255"},
		"169.254.1.0/24":  {"169.254.1.2"},
		"240.0.0.0/8":     {"240.0.0.1"},
		"198.18.0.0/15":   {"198.19.0.1"},
		"192.0.0.8/32":    {"192.0.0.8"},
		"fd12:3456::/32":  {"fd12:3456::1"},
		"fec0::/16":       {"fec0::1"},
		"2001:db8::/32":   {"2001:db8::1"},
		"100::/64":        {"100::1"},
		"2001:1::/32":     {"2001:1::1"},
		"4000::/16":       {"4000::1"},
		"192.88.99.0/24":  {"192.88.99.2"},
		"192.31.196.0/24": {"192.31.196.1"},
	} {
		p := ranged("172.16.0.0/12", cidr)
		for _, text := range texts {
			if v := p.JudgeAddr(addr(text), nil); !v.OK || !strings.Contains(v.Why, "is in "+cidr) {
				t.Errorf("%s in %s: %+v", text, cidr, v)
			}
			if v := ranged("172.16.0.0/12").JudgeAddr(addr(text), nil); v.OK {
				t.Errorf("%s without %s: %+v", text, cidr, v)
			}
			if v := p.JudgePublicAddr(addr(text), nil); v.OK {
				t.Errorf("%s is public: %+v", text, v)
			}
		}
	}
}

func TestOwnAddressesNeedARangeOfOne(t *testing.T) {
	own := []netip.Addr{addr("127.0.0.1"), addr("::1"), addr("10.1.2.3"), addr("8.8.8.8"), addr("2a00::1"), addr("fe80::1%eth0"), addr("::ffff:9.9.9.9")}
	cases := []struct {
		a     string
		cidrs []string
		ok    bool
	}{
		{"127.0.0.1", nil, false},
		{"127.0.0.1", []string{"127.0.0.0/8"}, false},
		{"127.0.0.2", []string{"127.0.0.0/8"}, false}, // of no interface, and this host
		{"127.0.0.1", []string{"127.0.0.1/32"}, true},
		{"127.0.0.2", []string{"127.0.0.1/32"}, false},
		{"127.0.0.2", []string{"127.0.0.2/32"}, true},
		{"::ffff:127.0.0.1", []string{"127.0.0.1/32"}, true},
		{"::1", []string{"::/16"}, false},
		{"::1", []string{"::1/128"}, true},
		{"10.1.2.3", []string{"10.1.2.0/24"}, false},
		{"10.1.2.3", []string{"10.1.2.2/31", "10.1.2.3/32"}, true},
		{"10.1.2.4", []string{"10.1.2.0/24"}, true},
		{"8.8.8.8", nil, false},
		{"8.8.8.8", []string{"8.8.8.0/24"}, false},
		{"8.8.8.8", []string{"8.8.8.8/32"}, true},
		{"64:ff9b::8.8.8.8", nil, false},
		{"64:ff9b::8.8.8.8", []string{"8.8.8.8/32"}, false},
		{"9.9.9.9", nil, false},
		{"2a00::1", nil, false},
		{"2a00::1", []string{"2a00::1/128"}, true},
		{"2a00::2", nil, true},
		{"fe80::1", []string{"fe80::/16"}, false},
		{"fe80::2", []string{"fe80::/16"}, true},
	}
	for _, c := range cases {
		p := ranged(c.cidrs...)
		v := p.JudgeAddr(addr(c.a), own)
		if v.OK != c.ok || v.Why == "" || !c.ok && !strings.Contains(v.Why, "address of this host") {
			t.Errorf("%s with %v: %+v", c.a, c.cidrs, v)
		}
	}
}

func TestDenyGoesBeforeEverything(t *testing.T) {
	n := envelope.Network{Private: []envelope.Private{{CIDR: "10.1.0.0/16", Why: "x"}, {CIDR: "127.0.0.1/32", Why: "x"}}}
	p, err := New(n, Options{Deny: []netip.Prefix{netip.MustParsePrefix("10.1.2.77/24"), netip.MustParsePrefix("::ffff:8.8.8.0/120"),
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("2a00::/16"), netip.MustParsePrefix("9.9.9.9/32")}})
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		"10.1.2.3": false, "10.1.3.3": true, "8.8.8.8": false, "::ffff:8.8.8.8": false, "64:ff9b::8.8.8.8": false, "8.8.9.8": true,
		"127.0.0.1": false, "2a00:1::": false, "2a01::": true, "9.9.9.9": false, "64:ff9b::9.9.9.9": false,
	} {
		v := p.JudgeAddr(addr(text), nil)
		if v.OK != ok || !ok && !strings.Contains(v.Why, "operator denies") {
			t.Errorf("%s: %+v", text, v)
		}
	}
	all, err := New(envelope.Network{}, Options{Deny: []netip.Prefix{netip.MustParsePrefix("::/0")}})
	if err != nil {
		t.Fatal(err)
	}
	if all.JudgeAddr(addr("2a00::1"), nil).OK || !all.JudgeAddr(addr("8.8.8.8"), nil).OK {
		t.Error("::/0 is IPv6, all of it, and no more")
	}
}

// stdlibPublic is what the standard library calls public: less strict than we
// are, so that what it refuses has to be refused here.
func stdlibPublic(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast()
}

func FuzzJudgeAddr(f *testing.F) {
	for _, text := range registered() {
		first := samples(netip.MustParsePrefix(text))[0]
		f.Add(first.AsSlice())
	}
	for _, text := range []string{"64:ff9b::7f00:1", "fe80::5efe:a00:1", "2002:7f00:1::1", "::ffff:127.0.0.1", "8.8.8.8", "2606:4700::1111"} {
		f.Add(addr(text).AsSlice())
	}
	shut, open := ranged(), everything()
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		v := shut.JudgeAddr(a, nil)
		if v.OK && !stdlibPublic(a) || v.Why == "" {
			t.Fatalf("%v: %+v", a, v)
		}
		if a = a.Unmap(); a.Is4() {
			if mapped := shut.JudgeAddr(netip.AddrFrom16(a.As16()), nil); mapped != v {
				t.Fatalf("%v: %+v, and mapped %+v", a, v, mapped)
			}
		}
		if v.OK && shut.JudgeAddr(a, []netip.Addr{a}).OK {
			t.Fatalf("%v is this host's and may be dialled", a)
		}
		if v.OK != shut.JudgePublicAddr(a, nil).OK || v.OK != open.JudgePublicAddr(a, nil).OK || v.OK && !open.JudgeAddr(a, nil).OK {
			t.Fatalf("%v: a private range takes something away, or makes something public", a)
		}
		if slices.Contains(envelope.MetadataAddresses(), a) && (v.OK || open.JudgeAddr(a, nil).OK) {
			t.Fatalf("%v may be dialled", a)
		}
	})
}
