package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/project"
	"github.com/callcell/callcell/internal/project/diff"
	"github.com/callcell/callcell/internal/render"
)

// treeFlags are about a tree that goes into a call.
type treeFlags struct {
	Tree      string `help:"Directory that goes in as the working directory, as far as its .gitignore and .callcellignore say; what became of it is shown." type:"path" placeholder:"DIR"`
	TreeGit   bool   `name:"tree-git" help:"Take .git in too. Nothing of it ever comes back."`
	TreeCache bool   `name:"tree-cache" help:"Keep copies of the tree in the state directory, so that it is read faster the next time."`
	Workspace string `help:"Tree that lives on from call to call: its newest version goes in, the next one comes out." placeholder:"NAME[@N]"`

	tree  *project.Tree  // that was read
	cache *project.Cache // that it is remembered in; nil: nowhere
}

// treesDir is where trees are remembered, and where changes that are being
// applied have their journals.
func treesDir(cfg *config.Config) string { return filepath.Join(cfg.State, "trees") }

// fill reads the tree and names the workspace.
func (f *treeFlags) fill(a *app, c *envelope.Call) (err error) {
	if f.Workspace != "" {
		if c.Workspace, err = workspaceOf(f.Workspace); err != nil {
			return err
		}
	}
	if f.Tree == "" {
		return nil
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	o := project.Options{Git: f.TreeGit, Journals: treesDir(cfg)}
	if f.TreeCache {
		if f.cache, err = project.CacheOf(treesDir(cfg), f.Tree); err != nil {
			return treeError(f.Tree, err)
		}
		o.Cache = f.cache
	}
	bar := &progress{p: &a.printer, begun: time.Now()}
	o.Progress = bar.tree
	f.tree, err = project.Read(a.ctx, f.Tree, o)
	bar.end()
	if err != nil {
		return treeError(f.Tree, err)
	}
	c.Tree = f.tree.Call()
	return nil
}

// treeRoom is what a call has beside its tree: for what it makes, and for its
// programs.
const (
	treeScratch = 64 * envelope.MiB
	treeMemory  = 256 * envelope.MiB
	treeInodes  = 16_000
)

// fit raises the default envelope of a local user to the tree that he names:
// that it goes in is his word. Flags that say otherwise are over it.
func (f *treeFlags) fit(env *envelope.Envelope) {
	if f.tree == nil {
		return
	}
	bytes, files := envelope.Size(f.tree.Bytes), envelope.Count(len(f.tree.Files))
	largest := envelope.Size(0)
	for _, file := range f.tree.Files {
		largest = max(largest, envelope.Size(len(file.Data)))
	}
	have := &env.Files
	have.Tree.Bytes, have.Tree.Count = max(have.Tree.Bytes, bytes), max(have.Tree.Count, files)
	// A file of the scratch takes whole pages; what is changed stands beside what
	// was there.
	pages := bytes + envelope.Size(files)*4*envelope.KiB
	have.Scratch = max(have.Scratch, pages+treeScratch)
	have.Inodes = max(have.Inodes, 2*files+treeInodes)
	env.Resources.Memory = max(env.Resources.Memory, pages+treeMemory)
	env.Resources.FileSize = max(env.Resources.FileSize, largest)
}

// remember writes the cache, when nobody waits for it.
func (f *treeFlags) remember(a *app) {
	if err := f.cache.Save(); err != nil {
		a.say(flat(err))
	}
}

// workspaceOf reads NAME[@N].
func workspaceOf(text string) (*envelope.Workspace, error) {
	name, number, given := strings.Cut(text, "@")
	w := &envelope.Workspace{Name: name}
	if err := envelope.CheckWorkspace(name); err != nil {
		return nil, usage("--workspace "+text+": "+err.Error(), "letters, digits, dots, _ and -; with a version: NAME@3")
	}
	if !given {
		return w, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return nil, usage(fmt.Sprintf("--workspace %s: %q is no version", text, number), "versions are numbers from 1: NAME@3")
	}
	w.Version = n
	return w, nil
}

// treeError says what is wrong with a tree, as a fault of the command line.
func treeError(dir string, err error) error {
	var full *project.CapError
	var recovery *project.RecoveryError
	hint := ""
	switch {
	case errors.As(err, &full):
		hint = full.Hint
	case errors.Is(err, project.ErrBusy):
		hint = "wait for it"
	case errors.Is(err, project.ErrChanging):
		hint = "run it again when nothing writes there"
	case errors.As(err, &recovery):
		hint = "put them back by hand, then remove that directory"
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		hint = "name a directory that is there"
	}
	return usage(fmt.Sprintf("--tree %s: %v", dir, err), hint)
}

// progress is a line on a terminal about what takes long.
type progress struct {
	p     *printer
	begun time.Time
	shown bool
}

// progressAfter is how long something takes before it is said.
const progressAfter = 400 * time.Millisecond

func (b *progress) tree(files int, bytes int64) {
	if !b.p.errTTY || time.Since(b.begun) < progressAfter {
		return
	}
	b.shown = true
	fmt.Fprintf(b.p.err, "\rcallcell: reading the tree: %d files, %s ", files, render.Bytes(bytes))
}

func (b *progress) end() {
	if b.shown {
		fmt.Fprint(b.p.err, "\r\x1b[K")
	}
}

// A treeReport is what is to be said, and done, about what became of a tree.
type treeReport struct {
	Dir      string         `json:"dir"`
	Files    int            `json:"files"`
	Skipped  map[string]int `json:"skipped,omitempty"` // by reason
	Twins    []string       `json:"twins,omitempty"`
	Diff     string         `json:"diff,omitempty"` // as git apply takes it
	Summary  string         `json:"summary,omitempty"`
	Refused  []project.Note `json:"refused,omitempty"`  // changes that are never applied
	Warnings []project.Note `json:"warnings,omitempty"` // changes to what tools run by themselves
	Applied  bool           `json:"applied"`
	Why      string         `json:"why,omitempty"` // why not

	diffs   []diff.File
	plan    *project.Plan
	partial bool // not all changes are known
}

// compare makes the report of what a call made of the tree.
func (f *treeFlags) compare(r *envelope.Result) *treeReport {
	t := f.tree
	if t == nil || r.Changes == nil {
		return nil
	}
	report := &treeReport{Dir: t.Dir, Files: len(t.Files), Skipped: t.Skips.Counts, Twins: t.Twins, plan: t.Plan(r.Changes)}
	report.Refused, report.Warnings = report.plan.Refused, report.plan.Warnings
	was := make(map[string]project.File, len(t.Files))
	for _, file := range t.Files {
		was[file.Name] = file
	}
	var patch strings.Builder
	for i := range report.plan.Changes {
		c := &report.plan.Changes[i]
		d := diff.Of(was[c.Name].Data, was[c.Name].Executable, c)
		report.diffs = append(report.diffs, d)
		patch.WriteString(d.Patch())
	}
	report.Diff, report.Summary = patch.String(), diff.Summary(report.diffs)
	report.Why, report.partial = unapplied(r, report.plan), !r.Changes.Complete
	return report
}

// unapplied says why --apply does not apply, or "".
func unapplied(r *envelope.Result, p *project.Plan) string {
	switch {
	case p.Empty():
		return "there is nothing to apply"
	case !r.Changes.Complete:
		return "not all changes could be taken: see what is missing"
	case !r.OK():
		return "the program did not end well"
	}
	return ""
}

// mostShown is how many lines of one file's diff are shown, mostFiles of how
// many files.
const (
	mostShown = 400
	mostFiles = 100
)

// tree prints what became of the tree.
func (p *printer) tree(t *treeReport, c *envelope.Changes) {
	p.diffs(t.diffs)
	p.say(fmt.Sprintf("%s: %s", t.Dir, t.Summary))
	var lines []string
	for _, n := range t.Refused {
		lines = append(lines, fmt.Sprintf("refused: %s: %s", render.Name(n.Name), n.Why))
	}
	for _, n := range t.Warnings {
		lines = append(lines, fmt.Sprintf("look twice: %s: %s", render.Name(n.Name), n.Why))
	}
	p.untaken(lines, c)
}

// untaken says, behind lines, what of a tree was not taken.
func (p *printer) untaken(lines []string, c *envelope.Changes) {
	for _, m := range c.Missing {
		lines = append(lines, fmt.Sprintf("not taken: %s: %s", m.Name, m.Why))
	}
	p.named(lines)
	if c.Ignored > 0 {
		p.say(fmt.Sprintf("%d new files are left out by the tree's own rules", c.Ignored))
	}
}

// colour reports whether the user wants any on a terminal.
func (*printer) colour() bool { return os.Getenv("NO_COLOR") == "" }

// diffs prints what became of each file, between marks where a model reads it.
func (p *printer) diffs(all []diff.File) {
	colour := p.errTTY && !p.fenced && p.colour()
	var lines []string
	for i := range all[:min(len(all), mostFiles)] {
		lines = append(lines, all[i].Show(colour, mostShown)...)
	}
	switch text := strings.Join(lines, "\n"); {
	case text == "":
	case p.fenced:
		fmt.Fprint(p.err, render.Fence("diff", text))
	default:
		fmt.Fprintln(p.err, text)
	}
	if more := len(all) - mostFiles; more > 0 {
		p.say(fmt.Sprintf("... %d files more; --json has them all", more))
	}
}

// skipped says what of the tree did not go in.
func (p *printer) skipped(t *project.Tree) {
	if n := t.Skips.Total(); n > 0 {
		var parts []string
		for _, s := range t.Skips.First[:min(3, len(t.Skips.First))] {
			parts = append(parts, render.Name(s.Name)+" ("+s.Why+")")
		}
		things := "things"
		if n == 1 {
			things = "thing"
		}
		p.named([]string{fmt.Sprintf("%d %s of the tree did not go in: %s", n, things, strings.Join(parts, ", "))})
	}
	if len(t.Twins) > 0 {
		p.named([]string{fmt.Sprintf("%d names of the tree are one and the same elsewhere: %s", len(t.Twins), render.Name(t.Twins[0]))})
	}
}

// settle applies the changes where that is wanted.
func (c *runCmd) settle(a *app, t *treeReport) error {
	if t.plan.Empty() || !c.wanted(a, t) {
		return nil
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	_, stop := a.interruptible() // one Ctrl-C does not end it half way; the next run would finish it
	err = t.plan.Apply(treesDir(cfg))
	stop()
	if err != nil {
		t.Why = err.Error()
		return applyError(err)
	}
	t.Applied, t.Why = true, ""
	if !c.JSON {
		a.say("applied to " + t.Dir)
	}
	return nil
}

// wanted reports whether changes are to be applied: by --apply, where the
// program ended well and all changes are there, or by a yes at a terminal,
// where they are there.
func (c *runCmd) wanted(a *app, t *treeReport) bool {
	tell := func(text string) {
		if !c.JSON {
			a.say(text)
		}
	}
	switch {
	case c.Apply && t.Why == "":
		return true
	case t.partial || c.Apply || c.JSON || !a.errTTY || !isTerminal(a.stdin) || c.Stdin == "-":
		if t.Why == "" {
			t.Why = "--apply was not given"
			tell("nothing is applied: that takes --apply, or a yes at a terminal")
		} else {
			tell("nothing is applied: " + t.Why)
		}
		return false
	}
	if t.Why != "" {
		tell(t.Why)
	}
	if !a.yes(fmt.Sprintf("apply %s to %s?", t.Summary, t.Dir)) {
		t.Why = "not wanted"
		return false
	}
	return true
}

// applyError is what is said of changes that could not be applied.
func applyError(err error) error {
	var conflict *project.ConflictError
	var recovery *project.RecoveryError
	f := &failure{status: exitOwn, msg: flat(err)}
	switch {
	case errors.As(err, &recovery):
		f.hint = "put them back by hand, then remove that directory"
	case errors.As(err, &conflict):
		f.hint = "run it again on the tree as it is now"
	case errors.Is(err, project.ErrBusy):
		f.hint = "wait for it, and run it again"
	}
	return f
}

// yes asks somebody at a terminal. Everything but a yes is a no.
func (a *app) yes(question string) bool {
	fmt.Fprint(a.err, "callcell: "+render.Line(question, 0)+" [y/N] ")
	line, err := bufio.NewReaderSize(a.stdin, 256).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	if err != nil {
		fmt.Fprintln(a.err)
		return false
	}
	return answer == "y" || answer == "yes"
}
