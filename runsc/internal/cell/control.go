package cell

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/boot"
)

// A sandbox boots, and then waits to be told by its control server to start.
// In stock runsc another process does the telling. Here the process tells
// itself, over an abstract socket whose name the kernel makes up, in a network
// namespace where nobody else is.

// listen returns a bound socket for the control server, and its address.
func listen() (fd int, addr unix.Sockaddr, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("control socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{}); err != nil {
		return -1, nil, fmt.Errorf("control socket: bind: %w", err)
	}
	if addr, err = unix.Getsockname(fd); err != nil {
		return -1, nil, fmt.Errorf("control socket: name: %w", err)
	}
	return fd, addr, nil
}

// A client talks to the control server: one JSON value there, one back. It is
// not gVisor's client, which blocks a thread for each answer.
type client struct {
	file *os.File
	dec  *json.Decoder
}

func dial(addr unix.Sockaddr) (*client, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("control client: %w", err)
	}
	if err := unix.Connect(fd, addr); err != nil {
		return nil, fmt.Errorf("control client: connect: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("control client: %w", err)
	}
	file := os.NewFile(uintptr(fd), "control client")
	return &client{file: file, dec: json.NewDecoder(file)}, nil
}

// call makes one call; arg is JSON.
func (c *client) call(method, arg string) error {
	if _, err := fmt.Fprintf(c.file, `{"method":%q,"arg":%s}`, method, arg); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var answer struct {
		Success bool   `json:"success"`
		Err     string `json:"err"`
	}
	if err := c.dec.Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if !answer.Success {
		return fmt.Errorf("%s: %s", method, answer.Err)
	}
	return nil
}

// start brings loopback up, if the network is the sandbox's own, starts the
// first process, and hangs up. It returns when that runs, or could not.
func (c *client) start(id string, o *options) error {
	defer c.file.Close()
	if o.network == networkNone {
		links, err := loopback(o.lo)
		if err != nil {
			return err
		}
		if err := c.call(boot.ContMgrSetNetworkArgs, links); err != nil {
			return err
		}
	}
	return c.call(boot.ContMgrRootContainerStart, fmt.Sprintf("%q", id))
}

// What follows is the part of boot.CreateLinksAndRoutesArgs that loopback
// needs. To encode the whole type takes a millisecond of every start, most of
// it to find out what its fields are. A test holds the two together.
type (
	linksArg struct{ LoopbackLinks []linkArg }
	linkArg  struct {
		Name      string
		Addresses []addressArg
		Routes    []routeArg
	}
	addressArg struct {
		Address   netip.Addr
		PrefixLen int
	}
	routeArg struct {
		Destination struct {
			IP   netip.Addr
			Mask []byte
		}
	}
)

// loopback is the argument that brings lo up, with its usual addresses and
// more; all of a prefix is the sandbox's own, as on Linux.
func loopback(more []netip.Prefix) (string, error) {
	link := linkArg{Name: "lo"}
	usual := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}
	for _, p := range append(usual, more...) {
		link.Addresses = append(link.Addresses, addressArg{p.Addr(), p.Bits()})
		var r routeArg
		r.Destination.IP = p.Masked().Addr()
		r.Destination.Mask = net.CIDRMask(p.Bits(), p.Addr().BitLen())
		link.Routes = append(link.Routes, r)
	}
	b, err := json.Marshal(linksArg{[]linkArg{link}})
	return string(b), err
}
