package userkernel

// A file is one of ours under /etc.
type file struct{ path, text string }

// etc are the files that stand in the place of the root's own, the same as at
// every level.
func etc(network bool) []file {
	resolv, hosts := "# no names but those of /etc/hosts\n", "files"
	if network {
		resolv, hosts = "nameserver 127.0.0.53\noptions timeout:2 attempts:2 ndots:0\n", "files dns"
	}
	return []file{
		{"/etc/resolv.conf", resolv},
		{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: " + hosts + "\nservices: files\nprotocols: files\n"},
		{"/etc/hosts", "127.0.0.1 localhost cell\n::1 localhost\n"},
		{"/etc/hostname", "cell\n"},
		{"/etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\ncell:x:1000:1000:cell:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
		{"/etc/group", "root:x:0:\ncell:x:1000:\nnogroup:x:65534:\n"},
	}
}
