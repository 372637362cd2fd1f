package inside

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Sockets are made here and not by package net: it looks at the host first, and
// that is a good part of the guest's start.

const backlog = 128

func listenTCP(a netip.AddrPort) (*os.File, error) {
	return socket(a, unix.SOCK_STREAM, func(fd int) error { return unix.Listen(fd, backlog) })
}

func listenUDP(a netip.AddrPort) (*os.File, error) {
	return socket(a, unix.SOCK_DGRAM, func(int) error { return nil })
}

func socket(a netip.AddrPort, kind int, then func(fd int) error) (*os.File, error) {
	family, at := unix.AF_INET, sockaddr(a)
	if a.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err == nil {
		err = then(fd)
	}
	if err != nil {
		_ = unix.Close(fd) // it was not used
		return nil, err
	}
	moved, err := high(fd)
	if err != nil {
		return nil, err
	}
	return pollable(moved, "socket")
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// acceptTCP waits for a connection, and returns it with the address that the
// program connected to.
func acceptTCP(l *os.File) (conn *os.File, local netip.AddrPort, err error) {
	fd := -1
	if err := waitRead(l, func(at int) (again bool) {
		fd, _, err = unix.Accept4(at, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return err == unix.EAGAIN
	}); err != nil {
		return nil, local, err
	}
	if err != nil {
		return nil, local, err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		_ = unix.Close(fd) // it is gone
		return nil, local, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // it goes without
	return os.NewFile(uintptr(fd), "connection"), addrPort(at), nil
}

// waitRead runs try when there may be something to read, until it does not
// want to be run again. The error is os.ErrClosed.
func waitRead(f *os.File, try func(fd int) (again bool)) error {
	rc, err := f.SyscallConn()
	if err != nil || rc.Read(func(fd uintptr) bool { return !try(int(fd)) }) != nil {
		return os.ErrClosed
	}
	return nil
}

// control runs a call on the descriptor of an open file.
func control(f *os.File, call func(fd int) error) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if closed := rc.Control(func(fd uintptr) { err = call(int(fd)) }); closed != nil {
		return closed
	}
	return err
}
