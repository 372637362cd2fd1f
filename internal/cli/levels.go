package cli

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
)

// levelsCmd is "callcell levels".
type levelsCmd struct {
	Explain *envelope.Level `help:"Print what makes up a cell of this level, each entry with its reason." placeholder:"LEVEL"`
	JSON    bool            `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell levels --help".
func (*levelsCmd) Help() string {
	return `Weakest first. A level that is not here says why, and often what would bring it; of one that
is, + marks what is enforced on this host and - what is not. What code may run at which
level is a matter of who wrote it: callcell explain.

  callcell levels
  callcell levels --explain container`
}

// Run prints what this host has.
func (c *levelsCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	runtimes := assembly.Start(cfg)
	if c.Explain != nil {
		text, err := runtimes.Explain(a.ctx, *c.Explain)
		if err == nil {
			_, err = io.WriteString(a.out, text)
		}
		if r := envelope.RefusalOf(err); r != nil {
			err = &failure{exitOfRefusal(r.Reason), r.Message, r.Hint}
		}
		return errors.Join(err, runtimes.Close())
	}
	levels := runtimes.Levels()
	if err := runtimes.Close(); err != nil {
		a.say(flat(err))
	}
	if c.JSON {
		return a.json(levels, a.outTTY)
	}
	if cfg.Daemon.Named() {
		a.say("these are of this host and user; those of the daemon at " + cfg.Daemon.Address + ": GET /v1/levels, callcell explain")
	}
	return a.levels(levels)
}

func (p *printer) levels(levels []assembly.LevelReport) error {
	w := &table{to: p.out}
	for _, l := range levels {
		if !l.Available {
			w.row(l.Level.String(), "not here: "+l.Why)
			continue
		}
		w.row(l.Level.String(), "available")
		if l.Worth.Valid() && l.Worth < l.Level {
			w.row("", "- worth no more than "+l.Worth.String()+" here: "+l.Weakness)
		}
		for _, name := range slices.Sorted(maps.Keys(l.Versions)) {
			w.row("", name+" "+l.Versions[name])
		}
		for _, f := range l.Features {
			mark := "+ "
			if !f.On {
				mark = "- "
			}
			w.row("", mark+f.Name+": "+f.Note)
		}
	}
	return w.err
}
