package cli

import (
	"fmt"

	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
)

// explainCmd is "callcell explain".
type explainCmd struct {
	callFlags
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Run explains where the call would run.
func (c *explainCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	call, err := c.call(a.stdin)
	if err != nil {
		return err
	}
	local, err := c.local(call)
	if err != nil {
		return err
	}
	runtimes := assembly.Start(cfg)
	house, err := assembly.OpenUnrecorded(runtimes, assembly.Options{Config: cfg, Local: local})
	if err != nil {
		return err
	}
	defer house.Close(a.ctx)
	e := house.Broker.Explain(a.ctx, localCaller(), call)
	if e.Refusal != nil {
		a.status = exitRefusedHost
	}
	if c.JSON {
		return a.json(e)
	}
	a.explanation(e)
	return nil
}

// explanation says in words where the call would run, why, and with what.
func (p *printer) explanation(e *broker.Explanation) {
	w := tableWriter{p.out}
	if e.Refusal != nil {
		w.row("refused", e.Refusal.Error())
		w.row("hint", e.Refusal.Hint)
	} else {
		w.row("level", e.Level.String())
	}
	w.rows("why", e.Why)
	w.rows("warning", e.Warnings)
	if e.Envelope == nil {
		return
	}
	r, f := &e.Envelope.Resources, &e.Envelope.Files
	w.row("trust", e.Envelope.Trust.String())
	w.row("may use", fmt.Sprintf("%s CPU, %s CPU time, %s wall, %s memory, %s processes, %s scratch",
		r.CPU, r.CPUTime, r.Wall, r.Memory, r.Pids, f.Scratch))
	w.row("may reach", reach(e))
	w.row("starts", fmt.Sprintf("%q", e.Argv))
	w.row("envelope", e.EnvelopeDigest)
}

func reach(e *broker.Explanation) string {
	if len(e.Envelope.Network.Allow) == 0 {
		return "no network"
	}
	text := ""
	for _, a := range e.Envelope.Network.Allow {
		text += fmt.Sprintf("%s %v ", a.Host, a.Ports)
	}
	return text
}
