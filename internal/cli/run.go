package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
)

// runCmd is "callcell run".
type runCmd struct {
	callFlags
	Apply   bool   `help:"Apply what became of --tree to it, if the program exits with 0. Without it that is asked for at a terminal."`
	OutDir  string `help:"Where outputs are saved. Nothing there is overwritten. Default: where you are." type:"path" default:"." placeholder:"DIR"`
	JSON    bool   `name:"json" help:"Print the whole result as JSON; outputs are in it and not saved."`
	Fenced  bool   `help:"Print what the program wrote between marks that it could not know, neutralised: for a model to read."`
	Verbose bool   `short:"v" help:"Say where it ran and why, what it used and what was left, also when stderr is no terminal."`
}

// Help is the long text of "callcell run --help".
func (*runCmd) Help() string {
	return `Flags and FILE come before --, a command and its own flags after it:

  callcell run --trust reviewed -- ls -la
  callcell run --trust reviewed --lang python main.py --in data.csv --out result.json
  printf 'print(6*7)' | callcell run --trust reviewed --lang python

The call may touch what its envelope says and nothing else: no network, no files of this
host but a read-only /usr, no environment, a scratch directory that is gone afterwards.

Code that a model wrote does not run at the container level: say --trust reviewed only for
code that you have read.

Without --profile you are the operator of your own call, and flags set the envelope.
With --profile they narrow it.

Where the configuration names a daemon (daemon.address and daemon.key), that makes the call:
its profiles say what may be touched, and flags narrow them. What it does not answer is not run.

With --tree a working tree goes in, as far as its .gitignore and .callcellignore say, and
what became of it is shown. Nothing of it is written to the tree without --apply or a yes;
then all of it is, or nothing. No git, hook or filter of the tree runs on this host.

  callcell run --trust reviewed --tree . -- sh -c 'sed -i s/colour/color/ docs/*.md'

What the program writes comes out as it is, on a terminal neutralised. It can look like
words of ours: who has to know takes --json.

` + exitDoc
}

// Run runs the call.
func (c *runCmd) Run(a *app) error {
	a.verbose = c.Verbose
	call, at, err := c.prepare(a)
	if err != nil {
		refusal := refusalOf(err)
		if refusal == nil {
			return err
		}
		a.status = c.report(a, false, &envelope.Result{Task: c.Task, Refusal: refusal})
		return nil
	}
	return a.runAt(at, call, func(cancelled bool, r *envelope.Result) int {
		defer c.remember(a)
		return c.report(a, cancelled, r)
	})
}

func (c *runCmd) prepare(a *app) (*envelope.Call, place, error) {
	if !c.JSON {
		if err := savable(c.OutDir, c.Out); err != nil {
			return nil, nil, err
		}
	}
	cfg, err := a.config()
	if err != nil {
		return nil, nil, err
	}
	if d, err := a.daemon(a.ctx, cfg); d != nil || err != nil {
		return c.far(a, d, err)
	}
	call, h, err := c.open(a, cfg, func(r *assembly.Runtimes, o assembly.Options) (*assembly.House, error) {
		return assembly.Open(a.ctx, r, o)
	})
	return call, house{h}, err
}

// leaveTime bounds what is still to be written when a call is over.
const leaveTime = 20 * time.Second

func leave(house *assembly.House) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return house.Leave(ctx)
}

// refusalOf is the refusal of a call that did not come to the broker, or nil:
// its envelope could not be read, or the host cannot run any. A command line
// that makes no sense is not a call.
func refusalOf(err error) *envelope.Refusal {
	var f *failure
	if errors.As(err, &f) {
		return nil
	}
	return envelope.RefusalOf(err)
}

// report prints the result and returns the exit status.
func (c *runCmd) report(a *app, cancelled bool, r *envelope.Result) int {
	status := exitOf(r, cancelled)
	tree := c.compare(r)
	if c.JSON {
		return c.reportJSON(a, status, r, tree)
	}
	a.fenced = c.Fenced
	unwritten := a.output(r)
	saved, unsaved := save(c.OutDir, r.Outputs)
	a.summary(r, saved)
	unapplied := c.reportTree(a, r, tree)
	if err := errors.Join(unwritten, unsaved); err != nil {
		return a.fail(err)
	}
	if unapplied != nil {
		return a.fail(unapplied)
	}
	return status
}

// reportTree says what became of the tree, applies it where that is wanted, and
// says what became of the workspace.
func (c *runCmd) reportTree(a *app, r *envelope.Result, tree *treeReport) (err error) {
	if tree != nil {
		a.skipped(c.tree)
		a.tree(tree, r.Changes)
		if r.Workspace == nil {
			err = c.settle(a, tree)
		}
	}
	if tree == nil && r.Changes != nil { // of a workspace alone
		a.untaken(nil, r.Changes)
	}
	if r.Ran() {
		a.workspace(r.Workspace)
	}
	return err
}

// treeResult is a result with what is known of its tree on this side.
type treeResult struct {
	*envelope.Result
	Tree *treeReport `json:"tree,omitempty"`
}

func (c *runCmd) reportJSON(a *app, status int, r *envelope.Result, tree *treeReport) int {
	var unapplied error
	if tree != nil && r.Workspace == nil {
		unapplied = c.settle(a, tree)
	}
	if err := a.json(treeResult{r, tree}, a.outTTY); err != nil {
		return a.fail(err)
	}
	if unapplied != nil {
		return a.fail(unapplied)
	}
	return status
}

// localCaller names the user of this command in the row.
func localCaller() broker.Caller {
	name := fmt.Sprintf("local:uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = fmt.Sprintf("local:%s (uid %s)", u.Username, u.Uid)
	}
	return broker.Caller{Name: name}
}
