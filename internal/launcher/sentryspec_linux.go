package launcher

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// What a sentry is told: the flags of `runsc cell`, and its bundle's config.json.
// Both are made here of numbers alone. Nothing of them is a front's text.

// The descriptors of a sentry. Those of stdio are below.
const (
	sentrySpec    = iota + 3 // config.json, sealed
	sentryStatus             // a pipe on which it reports
	sentryRoot               // the root's image
	sentryChannel            // the guest's end
	sentryStdin              // of the guest: the null device, three times
	sentryStdout
	sentryStderr
	sentryGuest  // the guest's binary
	sentryAdded  // the added image, or the null device
	sentryBinary // runsc itself, until the exec
	sentryFDs
)

// guestChannel is the channel's number in the guest.
const guestChannel = 3

// leastMemory is what a sentry takes for a sandbox's memory at least.
const leastMemory = 16 << 20

// hostNet reports whether the sockets of a cell of LevelUserkernel are this
// host's kernel's. Only one that has a network needs them.
func (h *host) hostNet(s *wire.Spec) bool {
	return h.conf.Runsc.Network == conf.NetworkHost && len(s.Ports) > 0
}

// sentryFlags are the arguments of the process. With hostNet its programs have
// the sockets of the network namespace that it is in, addresses and all.
func sentryFlags(s *wire.Spec, hostNet bool) []string {
	args := []string{
		"runsc", "cell", fmt.Sprintf("-spec-fd=%d", sentrySpec), fmt.Sprintf("-status-fd=%d", sentryStatus),
		fmt.Sprintf("-stdio-fds=%d,%d,%d", sentryStdin, sentryStdout, sentryStderr), fmt.Sprintf("-pass-fd=%d:%d", sentryChannel, guestChannel),
		fmt.Sprintf("-exec-fd=%d", sentryGuest), fmt.Sprintf("-memory=%d", s.Memory),
	}
	images, confs := strconv.Itoa(sentryRoot), "erofs:none"
	if s.Added != "" {
		images, confs = images+","+strconv.Itoa(sentryAdded), confs+",erofs:none"
	}
	args = append(args, "-io-fds="+images, "-mount-confs="+confs)
	switch {
	case hostNet:
		args = append(args, "-network=host")
	case len(s.Ports) > 0:
		args = append(args, "-loopback="+loopback(s.Addrs))
	}
	return args
}

// loopback are the addresses that the sandbox's own lo has beside its usual
// ones.
func loopback(addrs [][16]byte) string {
	all := []string{"198.18.0.1/15"}
	for _, a := range addrs {
		addr := netip.AddrFrom16(a).Unmap()
		all = append(all, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	return strings.Join(all, ",")
}

// guestCapabilities are the guest's in the sandbox's own kernel, with why. They
// count for nothing on the host. The program has none of them.
func guestCapabilities() []string {
	return []string{
		"CAP_CHOWN",            // the parts of the scratch belong to the program
		"CAP_DAC_OVERRIDE",     // inputs and outputs, whatever their modes
		"CAP_FOWNER",           // modes of what was given away
		"CAP_KILL",             // every process of the place
		"CAP_NET_BIND_SERVICE", // port 53, and those that the call may reach
		"CAP_SETGID",           // the program's
		"CAP_SETPCAP",          // the program's bounding set is empty
		"CAP_SETUID",           // the program's
		"CAP_SYS_ADMIN",        // the scratch, and what covers files of the root
		"CAP_SYS_CHROOT",       // the place
		"CAP_SYS_RESOURCE",     // limits of the program that are above the guest's own
	}
}

// guestEnv tells the Go runtime of the guest to start with one processor: each
// more is threads that wake one another, in a kernel in which that is dear. It
// takes more by itself where it has connections to carry.
const guestEnv = `"GOMAXPROCS=1"`

// sentryConfig is the bundle's config.json. The guest is in no image: -exec-fd
// has it.
func sentryConfig(s *wire.Spec) []byte {
	caps := `["` + strings.Join(guestCapabilities(), `","`) + `"]`
	mounts := []string{
		`{"destination":"/proc","type":"proc","source":"proc","options":["nosuid","nodev","noexec"]}`,
	}
	if s.Added != "" {
		mounts = append(mounts, `{"destination":"/opt/callcell","type":"erofs","source":"/added","options":["ro","nosuid","nodev"]}`)
	}
	return fmt.Appendf(nil, `{"ociVersion":"1.2.1","hostname":"cell",`+
		`"process":{"user":{"uid":0,"gid":0},"args":["callcell-guest"],"env":[%[4]s],"cwd":"/","noNewPrivileges":true,`+
		`"capabilities":{"bounding":%[1]s,"effective":%[1]s,"permitted":%[1]s,"inheritable":[],"ambient":[]},`+
		`"rlimits":[{"type":"RLIMIT_NOFILE","soft":%[2]d,"hard":%[2]d},{"type":"RLIMIT_CORE","soft":0,"hard":0}]},`+
		`"root":{"path":"root","readonly":true},"mounts":[%[3]s],`+
		`"annotations":{"dev.gvisor.spec.rootfs.source":"/root","dev.gvisor.spec.rootfs.type":"erofs"},`+
		`"linux":{"namespaces":[{"type":"pid"},{"type":"mount"},{"type":"ipc"},{"type":"uts"},{"type":"network"}]}}`,
		caps, guestOpenFiles(s), strings.Join(mounts, ","), guestEnv)
}

// guestOpenFiles is how many files the guest may have open: a program's, and its
// own with tunnels.
func guestOpenFiles(s *wire.Spec) int64 { return max(s.OpenFiles, 4096) }
