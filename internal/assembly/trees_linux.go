package assembly

import (
	"context"
	"errors"
	"os"

	"github.com/callcell/callcell/internal/image"
	"github.com/callcell/callcell/internal/runtime/link"
)

// Trees is the store of trees, which belongs to the launcher, as the owner of an
// index has it; nil where there is none.
func (r *Runtimes) Trees(owner string) image.Trees {
	if r == nil {
		return nil
	}
	return trees{r.launchers.Trees(owner)}
}

// trees is the launcher's store as package image sees it.
type trees struct{ store *link.Trees }

// Unpack implements image.Trees.
func (t trees) Unpack(ctx context.Context, stream *os.File, limits image.Limits, forms image.Forms) (image.Unpacked, image.Staged, error) {
	u, staged, err := t.store.Unpack(ctx, stream, link.TreeRequest{
		Bytes: limits.Bytes, Entries: limits.Entries, Dir: forms.Dir, EROFS: forms.EROFS, MountPoints: forms.MountPoints,
	})
	var bad *link.UnpackError
	if errors.As(err, &bad) {
		return image.Unpacked{}, nil, &image.Error{Kind: image.KindSource, Msg: bad.Error(), Hint: hintOfUnpack(bad.Kind), Err: err}
	}
	if err != nil {
		return image.Unpacked{}, nil, err
	}
	return image.Unpacked{Digest: u.Digest, Bytes: u.Disk, Entries: u.Entries, Dropped: u.Dropped}, staged, nil
}

// hintOfUnpack says what to do about a stream of which no tree can be made.
func hintOfUnpack(kind string) string {
	switch kind {
	case "bytes", "entries":
		return "images.tree and images.entries of the configuration bound an image, and image.* of launcher.conf"
	case "wall", "memory":
		return "image.wall and image.memory of launcher.conf bound the unpacker"
	}
	return ""
}

// List implements image.Trees.
func (t trees) List(ctx context.Context) ([]image.Tree, error) {
	all, err := t.store.List(ctx)
	out := make([]image.Tree, 0, len(all))
	for _, tree := range all {
		out = append(out, image.Tree{Digest: tree.Digest, Bytes: tree.Bytes, Made: tree.Kept, Owned: tree.Owned, Forms: image.Forms{Dir: tree.Dir, EROFS: tree.EROFS}})
	}
	return out, err
}

// Remove implements image.Trees.
func (t trees) Remove(ctx context.Context, digest string) error {
	err := t.store.Remove(ctx, digest)
	switch {
	case errors.Is(err, link.ErrInUse):
		return &image.Error{Kind: image.KindInUse, Msg: digest, Err: err}
	case errors.Is(err, link.ErrNoTree):
		return nil // somebody was faster
	}
	return err
}
