package envelope

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func mount(change func(*Mount)) func(*Envelope) {
	return func(e *Envelope) {
		m := e.Files.Mounts["models"]
		change(&m)
		e.Files.Mounts["models"] = m
	}
}

func source(s string) func(*Envelope) { return mount(func(m *Mount) { m.Source = s }) }
func target(s string) func(*Envelope) { return mount(func(m *Mount) { m.Target = s }) }

func allow(change func(*Allow)) func(*Envelope) {
	return func(e *Envelope) { change(&e.Network.Allow[1]) }
}

func host(h string) func(*Envelope) { return allow(func(a *Allow) { a.Host = h }) }

func cidr(text string) func(*Envelope) {
	return func(e *Envelope) { e.Network.Private[0].CIDR = text }
}

func cred(change func(*Credential)) func(*Envelope) {
	return func(e *Envelope) { changeCredential(e, change) }
}

func use(change func(*CredentialUse)) func(*Envelope) {
	return cred(func(c *Credential) { change(&c.Use) })
}

func brokenEnvelopes() []broken[Envelope] {
	return []broken[Envelope]{
		{"version", func(e *Envelope) { e.Version = 2 }, "version", "is not 1", "version: 1"},
		{"version", func(e *Envelope) { *e = Envelope{} }, "version", "is not 1", "version: 1"},
		{"level", func(e *Envelope) { e.Level = 0 }, "level", "is missing", "auto, language"},
		{"level", func(e *Envelope) { e.Level = LevelNone }, "level", "runs nothing", "auto, language"},
		{"trust", func(e *Envelope) { e.Trust = 0 }, "trust", "is missing", "reviewed"},
		{"image", func(e *Envelope) { e.Image = "" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "host:x" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "oci:" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "oci:../../etc" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "oci:alpine;id" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "oci:-flag" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "build:a/b" }, "image", "not an image", "oci:REF"},
		{"image", func(e *Envelope) { e.Image = "/var/lib/image" }, "image", "not an image", "oci:REF"},
		{"environment", func(e *Envelope) { e.Environment[1] = "*" }, "environment[1]", "every variable", "list"},
		{"environment", func(e *Envelope) { e.Environment[1] = "A=B;x" }, "environment[1]", "not a variable's name", "letters"},
		{"environment", func(e *Envelope) { e.Environment[1] = "" }, "environment[1]", "not a variable's name", "letters"},
		{"environment", func(e *Envelope) { e.Environment[1] = "1A" }, "environment[1]", "not a variable's name", "letters"},
		{"environment", func(e *Envelope) { e.Environment[1] = "A\x00" }, "environment[1]", `"A\x00" is not`, "letters"},
		{"environment", func(e *Envelope) { e.Environment[1] = "Ä" }, "environment[1]", "not a variable's name", "letters"},
		{"environment", func(e *Envelope) { e.Environment[1] = strings.Repeat("A", 129) }, "environment[1]", "...", "letters"},
		{"environment", func(e *Envelope) { e.Environment[1] = "LD_PRELOAD" }, "environment[1]", "not for a call", "leave it out"},
		{"environment", func(e *Envelope) { e.Environment[1] = "PATH" }, "environment[1]", "not for a call", "leave it out"},
		{"environment", func(e *Envelope) { e.Environment[1] = "HOME" }, "environment[1]", "not for a call", "leave it out"},
		{"environment", func(e *Envelope) { e.Environment[1] = "https_proxy" }, "environment[1]", "not for a call", "leave it out"},
		{"environment", func(e *Envelope) { e.Environment[1] = "CALLCELL_X" }, "environment[1]", "not for a call", "leave it out"},
		{"environment", func(e *Envelope) { e.Environment[1] = "LANG" }, "environment[1]", "comes twice", "once"},
		{"environment", func(e *Envelope) { e.Environment = slices.Repeat([]string{"A"}, 65) }, "environment", "more than 64", "fewer"},
		{"bounds", func(e *Envelope) { e.Files.Scratch = 0 }, "files.scratch", "0B is less than 64Ki", "64Ki to 64Gi"},
		{"bounds", func(e *Envelope) { e.Files.Scratch = 65 * GiB }, "files.scratch", "no unlimited", "64Ki to 64Gi"},
		{"bounds", func(e *Envelope) { e.Files.Inodes = 15 }, "files.inodes", "less than 16", "16 to 10000000"},
		{"bounds", func(e *Envelope) { e.Files.Outputs.Count = -1 }, "files.outputs.count", "less than 0", "0 to"},
		{"bounds", func(e *Envelope) { e.Resources.Wall = 0 }, "resources.wall", "0s is less", "1ms to 24h"},
		{"bounds", func(e *Envelope) { e.Resources.Wall = Duration(25 * time.Hour) }, "resources.wall", "25h0m0s is more", "24h"},
		{"bounds", func(e *Envelope) { e.Resources.CPU = 0 }, "resources.cpu", "0 is less than 0.01", "0.01 to 1024"},
		{"bounds", func(e *Envelope) { e.Resources.Memory = MiB - 1 }, "resources.memory", "less than 1Mi", "1Mi to 1Ti"},
		{"bounds", func(e *Envelope) { e.Resources.Pids = 0 }, "resources.pids", "0 is less", "1 to"},
		{"bounds", func(e *Envelope) { e.Cleanup.StopGrace = Duration(61 * time.Second) }, "cleanup.stopGrace", "more than 1m0s", "1m0s"},
		{"bounds", func(e *Envelope) { e.Cleanup.StopGrace = -1 }, "cleanup.stopGrace", "less than 0s", "0s to"},
		{"bounds", func(e *Envelope) { e.Task.Tokens = 0 }, "task.tokens", "0 is less", "1 to"},
		{"output", func(e *Envelope) { e.Resources.Output.Keep = 65 * MiB / 2; e.Resources.Output.Total = MiB }, "resources.output.keep", "more than resources.output.total", "at most 1Mi"},
		{"mount-names", func(e *Envelope) { e.Files.Mounts["a.b"] = Mount{} }, "files.mounts", `"a.b" is not a name`, "letters"},
		{"mount-names", func(e *Envelope) { e.Files.Mounts["../x"] = Mount{} }, "files.mounts", "is not a name", "letters"},
		{"mount-names", func(e *Envelope) { e.Files.Mounts[""] = Mount{} }, "files.mounts", "is not a name", "letters"},
		{"mount-names", func(e *Envelope) { manyMounts(e) }, "files.mounts", "more than 64", "fewer"},
		{"mount-source", source(""), "files.mounts.models.source", "is missing", "absolute"},
		{"mount-source", source("srv"), "files.mounts.models.source", "not absolute", "/"},
		{"mount-source", source("/"), "files.mounts.models.source", "root of everything", "below"},
		{"mount-source", source("/srv/../etc"), "files.mounts.models.source", "component ..", "clean"},
		{"mount-source", source("/srv//x"), "files.mounts.models.source", "empty component", "clean"},
		{"mount-source", source("/srv/"), "files.mounts.models.source", "slash", "clean"},
		{"mount-source", source("/srv/a\x00b"), "files.mounts.models.source", "a NUL", "clean"},
		{"mount-source", source("/proc/1/root"), "files.mounts.models.source", "sockets", "plain files"},
		{"mount-source", source("/run/docker"), "files.mounts.models.source", "sockets", "plain files"},
		{"mount-source", source("/dev"), "files.mounts.models.source", "sockets", "plain files"},
		{"mount-target", target("models"), "files.mounts.models.target", "not absolute", "/"},
		{"mount-target", target("/"), "files.mounts.models.target", "root of everything", "below"},
		{"mount-target", target("/work/models"), "files.mounts.models.target", "would hide /work", "/data"},
		{"mount-target", target("/proc"), "files.mounts.models.target", "would hide /proc", "/data"},
		{"mount-target", target("/usr/lib/python3"), "files.mounts.models.target", "would hide /usr", "/data"},
		{"mount-target", target("/etc"), "files.mounts.models.target", "would hide /etc", "/data"},
		{"mount-target", target("/var"), "files.mounts.models.target", "would hide /var/run", "/data"},
		{"mount-target", target("/opt"), "files.mounts.models.target", "would hide /opt/callcell", "/data"},
		{"mount-target", target("/opt/callcell/x"), "files.mounts.models.target", "would hide /opt/callcell", "/data"},
		{"mount-target", target("/models/.."), "files.mounts.models.target", "component ..", "clean"},
		{"mount-why", mount(func(m *Mount) { m.Why = " " }), "files.mounts.models.why", "is missing", "one line"},
		{"mount-why", mount(func(m *Mount) { m.Why = "two\nlines" }), "files.mounts.models.why", "control character", "one line"},
		{"mount-why", mount(func(m *Mount) { m.Why = strings.Repeat("x", 1025) }), "files.mounts.models.why", "1025 bytes", "less"},
		{"mount-nesting", target("/opt/data"), "files.mounts.models.target", "overlaps the target of data", "beside"},
		{"mount-nesting", target("/opt/data/x"), "files.mounts.models.target", "overlaps", "beside"},
		{"allow-host", host(""), "network.allow[1].host", "is empty", "name one host"},
		{"allow-host", host("."), "network.allow[1].host", "every host", "name the hosts"},
		{"allow-host", host("*"), "network.allow[1].host", "every host", "name the hosts"},
		{"allow-host", host("*."), "network.allow[1].host", "every host", "name the hosts"},
		{"allow-host", host("allowed.test."), "network.allow[1].host", "ends with a dot", "last dot"},
		{"allow-host", host("ALLOWED.test"), "network.allow[1].host", "capital", `"allowed.test"`},
		{"allow-host", host("allowed.test:443"), "network.allow[1].host", "has a port", "ports: [443]"},
		{"allow-host", host("https://allowed.test/"), "network.allow[1].host", "has a scheme", "host alone"},
		{"allow-host", host("allowed.test/x"), "network.allow[1].host", "has a path", "host alone"},
		{"allow-host", host("me@allowed.test"), "network.allow[1].host", "has a user", "host alone"},
		{"allow-host", host("[::1]"), "network.allow[1].host", "not in canonical form", "write ::1"},
		{"allow-host", host("2001:DB8:0::1"), "network.allow[1].host", "not in canonical form", "write 2001:db8::1"},
		{"allow-host", host("::ffff:10.1.2.3"), "network.allow[1].host", "IPv4 address in IPv6 form", "write 10.1.2.3"},
		{"allow-host", host("[::ffff:a01:203]"), "network.allow[1].host", "IPv4 address in IPv6 form", "write 10.1.2.3"},
		{"allow-host", host("fe80::1%eth0"), "network.allow[1].host", "has a zone", "write fe80::1"},
		{"allow-host", host("::ffff:10.1.2.3%1"), "network.allow[1].host", "has a zone", "write 10.1.2.3"},
		{"allow-host", host("0.0.0.0"), "network.allow[1].host", "not the address of one host", "or its name"},
		{"allow-host", host("::"), "network.allow[1].host", "not the address of one host", "or its name"},
		{"allow-host", host("224.0.0.1"), "network.allow[1].host", "not the address of one host", "or its name"},
		{"allow-host", host("ff02::1"), "network.allow[1].host", "not the address of one host", "or its name"},
		{"allow-host", host("255.255.255.255"), "network.allow[1].host", "not the address of one host", "or its name"},
		{"allow-host", host("198.19.255.255"), "network.allow[1].host", "out of which names get their addresses", "host's name"},
		{"allow-host", host("10.1.2.3:443"), "network.allow[1].host", "has a port", "ports: [443]"},
		{"allow-host", host("[2001:db8::1]:443"), "network.allow[1].host", "has a port", "ports: [443]"},
		{"allow-host", host("10.1.2.0/24"), "network.allow[1].host", "is an address range", "one by one"},
		{"allow-host", host("10.1.2.3."), "network.allow[1].host", "ends with a dot", "last dot"},
		{"allow-host", host("*.10.1.2.3"), "network.allow[1].host", "reads as an address", "192.0.2.1"},
		{"allow-host", host("127.1"), "network.allow[1].host", "reads as an address", "192.0.2.1"},
		{"allow-host", host("010.1.2.3"), "network.allow[1].host", "reads as an address", "192.0.2.1"},
		{"allow-host", host("2130706433"), "network.allow[1].host", "reads as an address", "192.0.2.1"},
		{"allow-host", host("0x7f000001"), "network.allow[1].host", "reads as an address", "192.0.2.1"},
		{"allow-host", host("a.0x7f"), "network.allow[1].host", "reads as an address", "192.0.2.1"},
		{"allow-host", host("a.*.test"), "network.allow[1].host", "wildcard within", "first label"},
		{"allow-host", host("a*.test"), "network.allow[1].host", "wildcard within", "first label"},
		{"allow-host", host("*.com"), "network.allow[1].host", "top-level domain", "*.example.com"},
		{"allow-host", host("localhost"), "network.allow[1].host", "no domain", "full name"},
		{"allow-host", host("bücher.test"), "network.allow[1].host", "not ASCII", "xn--"},
		{"allow-host", host("a..test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host("-a.test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host("a-.test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host("a b.test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host("a.test\x00.b.test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host("a_b.test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host(strings.Repeat("a", 64) + ".test"), "network.allow[1].host", "not a host name", "between dots"},
		{"allow-host", host(strings.Repeat("a.", 125) + "test"), "network.allow[1].host", "longer than 253", "host name"},
		{"allow-host", func(e *Envelope) { e.Network.Allow = slices.Repeat(e.Network.Allow, 43) }, "network.allow", "more than 128", "fewer"},
		{"allow-metadata", host("169.254.169.254"), "network.allow[1].host", "never reached", "leave it out"},
		{"allow-metadata", host("168.63.129.16"), "network.allow[1].host", "never reached", "leave it out"},
		{"allow-metadata", host("fd00:ec2::254"), "network.allow[1].host", "never reached", "leave it out"},
		{"allow-ports", allow(func(a *Allow) { a.Ports = nil }), "network.allow[1].ports", "an empty list means nothing", "[443]"},
		{"allow-ports", allow(func(a *Allow) { a.Ports = []int{443, 0} }), "network.allow[1].ports[1]", "0 is not a port", "65535"},
		{"allow-ports", allow(func(a *Allow) { a.Ports = []int{65536} }), "network.allow[1].ports[0]", "not a port", "65535"},
		{"allow-ports", allow(func(a *Allow) { a.Ports = []int{443, 443} }), "network.allow[1].ports[1]", "twice", "once"},
		{"allow-ports", allow(func(a *Allow) { a.Ports = make([]int, 33) }), "network.allow[1].ports", "more than 32", "need"},
		{"allow-totals", func(e *Envelope) { manyPorts(e, MaxPorts+1) }, "network.allow", "33 different ports, at most 32", "split"},
		{"allow-totals", func(e *Envelope) { manyAddresses(e, MaxAddresses+1) }, "network.allow", "65 addresses, at most 64", "names"},
		{"allow-protocol", allow(func(a *Allow) { a.Protocol = "https" }), "network.allow[1].protocol", `"https" is not a protocol`, `"http"`},
		{"allow-protocol", allow(func(a *Allow) { a.Protocol = "udp" }), "network.allow[1].protocol", "not a protocol", "tls, http, postgres, tcp"},
		{"allow-protocol", allow(func(a *Allow) { a.Protocol, a.Ports = "", []int{443, 8443} }), "network.allow[1].protocol", "port 8443 has no default", "tls, http"},
		{"allow-inspect", allow(func(a *Allow) { a.Protocol, a.Inspect = ProtocolTCP, true }), "network.allow[1].inspect", "no TLS", "leave inspect out"},
		{"allow-conflict", host("api.example.com"), "network.allow[1]", "comes twice", "once"},
		{"allow-conflict", host("*.example.com"), "network.allow[1]", "another protocol or inspect than network.allow[0]", "same"},
		{"private-cidr", cidr("10.0.0.1"), "network.private[0].cidr", "not an address range", "10.1.2.0/24"},
		{"private-cidr", cidr("10.1.2.3/24"), "network.private[0].cidr", "canonical", "write 10.1.2.0/24"},
		{"private-cidr", cidr("FD00::/64"), "network.private[0].cidr", "canonical", "write fd00::/64"},
		{"private-cidr", cidr("::ffff:10.0.0.0/104"), "network.private[0].cidr", "IPv6 form", "IPv4 range"},
		{"private-cidr", cidr("0.0.0.0/0"), "network.private[0].cidr", "wider than /8", "need"},
		{"private-cidr", cidr("fc00::/7"), "network.private[0].cidr", "wider than /16", "need"},
		{"private-cidr", cidr("10.0.0.0/33"), "network.private[0].cidr", "not an address range", "ADDRESS/BITS"},
		{"private-cidr", cidr("db.internal"), "network.private[0].cidr", "not an address range", "ADDRESS/BITS"},
		{"private-cidr", func(e *Envelope) {
			e.Network.Private = append(e.Network.Private, Private{"10.1.2.128/25", "x"})
		}, "network.private[1].cidr", "overlaps network.private[0]", "once"},
		{"private-cidr", func(e *Envelope) { e.Network.Private = make([]Private, 65) }, "network.private", "more than 64", "fewer"},
		{"private-why", func(e *Envelope) { e.Network.Private[0].Why = "" }, "network.private[0].why", "is missing", "one line"},
		{"private-metadata", cidr("169.254.0.0/16"), "network.private[0].cidr", "169.254.169.254", "without it"},
		{"private-metadata", cidr("168.63.129.16/32"), "network.private[0].cidr", "never reached", "without it"},
		{"private-metadata", cidr("100.64.0.0/10"), "network.private[0].cidr", "100.100.100.200", "without it"},
		{"private-metadata", cidr("fd00:ec2::/32"), "network.private[0].cidr", "never reached", "without it"},
		{"private-metadata", cidr("fe80::/64"), "network.private[0].cidr", "fe80::a9fe:a9fe", "without it"},
		{"fetch", func(e *Envelope) { e.Network.Fetch = "all" }, "network.fetch", `"all"`, "public"},
		{"user", func(e *Envelope) { e.Privilege.User = "root" }, "privilege.user", `"root" is not to be had`, "nobody"},
		{"user", func(e *Envelope) { e.Privilege.User = "" }, "privilege.user", "not to be had", "nobody"},
		{"credential-names", func(e *Envelope) { e.Credentials["a/b"] = Credential{} }, "credentials", "is not a name", "letters"},
		{"credential-names", func(e *Envelope) { manyCredentials(e) }, "credentials", "more than 32", "split"},
		{"credential-source", cred(func(c *Credential) { c.Source = "" }), "credentials.gh.source", "not a source", "vault:PATH"},
		{"credential-source", cred(func(c *Credential) { c.Source = "ghp_secret" }), "credentials.gh.source", "not a source", "vault:PATH"},
		{"credential-source", cred(func(c *Credential) { c.Source = "http://x" }), "credentials.gh.source", "not a source", "vault:PATH"},
		{"credential-source", cred(func(c *Credential) { c.Source = "vault: " }), "credentials.gh.source", "names nothing after vault:", "vault:PATH"},
		{"credential-source", cred(func(c *Credential) { c.Source = "command:a\nb" }), "credentials.gh.source", "one line", "vault:PATH"},
		{"credential-source", cred(func(c *Credential) { c.Source = "file:secret" }), "credentials.gh.source", "not absolute", "/"},
		{"credential-source", cred(func(c *Credential) { c.Source = "file:/etc/../x" }), "credentials.gh.source", "component ..", "clean"},
		{"credential-source", cred(func(c *Credential) { c.Source = "env:A B" }), "credentials.gh.source", "does not name a variable", "env:NAME"},
		{"credential-scopes", cred(func(c *Credential) { c.Scopes = []string{"a b"} }), "credentials.gh.scopes[0]", "not a scope", "ASCII"},
		{"credential-scopes", cred(func(c *Credential) { c.Scopes = []string{""} }), "credentials.gh.scopes[0]", "not a scope", "ASCII"},
		{"credential-scopes", cred(func(c *Credential) { c.Scopes = []string{"a", "a"} }), "credentials.gh.scopes[1]", "twice", "once"},
		{"credential-scopes", cred(func(c *Credential) { c.Scopes = make([]string, 65) }), "credentials.gh.scopes", "more than 64", "fewer"},
		{"credential-ttl", cred(func(c *Credential) { c.TTL = 1 }), "credentials.gh.ttl", "1ns is not within", "leave it out"},
		{"credential-ttl", cred(func(c *Credential) { c.TTL = Duration(25 * time.Hour) }), "credentials.gh.ttl", "not within", "leave it out"},
		{"credential-use", cred(func(c *Credential) { c.Use = CredentialUse{} }), "credentials.gh.use", "exactly one", "one of"},
		{"credential-use", use(func(u *CredentialUse) { u.File = true }), "credentials.gh.use", "exactly one", "one of"},
		{"credential-use", cred(func(c *Credential) { c.Use = CredentialUse{File: true, Path: "/x"} }), "credentials.gh.use", "uses none", "leave"},
		{"credential-header", use(func(u *CredentialUse) { u.Header = "A: b\r\nX" }), "credentials.gh.use.header", "not a header's name", "Authorization"},
		{"credential-header", use(func(u *CredentialUse) { u.Header = "transfer-encoding" }), "credentials.gh.use.header", "frames", "credential"},
		{"credential-header", use(func(u *CredentialUse) { u.Format = "Bearer" }), "credentials.gh.use.format", "{} once", "Bearer {}"},
		{"credential-header", use(func(u *CredentialUse) { u.Format = "{}{}" }), "credentials.gh.use.format", "{} once", "Bearer {}"},
		{"credential-header", use(func(u *CredentialUse) { u.Format = "{}\r\nX: y" }), "credentials.gh.use.format", "one line", "ASCII"},
		{"credential-header", use(func(u *CredentialUse) { u.Host = "" }), "credentials.gh.use.host", "is missing", "one host"},
		{"credential-header", use(func(u *CredentialUse) { u.Host = "*.github.com" }), "credentials.gh.use.host", "wildcard", "exactly"},
		{"credential-header", use(func(u *CredentialUse) { u.Host = "203.0.113.1" }), "credentials.gh.use.host", "is an address", "certificate"},
		{"credential-header", use(func(u *CredentialUse) { u.Host = "[2001:db8::1]" }), "credentials.gh.use.host", "is an address", "certificate"},
		{"credential-header", use(func(u *CredentialUse) { u.Host = "api.github.com:443" }), "credentials.gh.use.host", "has a port", "ports"},
		{"credential-header", use(func(u *CredentialUse) { u.Port = 80 }), "credentials.gh.use.port", "plain http", "443"},
		{"credential-header", use(func(u *CredentialUse) { u.Port = 70000 }), "credentials.gh.use.port", "not a port", "443"},
		{"credential-header", use(func(u *CredentialUse) { u.Methods = nil }), "credentials.gh.use.methods", "an empty list means nothing", "[GET]"},
		{"credential-header", use(func(u *CredentialUse) { u.Methods = []string{"TRACE"} }), "credentials.gh.use.methods[0]", `"TRACE"`, "GET, HEAD"},
		{"credential-header", use(func(u *CredentialUse) { u.Methods = []string{"get"} }), "credentials.gh.use.methods[0]", `"get"`, "GET, HEAD"},
		{"credential-header", use(func(u *CredentialUse) { u.Methods = []string{"GET", "GET"} }), "credentials.gh.use.methods[1]", "twice", "once"},
		{"credential-header", use(func(u *CredentialUse) { u.Path = "" }), "credentials.gh.use.path", "is missing", "/ for all"},
		{"credential-header", use(func(u *CredentialUse) { u.Path = "repos" }), "credentials.gh.use.path", "begin with /", "first slash"},
		{"credential-header", use(func(u *CredentialUse) { u.Path = "/ok/%2e%2e/admin" }), "credentials.gh.use.path", "not a plain path", "%"},
		{"credential-header", use(func(u *CredentialUse) { u.Path = "/a/../b" }), "credentials.gh.use.path", "servers drop", ".."},
		{"credential-header", use(func(u *CredentialUse) { u.Path = "//a" }), "credentials.gh.use.path", "servers drop", "//"},
		{"credential-header", use(func(u *CredentialUse) { u.Path = "/a?b" }), "credentials.gh.use.path", "not a plain path", "?"},
		{"credential-env", func(e *Envelope) { e.Credentials["old"] = Credential{Source: "env:X", Use: CredentialUse{Env: "PATH"}} }, "credentials.old.use.env", "not for a call", "leave"},
		{"credential-env", func(e *Envelope) { e.Environment = append(e.Environment, "TOKEN") }, "credentials.old.use.env", "a call could set it", "out of environment"},
		{"credential-env", func(e *Envelope) { e.Credentials["one"] = e.Credentials["old"] }, "credentials.one.use.env", "set by credentials.old", "own"},
		{"credential-conflict", func(e *Envelope) { e.Credentials["hub"] = e.Credentials["gh"] }, "credentials.hub.use", "same header as gh", "differ"},
		{"co-residency", func(e *Envelope) { e.CoResidency = "" }, "coResidency", "not one of its words", "shared, team, none"},
	}
}

// manyPorts lists n ports in two entries.
func manyPorts(e *Envelope, n int) {
	first := Allow{Host: "a.test.example", Protocol: ProtocolTCP}
	for port := 1; port < n; port++ {
		first.Ports = append(first.Ports, port)
	}
	e.Network.Allow = []Allow{first, {Host: "b.test.example", Ports: []int{n}, Protocol: ProtocolTCP}}
}

// manyAddresses lists n addresses, half of them of either family.
func manyAddresses(e *Envelope, n int) {
	e.Network.Allow = nil
	for i := range n {
		host := fmt.Sprintf("203.0.113.%d", i)
		if i%2 == 0 {
			host = fmt.Sprintf("2001:db8::%x", i+1)
		}
		e.Network.Allow = append(e.Network.Allow, Allow{Host: host, Ports: []int{443}})
	}
}

func manyMounts(e *Envelope) {
	for i := range 65 {
		e.Files.Mounts[fmt.Sprint("m", i)] = Mount{}
	}
}

func manyCredentials(e *Envelope) {
	for i := range 33 {
		e.Credentials[fmt.Sprint("c", i)] = Credential{}
	}
}
