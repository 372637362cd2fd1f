package callcell

import (
	"context"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/image"
)

// Images are the images of this host: read-only roots for cells, that profiles
// name. They are shared with the commands and daemons that have the same State.
// The words are those of package client, so that a program can move to a
// daemon. An error is an *Error, or an *envelope.Refusal where a call that was
// to make an image was refused, and after Close. Its methods may be called concurrently; Close
// ends what they are doing.
type Images struct {
	cells *Callcell
	house *assembly.Images
}

// Images returns the images of this host.
func (c *Callcell) Images() *Images { return &Images{c, c.house.Images(c.config)} }

// List lists them, by name. host, the slice of this host's own programs, is
// always there beside them.
func (i *Images) List() ([]client.Image, error) {
	records, err := i.house.List()
	list := make([]client.Image, 0, len(records))
	for _, r := range records {
		list = append(list, *imageOf(r))
	}
	return list, failure(err) // those that can be read are there
}

// Snapshot copies the slice of this host that cells see for levels with a
// kernel of their own (userkernel): without it their calls are refused. It is
// made once, in a minute or so, and again when programs were installed here: a
// result's warnings say so.
func (i *Images) Snapshot(ctx context.Context) (*client.Image, error) {
	return i.make(ctx, func(ctx context.Context) (*image.Made, error) {
		maker, err := i.cells.house.Maker(i.cells.config)
		if err != nil {
			return nil, err
		}
		return maker.Snapshot(ctx)
	})
}

// Pull makes the image oci:REF of what a registry has, in a cell that reaches
// that registry alone, without credentials. It has a row, as any call.
func (i *Images) Pull(ctx context.Context, p client.Pull) (*client.Image, error) {
	return i.plan(ctx, func() (*image.Plan, error) {
		return i.house.PlanPull(assembly.PullOrder{Ref: p.Ref, Insecure: p.Insecure, ImageReach: reachOf(p.Reach)})
	})
}

// Build makes the image build:NAME of packages, in a cell that reaches their
// indexes alone, at the level that third parties' code may have. PipIndex and
// NPMRegistry are where its packages come from: https://HOST/PATH.
func (i *Images) Build(ctx context.Context, b client.Build) (*client.Image, error) {
	return i.plan(ctx, func() (_ *image.Plan, err error) {
		var lock *image.Lock
		if b.Lock != nil {
			if lock, err = image.ParseLock(b.Lock); err != nil {
				return nil, err
			}
		}
		return i.house.PlanBuild(assembly.BuildOrder{Name: b.Name, From: b.From, Pip: b.Pip, NPM: b.NPM, Apt: b.Apt, Run: b.Run,
			Lock: lock, PipIndex: b.PipIndex, NPMRegistry: b.NPMRegistry, ImageReach: reachOf(b.Reach)})
	})
}

// Remove forgets an image. Its space is free with the next Collect.
func (i *Images) Remove(ctx context.Context, name string) error {
	return i.cells.do(ctx, func(ctx context.Context) error { return i.house.Remove(ctx, name) })
}

// Collect removes what no image needs and no cell has, or with dryRun only says
// what would go.
func (i *Images) Collect(ctx context.Context, dryRun bool) (out *client.ImageCollection, err error) {
	err = i.cells.do(ctx, func(ctx context.Context) error {
		c, err := i.house.Collect(ctx, dryRun)
		if err == nil {
			out = &client.ImageCollection{Removed: treesOf(c.Removed), InUse: treesOf(c.InUse), Kept: c.Kept, Bytes: c.Bytes, Missing: c.Missing}
		}
		return err
	})
	return out, err
}

// plan makes an image by a plan, as a call of this program's.
func (i *Images) plan(ctx context.Context, plan func() (*image.Plan, error)) (*client.Image, error) {
	return i.make(ctx, func(ctx context.Context) (*image.Made, error) {
		p, err := plan()
		if err != nil {
			return nil, err
		}
		return i.house.Make(ctx, i.cells.caller, p, broker.Live{}, nil)
	})
}

func (i *Images) make(ctx context.Context, do func(context.Context) (*image.Made, error)) (out *client.Image, err error) {
	err = i.cells.do(ctx, func(ctx context.Context) error {
		made, err := do(ctx)
		if err == nil {
			out = imageOf(made.Record)
		}
		return err
	})
	return out, err
}

func imageOf(r *image.Record) *client.Image {
	return &client.Image{Name: r.Name, Digest: r.Digest(), Bytes: r.Bytes, Entries: r.Entries, Made: r.Made}
}

func treesOf(list []image.Tree) (out []client.ImageTree) {
	for _, t := range list {
		out = append(out, client.ImageTree{Digest: t.Digest, Bytes: t.Bytes})
	}
	return out
}

func reachOf(r client.Reach) assembly.ImageReach {
	allow := make([]envelope.Allow, len(r.Allow))
	copy(allow, r.Allow)
	return assembly.ImageReach{Profile: r.Profile, Allow: allow, CA: []byte(r.CA)}
}
