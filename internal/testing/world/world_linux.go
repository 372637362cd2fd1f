package world

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// A World is two namespaces and what is in them.
type World struct {
	near, far *space
	ca        *authority
	names     *names
	services  *services
	capture   *capture
	dir       string

	database sync.Once
	failed   error // to start the database
}

// servers are the hosts of the world by name, and their addresses. All but the
// database are web servers at ports 80, 443, 8080 (plain) and 8443 (TLS), and
// say back what they are told at port 7.
func servers() map[string][]string {
	return map[string][]string{
		"allowed.test":  {"93.184.216.10"},
		"other.test":    {"93.184.216.11"},
		"denied.test":   {"93.184.216.12"},
		"dual.test":     {"93.184.216.13", "2606:2800:220::13"},
		"six.test":      {"2606:2800:220::14"},
		"index.test":    {"93.184.216.15"},
		"registry.test": {"93.184.216.16"},
		"git.test":      {"93.184.216.17"},
		"api.test":      {"93.184.216.18"},
		"*.api.test":    {"93.184.216.18"},
		DatabaseHost:    {databaseAddr},
		silentHost:      {SilentAddr},
	}
}

const (
	databaseAddr = "93.184.216.20"
	silentHost   = "silent.test"
)

// New makes a world that ends with the test. It skips the test where the user
// is not root.
func New(t testing.TB) *World {
	t.Helper()
	if err := possible(); err != nil {
		t.Skip(err)
	}
	w, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Open makes a world for more than one test: Close ends it. It takes some tens
// of milliseconds, and root.
func Open() (w *World, err error) {
	if err := possible(); err != nil {
		return nil, err
	}
	w = &World{names: newNames(), services: &services{images: imageRegistry()}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	for name, addrs := range servers() {
		w.names.set(name, Always(addrs...))
	}
	if w.dir, err = os.MkdirTemp("", "world-"); err != nil {
		return w, err
	}
	if err = os.Chmod(w.dir, 0o711); err != nil { // the database has another user
		return w, err
	}
	for _, step := range []func() error{w.makeSpaces, w.makeAuthority, w.makeCapture, w.makeResolver, w.makeServers, w.makeInternal} {
		if err = step(); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *World) makeSpaces() (err error) {
	if w.near, err = newSpace(); err != nil {
		return err
	}
	if w.far, err = newSpace(); err != nil {
		return err
	}
	return join(w.near, w.far)
}

func (w *World) makeAuthority() (err error) {
	w.ca, err = newAuthority()
	return err
}

func (w *World) makeCapture() (err error) {
	w.capture, err = newCapture(w.near, "near0")
	return err
}

// Close ends everything that is in the world. Processes that were started in
// it keep their namespace until they end.
func (w *World) Close() error {
	err := w.services.close()
	if w.capture != nil {
		err = errors.Join(err, w.capture.close())
	}
	for _, s := range []*space{w.near, w.far} {
		if s != nil {
			err = errors.Join(err, s.close())
		}
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// Near runs f on a thread in near. What f itself makes is there, what its
// goroutines make is not. It must not call Near.
func (w *World) Near(f func()) { w.near.do(f) }

// Far runs f on a thread in far.
func (w *World) Far(f func()) { w.far.do(f) }

// Start starts a process in near; all that it starts is there too.
func (w *World) Start(c *exec.Cmd) error { return w.near.start(c) }

// Run starts a process in near and waits for it.
func (w *World) Run(c *exec.Cmd) error {
	if err := w.Start(c); err != nil {
		return err
	}
	return c.Wait()
}

// CA is the certificate of the world's authority, PEM.
func (w *World) CA() []byte { return w.ca.pem() }

// KeyStore is the certificate for Java, as PKCS #12 with a password.
func (w *World) KeyStore(password string) ([]byte, error) { return w.ca.keyStore(password) }

// Connections is how many connections to servers other than the database are
// open.
func (w *World) Connections() int {
	w.services.mu.Lock()
	defer w.services.mu.Unlock()
	return w.services.open
}

// Set tells the resolver the addresses of a name, lower case and without its
// final dot, or of *.NAME, every name below NAME. nil: there is none.
func (w *World) Set(name string, a Answers) { w.names.set(name, a) }

// Addr is the first address of a server.
func (w *World) Addr(name string) netip.Addr { return netip.MustParseAddr(servers()[name][0]) }

// Database starts the database at DatabaseHost, port 5432, where it has not
// been started.
func (w *World) Database(t testing.TB) {
	t.Helper()
	w.database.Do(func() {
		dir := filepath.Join(w.dir, "postgres")
		if w.failed = os.Mkdir(dir, 0o700); w.failed != nil {
			return
		}
		var stop func() error
		if stop, w.failed = startPostgres(w.far, dir, databaseAddr, w.ca); w.failed == nil {
			w.services.add(stop)
		}
	})
	if w.failed != nil {
		t.Fatal(w.failed)
	}
}

func (w *World) makeResolver() error {
	udp, tcp, err := w.resolverSockets()
	if err != nil {
		return err
	}
	w.services.group.Go(func() { w.names.serveUDP(udp) })
	w.services.group.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			w.services.add(c.Close)
			w.services.group.Go(func() { w.names.serveTCP(c) })
		}
	})
	return nil
}

// makeServers makes the web servers.
func (w *World) makeServers() error {
	git, err := repository(w.dir)
	if err != nil {
		git = missing(err)
	}
	web := w.services.web(git)
	for _, port := range []int{80, 443, 8080, 8443} {
		l, err := w.services.listen(w.far, port, isWeb)
		if err != nil {
			return err
		}
		if port == 443 || port == 8443 {
			l = tls.NewListener(l, w.ca.server())
		}
		w.services.serve(l, web)
	}
	l, err := w.services.listen(w.far, 7, isWeb)
	if err != nil {
		return err
	}
	w.services.serveEcho(l)
	return nil
}

// isWeb reports whether an address is one of a web server.
func isWeb(a netip.Addr) bool {
	for name, addrs := range servers() {
		if name != DatabaseHost && name != silentHost && slices.Contains(addrs, a.String()) {
			return true
		}
	}
	return false
}

// makeInternal makes what must not be reached: in near at the servers' ports
// too, because there each of them is the host's own.
func (w *World) makeInternal() error {
	near := append(intPorts(), 53, 80, 443, 5432, 8080, 8443)
	for at, ports := range map[*space][]int{w.near: near, w.far: intPorts()} {
		for _, port := range ports {
			l, err := w.services.listen(at, port, nobody)
			if err != nil {
				return err
			}
			w.services.serveStrays(l)
			if err := w.services.listenUDP(at, port); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *World) resolverSockets() (udp net.PacketConn, tcp net.Listener, err error) {
	w.far.do(func() {
		if udp, err = net.ListenPacket("udp", Resolver); err != nil {
			return
		}
		w.services.add(udp.Close)
		if tcp, err = net.Listen("tcp", Resolver); err == nil {
			w.services.add(tcp.Close)
		}
	})
	return udp, tcp, err
}
