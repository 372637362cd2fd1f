package assembly

import (
	"context"
	"os"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/egress"
	"github.com/callcell/callcell/internal/runtime/container"
	"github.com/callcell/callcell/internal/runtime/link"
	"github.com/callcell/callcell/internal/runtime/userkernel"
)

// Runtimes are the levels of this host.
type Runtimes struct {
	launchers  *link.Launchers // of every level
	container  *container.Runtime
	userkernel *userkernel.Runtime
}

// Start starts the processes that the runtimes need, without waiting for
// them: what can be done meanwhile costs nothing.
func Start(c *config.Config) *Runtimes { return start(link.Config{Helpers: c.Helpers}) }

// StartLasting is Start for a process that gives up its privileges and lives on:
// what it has given up is kept by another, for the launchers to come.
func StartLasting(c *config.Config) *Runtimes {
	return start(link.Config{Helpers: c.Helpers, Starter: true})
}

// StartOnce is Start for a process that makes one cell.
func StartOnce(c *config.Config) *Runtimes {
	return start(link.Config{Helpers: c.Helpers, Once: true})
}

func start(c link.Config) *Runtimes {
	launchers := link.New(c)
	return &Runtimes{launchers: launchers, container: container.New(launchers), userkernel: userkernel.New(launchers)}
}

func (r *Runtimes) list() []cell.Runtime {
	if r == nil {
		return nil
	}
	return []cell.Runtime{r.container, r.userkernel}
}

// starter starts the egress process.
func (r *Runtimes) starter() egress.Starter {
	if r == nil {
		return nil
	}
	return starter{r.launchers}
}

type starter struct{ launchers *link.Launchers }

// StartEgress implements egress.Starter.
func (s starter) StartEgress(ctx context.Context, control *os.File) (egress.Process, error) {
	p, err := s.launchers.StartEgress(ctx, control)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Leave is Close for a process that ends now.
func (r *Runtimes) Leave() error { return r.launchers.Leave() }

// Close ends every cell and the processes that Start started.
func (r *Runtimes) Close() error {
	if r == nil {
		return nil
	}
	return r.launchers.Close()
}
