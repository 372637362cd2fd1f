package broker

import (
	"maps"
	"net/netip"
	"slices"
	"syscall"

	"github.com/callcell/callcell/envelope"
)

// sign counts what looks like a try to get out of the cell.
func (f *flight) sign(kind string, n int) {
	if n <= 0 {
		return
	}
	if f.signs == nil {
		f.signs = map[string]int64{}
	}
	f.signs[kind] += int64(n)
}

// signed puts what was counted among the events of the call.
func (f *flight) signed() {
	r := f.result
	if r.Refusal != nil {
		return
	}
	if r.Exit.Signal == signalName(int(syscall.SIGSYS)) && r.Exit.Signal != "" {
		f.sign(envelope.SignSyscall, 1)
	}
	f.sign(envelope.SignAddress, reachedOut(r.Egress))
	for _, kind := range slices.Sorted(maps.Keys(f.signs)) {
		r.Events = append(r.Events, envelope.Event{Kind: kind, Count: f.signs[kind], Source: "host"})
	}
}

// reachedOut is how many of the attempts were denied because of where they led:
// to an address that is not public.
func reachedOut(seen *envelope.Egress) (n int) {
	if seen == nil {
		return 0
	}
	for _, a := range seen.Attempts {
		if a.Verdict != envelope.VerdictDenied {
			continue
		}
		addr, err := netip.ParseAddr(a.Blocked)
		if err != nil {
			addr, err = netip.ParseAddr(a.Host)
		}
		if err == nil && within(addr.Unmap()) {
			n++
		}
	}
	return n
}

// within reports whether an address is no public one, as far as that can be told
// from the address.
func within(a netip.Addr) bool {
	return !a.IsGlobalUnicast() || a.IsPrivate() || slices.Contains(envelope.MetadataAddresses(), a)
}
