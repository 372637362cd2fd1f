package pull

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/callcell/callcell/internal/image/fstree"
)

// Options say what is pulled, and what it may cost. Every bound must be set.
type Options struct {
	Ref      string
	Platform string // OS/ARCHITECTURE
	Insecure bool   // plain HTTP is spoken with the registry, and taken elsewhere too
	Bytes    int64  // what all layers may unpack to
	Download int64  // what all layers may have in the registry
	Entries  int64  // of all layers, hidden ones too
	Layers   int
	Told     io.Writer // lines for people; nil swallows

	// Transport reaches the registry; nil is the one of this process, with the
	// proxies and authorities that its environment names.
	Transport http.RoundTripper
}

// Config is what a registry says of an image. All but the digests is a
// stranger's word.
type Config struct {
	Ref        string   `json:"ref"`
	Digest     string   `json:"digest"`   // of what the reference names, an index perhaps
	Manifest   string   `json:"manifest"` // of the platform's image
	Platform   string   `json:"platform"`
	Layers     []string `json:"layers"` // digests, the lowest first
	Env        []string `json:"env"`
	WorkingDir string   `json:"workingDir,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	User       string   `json:"user,omitempty"`
}

// Run writes the flattened image to w and returns its Config as JSON. The error
// is a *fstree.Error.
func Run(ctx context.Context, w io.Writer, o Options) ([]byte, error) {
	if o.Told == nil {
		o.Told = io.Discard
	}
	im, err := resolve(ctx, o)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(o.Told, "%s is %s\n", im.config.Ref, im.config.Digest)
	buf := bufio.NewWriterSize(w, 1<<20)
	f := newFlattener(tar.NewWriter(buf), o)
	for i := len(im.layers) - 1; i >= 0; i-- {
		if err := f.layer(i, im.layers[i]); err != nil {
			return nil, err
		}
	}
	if err := f.end(); err != nil {
		return nil, err
	}
	if err := buf.Flush(); err != nil {
		return nil, fstree.Failed(fstree.KindDisk, "", "write the stream", err)
	}
	text, err := json.Marshal(im.config)
	if err != nil {
		return nil, fstree.Failed(fstree.KindSource, "", "the configuration", err)
	}
	return text, nil
}

// An image is what is known of one before its layers are read.
type image struct {
	config Config
	layers []layer // the lowest first
}

// A layer is one as manifest and configuration describe it.
type layer struct {
	v1.Layer
	digest v1.Hash // of it in the registry
	diff   v1.Hash // of what it unpacks to
	size   int64   // in the registry
	name   string  // for people
}
