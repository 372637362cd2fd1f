// Package listener serves connections in tests: it is whoever a connection out of
// a cell, or of a process of ours, comes to, and nothing of it outlives the test.
package listener

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

// Start serves at a TCP address of this host, "127.0.0.1:0" for a port of its
// own choice, and returns where. See Serve.
func Start(t testing.TB, addr string, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	Serve(t, l, handle)
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// Serve gives each connection that comes to l to handle, on a goroutine of its
// own, and closes it after. At the end of the test it closes l, and waits until
// every handle has returned: one that waits for something else is ended by a
// Cleanup that comes after Serve.
func Serve(t testing.TB, l net.Listener, handle func(net.Conn)) {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // a test may have closed it
		all.Wait()
	})
}
