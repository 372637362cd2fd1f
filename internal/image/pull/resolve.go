package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/callcell/callcell/internal/image/fstree"
)

const maxConfig = 4 << 20 // bytes of an image's configuration

// resolve finds the image, and holds what is said of it against the bounds.
func resolve(ctx context.Context, o Options) (*image, error) {
	var opts []name.Option
	if o.Insecure {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(o.Ref, opts...)
	if err != nil {
		return nil, fstree.Failed(fstree.KindUsage, "", "the reference", err)
	}
	platform, err := v1.ParsePlatform(o.Platform)
	if err != nil {
		return nil, fstree.Failed(fstree.KindUsage, "", "the platform", err)
	}
	desc, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuth(authn.Anonymous),
		remote.WithTransport(newGuard(o, ref.Context().RegistryStr())), remote.WithPlatform(*platform))
	if err != nil {
		return nil, failed("the manifest", err)
	}
	if err := platformOf(desc, platform); err != nil {
		return nil, err
	}
	switch desc.MediaType {
	case types.OCIImageIndex, types.DockerManifestList, types.OCIManifestSchema1, types.DockerManifestSchema2:
	default:
		return nil, fstree.Refuse(fstree.KindForm, "", fmt.Sprintf("%.100q is no kind of manifest that is taken", string(desc.MediaType)))
	}
	img, err := desc.Image()
	if err != nil {
		return nil, failed("the manifest of the platform", err)
	}
	im := &image{config: Config{Ref: ref.Name(), Digest: desc.Digest.String(), Platform: o.Platform}}
	return im, im.read(img, o, platform)
}

// platformOf returns a *fstree.Error for an index that has nothing of the
// platform. What else is wrong with it is told elsewhere.
func platformOf(desc *remote.Descriptor, platform *v1.Platform) error {
	if !desc.MediaType.IsIndex() {
		return nil
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(desc.Manifest))
	if err != nil {
		return fstree.Failed(fstree.KindForm, "", "the index", err)
	}
	var have []string
	for _, m := range index.Manifests {
		p := m.Platform
		switch {
		case p == nil, p.Satisfies(*platform):
			return nil
		case len(have) < 20 && p.OS != "unknown":
			have = append(have, fmt.Sprintf("%.40q", p.String()))
		}
	}
	return fstree.Refuse(fstree.KindPlatform, "", fmt.Sprintf("there is no image for %s, but for %s", platform, strings.Join(have, ", ")))
}

// read takes what manifest and configuration say.
func (im *image) read(img v1.Image, o Options, platform *v1.Platform) error {
	digest, err := img.Digest()
	if err != nil {
		return failed("the manifest", err)
	}
	im.config.Manifest = digest.String()
	m, err := img.Manifest()
	if err != nil {
		return fstree.Failed(fstree.KindForm, "", "the manifest", err)
	}
	if m.Config.Size < 0 || m.Config.Size > maxConfig {
		return fstree.Refuse(fstree.KindBytes, "", "the configuration is too large")
	}
	if err := checkLayers(m.Layers, o); err != nil {
		return err
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return failed("the configuration", err)
	}
	c, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return fstree.Failed(fstree.KindForm, "", "the configuration", err)
	}
	if c.OS != platform.OS || c.Architecture != platform.Architecture {
		return fstree.Refuse(fstree.KindPlatform, "", fmt.Sprintf("it is an image for %.40q, not for %s", c.OS+"/"+c.Architecture, platform))
	}
	if len(c.RootFS.DiffIDs) != len(m.Layers) {
		return fstree.Refuse(fstree.KindForm, "", fmt.Sprintf("the configuration has %d layers, the manifest %d", len(c.RootFS.DiffIDs), len(m.Layers)))
	}
	im.config.take(c.Config)
	return im.take(img, m, c)
}

// take takes the layers.
func (im *image) take(img v1.Image, m *v1.Manifest, c *v1.ConfigFile) error {
	layers, err := img.Layers()
	if err != nil {
		return failed("the layers", err)
	}
	for i, l := range layers {
		d := m.Layers[i]
		im.layers = append(im.layers, layer{Layer: l, digest: d.Digest, diff: c.RootFS.DiffIDs[i], size: d.Size, name: fmt.Sprintf("layer %d of %d", i+1, len(layers))})
		im.config.Layers = append(im.config.Layers, d.Digest.String())
	}
	return nil
}

// take takes what matters of what an image says how it is run.
func (c *Config) take(of v1.Config) {
	c.Env, c.WorkingDir, c.User, c.Entrypoint, c.Cmd = of.Env, of.WorkingDir, of.User, of.Entrypoint, of.Cmd
}

// checkLayers judges layers by what the manifest says of them.
func checkLayers(layers []v1.Descriptor, o Options) error {
	if len(layers) > o.Layers {
		return fstree.Refuse(fstree.KindEntries, "", fmt.Sprintf("there are %d layers, more than %d", len(layers), o.Layers))
	}
	var total int64
	for i, l := range layers {
		switch {
		case !l.MediaType.IsDistributable(), len(l.URLs) > 0:
			return fstree.Refuse(fstree.KindForm, "", fmt.Sprintf("layer %d is to be had elsewhere than in the registry", i+1))
		case !l.MediaType.IsLayer():
			return fstree.Refuse(fstree.KindForm, "", fmt.Sprintf("layer %d is %.100q, which is none", i+1, string(l.MediaType)))
		case l.Digest.Algorithm != "sha256":
			return fstree.Refuse(fstree.KindForm, "", fmt.Sprintf("layer %d has a digest of %.40q", i+1, l.Digest.Algorithm))
		case l.Size < 0, l.Size > o.Download-total:
			return fstree.Refuse(fstree.KindBytes, "", fmt.Sprintf("with layer %d there are more than %d bytes to be fetched", i+1, o.Download))
		}
		total += l.Size
	}
	return nil
}

// failed tells what the registry or the way to it has failed in.
func failed(what string, err error) error {
	if e := (*fstree.Error)(nil); errors.As(err, &e) {
		return e
	}
	return fstree.Failed(fstree.KindSource, "", what, err)
}
