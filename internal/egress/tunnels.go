package egress

import (
	"context"
	"sync"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress/pace"
	"github.com/callcell/callcell/internal/egress/relay"
)

// A tunnelling is what a session has of its guest's connections.
type tunnelling struct {
	take, carry    context.Context    // while they are taken, and carried
	taken, carried context.CancelFunc // that is over
	doing          sync.WaitGroup
}

// serveTunnels begins to take what a guest hands over.
func (s *Session) serveTunnels(from cell.Tunnels) {
	t := &tunnelling{}
	t.take, t.taken = context.WithCancel(context.Background())
	t.carry, t.carried = context.WithCancel(context.Background())
	s.tunnels = t
	t.doing.Go(func() { s.relay(from) })
}

// relay takes the connections that a guest hands over, and carries each between
// it and the process, until the session ends or no more come. How many there
// are at once is bounded by whoever they come from. Beyond what the call may have
// in all the process refuses each, which costs it, and us, a hundred times what a
// guest pays for asking: those are taken slowly.
func (s *Session) relay(from cell.Tunnels) {
	slowly := pace.New(s.p.limits.CallConnections, s.p.times.hand)
	for {
		t, err := from.Accept(s.tunnels.take)
		if err != nil {
			return // the session ends, or the cell has
		}
		if slowly.Wait(s.tunnels.take) != nil {
			_ = t.Reset() // the session ends
			return
		}
		front, its, err := relay.Pair()
		if err != nil {
			_ = t.Reset() // descriptors are short: the program sees it broken
			continue
		}
		if err := s.Tunnel(t.Local(), t.Datagrams(), its); err != nil {
			_ = front.Close() // nobody has the other end
			_ = t.Reset()     // everything is denied from now on
			continue
		}
		s.tunnels.doing.Go(func() { relay.Carry(s.tunnels.carry, t, front) })
	}
}

// stop takes no more connections. A session without a guest has none.
func (t *tunnelling) stop() {
	if t != nil {
		t.taken()
	}
}

// end ends those that are left, and waits for it.
func (t *tunnelling) end() {
	if t != nil {
		t.taken()
		t.carried()
		t.doing.Wait()
	}
}
