package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/render"
)

// makeFlags are the flags of what makes images.
type makeFlags struct {
	Allow   []string `help:"Host that may be reached too." placeholder:"HOST[:PORT,PORT][/PROTOCOL]" sep:"none"`
	Profile string   `help:"Named envelope of the configuration, whose network is allowed too." placeholder:"NAME"`
	CA      string   `name:"ca" help:"PEM file of authorities that are trusted there beside the usual ones." type:"path" placeholder:"FILE"`
	Task    string   `help:"Your own id of the work this belongs to." placeholder:"ID"`
	JSON    bool     `name:"json" help:"Print the record as JSON."`
	Verbose bool     `short:"v" help:"Show what is printed meanwhile."`
}

// reach is what making may reach, as the flags say.
func (f *makeFlags) reach() (r assembly.ImageReach, err error) {
	r.Profile = f.Profile
	if r.Allow, err = allowed("--allow", f.Allow); err == nil {
		r.CA, err = f.authorities()
	}
	return r, err
}

// authorities are those of --ca.
func (f *makeFlags) authorities() ([]byte, error) {
	if f.CA == "" {
		return nil, nil
	}
	return readFile(f.CA, 1<<20)
}

// imagePullCmd is "callcell image pull".
type imagePullCmd struct {
	Ref      string `arg:"" help:"REF or oci:REF, by tag or digest: oci:registry.example.com/team/tools@sha256:..."`
	Insecure bool   `help:"Speak plain HTTP to the registry: for one on this machine."`
	makeFlags
}

// Help is the long text of "callcell image pull --help".
func (*imagePullCmd) Help() string {
	return `Pulls an image in a cell that reaches its registry alone, without credentials, and makes one
root of its layers. A tag is resolved to a digest, which the record keeps.

  callcell image pull oci:registry.example.com/team/tools:3
  callcell run --image oci:registry.example.com/team/tools:3 -- tool --version

A registry that sends its clients to another host for tokens or layers wants that in --allow.`
}

// Run pulls.
func (c *imagePullCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if c.Ref == envelope.ImageHost || strings.HasPrefix(c.Ref, "build:") {
		return usage(c.Ref+" is made here, and not pulled", "callcell image host or image build; where a registry has that name: oci:"+c.Ref)
	}
	o := assembly.PullOrder{Ref: strings.TrimPrefix(c.Ref, "oci:"), Insecure: c.Insecure}
	if o.ImageReach, err = c.reach(); err != nil {
		return err
	}
	plan, err := assembly.PlanPull(cfg, o)
	if err != nil {
		return imageFailure(err)
	}
	_, err = c.make(a, cfg, plan)
	return err
}

// imageBuildCmd is "callcell image build".
type imageBuildCmd struct {
	Name     string          `arg:"" help:"The image is build:NAME then."`
	From     string          `help:"Base: host, or oci:REF that was pulled." default:"host" placeholder:"IMAGE"`
	Pip      []string        `help:"Packages of Python's index." placeholder:"PACKAGE" sep:"none"`
	NPM      []string        `name:"npm" help:"Packages of npm's registry." placeholder:"PACKAGE" sep:"none"`
	Apt      []string        `help:"Packages of the base's distribution; their scripts do not run." placeholder:"PACKAGE" sep:"none"`
	Do       []string        `name:"run" help:"Command of the shell; what it leaves in $PREFIX is at /opt/callcell later." placeholder:"COMMAND" sep:"none"`
	Lock     string          `help:"Install exactly what this lock file says." type:"path" placeholder:"FILE"`
	SaveLock string          `help:"Write the lock file here." type:"path" placeholder:"FILE"`
	Index    string          `help:"Python's index. Default: that of this host's pip." placeholder:"URL"`
	Registry string          `help:"npm's registry. Default: that of this host's npm." placeholder:"URL"`
	Level    *envelope.Level `help:"Level of the cell that builds. Default: auto." placeholder:"LEVEL"`
	Trust    *envelope.Trust `help:"Who wrote what is installed: thirdparty, or reviewed for what you have read." placeholder:"WHO"`
	Memory   *envelope.Size  `help:"Memory of the build, its files included. Default: 4Gi." placeholder:"SIZE"`
	Scratch  *envelope.Size  `help:"Room for its files. Default: 3Gi." placeholder:"SIZE"`
	makeFlags
}

// Help is the long text of "callcell image build --help".
func (*imageBuildCmd) Help() string {
	return `Installs packages on top of a base, in a cell that reaches their index alone and has no
credentials. Install scripts are code of third parties: they run where all such code runs, and
not at the container level.

  callcell image build data --from host --pip numpy pandas matplotlib
  callcell image build data --pip numpy pandas matplotlib --save-lock data.lock
  callcell image build data --pip numpy pandas matplotlib --lock data.lock
  callcell image build web --npm typescript

An index at an address that is not public (a mirror) wants a profile whose network.private
has the address: --profile NAME.

With --lock a rebuild gives the same content, or says what has changed. What is installed
stands at /opt/callcell in a cell, and is found there by PATH, PYTHONPATH and NODE_PATH.`
}

// Run builds.
func (c *imageBuildCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	o, err := c.order(a.ctx)
	if err != nil {
		return err
	}
	plan, err := assembly.PlanBuild(cfg, o)
	if err != nil {
		return imageFailure(err)
	}
	c.adjust(&plan.Envelope)
	made, err := c.make(a, cfg, plan)
	if err != nil {
		return err
	}
	return c.tell(a, o.Lock, made.Record)
}

// order is what is to be built, on which base, from where.
func (c *imageBuildCmd) order(ctx context.Context) (o assembly.BuildOrder, err error) {
	o = assembly.BuildOrder{Name: c.Name, From: c.From, Pip: c.Pip, NPM: c.NPM, Apt: c.Apt, Run: c.Do, PipIndex: c.Index, NPMRegistry: c.Registry}
	if c.Lock != "" {
		text, err := readFile(c.Lock, 16<<20)
		if err != nil {
			return o, err
		}
		if o.Lock, err = image.ParseLock(text); err != nil {
			return o, imageFailure(err)
		}
	}
	if o.ImageReach, err = c.reach(); err != nil {
		return o, err
	}
	return o, c.indexes(ctx, &o)
}

// adjust applies the flags that are the user's to set: he is the operator.
func (c *imageBuildCmd) adjust(e *envelope.Envelope) {
	if c.Level != nil {
		e.Level = *c.Level
	}
	if c.Trust != nil {
		e.Trust = *c.Trust
	}
	if c.Memory != nil {
		e.Resources.Memory = *c.Memory
	}
	if c.Scratch != nil {
		e.Files.Scratch = *c.Scratch
	}
}

// tell writes the lock, and says what is otherwise than in the one given.
func (c *imageBuildCmd) tell(a *app, before *image.Lock, r *image.Record) error {
	if before != nil {
		for _, change := range r.Lock.Changes(before) {
			a.say("changed: " + change)
		}
	}
	if c.SaveLock == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.Lock, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.SaveLock, append(text, '\n'), 0o644)
}

// indexes finds out where packages come from: which index serves this host is
// the host's to say.
func (c *imageBuildCmd) indexes(ctx context.Context, o *assembly.BuildOrder) error {
	files := ""
	if len(o.Pip) > 0 && o.PipIndex == "" {
		o.PipIndex, files = askPip(ctx)
	}
	if files != "" {
		o.Allow = append(o.Allow, image.Allow(files, 443))
	}
	if len(o.NPM) > 0 && o.NPMRegistry == "" {
		o.NPMRegistry = ask(ctx, "npm", "config", "get", "registry")
	}
	for _, from := range []struct {
		packages      int
		address, flag string
	}{{len(o.Pip), o.PipIndex, "--index"}, {len(o.NPM), o.NPMRegistry, "--registry"}} {
		if from.packages == 0 {
			continue
		}
		if _, err := assembly.IndexHost(from.address); err != nil {
			return usage("where packages come from "+err.Error(), "name it: "+from.flag+" https://HOST/PATH")
		}
	}
	return nil
}

// askPip asks this host's pip for its index, and for the host of that one's
// files, where it is its own default.
func askPip(ctx context.Context) (index, files string) {
	const script = `from pip._internal.commands import create_command
from pip._internal.models.index import PyPI
url = create_command("install").parser.get_default_values().index_url
print(url, PyPI.file_storage_domain if url.rstrip("/") == PyPI.simple_url.rstrip("/") else "")`
	index, files, _ = strings.Cut(ask(ctx, "python3", "-c", script), " ")
	return index, strings.TrimSpace(files)
}

// ask returns what a program of this host says, on one line. It runs in / and
// not where we are: python3 -c takes modules from its working directory, and
// npm its settings, and in a project they are a stranger's.
func ask(ctx context.Context, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// imageHostCmd is "callcell image host".
type imageHostCmd struct {
	JSON bool `name:"json" help:"Print the record as JSON."`
}

// Help is the long text of "callcell image host --help".
func (*imageHostCmd) Help() string {
	return `Copies the slice of this host that every cell sees into a file that a kernel of a cell's own
can read. It is made once, and again when programs were installed: callcell run says so.

  callcell image host
  callcell image inspect host`
}

// Run makes the snapshot.
func (c *imageHostCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	env := envelope.Default()
	house, maker, err := openMaker(a, cfg, &env)
	if err != nil {
		return err
	}
	ctx, stop := a.interruptible()
	defer stop()
	bar := a.follow(maker, envelope.ImageHost, false, c.JSON)
	made, err := maker.Snapshot(ctx)
	bar()
	if failed := leave(house); failed != nil {
		a.say(flat(failed))
	}
	if err != nil {
		return orCancelled(ctx, imageFailure(err))
	}
	return c.show(a, made)
}

func (c *imageHostCmd) show(a *app, made *image.Made) error { return a.madeImage(made, c.JSON) }

// make carries a plan out, with a line that shows how far it is.
func (f *makeFlags) make(a *app, cfg *config.Config, plan *image.Plan) (*image.Made, error) {
	plan.Call.Task = f.Task
	house, maker, err := openMaker(a, cfg, &plan.Envelope)
	if err != nil {
		return nil, err
	}
	ctx, stop := a.interruptible()
	defer stop()
	done := a.follow(maker, plan.Name, f.Verbose, f.JSON)
	made, err := maker.Make(ctx, plan, func(ctx context.Context, call *envelope.Call, stdout, stderr io.Writer) *envelope.Result {
		return house.Broker.RunLive(ctx, localCaller(), call, broker.Live{Stdout: stdout, Stderr: stderr})
	})
	done()
	if failed := leave(house); failed != nil {
		a.say(flat(failed))
	}
	if err != nil {
		return nil, orCancelled(ctx, a.unmade(made, err))
	}
	return made, a.madeImage(made, f.JSON)
}

// unmade says why there is no image.
func (a *app) unmade(made *image.Made, err error) error {
	var refusal *envelope.Refusal
	if errors.As(err, &refusal) {
		return &failure{exitOf(made.Result, false), refusal.Error(), refusal.Hint}
	}
	if made != nil && made.Result != nil && made.Result.Egress != nil {
		a.denied(made.Result.Egress)
	}
	return imageFailure(err)
}

func (a *app) madeImage(made *image.Made, asJSON bool) error {
	r := made.Record
	if asJSON {
		return a.json(r, a.outTTY)
	}
	a.say(fmt.Sprintf("%s is here: %s in %d entries, %s", r.Name, render.Bytes(r.Bytes), r.Entries, r.Digest()))
	return nil
}

// follow shows how far a maker is, or with words what is printed meanwhile. What
// it returns ends that. Where lines stay, a stranger's words are none of ours.
func (a *app) follow(m *image.Maker, name string, words, silent bool) (done func()) {
	if words {
		m.Words = lines{&a.printer}
		return func() {}
	}
	var bar making
	m.Heard, m.Words = bar.heard, &bar
	now := bar.plain
	if a.errTTY {
		now = bar.now
	}
	return a.meanwhile(name, silent, now)
}

// A making is how far a maker is.
type making struct {
	mu    sync.Mutex // guards what follows
	bytes int64      // of the stream so far
	line  []byte     // that was printed last, its beginning
	whole bool       // whether it has ended

	heardWords bool // whether anything was printed
}

func (p *making) heard(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = bytes
}

// Write implements io.Writer: it takes what a stranger prints.
func (p *making) Write(text []byte) (int, error) {
	const most = 56
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heardWords = true
	for _, c := range text {
		switch {
		case c == '\n' || c == '\r':
			p.whole = true
		case p.whole:
			p.line, p.whole = append(p.line[:0], c), false
		case len(p.line) < most:
			p.line = append(p.line, c)
		}
	}
	return len(text), nil
}

// now is what there is of the stream, or, as long as that has not begun, the last
// that was printed.
func (p *making) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if words := render.Line(strings.TrimSpace(string(p.line)), 0); p.bytes == 0 && words != "" {
		return words
	}
	return render.Bytes(p.bytes)
}

// plain is now without the words of a stranger.
func (p *making) plain() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.bytes > 0:
		return render.Bytes(p.bytes) + " of its files are here"
	case p.heardWords:
		return "it is being made; -v shows what is printed"
	}
	return "none of its files is here yet"
}

// lines shows what a stranger prints, neutralised.
type lines struct{ p *printer }

func (l lines) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		fmt.Fprintln(l.p.err, "  | "+render.Line(strings.TrimRight(line, "\r\n"), 0))
	}
	return len(text), nil
}
