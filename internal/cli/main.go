package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
)

// flags are those of every command.
type flags struct {
	Config string `name:"config" help:"Configuration file." type:"path" placeholder:"FILE"`
}

// grammar is the whole command line.
type grammar struct {
	flags

	Run     runCmd       `cmd:"" help:"Run one call in a cell of its own."`
	Fetch   fetchCmd     `cmd:"" help:"Get one document, as a call of its own."`
	Explain explainCmd   `cmd:"" help:"Say at which level a call would run, and why, without running it."`
	Init    initCmd      `cmd:"" help:"Draft profiles: from a few answers, or from what a call was denied."`
	Levels  levelsCmd    `cmd:"" help:"Say which levels of isolation this host has, and what each enforces."`
	Image   imageCmd     `cmd:"" help:"Pull, build, list and remove the roots of cells."`
	Bench   benchCmd     `cmd:"" help:"Measure this host: how long a call takes, and against what."`
	MCP     mcpCmd       `cmd:"" name:"mcp" help:"Serve an assistant's tools over MCP: code, commands and fetches, each in a cell."`
	Hook    hookCmd      `cmd:"" help:"Answer an assistant that asks before it runs its own shell: the command runs in a cell."`
	Audit   auditCmd     `cmd:"" help:"Read and verify the log of calls."`
	Work    workspaceCmd `cmd:"" name:"workspace" help:"Look at trees that live on from call to call, and remove them."`
	Serve   serveCmd     `cmd:"" help:"Serve calls over HTTP to who has a key."`
	Key     keyCmd       `cmd:"" help:"Keys of those who call a daemon: create, list, rotate, revoke."`
	Team    teamCmd      `cmd:"" help:"Teams that pay for keys: create, list, set."`
	Usage   usageCmd     `cmd:"" help:"Say what each key has used, by month."`
	Conf    configCmd    `cmd:"" name:"config" help:"Print the configuration in force, and where each value is from."`
	Version versionCmd   `cmd:"" help:"Print the version."`
}

// app is what every command works with.
type app struct {
	printer
	ctx     context.Context
	stdin   io.Reader
	version string
	command []string // what follows --
	dashed  bool     // whether there is a --
	asked   bool     // by a client whether its tool may run: every failure of ours blocks it

	grammar grammar
	loaded  *config.Config // by startEarly, from the file from; nil otherwise
	from    string
	early   *assembly.Runtimes // started by startEarly; nil otherwise, or when taken over
	status  int
}

// Main runs the command line and returns the exit status.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{
		printer: printer{out: stdout, err: stderr, outTTY: isTerminal(stdout), errTTY: isTerminal(stderr)},
		ctx:     context.Background(), stdin: stdin, version: version,
	}
	args = spread(usual(a.cut(args)))
	a.asked = commandOf(args) == "hook"
	a.startEarly(args)
	defer a.dropEarly()
	parsed, err := a.parse(args)
	if err != nil {
		return a.fail(misspelt(err))
	}
	if parsed == nil { // help was asked for
		return 0
	}
	if err := parsed.Run(a); err != nil {
		return a.fail(err)
	}
	return a.status
}

// usual returns what is meant by words that are usual elsewhere: --version, and
// help before a command.
func usual(args []string) []string {
	args = slices.Clone(args)
	switch i := slices.Index(args, "--version"); {
	case i >= 0 && commandOf(args) == "":
		args[i] = "version"
	case commandOf(args) == "help":
		i = slices.Index(args, "help")
		args = append(slices.Delete(args, i, i+1), "--help")
	}
	return args
}

// cut takes off what follows the first --: it is a command's own, whatever it
// looks like. What is before it is ours alone, so that a misspelt flag is never
// taken for a program.
func (a *app) cut(args []string) []string {
	i := slices.Index(args, "--")
	if a.dashed = i >= 0; !a.dashed {
		return args
	}
	a.command = args[i+1:]
	return args[:i]
}

// startEarly starts the processes of a call before its flags are read: it is
// the longest step, and waits for nothing that they say but the configuration.
func (a *app) startEarly(args []string) {
	path, run := glance(args)
	if !run {
		return
	}
	if cfg, err := loadConfig(path); err == nil && !cfg.Daemon.Named() {
		a.loaded, a.from, a.early = cfg, path, assembly.StartOnce(cfg)
	}
}

// glance looks for the value of --config, and reports whether a call is to be
// run. Where it is mistaken, nothing is lost but the time.
func glance(args []string) (path string, run bool) {
	command := ""
	for i := 0; i < len(args); i++ {
		value, given := strings.CutPrefix(args[i], "--config=")
		switch {
		case args[i] == "--help" || args[i] == "-h":
			return "", false
		case args[i] == "--config" && i+1 < len(args):
			i++
			value, given = args[i], true
		case command == "" && !strings.HasPrefix(args[i], "-"):
			command = args[i]
		}
		if given {
			path = kong.ExpandPath(value)
		}
	}
	return path, command == "run" || command == "fetch"
}

// commandOf is the first word of a command line that is no flag, and no value
// of --config.
func commandOf(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--config":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}

// start returns the runtimes for a call.
func (a *app) start(cfg *config.Config) *assembly.Runtimes {
	if a.early != nil && cfg == a.loaded {
		defer func() { a.early = nil }()
		return a.early
	}
	return assembly.StartOnce(cfg)
}

// dropEarly ends what was started early and nobody took over.
func (a *app) dropEarly() {
	if err := a.early.Close(); err != nil {
		a.say(err.Error())
	}
}

// config returns the configuration of the host. An error is a *hostError.
func (a *app) config() (*config.Config, error) {
	if a.loaded != nil && a.from == a.grammar.Config {
		return a.loaded, nil
	}
	cfg, err := loadConfig(a.grammar.Config)
	if err != nil {
		return nil, &hostError{err}
	}
	return cfg, nil
}

func loadConfig(path string) (*config.Config, error) {
	host, err := config.ThisHost()
	if err != nil {
		return nil, err
	}
	return config.Load(path, host)
}

// interruptible returns a context that ends when the user, or the end of his
// session, interrupts us, once: the second time we are ended as any program
// is, and the launcher ends the cell. Until it is called we are, too. What was
// ignored when we were started (nohup, a background job) stays so.
func (a *app) interruptible() (ctx context.Context, stop func()) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(signals) == 0 {
		return a.ctx, func() {}
	}
	ctx, stop = signal.NotifyContext(a.ctx, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// orCancelled is the error of a command, or that its user has interrupted it.
func orCancelled(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &failure{exitCancelled, "cancelled; nothing was made", ""}
}

const description = `Run an AI agent's tool call in a cell: a sandbox built for this one call from an
explicit envelope, and destroyed after it. Every call leaves a row in a chained log.

  callcell run --trust reviewed --lang python script.py --in data.csv --out result.json
  callcell run --trust reviewed --memory 64Mi --timeout 5s -- sh -c 'wc -l < /etc/services'
  callcell explain --lang python script.py

` + exitDoc

// helpShown leaves the parser after it has printed help: kong would exit.
type helpShown struct{}

// parse returns nil without an error where help was printed. To make a parser of
// everything takes a third of the start of a process: it is made where the one
// of a single command is not enough, to say what there is, or what is wrong.
func (a *app) parse(args []string) (*kong.Context, error) {
	if only := a.grammar.only(commandOf(args)); only != nil && !asksHelp(args) {
		if parsed, err := a.parseAs(args, &a.grammar.flags, only); err == nil {
			return parsed, nil
		}
		a.grammar = grammar{}
	}
	return a.parseAs(args, &a.grammar)
}

// parseAs parses a command line by a grammar.
func (a *app) parseAs(args []string, grammar any, more ...kong.Option) (parsed *kong.Context, err error) {
	parser, err := a.parser(grammar, more...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(helpShown); !ok {
				panic(v)
			}
			parsed, err = nil, nil
		}
	}()
	parsed, err = parser.Parse(args)
	if err == nil && a.dashed && !takesCommand(parsed) {
		return nil, usage(fmt.Sprintf("callcell %s takes nothing after --", parsed.Command()), "callcell run -- COMMAND ARG...")
	}
	return parsed, err
}

// takesCommand reports whether the command has one of its own after --.
func takesCommand(parsed *kong.Context) bool {
	name := parsed.Selected().Name // of a leaf: the parser takes no other
	return name == "run" || name == "explain" || name == "bench"
}
