package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/hook"
	"github.com/callcell/callcell/internal/render"
)

// hookCmd is "callcell hook".
type hookCmd struct {
	Claude claudeHookCmd `cmd:"" name:"claude-code" help:"For Claude Code: its Bash tool runs in cells."`
	Codex  codexHookCmd  `cmd:"" name:"codex" help:"For Codex: its shell runs in cells."`
}

// Help is the long text of "callcell hook --help".
func (*hookCmd) Help() string {
	return `An assistant's own shell, in cells: before each command the client asks us, and is told to
run callcell run with it instead, over a copy of the project. What a hook cannot catch is in
docs/mcp.md: read it, a hook is no boundary around the assistant itself.

  callcell hook claude-code --install     # what to add to the client's settings`
}

// hookFlags are those of every client.
type hookFlags struct {
	Profile string        `help:"Named envelope of the configuration. Without it: the small closed one; by a daemon, its default profile." placeholder:"NAME"`
	Project string        `help:"Directory of the project. Without it: the client's word." type:"path" placeholder:"DIR"`
	Apply   bool          `help:"Write what a command changed back into the project, without asking."`
	Mode    string        `help:"rewrite: the client runs the call, and shows its output as its shell's. answer: we run it, the client is told to run nothing, and gets the output as the reason." enum:"rewrite,answer" default:"rewrite"`
	Shell   string        `help:"The shell in the cell." default:"/bin/bash" placeholder:"PATH"`
	Show    envelope.Size `help:"Most of each stream in an answer." default:"32Ki" placeholder:"SIZE"`
	Install bool          `help:"Print what to add to the client's settings, and where. Nothing is written."`
}

// asker is what one assistant is told.
type asker struct {
	name    string // in tool and task
	allow   bool   // without which it takes no rewriting
	project string // variable that names the project
	install func(command string) string
}

// claudeHookCmd is "callcell hook claude-code".
type claudeHookCmd struct {
	hookFlags
	Allow bool `help:"Have the client not ask its user: what runs, runs in a cell. Without it, its own rules judge the command that it is given."`
}

// Help is the long text of "callcell hook claude-code --help".
func (*claudeHookCmd) Help() string {
	return `The client starts it, with the event on standard input; you install it:

  callcell hook claude-code --install
  callcell hook claude-code --install --profile work-read --apply`
}

// codexHookCmd is "callcell hook codex".
type codexHookCmd struct{ hookFlags }

// Help is the long text of "callcell hook codex --help".
func (*codexHookCmd) Help() string {
	return `The client starts it, with the event on standard input; you install it:

  callcell hook codex --install
  callcell hook codex --install --profile work-read --apply`
}

// Run answers one event of Claude Code.
func (c *claudeHookCmd) Run(a *app) error {
	return c.run(a, asker{name: "claude-code", allow: c.Allow, project: "CLAUDE_PROJECT_DIR", install: installClaude})
}

// Run answers one event of Codex.
func (c *codexHookCmd) Run(a *app) error {
	return c.run(a, asker{name: "codex", allow: true, install: installCodex})
}

// exitBlocks is the status by which a hook says that the tool must not be used.
// Any other failure lets it through.
const exitBlocks = 2

func (c *hookFlags) run(a *app, to asker) error {
	if c.Install {
		return c.printInstall(a, to)
	}
	out, err := c.answer(a, to)
	if err == nil {
		_, err = a.out.Write(out)
	}
	if err != nil {
		return &failure{exitBlocks, "the command was not run: " + flat(err), ""}
	}
	return nil
}

// answer reads the event and decides.
func (c *hookFlags) answer(a *app, to asker) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(a.stdin, hook.MaxEvent+1))
	if err != nil {
		return nil, err
	}
	event, err := hook.Parse(data)
	switch {
	case errors.Is(err, hook.ErrShell):
		return hook.Deny("callcell: " + flat(err))
	case err != nil:
		return nil, err
	case event.Tool != hook.Shell:
		return []byte("{}\n"), nil // no word of ours
	}
	argv, err := c.call(a, to, event)
	if err != nil {
		return nil, err
	}
	if c.Mode == "answer" {
		return c.runs(a, argv)
	}
	return event.Rewrite(hook.Quote(argv), to.allow)
}

// call is the command line that runs the event's command in a cell.
func (c *hookFlags) call(a *app, to asker, e *hook.Event) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := []string{self}
	if a.grammar.Config != "" {
		argv = append(argv, "--config", a.grammar.Config)
	}
	argv = append(argv, "run", "--fenced", "--tool", to.name+".shell", "--task", to.name+"-"+e.Session)
	root, below := hook.Place(c.project(to), resolved(e.Dir))
	if root == "" {
		return nil, errors.New("nobody says where the project is: give --project DIR")
	}
	argv = append(argv, "--tree", root)
	if c.Apply {
		argv = append(argv, "--apply")
	}
	limit, err := c.limit(a, e.Timeout)
	if err != nil {
		return nil, err
	}
	if c.Profile != "" {
		argv = append(argv, "--profile", c.Profile)
	}
	argv = append(argv, "--timeout", limit.String(), "--")
	return append(argv, hook.Program(c.Shell, below, e.Command)...), nil
}

// project is the directory that the user or the client names.
func (c *hookFlags) project(to asker) string {
	if c.Project != "" {
		return resolved(c.Project)
	}
	if to.project == "" {
		return ""
	}
	dir := os.Getenv(to.project)
	if !filepath.IsAbs(dir) {
		return ""
	}
	return resolved(dir)
}

// resolved is dir without links, as far as that can be told.
func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// The time of a command that nobody says a time for, and the most of any:
// those of the clients.
const (
	usualShellTime = 2 * time.Minute
	mostShellTime  = 10 * time.Minute
)

// limit is how long the command may run: what the model asks for, within the
// profile.
func (c *hookFlags) limit(a *app, asked time.Duration) (envelope.Duration, error) {
	if asked <= 0 {
		asked = usualShellTime
	}
	most, err := c.most(a)
	return envelope.Duration(max(min(asked, most), time.Second).Truncate(time.Millisecond)), err
}

// most is what a call may have at most: the profile says it, here or at the
// daemon. Without either the user is the operator of his own calls.
func (c *hookFlags) most(a *app) (time.Duration, error) {
	cfg, err := a.config()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, mostAsked, errSlow)
	defer cancel()
	d, err := a.daemon(ctx, cfg)
	switch {
	case err != nil:
		return 0, err
	case d != nil:
		return c.mostThere(ctx, d)
	}
	if c.Profile == "" {
		return mostShellTime, nil
	}
	env, ok := cfg.Profiles[c.Profile]
	if !ok {
		return 0, fmt.Errorf("--profile %s: there is no such profile", c.Profile)
	}
	return env.Resources.Wall.Std(), nil
}

// mostAsked is how long a hook waits for the key of a daemon, and for that to say
// what a call may have.
// A client that waits too long for its hook may let the command through.
const mostAsked = 15 * time.Second

var errSlow = errors.New("the daemon does not say what a call may have")

func (c *hookFlags) mostThere(ctx context.Context, d *remote) (time.Duration, error) {
	defer d.HTTP.CloseIdleConnections()
	e, err := d.explain(ctx, &envelope.Call{Profile: c.Profile, Argv: []string{c.Shell}})
	switch {
	case err != nil:
		return 0, err
	case e.Envelope != nil:
		return e.Envelope.Resources.Wall.Std(), nil // that it would be refused, the call says
	case e.Refusal != nil:
		return 0, e.Refusal
	}
	return mostShellTime, nil
}

// runs runs the call and has the client run nothing.
func (c *hookFlags) runs(a *app, argv []string) ([]byte, error) {
	ctx, stop := a.interruptible()
	defer stop()
	var out, said bounded
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = leaveTime
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	reason := fmt.Sprintf("callcell ran this command in a cell in the place of the shell; this is its result, not a refusal. Exit status %d.\n", cmd.ProcessState.ExitCode())
	if context.Cause(ctx) != nil {
		reason += "It was cancelled.\n"
	}
	show := render.Options{Max: int(c.Show)}
	return hook.Deny(reason + render.Text(out.Bytes(), show) + render.Text(said.Bytes(), show))
}

// bounded keeps the beginning of what is written to it: callcell run has cut
// the streams of the program before.
type bounded struct{ bytes.Buffer }

const maxBounded = 8 << 20

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(maxBounded-b.Len(), 0))])
	return len(p), nil
}

// printInstall says what to add.
func (c *hookFlags) printInstall(a *app, to asker) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := []string{self}
	if a.grammar.Config != "" {
		argv = append(argv, "--config", a.grammar.Config)
	}
	argv = append(argv, "hook", to.name)
	for _, f := range []struct {
		name, value string
		given       bool
	}{{"--profile", c.Profile, c.Profile != ""}, {"--project", c.Project, c.Project != ""}, {"--mode", c.Mode, c.Mode != "rewrite"}, {"--shell", c.Shell, c.Shell != "/bin/bash"}} {
		if f.given {
			argv = append(argv, f.name, f.value)
		}
	}
	if c.Apply {
		argv = append(argv, "--apply")
	}
	if to.allow && to.name == "claude-code" {
		argv = append(argv, "--allow")
	}
	_, err = io.WriteString(a.out, to.install(hook.Quote(argv)))
	return err
}

// hookSeconds is how long a client waits for us: an answer takes as long as its
// call.
const hookSeconds = int(mostShellTime/time.Second) + 60

func installClaude(command string) string {
	text, err := json.MarshalIndent(map[string]any{"hooks": map[string]any{"PreToolUse": []any{map[string]any{
		"matcher": "Bash",
		"hooks":   []any{map[string]any{"type": "command", "command": command, "timeout": hookSeconds, "onFailure": "block"}},
	}}}}, "", "  ")
	if err != nil {
		return err.Error() // of text and numbers: cannot be
	}
	return "Add this to .claude/settings.json of the project, or to ~/.claude/settings.json:\n\n" + string(text) + `

onFailure is known since Claude Code 2.1.295. Before, a hook that cannot be started or takes too
long lets the command through. With several hooks on Bash a rewriting may be lost: have no other,
or take --mode answer. See docs/mcp.md for what a hook cannot catch.
`
}

func installCodex(command string) string {
	quoted, err := json.Marshal(command) // a basic string of TOML is one of JSON
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(`Add this to ~/.codex/config.toml:

[[hooks.PreToolUse]]
matcher = "^Bash$"
[[hooks.PreToolUse.hooks]]
type = "command"
command = %s
timeout = %d

A hook that cannot be started lets the command through. See docs/mcp.md for what a hook cannot
catch.
`, quoted, hookSeconds)
}
