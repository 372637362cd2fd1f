package httpapi

import "time"

// What is taken of who still sends a body that nobody wants, once it is answered,
// so that he comes to read the answer: a connection that is closed over bytes
// which nobody has read is reset, and a client that sends all before it reads sees
// that alone. A newcomer takes its place before any other's.
const (
	lingerQuiet = 5 * time.Second  // without a byte
	lingerTime  = 30 * time.Second // in all
	lingerBytes = 64 << 20
)

// unhear notes that an answer was begun before all of the body was read: what
// ends the connection is to linger.
func (g *guest) unhear() {
	if g == nil {
		return
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.unheard = true
}

// lingers reports whether a guest is to linger before it is closed, for the first
// time that it is asked.
func (g *guest) lingers() bool {
	d := g.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, in := d.guests[g]; !in || !g.unheard || g.leaving || d.ended {
		return false
	}
	g.leaving = true
	d.lingering.Add(1)
	return true
}

// linger says that there is no more to come, and takes what still comes until the
// client has read that.
func (g *guest) linger() {
	defer g.door.lingering.Done()
	_ = g.CloseWrite() // of a client that has gone
	buf := make([]byte, 16<<10)
	end := time.Now().Add(lingerTime)
	for left := lingerBytes; left > 0; {
		quiet := time.Now().Add(lingerQuiet)
		if end.Before(quiet) {
			quiet = end
		}
		if g.Conn.SetReadDeadline(quiet) != nil {
			break
		}
		n, err := g.Conn.Read(buf)
		if err != nil {
			break
		}
		left -= n
	}
	_ = g.leave()
}

// CloseWrite ends what is sent, for package net/http and for those that linger.
func (g *guest) CloseWrite() error {
	if c, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// end closes the connections that linger, and waits for them. From then on none
// does.
func (d *door) end() {
	d.mu.Lock()
	d.ended = true
	var list []*guest
	for g := range d.guests {
		if g.leaving {
			list = append(list, g)
		}
	}
	d.mu.Unlock()
	for _, g := range list {
		_ = g.leave()
	}
	d.lingering.Wait()
}
