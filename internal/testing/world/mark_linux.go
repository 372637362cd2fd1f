package world

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Mark is a moment in the world.
type Mark struct {
	w                              *World
	packets, queries, hits, strays int
}

// lastEnds is how long a mark waits for the ends of connections: somebody may hold
// one.
const lastEnds = 3 * time.Second

// Mark is now. What was connected before, and has been let go of, is at its end
// then: its last packets are not of what comes after.
func (w *World) Mark(t testing.TB) Mark {
	t.Helper()
	deadline, tick := time.After(lastEnds), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for held := true; held && w.Connections() > 0; {
		select {
		case <-tick.C:
		case <-deadline:
			held = false
		}
	}
	if err := w.capture.settle(w.near); err != nil {
		t.Fatal(err)
	}
	w.services.mu.Lock()
	defer w.services.mu.Unlock()
	return Mark{
		w: w, packets: w.capture.count(), queries: len(w.names.log()),
		hits: len(w.services.hits), strays: len(w.services.strays),
	}
}

// Packets are those that have left near since, but for what the kernel owes a
// connection of before: see capture.since.
func (m Mark) Packets(t testing.TB) []Packet {
	t.Helper()
	if err := m.w.capture.settle(m.w.near); err != nil {
		t.Fatal(err)
	}
	return m.w.capture.since(m.packets)
}

// Queries are those that came to the resolver since.
func (m Mark) Queries() []Query { return m.w.names.log()[m.queries:] }

// Hits are the requests that came to web servers since.
func (m Mark) Hits() []Hit {
	m.w.services.mu.Lock()
	defer m.w.services.mu.Unlock()
	return slices.Clone(m.w.services.hits[m.hits:])
}

// Strays are the connections and packets that came to INT since.
func (m Mark) Strays() []Stray {
	m.w.services.mu.Lock()
	defer m.w.services.mu.Unlock()
	return slices.Clone(m.w.services.strays[m.strays:])
}

// Only fails the test where, since the mark, anything was reached or asked for
// but the servers at these places (HOST:PORT, by name of the host table), and
// the resolver, for their names as they are and nothing else. It returns
// whether all is well.
func (m Mark) Only(t testing.TB, places ...string) bool {
	t.Helper()
	faults := m.beyond(t, places)
	for _, f := range faults[:min(len(faults), 20)] {
		t.Error(f)
	}
	return len(faults) == 0
}

// Nothing fails the test where anything left near since the mark, or came to
// INT.
func (m Mark) Nothing(t testing.TB) bool {
	t.Helper()
	return m.Only(t)
}

func (m Mark) beyond(t testing.TB, places []string) (faults []string) {
	t.Helper()
	to, names := map[string]bool{}, map[string]bool{}
	if len(places) > 0 {
		to["udp "+Resolver], to["tcp "+Resolver] = true, true
		to["icmp "+FarAddr+":0"] = true // the kernel's, to an answer that nobody waits for any longer
	}
	for _, place := range places {
		host, port, _ := strings.Cut(place, ":")
		names[host+"."] = true
		for _, a := range servers()[host] {
			to["tcp "+netip.MustParseAddr(a).String()+" "+port] = true
		}
	}
	for _, p := range m.Packets(t) {
		at := p.To
		if !to[p.Protocol+" "+at.String()] && !to[p.Protocol+" "+at.Addr().String()+" "+fmt.Sprint(at.Port())] {
			faults = append(faults, fmt.Sprintf("a packet left: %s to %s", p.Protocol, at))
		}
	}
	for _, q := range m.Queries() {
		if !names[q.Name] {
			faults = append(faults, fmt.Sprintf("a name was asked for: %s %s", q.Name, q.Type))
		}
	}
	for _, s := range m.Strays() {
		faults = append(faults, fmt.Sprintf("INT was hit: %s at %s", s.Network, s.To))
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}
