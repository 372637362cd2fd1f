package policy

import "net/netip"

// A rule says what becomes of the addresses of a range.
type rule uint8

const (
	public  rule = iota // dialled
	byRange             // dialled where a private range holds it
	nat64               // dialled where the IPv4 address inside is public too
	never
)

// A special is a range of addresses that are not simply public.
type special struct {
	prefix netip.Prefix
	what   string // "ADDRESS is WHAT"
	rule   rule
}

// specialRanges returns IANA's special-purpose address registries of both
// families, and what is reserved beside them; the first that holds an address
// decides. A range counts as not public here whether or not it is globally
// reachable (AS112, AMT): nothing in one is a host that a call asks for.
func specialRanges() []special { return append(special4(), special6()...) }

func special4() []special {
	r := netip.MustParsePrefix
	return []special{
		{r("0.0.0.0/8"), "of this network (0.0.0.0/8), which is this host", never},
		{r("10.0.0.0/8"), "private (10.0.0.0/8)", byRange},
		{r("100.64.0.0/10"), "of a provider's shared space (100.64.0.0/10)", byRange},
		{r("127.0.0.0/8"), "loopback (127.0.0.0/8)", byRange},
		{r("169.254.0.0/16"), "link-local (169.254.0.0/16)", byRange},
		{r("172.16.0.0/12"), "private (172.16.0.0/12)", byRange},
		{r("192.0.0.0/24"), "of protocol assignments (192.0.0.0/24)", byRange},
		{r("192.0.2.0/24"), "of documentation (192.0.2.0/24)", byRange},
		{r("192.31.196.0/24"), "of AS112 (192.31.196.0/24)", byRange},
		{r("192.52.193.0/24"), "of AMT (192.52.193.0/24)", byRange},
		{r("192.88.99.0/24"), "of 6to4 relays (192.88.99.0/24)", byRange},
		{r("192.168.0.0/16"), "private (192.168.0.0/16)", byRange},
		{r("192.175.48.0/24"), "of AS112 (192.175.48.0/24)", byRange},
		{r("198.18.0.0/15"), "of benchmarking (198.18.0.0/15)", byRange},
		{r("198.51.100.0/24"), "of documentation (198.51.100.0/24)", byRange},
		{r("203.0.113.0/24"), "of documentation (203.0.113.0/24)", byRange},
		{r("224.0.0.0/4"), "multicast (224.0.0.0/4)", never},
		{r("255.255.255.255/32"), "broadcast", never},
		{r("240.0.0.0/4"), "reserved (240.0.0.0/4)", byRange},
	}
}

func special6() []special {
	r := netip.MustParsePrefix
	return []special{
		{r("::/128"), "unspecified, which is this host", never},
		{r("::1/128"), "loopback", byRange},
		{r("::/96"), "an IPv4 address in IPv6 form (::/96)", never},
		{r("::ffff:0:0:0/96"), "a translated IPv4 address (::ffff:0:0:0/96)", never},
		{r("64:ff9b::/96"), "a translated IPv4 address (64:ff9b::/96)", nat64},
		{r("64:ff9b:1::/48"), "a translated IPv4 address (64:ff9b:1::/48)", never},
		{r("100::/64"), "discarded (100::/64)", byRange},
		{r("100:0:0:1::/64"), "a dummy (100:0:0:1::/64)", byRange},
		{r("2001::/32"), "a tunnelled IPv4 address (Teredo, 2001::/32)", never},
		{r("2001::/23"), "of protocol assignments (2001::/23)", byRange},
		{r("2001:db8::/32"), "of documentation (2001:db8::/32)", byRange},
		{r("2002::/16"), "a tunnelled IPv4 address (6to4, 2002::/16)", never},
		{r("2620:4f:8000::/48"), "of AS112 (2620:4f:8000::/48)", byRange},
		{r("3fff::/20"), "of documentation (3fff::/20)", byRange},
		{r("2000::/3"), "public", public},
		{r("5f00::/16"), "of segment routing (5f00::/16)", byRange},
		{r("fc00::/7"), "private (fc00::/7)", byRange},
		{r("fe80::/10"), "link-local (fe80::/10)", byRange},
		{r("fec0::/10"), "site-local (fec0::/10)", byRange},
		{r("ff00::/8"), "multicast (ff00::/8)", never},
		{r("::/0"), "not of the public range (2000::/3)", byRange},
	}
}
