package assembly

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/image"
)

// Index is the records of the images of a configuration.
func Index(c *config.Config) *image.Index { return image.NewIndex(filepath.Join(c.State, "image")) }

// ImageTool reads the program of ours that pulls and packs inside of cells.
func ImageTool(c *config.Config) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(c.Helpers, image.Tool))
	if err != nil {
		return nil, &image.Error{Kind: image.KindStore, Msg: image.Tool + " is not there", Hint: "install it beside callcell-launcher: helpers names the directory", Err: err}
	}
	return text, nil
}

func noImages() error {
	return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "image", Message: "this host keeps no images", Hint: "callcell levels says why"}
}

// Maker makes images. The house's own broker runs what makes them.
func (h *House) Maker(c *config.Config) (*image.Maker, error) {
	index := Index(c)
	owner, err := index.Owner()
	if err != nil {
		return nil, err
	}
	trees := h.runtimes.Trees(owner)
	if trees == nil {
		return nil, noImages()
	}
	return &image.Maker{
		Index: index, Trees: trees, Now: time.Now, Most: int64(c.Images.Bytes),
		Limits: ImageLimits(c),
	}, nil
}

// ImageLimits are what one image may have.
func ImageLimits(c *config.Config) image.Limits {
	return image.Limits{Bytes: int64(c.Images.Tree), Entries: int64(c.Images.Entries)}
}

// images is the index as the broker sees it.
type images struct{ index *image.Index }

// Find implements broker.Images.
func (i images) Find(_ context.Context, name string, level envelope.Level) (broker.Image, error) {
	f, err := i.index.Find(name, level)
	if err != nil {
		return broker.Image{}, err
	}
	return broker.Image{Root: f.Root, Digest: f.Digest, Env: f.Env, Warning: f.Warning}, nil
}
