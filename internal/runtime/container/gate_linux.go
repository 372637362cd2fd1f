package container

import "github.com/callcell/callcell/internal/cell"

// Gate implements cell.Gated.
func (c *containerCell) Gate() (*cell.Gate, error) { return c.takeGate() }

// takeGate hands the sockets over, once.
func (c *containerCell) takeGate() (*cell.Gate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took {
		return nil, cell.ErrState
	}
	gate := c.gate
	c.gate, c.took = nil, true
	return gate, nil
}
