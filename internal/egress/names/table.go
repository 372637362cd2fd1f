package names

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// MaxNames is how many names a Table can hold: what there is of 198.18.0.0/15
// from 198.18.1.0 on.
const MaxNames = 1<<17 - 1<<8

// Table gives names their addresses. The zero value is not usable; use
// NewTable. Its methods may be called concurrently.
type Table struct {
	most int

	mu    sync.Mutex // guards what follows
	names []string   // the one at i has the address first+i
	addrs map[string]netip.Addr
}

// NewTable makes an empty table for at most n names, and at most MaxNames.
func NewTable(n int) *Table {
	return &Table{most: min(n, MaxNames), addrs: map[string]netip.Addr{}}
}

// first is the first address that is given out, as a number.
func first() uint32 { return 198<<24 | 18<<16 | 1<<8 }

// Addr returns the address of a name, which is in its canonical form. It
// gives it one where it has none; fresh says so. Where the table is full the
// address is not valid.
func (t *Table) Addr(name string) (addr netip.Addr, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := t.addrs[name]; ok {
		return a, false
	}
	if len(t.names) >= t.most {
		return netip.Addr{}, false
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], first()+uint32(len(t.names)))
	a := netip.AddrFrom4(b)
	t.names, t.addrs[name] = append(t.names, name), a
	return a, true
}

// Name returns the name that has an address, or "".
func (t *Table) Name(a netip.Addr) string {
	a = a.Unmap()
	if !a.Is4() {
		return ""
	}
	b := a.As4()
	i := binary.BigEndian.Uint32(b[:]) - first() // wraps around below the first
	t.mu.Lock()
	defer t.mu.Unlock()
	if uint64(i) >= uint64(len(t.names)) {
		return ""
	}
	return t.names[i]
}
