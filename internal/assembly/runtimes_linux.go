package assembly

import (
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/runtime/container"
)

// Runtimes are the levels of this host.
type Runtimes struct {
	container *container.Runtime
}

// Start starts the processes that the runtimes need, without waiting for
// them: what can be done meanwhile costs nothing.
func Start(c *config.Config) *Runtimes {
	return &Runtimes{container: container.New(container.Config{Helpers: c.Helpers})}
}

func (r *Runtimes) list() []cell.Runtime {
	if r == nil {
		return nil
	}
	return []cell.Runtime{r.container}
}

// Close ends every cell and the processes that Start started.
func (r *Runtimes) Close() error {
	if r == nil {
		return nil
	}
	return r.container.Close()
}
