//go:build !linux

package assembly

import (
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/egress"
	"github.com/callcell/callcell/internal/image"
)

// Runtimes are the levels of this host: none, away from Linux.
type Runtimes struct{}

// Start starts nothing here.
func Start(*config.Config) *Runtimes { return &Runtimes{} }

// StartLasting starts nothing here.
func StartLasting(*config.Config) *Runtimes { return &Runtimes{} }

// StartOnce starts nothing here.
func StartOnce(*config.Config) *Runtimes { return &Runtimes{} }

func (*Runtimes) list() []cell.Runtime { return nil }

func (*Runtimes) starter() egress.Starter { return nil }

// Trees is the store of trees: there is none.
func (*Runtimes) Trees(string) image.Trees { return nil }

// Leave does nothing here.
func (*Runtimes) Leave() error { return nil }

// Close does nothing here.
func (*Runtimes) Close() error { return nil }
