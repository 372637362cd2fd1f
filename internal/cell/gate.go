package cell

import "os"

// The places of a cell's way out, at every level that has one.
const (
	// NameServer answers names; port 53, UDP and TCP.
	NameServer = "127.0.0.53"
	// ProxyAddress is for programs that use a proxy where one is named.
	ProxyAddress = "127.0.0.53:3128"
)

// Gated is the optional power of a cell in whose network namespace sockets of
// the host stand: they are the only way out of it.
type Gated interface {
	// Gate returns those sockets, or nil where the envelope allows no
	// network. It is called at most once, between Open and Exec; the caller
	// owns the files and closes them.
	Gate() (*Gate, error)
}

// Gate is the sockets of the host in one cell. They listen before the program
// starts.
type Gate struct {
	DNS    *os.File // UDP, at NameServer
	DNSTCP *os.File // TCP, there too
	Proxy  *os.File // TCP, at ProxyAddress
	Listen []Listener
}

// Listener is one listening TCP socket, at every local address of the cell.
type Listener struct {
	Port int
	File *os.File
}

// Files returns every file of the gate.
func (g *Gate) Files() []*os.File {
	files := []*os.File{g.DNS, g.DNSTCP, g.Proxy}
	for _, l := range g.Listen {
		files = append(files, l.File)
	}
	return files
}

// Close closes every file of the gate.
func (g *Gate) Close() {
	for _, f := range g.Files() {
		if f != nil {
			_ = f.Close() // a socket of ours that nobody writes to
		}
	}
}
