package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/project/diff"
	"github.com/callcell/callcell/internal/render"
	"github.com/callcell/callcell/internal/workspace"
)

// workspaceCmd is "callcell workspace".
type workspaceCmd struct {
	hereFlag
	List   workspaceListCmd   `cmd:"" help:"List workspaces."`
	Show   workspaceShowCmd   `cmd:"" help:"Say what versions there are, and what is in one."`
	Diff   workspaceDiffCmd   `cmd:"" help:"Compare two versions."`
	Export workspaceExportCmd `cmd:"" help:"Write a version into a directory."`
	Rm     workspaceRmCmd     `cmd:"" help:"Remove a workspace, or its old versions."`
	GC     workspaceGCCmd     `cmd:"" name:"gc" help:"Remove the bytes that no version has and no team keeps any more."`
}

// Help is the long text of "callcell workspace --help".
func (*workspaceCmd) Help() string {
	return `A workspace is a tree that lives on: a call reads the newest version and writes the next.
The first call makes it, out of --tree or of nothing.

  callcell run --workspace notes --tree ./notes -- sh -c 'date >> log.txt'
  callcell run --workspace notes -- sh -c 'date >> log.txt'
  callcell workspace diff notes@1 notes@2
  callcell workspace export notes ./notes-now

Where the configuration names a daemon, they are the team's of its key; --here is about those of
this host and user.`
}

// withWorkspaces opens the store and gives the workspaces of this host to do.
func withWorkspaces(a *app, do func(*workspace.Keeper) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := a.grammar.Work.ours(cfg, "the workspaces are those of the daemon"); err != nil {
		return err
	}
	if cfg, err = a.owned(); err != nil {
		return err
	}
	house, err := assembly.OpenLog(a.ctx, cfg)
	if err != nil {
		return err
	}
	err = workspaceFailure(do(house.Workspaces))
	return errors.Join(err, house.Close(a.ctx))
}

// workspaceFailure says what is wrong with a workspace.
func workspaceFailure(err error) error {
	var stale *workspace.StaleError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, workspace.ErrAbsent):
		return &failure{exitNo, err.Error(), "callcell workspace list"}
	case errors.Is(err, workspace.ErrHeld):
		return &failure{exitRefusedWait, err.Error(), "wait until that call is over"}
	case errors.Is(err, workspace.ErrStale) && !errors.As(err, &stale):
		return &failure{exitUsage, err.Error(), "without a version it goes as a whole"}
	case errors.Is(err, workspace.ErrCorrupt):
		return &failure{exitNo, err.Error(), "another version may be whole: callcell workspace show NAME"}
	}
	return err
}

// ref is NAME[@N] of an argument.
func ref(text string) (name string, number int64, err error) {
	w, err := workspaceOf(text)
	if err != nil {
		return "", 0, err
	}
	return w.Name, w.Version, nil
}

// workspaceListCmd is "callcell workspace list".
type workspaceListCmd struct {
	JSON bool `name:"json" help:"Print them as JSON."`
}

// Help is the long text of "callcell workspace list --help".
func (*workspaceListCmd) Help() string {
	return `A line has the newest version, when it was written, its files, and the call that wrote it:

  callcell workspace list`
}

// Run lists.
func (c *workspaceListCmd) Run(a *app) error {
	return withShelf(a, func(k shelf) error {
		list, err := k.List(a.ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.json(append([]workspace.Version{}, list...), a.outTTY)
		}
		if len(list) == 0 {
			a.say("no workspaces; callcell workspace --help")
		}
		return a.versions(list)
	})
}

// versions prints a line for each.
func (p *printer) versions(list []workspace.Version) error {
	for _, v := range list {
		_, err := fmt.Fprintf(p.out, "%s@%d  %s  %d files, %s  %s\n", render.Name(v.Name), v.Number,
			v.At.Local().Format("2006-01-02 15:04:05"), v.Files, render.Bytes(v.Bytes), render.Line(v.Call, 0))
		if err != nil {
			return err
		}
	}
	return nil
}

// workspaceShowCmd is "callcell workspace show".
type workspaceShowCmd struct {
	Name string `arg:"" help:"NAME for its versions, NAME@N for what is in one."`
	JSON bool   `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell workspace show --help".
func (*workspaceShowCmd) Help() string {
	return `The versions of a workspace, newest first, or the files of one version:

  callcell workspace show notes
  callcell workspace show notes@2 --json`
}

// Run shows.
func (c *workspaceShowCmd) Run(a *app) error {
	name, number, err := ref(c.Name)
	if err != nil {
		return err
	}
	return withShelf(a, func(k shelf) error {
		if number == 0 {
			list, err := k.Versions(a.ctx, name)
			if err != nil {
				return err
			}
			if c.JSON {
				return a.json(list, a.outTTY)
			}
			return a.versions(list)
		}
		v, m, err := k.Show(a.ctx, name, number)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.json(struct {
				workspace.Version
				Entries []workspace.Entry `json:"entries"`
			}{v, m.Files}, a.outTTY)
		}
		for _, e := range m.Files {
			mark := "-"
			if e.Executable {
				mark = "x"
			}
			if _, err := fmt.Fprintf(a.out, "%s %10s  %s  %s\n", mark, render.Bytes(e.Size), e.SHA256.String()[:12], render.Name(e.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// workspaceDiffCmd is "callcell workspace diff".
type workspaceDiffCmd struct {
	From string `arg:"" help:"NAME@N: the older version. With one argument: NAME@N, or NAME for the newest, against the version before it."`
	To   string `arg:"" optional:"" help:"NAME@N: the newer version."`
	JSON bool   `name:"json" help:"Print it as JSON: what became of each file, with its diff to be read, and all as one patch."`
}

// Help is the long text of "callcell workspace diff --help".
func (*workspaceDiffCmd) Help() string {
	return `On a terminal the diff is to be read; elsewhere it is a patch, as git apply takes it.

  callcell workspace diff notes
  callcell workspace diff notes@1 notes@2
  callcell workspace diff notes@2 | git apply --directory=notes -`
}

// Run compares.
func (c *workspaceDiffCmd) Run(a *app) error {
	name, from, err := ref(c.From)
	if err != nil {
		return err
	}
	other, to := name, from
	newest := c.To == "" && from == 0
	switch {
	case newest: // looked up below
	case c.To == "":
		from--
	default:
		if other, to, err = ref(c.To); err != nil {
			return err
		}
	}
	if other != name || to == 0 && !newest {
		return usage("two versions of one workspace are compared", "callcell workspace diff NAME@1 NAME@2, or NAME@2 against the one before")
	}
	return withShelf(a, func(k shelf) error {
		if newest {
			v, _, err := k.Show(a.ctx, name, 0)
			if err != nil {
				return err
			}
			from, to = v.Number-1, v.Number
		}
		over := a.meanwhile("workspace diff", c.JSON, nil)
		list, err := k.Diff(a.ctx, name, from, to)
		over()
		if err != nil {
			return err
		}
		if c.JSON {
			return a.json(differing(name, from, to, list), a.outTTY)
		}
		return a.differences(list)
	})
}

// differing is what a daemon answers, of which a client has the type.
func differing(name string, from, to int64, list []workspace.Difference) client.WorkspaceDiff {
	out := client.WorkspaceDiff{Name: name, From: from, To: to, Files: []client.FileDiff{}}
	var patch strings.Builder
	for i := range list {
		c := &list[i].Change
		d := diff.Of(list[i].Before, list[i].Ran, c)
		patch.WriteString(d.Patch())
		out.Files = append(out.Files, client.FileDiff{Name: c.Name, Kind: c.Kind, Bytes: d.Behind, Executable: c.Executable, Before: c.Before, After: c.After, Diff: d.Raw()})
	}
	out.Patch = patch.String()
	return out
}

// differences prints diffs: neutralised on a terminal, elsewhere as git apply takes
// them.
func (p *printer) differences(list []workspace.Difference) error {
	for i := range list {
		d := diff.Of(list[i].Before, list[i].Ran, &list[i].Change)
		text := d.Patch()
		if p.outTTY {
			text = strings.Join(d.Show(p.colour(), mostShown), "\n") + "\n"
		}
		if _, err := fmt.Fprint(p.out, text); err != nil {
			return err
		}
	}
	return nil
}

// workspaceExportCmd is "callcell workspace export".
type workspaceExportCmd struct {
	Name string `arg:"" help:"NAME, the newest version, or NAME@N."`
	Dir  string `arg:"" type:"path" help:"Directory that is made for it. One that is there is not touched."`
	JSON bool   `name:"json" help:"Print which version it is, and where, as JSON."`
}

// Help is the long text of "callcell workspace export --help".
func (*workspaceExportCmd) Help() string {
	return `Nothing is overwritten. Files that git would act on, such as .git/hooks, are left out, with exit
status 125. Where not all of the others can be written, or it is cancelled, the directory is
removed again.

  callcell workspace export notes ./notes-now
  callcell workspace export notes@1 ./notes-then`
}

// Run exports.
func (c *workspaceExportCmd) Run(a *app) error {
	name, number, err := ref(c.Name)
	if err != nil {
		return err
	}
	dir, base := filepath.Split(c.Dir)
	if there(dir, base) {
		return isThere(c.Dir)
	}
	if err := writable(filepath.Clean(dir), ""); err != nil {
		return err
	}
	return withShelf(a, func(k shelf) error {
		ctx, stop := a.interruptible()
		defer stop()
		over := a.meanwhile("workspace export", c.JSON, nil)
		v, t, err := k.Read(ctx, name, number)
		var left []string
		if err == nil {
			left, err = export(ctx, c.Dir, t.Files)
		}
		over()
		if err != nil {
			return orCancelled(ctx, err)
		}
		if len(left) > 0 {
			a.named(left)
			return &failure{exitOwn, fmt.Sprintf("%s@%d: not all of it is exported: %d of %d files are in %s", v.Name, v.Number, v.Files-len(left), v.Files, c.Dir), ""}
		}
		if c.JSON {
			return a.json(struct {
				workspace.Version
				Dir string `json:"dir"`
			}{v, c.Dir}, a.outTTY)
		}
		a.say(fmt.Sprintf("%s@%d: %d files in %s", v.Name, v.Number, v.Files, c.Dir))
		return nil
	})
}

// workspaceRmCmd is "callcell workspace rm".
type workspaceRmCmd struct {
	Name string `arg:"" help:"NAME, with all its versions, or NAME@N: that version and those before it."`
	JSON bool   `name:"json" help:"Print how many versions they were as JSON."`
}

// Help is the long text of "callcell workspace rm --help".
func (*workspaceRmCmd) Help() string {
	return `The bytes are there until callcell workspace gc; a daemon collects by itself.

  callcell workspace rm notes@3
  callcell workspace rm notes && callcell workspace gc`
}

// Run removes.
func (c *workspaceRmCmd) Run(a *app) error {
	name, number, err := ref(c.Name)
	if err != nil {
		return err
	}
	return withShelf(a, func(k shelf) error {
		n, err := k.Remove(a.ctx, name, number)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.json(map[string]int{"removed": n}, a.outTTY)
		}
		when := "with callcell workspace gc"
		if _, far := k.(farShelf); far {
			when = "when the daemon collects"
		}
		a.say(fmt.Sprintf("%s: %d versions removed; their bytes go %s", name, n, when))
		return nil
	})
}

// workspaceGCCmd is "callcell workspace gc".
type workspaceGCCmd struct {
	JSON bool `name:"json" help:"Print the report as JSON."`
}

// Help is the long text of "callcell workspace gc --help".
func (*workspaceGCCmd) Help() string {
	return `Versions that are removed leave their bytes behind: another version may have the same.

  callcell workspace rm notes@3 && callcell workspace gc`
}

// Run collects.
func (c *workspaceGCCmd) Run(a *app) error {
	return withWorkspaces(a, func(k *workspace.Keeper) error {
		over := a.meanwhile("workspace gc", c.JSON, nil)
		r, err := k.GC(a.ctx)
		over()
		if err != nil {
			return err
		}
		if c.JSON {
			return a.json(r, a.outTTY)
		}
		a.say(fmt.Sprintf("%d blobs removed, %s; %d kept", r.Blobs, render.Bytes(r.Bytes), r.Kept))
		return nil
	})
}

// workspace says what became of a call's workspace.
func (p *printer) workspace(w *envelope.WorkspaceUse) {
	switch {
	case w == nil:
	case w.Wrote > 0:
		p.say(fmt.Sprintf("workspace %s: version %d written", w.Name, w.Wrote))
	default:
		p.say(fmt.Sprintf("workspace %s: stays at version %d: %s", w.Name, w.Read, w.Why))
	}
}
