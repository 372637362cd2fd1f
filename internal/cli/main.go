package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
)

// grammar is the whole command line.
type grammar struct {
	Config string `name:"config" help:"Configuration file." type:"path" placeholder:"FILE"`

	Run     runCmd     `cmd:"" help:"Run one call in a cell of its own."`
	Explain explainCmd `cmd:"" help:"Say at which level a call would run, and why, without running it."`
	Levels  levelsCmd  `cmd:"" help:"Say which levels of isolation this host has, and what each enforces."`
	Bench   benchCmd   `cmd:"" help:"Measure this host: how long a call takes, and against what."`
	Audit   auditCmd   `cmd:"" help:"Read and verify the log of calls."`
	Conf    configCmd  `cmd:"" name:"config" help:"Print the configuration in force, and where each value is from."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// app is what every command works with.
type app struct {
	printer
	ctx     context.Context
	stdin   io.Reader
	version string
	config  func() (*config.Config, error)
	early   *assembly.Runtimes // started before the flags were read; nil otherwise
	status  int
}

// Main runs the command line and returns the exit status.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var g grammar
	a := &app{
		printer: printer{out: stdout, err: stderr, outTTY: isTerminal(stdout), errTTY: isTerminal(stderr)},
		ctx:     ctx, stdin: stdin, version: version,
	}
	a.config = func() (*config.Config, error) { return loadConfig(g.Config) }
	a.startEarly(args)
	defer func() { a.early.Close() }() // where nobody took it over
	parser, err := newParser(&g, a, stdout, stderr)
	if err != nil {
		return a.fail(err)
	}
	parsed, err := a.parse(parser, args)
	if err != nil {
		return a.usage(err)
	}
	if parsed == nil { // help was asked for
		return 0
	}
	if err := parsed.Run(a); err != nil {
		return a.fail(err)
	}
	return a.status
}

// startEarly starts the processes of a call before its flags are read: it is
// the longest step, and waits for nothing that they say.
func (a *app) startEarly(args []string) {
	if len(args) == 0 || args[0] != "run" || slices.ContainsFunc(args, otherwise) {
		return
	}
	if cfg, err := loadConfig(""); err == nil {
		a.early = assembly.StartOnce(cfg)
	}
}

// otherwise reports whether a flag may change what is started, or whether
// anything is.
func otherwise(arg string) bool {
	return strings.HasPrefix(arg, "--config") || arg == "--help" || arg == "-h"
}

// start returns the runtimes for a call.
func (a *app) start(cfg *config.Config) *assembly.Runtimes {
	if r := a.early; r != nil {
		a.early = nil
		return r
	}
	return assembly.StartOnce(cfg)
}

const description = `Run an AI agent's tool call in a cell: a sandbox built for this one call from an
explicit envelope, and destroyed after it. Every call leaves a row in a chained log.

  callcell run --trust reviewed --lang python script.py --in data.csv --out result.json
  callcell run --trust reviewed --memory 64Mi --timeout 5s -- sh -c 'wc -l < /etc/services'
  callcell explain --lang python script.py

` + exitDoc

// helpShown leaves the parser after it has printed help: kong would exit.
type helpShown struct{}

// parse returns nil without an error where help was printed.
func (a *app) parse(parser *kong.Kong, args []string) (parsed *kong.Context, err error) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(helpShown); !ok {
				panic(v)
			}
			parsed, err = nil, nil
		}
	}()
	return parser.Parse(args)
}

func newParser(g *grammar, a *app, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("callcell"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Exit(func(int) { panic(helpShown{}) }),
		kong.Bind(a),
	)
}

// usage says what is wrong with the command line.
func (a *app) usage(err error) int {
	fmt.Fprintln(a.err, "callcell:", err)
	fmt.Fprintln(a.err, "  hint: callcell --help, callcell run --help")
	return exitUsage
}

// fail says what went wrong, with the hint where there is one.
func (a *app) fail(err error) int {
	var u *usageError
	if errors.As(err, &u) {
		fmt.Fprintln(a.err, "callcell:", u.msg)
		a.hint(u.hint)
		return exitUsage
	}
	if r := envelope.RefusalOf(err); r != nil {
		a.refusal(r)
		return exitRefusedMend
	}
	fmt.Fprintln(a.err, "callcell:", err)
	return exitOwn
}

func (a *app) hint(text string) {
	if text != "" {
		fmt.Fprintln(a.err, "  hint:", text)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func loadConfig(path string) (*config.Config, error) {
	host, err := config.ThisHost()
	if err != nil {
		return nil, err
	}
	return config.Load(path, host)
}
