package image

import (
	"errors"
	"maps"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// Found is what an image is, for a cell.
type Found struct {
	Root    cell.Root
	Digest  string // sha256:HEX of all of it; "" for the host's own slice
	Env     map[string]string
	Warning string // what is to be said of it; may be empty
}

// Find returns what the image of that name is at a level. A level with a kernel
// of its own sees a snapshot of the host's slice. The error is a
// *envelope.Refusal.
func (x *Index) Find(name string, level envelope.Level) (Found, error) {
	ownKernel := level != envelope.LevelContainer
	if name == envelope.ImageHost && !ownKernel {
		return Found{}, nil
	}
	r, err := x.Get(name)
	if err != nil {
		return Found{}, refused(err)
	}
	f := Found{Root: cell.Root{Tree: r.Tree, Added: r.Added}, Digest: r.Digest(), Env: maps.Clone(r.Env)}
	if r.Slice != nil {
		f.Warning = stale(r)
	}
	if r.Tree == "" && ownKernel { // what stands on top of the host's slice
		base, err := x.Get(envelope.ImageHost)
		if err != nil {
			return Found{}, refused(err)
		}
		f.Root.Tree, f.Warning = base.Tree, stale(base)
	}
	return f, nil
}

// stale says that the host has changed since its snapshot, or nothing.
func stale(r *Record) string {
	if now, err := Stamp(); err == nil && r.Slice != nil && now == r.Slice.Stamp {
		return ""
	}
	return "image: programs of this host have changed since its snapshot of " + r.Made.Format("2006-01-02 15:04") + " UTC; callcell image host makes a new one"
}

func refused(err error) error {
	r := &envelope.Refusal{Reason: envelope.ReasonSetup, Field: "image", Message: strings.TrimPrefix(err.Error(), "image: ")}
	var fault *Error
	if errors.As(err, &fault) {
		r.Hint = fault.Hint
	}
	return r
}
