package cli

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
)

// runCmd is "callcell run".
type runCmd struct {
	callFlags
	OutDir  string `help:"Where outputs are saved. Nothing there is overwritten." type:"path" default:"." placeholder:"DIR"`
	JSON    bool   `name:"json" help:"Print the whole result as JSON; outputs are in it and not saved."`
	Verbose bool   `short:"v" help:"Say where it ran and why, what it used and what was left, also when stderr is no terminal."`
}

// Help is the long text of "callcell run --help".
func (*runCmd) Help() string {
	return `The call may touch what its envelope says and nothing else: no network, no files of this
host but a read-only /usr, no environment, a scratch directory that is gone afterwards.

Code that a model wrote does not run at the container level: say --trust reviewed only for
code that you have read.

Without --profile you are the operator of your own call, and flags set the envelope.
With --profile they narrow it.

` + exitDoc
}

// Run runs the call.
func (c *runCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	runtimes := a.start(cfg) // its processes start while we read files
	a.verbose = c.Verbose
	call, house, err := c.prepare(a, cfg, runtimes)
	if err != nil {
		runtimes.Close()
		return err
	}
	result := house.Broker.Run(a.ctx, localCaller(), call)
	leaving := make(chan error, 1)
	go func() { leaving <- house.Leave(a.ctx) }() // while we print
	a.status = c.report(a, result)
	return <-leaving
}

func (c *runCmd) prepare(a *app, cfg *config.Config, runtimes *assembly.Runtimes) (*envelope.Call, *assembly.House, error) {
	if err := c.freeNames(); err != nil {
		return nil, nil, err
	}
	call, err := c.call(a.stdin)
	if err != nil {
		return nil, nil, err
	}
	local, err := c.local(call)
	if err != nil {
		return nil, nil, err
	}
	if err := assembly.DropPrivileges(); err != nil {
		return nil, nil, err
	}
	house, err := assembly.Open(a.ctx, runtimes, assembly.Options{Config: cfg, Local: local})
	return call, house, err
}

// local is the envelope of a local user who named no profile: the file's or
// the default one, with the flags over it. Variables that he sets are ones
// that he allows.
func (f *callFlags) local(call *envelope.Call) (*envelope.Envelope, error) {
	if f.Profile != "" {
		return nil, nil
	}
	env := envelope.Default()
	if f.Envelope != "" {
		data, err := readFile(f.Envelope, config.MaxYAML)
		if err != nil {
			return nil, err
		}
		if env, err = config.DecodeEnvelope(f.Envelope, data, env); err != nil {
			return nil, err
		}
	}
	for name := range call.Env {
		env.Environment = append(env.Environment, name)
	}
	env, err := envelope.Overlay(env, f.request())
	return &env, err
}

// freeNames refuses before anything runs what could not be saved afterwards.
func (c *runCmd) freeNames() error {
	if c.JSON {
		return nil
	}
	for _, name := range c.Out {
		if strings.HasSuffix(name, "/") || envelope.CheckName(name) != nil {
			continue // looked at when it is saved; refused by the broker
		}
		if _, err := os.Lstat(path.Join(c.OutDir, name)); err == nil {
			return &usageError{fmt.Sprintf("--out %s: it exists in %s", name, c.OutDir), "nothing is overwritten: give another --out-dir"}
		}
	}
	return nil
}

// report prints the result and returns the exit status.
func (c *runCmd) report(a *app, r *envelope.Result) int {
	status := exitOf(r, int(unix.SignalNum(r.Exit.Signal)))
	if c.JSON {
		if err := a.json(r); err != nil {
			return a.fail(err)
		}
		return status
	}
	a.output(r)
	saved, err := save(c.OutDir, r.Outputs)
	a.summary(r, saved)
	if err != nil {
		return a.fail(err)
	}
	return status
}

// save writes outputs below dir. Whatever their names, nothing outside of it
// is written, no link is followed, nothing is overwritten.
func save(dir string, files []envelope.File) (saved []string, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, f := range files {
		if err := saveOne(root, f); err != nil {
			return saved, fmt.Errorf("save output %q: %w", f.Name, err)
		}
		saved = append(saved, fmt.Sprintf("%s  %d bytes", path.Join(dir, f.Name), len(f.Data)))
	}
	return saved, nil
}

func saveOne(root *os.Root, f envelope.File) error {
	if dir := path.Dir(f.Name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	w, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := w.Write(f.Data); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

// localCaller names the user of this command in the row.
func localCaller() broker.Caller {
	name := fmt.Sprintf("local:uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = fmt.Sprintf("local:%s (uid %s)", u.Username, u.Uid)
	}
	return broker.Caller{Name: name}
}
