package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/render"
)

// fetchCmd is "callcell fetch".
type fetchCmd struct {
	URL     string             `arg:"" help:"Address of the document: http or https."`
	Text    bool               `help:"Readable text of a page, not its bytes."`
	Bytes   *envelope.Size     `help:"Most bytes wanted. Default: the operator's cap, 2Mi." placeholder:"SIZE"`
	Fresh   bool               `help:"Do not answer from the cache."`
	Profile string             `help:"Named envelope of the configuration: its network says what may be fetched. Default: any public host; by a daemon, its default profile." placeholder:"NAME"`
	Timeout *envelope.Duration `help:"Time for all of it: 20s." placeholder:"TIME"`
	Task    string             `help:"Your own id of the work this call belongs to." placeholder:"ID"`
	Tool    string             `help:"What you call the tool; it stands in the row." placeholder:"NAME"`
	JSON    bool               `name:"json" help:"Print the whole result as JSON."`
	Verbose bool               `short:"v" help:"Say where it came from and what was tried, also when stderr is no terminal."`
}

// Help is the long text of "callcell fetch --help".
func (*fetchCmd) Help() string {
	return `Gets one document, as a call like any other: it has its row, and its limits.

  callcell fetch https://example.com/
  callcell fetch --text --json https://example.com/article

A process without files, keys or privileges asks for it. Every address that a name leads to,
and every hop of a redirect, is judged before it is dialled: nothing of this host, of private
networks or of a cloud's metadata service is reached. What comes is data of a stranger.

Exit status 1 where there was no answer; else as of run. An answer of any status is one.`
}

// Run fetches.
func (c *fetchCmd) Run(a *app) error {
	a.verbose = c.Verbose
	at, err := c.open(a)
	if err != nil {
		refusal := refusalOf(err)
		if refusal == nil {
			return err
		}
		a.status = c.report(a, false, &envelope.Result{Task: c.Task, Refusal: refusal})
		return nil
	}
	return a.runAt(at, c.call(at), func(cancelled bool, r *envelope.Result) int { return c.report(a, cancelled, r) })
}

func (c *fetchCmd) call(at place) *envelope.Call {
	call := &envelope.Call{Tool: c.Tool, Task: c.Task, Profile: c.Profile, Fetch: &envelope.Fetch{URL: c.URL, Text: c.Text, Fresh: c.Fresh}}
	if c.Tool == "" {
		call.Tool = "fetch"
	}
	if c.Bytes != nil {
		call.Fetch.Bytes = *c.Bytes
	}
	if _, far := at.(*remote); far || c.Profile != "" {
		call.Request = c.request()
	}
	return call
}

func (c *fetchCmd) request() *envelope.Request {
	if c.Timeout == nil {
		return nil
	}
	return &envelope.Request{Resources: &envelope.ResourcesRequest{Wall: c.Timeout}}
}

// open builds the house. A local user who names no profile may fetch what is
// public. A daemon's profiles say what its callers may.
func (c *fetchCmd) open(a *app) (place, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if d, err := a.daemon(a.ctx, cfg); d != nil || err != nil {
		return d, err
	}
	runtimes := a.start(cfg)
	var local *envelope.Envelope
	if err = assembly.DropPrivileges(); err == nil && c.Profile == "" {
		env := envelope.Default()
		env.Network.Fetch = envelope.FetchPublic
		if env, err = envelope.Overlay(env, c.request()); err == nil {
			local = &env
		}
	}
	if err != nil {
		return nil, errors.Join(err, runtimes.Close())
	}
	h, err := assembly.Open(a.ctx, runtimes, assembly.Options{Config: cfg, Local: local, Watch: &watch{p: &a.printer}, Version: a.version})
	return house{h}, err
}

// report prints the answer and returns the exit status.
func (c *fetchCmd) report(a *app, cancelled bool, r *envelope.Result) int {
	status := exitOf(r, cancelled)
	if c.JSON {
		if err := a.json(r, a.outTTY); err != nil {
			return a.fail(err)
		}
		return status
	}
	unwritten := a.document(r.Fetched)
	a.summary(r, nil)
	if unwritten != nil {
		return a.fail(unwritten)
	}
	return status
}

// document shows what was fetched: neutralised on a terminal, the very bytes
// elsewhere.
func (p *printer) document(f *envelope.Fetched) error {
	if f == nil {
		return nil
	}
	if f.Failure != "" {
		p.say("fetch: " + f.Failure)
	}
	if f.Status >= 400 {
		p.say(fmt.Sprintf("fetch: the server answered %d", f.Status))
	}
	if f.Cut {
		p.say("fetch: " + render.Bytes(int64(len(f.Body))) + " shown; there is more")
	}
	if !p.outTTY {
		_, err := p.out.Write(f.Body)
		return unwritten("document", err)
	}
	text := render.Text(f.Body, render.Options{})
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(p.out, text)
	return unwritten("document", err)
}

// fetched says, for the summary, where the document came from.
func fetched(f *envelope.Fetched) string {
	text := fmt.Sprintf("%d %s %s, %s", f.Status, f.URL, f.Type, render.Bytes(f.Bytes))
	if len(f.Hops) > 0 {
		text += fmt.Sprintf(", after %d redirects", len(f.Hops))
	}
	if f.Cached {
		text += ", from the cache"
	}
	return text
}
