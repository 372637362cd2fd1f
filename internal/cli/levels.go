package cli

import (
	"maps"
	"slices"

	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/render"
)

// levelsCmd is "callcell levels".
type levelsCmd struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Run prints what this host has.
func (c *levelsCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	runtimes := assembly.Start(cfg)
	defer runtimes.Close()
	levels := runtimes.Levels()
	if c.JSON {
		return a.json(levels)
	}
	w := tableWriter{a.out}
	for _, l := range levels {
		if !l.Available {
			w.row(l.Level.String(), "not here: "+l.Why)
			continue
		}
		w.row(l.Level.String(), "available")
		for _, name := range slices.Sorted(maps.Keys(l.Versions)) {
			w.row("", name+" "+render.Line(l.Versions[name], 0))
		}
		for _, f := range l.Features {
			mark := "+ "
			if !f.On {
				mark = "- "
			}
			w.row("", mark+f.Name+": "+f.Note)
		}
	}
	return nil
}
