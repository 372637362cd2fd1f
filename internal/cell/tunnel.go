package cell

import (
	"context"
	"io"
	"net/netip"
)

// Tunnelled is the optional power of a cell whose guest listens for the
// programs and hands their connections over: they are the only way out of it.
// What the guest says of them is the cell's word, and worth nothing.
type Tunnelled interface {
	// Tunnels returns where the connections come from, or nil where the
	// envelope allows no network. It is called at most once, between Open and
	// Exec. What comes ends with the cell.
	Tunnels() (Tunnels, error)
}

// Tunnels is a queue of connections. It is for one goroutine.
type Tunnels interface {
	// Accept waits for the next one. An error means that no more come: ctx
	// ended, or the cell did.
	Accept(ctx context.Context) (Tunnel, error)
}

// Tunnel is one connection of a program. Read and Write are for one goroutine
// each; the others may be called concurrently, and unblock them. Read returns
// io.EOF where the program has said all, and another error where it broke the
// connection off. Either Close or Reset must be called.
type Tunnel interface {
	io.ReadWriteCloser
	// CloseWrite says that nothing more comes.
	CloseWrite() error
	// Reset ends the connection so that the program sees it broken.
	Reset() error
	// Local is the address in the cell that the program connected to.
	Local() netip.AddrPort
	// Datagrams says that it is no connection but an exchange of datagrams
	// that came to Local: each with its length before it, in two bytes with
	// the greater first, and answered in the order in which they came, by an
	// empty one where there is no answer.
	Datagrams() bool
}
