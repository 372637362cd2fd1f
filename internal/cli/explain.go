package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
)

// explainCmd is "callcell explain".
type explainCmd struct {
	callFlags
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell explain --help".
func (*explainCmd) Help() string {
	return `Takes the flags of callcell run, works out what that would do, and does not do it: nothing
runs, and there is no row. The reasons for and against each level are the ones that the
row of the call would have.

  callcell explain --lang python main.py
  callcell explain --profile web --memory 64Mi -- make test

Exit status: 0 where it would run, else that of the refusal: see callcell run --help.`
}

// Run explains where the call would run.
func (c *explainCmd) Run(a *app) error {
	e, err := c.explain(a)
	if err != nil {
		refusal := refusalOf(err)
		if refusal == nil {
			return err
		}
		e = &broker.Explanation{Refusal: refusal}
	}
	if e.Refusal != nil {
		a.status = exitOfRefusal(e.Refusal.Reason)
	}
	if c.JSON {
		return a.json(e, a.outTTY)
	}
	return a.explanation(e)
}

func (c *explainCmd) explain(a *app) (*broker.Explanation, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if d, err := a.daemon(a.ctx, cfg); d != nil || err != nil {
		call, _, err := c.far(a, d, err)
		if err != nil {
			return nil, err
		}
		return d.explain(a.ctx, call)
	}
	call, house, err := c.open(a, cfg, assembly.OpenUnrecorded)
	if err != nil {
		return nil, err
	}
	e := house.Broker.Explain(a.ctx, localCaller(), call)
	if err := house.Close(a.ctx); err != nil {
		a.say(flat(err))
	}
	return e, nil
}

// explanation says in words where the call would run, why, and with what.
func (p *printer) explanation(e *broker.Explanation) error {
	w := &table{to: p.out}
	if e.Refusal != nil {
		w.row("refused", e.Refusal.Error())
		if e.Refusal.Hint != "" {
			w.row("hint", e.Refusal.Hint)
		}
	} else {
		w.row("level", e.Level.String())
	}
	if e.Floor.Valid() {
		w.row("floor", fmt.Sprintf("%s, for %s", e.Floor, strings.TrimSuffix(e.FloorWhy, ":")))
	}
	w.rows("needs", needs(e.Needs))
	w.rows("why", e.Why)
	for _, v := range e.Levels {
		w.rows(v.Level.String(), balance(v))
	}
	w.rows("cheaper", e.Cheaper)
	w.rows("warning", e.Warnings)
	if e.Envelope == nil {
		return w.err
	}
	r, f := &e.Envelope.Resources, &e.Envelope.Files
	w.row("trust", e.Envelope.Trust.String())
	w.row("may use", fmt.Sprintf("%s CPU, %s CPU time, %s wall, %s memory, %s processes, %s scratch",
		r.CPU, r.CPUTime, r.Wall, r.Memory, r.Pids, f.Scratch))
	w.row("may reach", reach(&e.Envelope.Network))
	w.rows("may use", uses(e.Envelope.Credentials))
	w.row("starts", fmt.Sprintf("%q", e.Argv))
	w.row("envelope", e.EnvelopeDigest)
	return w.err
}

// needs are the words of what a call cannot do without.
func needs(all []envelope.Need) []string {
	var words []string
	for _, n := range all {
		words = append(words, n.String())
	}
	if len(words) == 0 {
		return nil
	}
	return []string{strings.Join(words, ", ")}
}

// balance is what speaks for a level (+), against it (-), and what would have
// to change for it to be chosen (?).
func balance(v broker.LevelVerdict) (lines []string) {
	for _, text := range v.For {
		lines = append(lines, "+ "+text)
	}
	for _, text := range v.Against {
		lines = append(lines, "- "+text)
	}
	for _, text := range v.Change {
		lines = append(lines, "? it would take "+text)
	}
	return lines
}

// uses says how each credential is used; its source is the operator's.
func uses(creds map[string]envelope.Credential) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(creds)) {
		switch u := creds[name].Use; {
		case u.Header != "":
			lines = append(lines, fmt.Sprintf("credential %s: %s on %v https://%s:%d%s, added at the edge, where TLS to that host is ended", name, u.Header, u.Methods, u.Host, u.PortOrDefault(), u.Path))
		case u.File:
			lines = append(lines, fmt.Sprintf("credential %s: the file /run/credentials/%s", name, name))
		default:
			lines = append(lines, fmt.Sprintf("credential %s: the variable %s", name, u.Env))
		}
	}
	return lines
}

func reach(n *envelope.Network) string {
	if len(n.Allow) == 0 {
		return "no network"
	}
	var hosts []string
	for _, a := range n.Allow {
		hosts = append(hosts, fmt.Sprintf("%s %v", a.Host, a.Ports))
	}
	return strings.Join(hosts, ", ")
}
