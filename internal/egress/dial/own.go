package dial

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// ownFor is how long this host's addresses are believed. A new one is found
// at most that much later.
const ownFor = 2 * time.Second

// own are the addresses of this host's interfaces, read when they are needed.
type own struct {
	read func() ([]netip.Addr, error)
	now  func() time.Time

	mu    sync.Mutex // guards what follows
	at    time.Time
	addrs []netip.Addr
}

// get returns the addresses, or an error: then nothing may be dialled. The
// list is not to be changed.
func (o *own) get() ([]netip.Addr, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if age := now.Sub(o.at); o.addrs != nil && age >= 0 && age < ownFor {
		return o.addrs, nil
	}
	addrs, err := o.read()
	if err == nil && len(addrs) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		o.addrs = nil
		return nil, err
	}
	o.at, o.addrs = now, addrs
	return addrs, nil
}

// interfaces asks the kernel.
func interfaces() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(all))
	for _, one := range all {
		n, ok := one.(*net.IPNet)
		if !ok {
			return nil, fmt.Errorf("%T is no address of an interface", one)
		}
		a, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			return nil, fmt.Errorf("%q is no address", n.IP)
		}
		addrs = append(addrs, a.Unmap())
	}
	return addrs, nil
}
