package broker

import (
	"context"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// Images knows what the roots of cells are made of. It is called concurrently.
type Images interface {
	// Find returns what the image of that name is at a level. The error is a
	// *Refusal or a *FieldError where it cannot be had.
	Find(ctx context.Context, name string, level envelope.Level) (Image, error)
}

// Image is the root of a cell.
type Image struct {
	Root   cell.Root
	Digest string            // sha256:HEX, of all that it is made of; "" for the host's own slice
	Env    map[string]string // variables that its programs need; a call's own come before them
	// Warning is what a caller is to hear of it; may be empty.
	Warning string
}

// root finds the root of the cell.
func (b *Broker) root(ctx context.Context, f *flight) error {
	if b.images == nil {
		return nil // placement has refused what is not the host's slice
	}
	image, err := b.images.Find(ctx, f.env.Image, f.result.Level)
	if err != nil {
		return err
	}
	f.image, f.result.Image = image, image.Digest
	if image.Warning != "" {
		f.early = append(f.early, image.Warning)
		f.result.Warnings = append(f.result.Warnings, image.Warning)
	}
	for name, value := range image.Env {
		f.setenv(name, value)
	}
	if s := f.call.Script; s != nil && image.Root.Tree != "" && f.env.Image != envelope.ImageHost {
		f.cmd.Argv[0] = foreignInterpreter(s.Lang, f.cmd.Argv[0])
	}
	return nil
}

// foreignInterpreter is the program for scripts in an image that we do not
// know: wherever its PATH has it.
func foreignInterpreter(lang, own string) string {
	if lang == "python" {
		return "python3"
	}
	return own
}
