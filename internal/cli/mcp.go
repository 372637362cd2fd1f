package cli

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/mcp"
)

// mcpCmd is "callcell mcp".
type mcpCmd struct {
	Profile []string      `help:"Profile that the model may name; the first is the default one. Without it: all of the configuration." placeholder:"NAME" sep:"none"`
	Tree    string        `help:"Directory of a project. Each run has a copy of it, as it is then, as working directory; what became of the copy is shown, and not applied." type:"path" placeholder:"DIR"`
	Task    string        `help:"Your own id of the work that the calls belong to. Without it: a new one for the session." placeholder:"ID"`
	Show    envelope.Size `help:"Most of each stream in an answer." default:"32Ki" placeholder:"SIZE"`
	Keep    envelope.Size `help:"Most of the files that came out, kept for the session." default:"64Mi" placeholder:"SIZE"`
	Verbose bool          `short:"v" help:"Say on standard error what the session does."`
}

// Help is the long text of "callcell mcp --help".
func (*mcpCmd) Help() string {
	return `A server of the Model Context Protocol on standard input and output, for an assistant to run
its code in: run_code, run_command, fetch, list_profiles. It lives until its input ends. The
model chooses among the profiles and may narrow them; what it wrote is never taken for
reviewed. Rows of a session have one task: callcell audit list --task ID.

  Claude Code     claude mcp add callcell -- callcell mcp
  Codex           codex mcp add callcell -- callcell mcp
  VS Code         code --add-mcp '{"name":"callcell","command":"callcell","args":["mcp"]}'

  Claude Desktop  claude_desktop_config.json, and Cursor  .cursor/mcp.json:
                  {"mcpServers": {"callcell": {"command": "callcell", "args": ["mcp"]}}}

A daemon (callcell serve) speaks the same over HTTP, for who has a key:
  claude mcp add --transport http callcell http://127.0.0.1:7420/mcp --header "Authorization: Bearer cck_..."

Use the full path of callcell where it is not in the client's PATH. A configuration of its own:
callcell --config FILE mcp, in the same places. More in docs/mcp.md.`
}

// Run serves one session.
func (c *mcpCmd) Run(a *app) (err error) {
	out := a.out
	a.out = a.err // standard output is the protocol's
	cfg, err := a.config()
	if err != nil {
		return err
	}
	profiles, err := c.profiles(cfg)
	if err == nil {
		err = c.present()
	}
	if err != nil {
		return err
	}
	house, err := a.residence(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if failed := leave(house); failed != nil {
			a.say(flat(failed))
		}
	}()
	o := mcp.Options{
		Runner: house.Broker, Profiles: profiles, Caller: localCaller(), Task: c.Task, Version: a.version,
		Show: c.Show, Keep: c.Keep, Log: c.log(a), Traces: house.Traces(),
	}
	if c.Tree != "" {
		o.Project = projectOf(cfg, c.Tree, profiles)
	}
	server, err := mcp.New(o)
	if err != nil {
		return usage(flat(err), "--task is one printable line of at most 256 bytes")
	}
	c.announce(a, cfg, server.Task())
	return c.serve(a, server, out)
}

// announce says, where somebody reads it, what begins.
func (c *mcpCmd) announce(a *app, cfg *config.Config, task string) {
	if cfg.Daemon.Named() {
		a.say("calls are made here, and not by the daemon at " + cfg.Daemon.Address + ": that serves MCP itself, at /mcp (docs/mcp.md, Over HTTP)")
	}
	if a.errTTY || c.Verbose {
		a.say("serving MCP on standard input and output, task " + task)
	}
}

// present refuses a project that is not there now, and not by the first call.
func (c *mcpCmd) present() error {
	if c.Tree == "" {
		return nil
	}
	if info, err := os.Stat(c.Tree); err != nil || !info.IsDir() {
		return usage(fmt.Sprintf("--tree %s: not a directory that is there", c.Tree), "name the directory of the project")
	}
	return nil
}

// residence is a house for many calls, with the profiles of the configuration.
// Of the rights that we were started with it keeps what the user's own files
// need.
func (a *app) residence(cfg *config.Config) (*assembly.House, error) {
	runtimes := assembly.StartLasting(cfg)
	if err := assembly.DropPrivileges(); err != nil {
		if failed := runtimes.Close(); failed != nil {
			a.say(flat(failed))
		}
		return nil, err
	}
	return assembly.Open(a.ctx, runtimes, assembly.Options{Config: cfg, Watch: &watch{p: &a.printer}, Version: a.version})
}

// serve speaks until the input ends or somebody ends us. A client that has
// stopped listening does not: its calls still have rows.
func (c *mcpCmd) serve(a *app, server *mcp.Server, out io.Writer) error {
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE)
	defer signal.Stop(unheard)
	ctx, stop := a.interruptible()
	defer stop()
	in, ok := a.stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(a.stdin)
	}
	return server.Serve(ctx, in, out)
}

// profiles are those that the model may name, the default one first.
func (c *mcpCmd) profiles(cfg *config.Config) ([]mcp.Profile, error) {
	names := c.Profile
	if len(names) == 0 {
		for name := range cfg.Profiles {
			if name != cfg.DefaultProfile {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		names = append([]string{cfg.DefaultProfile}, names...)
	}
	var profiles []mcp.Profile
	for _, name := range names {
		e, ok := cfg.Profiles[name]
		if !ok {
			return nil, usage(fmt.Sprintf("--profile %s: there is no such profile", name), "there are: "+strings.Join(slices.Sorted(maps.Keys(cfg.Profiles)), ", "))
		}
		profiles = append(profiles, mcp.Profile{Name: name, Envelope: e.Clone()})
	}
	return profiles, nil
}

// log is where the server says what goes wrong: on standard error, a line each,
// neutralised.
func (c *mcpCmd) log(a *app) *slog.Logger {
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(saying{&a.printer}, &slog.HandlerOptions{Level: level}))
}

// saying is a writer of lines for printer.say.
type saying struct{ p *printer }

// Write implements io.Writer.
func (s saying) Write(b []byte) (int, error) {
	s.p.say(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}
