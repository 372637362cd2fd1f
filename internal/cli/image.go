package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/render"
)

// imageCmd is "callcell image".
type imageCmd struct {
	Pull    imagePullCmd    `cmd:"" help:"Pull an image from a registry."`
	Build   imageBuildCmd   `cmd:"" help:"Install packages on top of a base, in a cell."`
	Host    imageHostCmd    `cmd:"" help:"Make a snapshot of this host's slice, for levels with a kernel of their own."`
	List    imageListCmd    `cmd:"" help:"List the images there are."`
	Inspect imageInspectCmd `cmd:"" help:"Say what an image is made of, and how it came here."`
	Rm      imageRmCmd      `cmd:"" help:"Forget an image."`
	GC      imageGCCmd      `cmd:"" name:"gc" help:"Remove what no image needs."`
}

// Help is the long text of "callcell image --help".
func (*imageCmd) Help() string {
	return `An image is the root that a cell sees, read-only. host is a slice of this host's own /usr, and
is always there. Others are pulled or built, in cells: what an install script does, it does
there, without credentials. Where standard error is no terminal, a line every 15 seconds says
how far it is; --json leaves that out.

  callcell image build data --from host --pip numpy pandas matplotlib
  callcell run --image build:data --lang python plot.py --in data.csv --out plot.png`
}

// imageListCmd is "callcell image list".
type imageListCmd struct {
	JSON bool `name:"json" help:"Print them as JSON."`
}

// Help is the long text of "callcell image list --help".
func (*imageListCmd) Help() string {
	return `A line has the name, the beginning of the digest, the size, and when it was made:

  callcell image list
  callcell image list --json`
}

// Run lists.
func (c *imageListCmd) Run(a *app) error {
	cfg, err := a.owned()
	if err != nil {
		return err
	}
	records, err := assembly.Index(cfg).List()
	if c.JSON {
		if records == nil {
			records = []*image.Record{}
		}
		return errors.Join(a.json(records, a.outTTY), err)
	}
	for _, r := range records {
		if _, err := fmt.Fprintf(a.out, "%s  %s  %s  %s\n", render.Line(r.Name, 0), r.Digest()[:19], render.Bytes(r.Bytes), r.Made.Format("2006-01-02 15:04")); err != nil {
			return err
		}
	}
	if len(records) == 0 && err == nil {
		a.none("no images but what containers see of this host; callcell image host makes its snapshot for gVisor", "/v1/images")
	}
	return err
}

// imageInspectCmd is "callcell image inspect".
type imageInspectCmd struct {
	Name string `arg:"" help:"Image: host, oci:REF or build:NAME."`
	Lock bool   `help:"Print the lock file of a build alone."`
	Log  bool   `help:"Print what its making printed. It is data of a stranger."`
	JSON bool   `name:"json" help:"Print the record as JSON."`
}

// Help is the long text of "callcell image inspect --help".
func (*imageInspectCmd) Help() string {
	return `What a cell sees of this host, and what is in an image that was made:

  callcell image inspect host
  callcell image inspect build:data --lock > data.lock`
}

// Run prints.
func (c *imageInspectCmd) Run(a *app) error {
	cfg, err := a.owned()
	if err != nil {
		return err
	}
	index := assembly.Index(cfg)
	r, err := index.Get(c.Name)
	var fault *image.Error
	if c.Name == envelope.ImageHost && errors.As(err, &fault) && fault.Kind == image.KindAbsent {
		r, err = &image.Record{Version: 1, Name: c.Name}, nil // it is there without a record
	}
	switch {
	case err != nil:
		return imageFailure(err)
	case c.Lock && r.Lock == nil:
		return &failure{exitNo, c.Name + " has no lock: it was not built", ""}
	case c.Lock:
		return a.json(r.Lock, true)
	case c.Log:
		return c.log(a, index, r)
	case c.JSON:
		return a.json(r, a.outTTY)
	}
	return a.image(r)
}

func (c *imageInspectCmd) log(a *app, index *image.Index, r *image.Record) error {
	text, err := index.Log(r)
	if err != nil {
		return err
	}
	if a.outTTY {
		_, err = io.WriteString(a.out, render.Text(text, render.Options{}))
		return unwritten("log", err)
	}
	_, err = a.out.Write(text)
	return unwritten("log", err)
}

// image prints a record.
func (p *printer) image(r *image.Record) error {
	w := &table{to: p.out}
	w.row("name", r.Name)
	if r.Name == envelope.ImageHost && !w.slice(r) {
		return w.err
	}
	w.row("digest", r.Digest())
	w.row("made", r.Made.Format("2006-01-02 15:04:05")+" UTC")
	w.row("size", fmt.Sprintf("%s in %d entries", render.Bytes(r.Bytes), r.Entries))
	if s := r.Source; s != nil {
		w.row("from", s.Ref+" "+s.Digest+" "+s.Platform)
	}
	if b := r.Recipe; b != nil {
		w.row("base", strings.TrimSpace(b.Base+" "+b.BaseDigest))
		for _, asked := range []struct {
			kind  string
			names []string
		}{{"pip", b.Pip}, {"npm", b.NPM}, {"apt", b.Apt}, {"run", b.Run}} {
			if len(asked.names) > 0 {
				w.row(asked.kind, strings.Join(asked.names, " "))
			}
		}
	}
	if r.Lock != nil {
		for _, l := range slices.Concat(r.Lock.Pip, r.Lock.Apt) {
			w.row("has", l.Name+" "+l.Version)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(r.Dropped)) {
		w.row("dropped", fmt.Sprintf("%d %s", r.Dropped[why], why))
	}
	if r.Call != "" {
		w.row("call", r.Call)
	}
	return w.err
}

// slice says what of this host cells see, and reports whether there is a
// snapshot of it.
func (w *table) slice(r *image.Record) bool {
	for _, p := range image.HostPaths() {
		w.row("path", p.Path+": "+p.Why)
	}
	w.row("not in it", "home, opt, srv, var, root, run; what pyenv, nvm, conda and the like installed there is not seen by cells")
	if r.Slice == nil {
		w.row("snapshot", "none; levels with a kernel of their own need one: callcell image host")
		return false
	}
	w.rows("left out", r.Slice.LeftOut)
	return true
}

// imageRmCmd is "callcell image rm".
type imageRmCmd struct {
	Names []string `arg:"" help:"Images."`
	JSON  bool     `name:"json" help:"Print which were forgotten as JSON."`
}

// Help is the long text of "callcell image rm --help".
func (*imageRmCmd) Help() string {
	return `Its bytes are there until callcell image gc, and as long as a call has them.

  callcell image rm build:data && callcell image gc`
}

// Run removes records. Their trees go with the next collection.
func (c *imageRmCmd) Run(a *app) error {
	cfg, err := a.owned()
	if err != nil {
		return err
	}
	removed, err := c.remove(a, assembly.Index(cfg))
	if c.JSON {
		return errors.Join(a.json(map[string][]string{"removed": removed}, a.outTTY), imageFailure(err))
	}
	return imageFailure(err)
}

// remove removes records up to the first that cannot be, and returns which.
func (c *imageRmCmd) remove(a *app, index *image.Index) (removed []string, err error) {
	removed = []string{}
	for _, name := range c.Names {
		if err := index.Remove(a.ctx, name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
		if !c.JSON {
			a.say("forgot " + name + "; callcell image gc frees its space")
		}
	}
	return removed, nil
}

// imageGCCmd is "callcell image gc".
type imageGCCmd struct {
	DryRun bool `help:"Only say what would go."`
	JSON   bool `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell image gc --help".
func (*imageGCCmd) Help() string {
	return `An image that was made anew or forgotten leaves a tree behind. What a cell has is left.

  callcell image gc --dry-run
  callcell image gc`
}

// Run collects.
func (c *imageGCCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	index, owner := assembly.Index(cfg), ""
	runtimes := assembly.Start(cfg)
	if err = assembly.BecomeOwner(cfg.Serve.User, cfg.State); err == nil {
		owner, err = index.Owner()
	}
	if err != nil {
		return errors.Join(imageFailure(err), runtimes.Close())
	}
	over := a.meanwhile("image gc", c.JSON, nil)
	done, err := image.Collect(a.ctx, index, runtimes.Trees(owner), c.DryRun)
	over()
	if failed := runtimes.Close(); failed != nil {
		a.say(flat(failed))
	}
	if done == nil {
		return imageFailure(err)
	}
	if c.JSON {
		return errors.Join(a.json(done, a.outTTY), err)
	}
	var unwritten error
	for _, t := range done.Removed {
		if _, unwritten = fmt.Fprintf(a.out, "%s  %s\n", t.Digest, render.Bytes(t.Bytes)); unwritten != nil {
			break
		}
	}
	for _, t := range done.InUse {
		a.say(t.Digest + " is needed by no image, and a cell has it")
	}
	for _, name := range done.Missing {
		a.say("the tree of " + name + " is not there: make it anew")
	}
	a.say(fmt.Sprintf("%s %d trees, %s; %d are kept", c.verb(), len(done.Removed), render.Bytes(done.Bytes), done.Kept))
	return errors.Join(imageFailure(err), unwritten)
}

func (c *imageGCCmd) verb() string {
	if c.DryRun {
		return "would remove"
	}
	return "removed"
}

// imageFailure gives the errors of images their hint.
func imageFailure(err error) error {
	var fault *image.Error
	if errors.As(err, &fault) {
		return &failure{exitNo, flat(err), fault.Hint}
	}
	return err
}

// openMaker opens a house whose own envelope is the plan's.
func openMaker(a *app, cfg *config.Config, env *envelope.Envelope) (*assembly.House, *image.Maker, error) {
	runtimes := assembly.Start(cfg)
	err := assembly.BecomeOwner(cfg.Serve.User, cfg.State)
	if err == nil {
		err = assembly.DropPrivileges()
	}
	if err != nil {
		return nil, nil, errors.Join(err, runtimes.Close())
	}
	house, err := assembly.Open(a.ctx, runtimes, assembly.Options{Config: cfg, Local: env, Watch: &watch{p: &a.printer}})
	if err != nil {
		return nil, nil, err
	}
	maker, err := house.Maker(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, house.Close(context.WithoutCancel(a.ctx)))
	}
	return house, maker, nil
}
