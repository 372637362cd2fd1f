package pull

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/callcell/callcell/internal/image/fstree"
)

// TestFlattened holds what is to be seen of layers, the lowest first.
func TestFlattened(t *testing.T) {
	type l = []tar.Header
	for _, c := range []struct {
		name   string
		layers []l
		want   []string
	}{
		{"one layer", []l{{dir("a/"), reg("a/f", "1"), sym("s", "a/f"), hard("h", "a/f")}}, []string{"a/", "a/f 1", "h 1", "s -> a/f"}},
		{"a layer above adds and replaces", []l{{dir("a/"), reg("a/f", "1"), reg("a/g", "1")}, {dir("a/"), reg("a/f", "2"), reg("a/h", "2")}}, []string{"a/", "a/f 2", "a/g 1", "a/h 2"}},
		{"a file is hidden", []l{{reg("a/f", "1"), reg("a/g", "1")}, {reg("a/.wh.f", "")}}, []string{"a/", "a/g 1"}},
		{"a directory is hidden", []l{{reg("a/b/f", "1"), reg("a/g", "1")}, {reg("a/.wh.b", "")}}, []string{"a/", "a/g 1"}},
		{"hidden and made again", []l{{reg("a/b/f", "1")}, {reg("a/.wh.b", "")}, {reg("a/b/g", "3")}}, []string{"a/", "a/b/", "a/b/g 3"}},
		{"hidden in its own layer is not hidden", []l{{reg("a/f", "1")}, {reg("a/f", "2"), reg("a/.wh.f", "")}}, []string{"a/", "a/f 2"}},
		{"a directory's own files are not hidden", []l{{reg("a/f", "1")}, {dir("a/"), reg("a/.wh..wh..opq", ""), reg("a/g", "2")}}, []string{"a/", "a/g 2"}},
		{"an opaque directory that comes last", []l{{reg("a/f", "1")}, {dir("a/"), reg("a/g", "2"), reg("a/.wh..wh..opq", "")}}, []string{"a/", "a/g 2"}},
		{"an opaque root", []l{{reg("a/f", "1")}, {reg(".wh..wh..opq", ""), reg("b", "2")}}, []string{"b 2"}},
		{"what AUFS keeps for itself", []l{{reg("a", "1"), reg(".wh..wh.plnk/x", ""), reg(".wh..wh.aufs", "")}}, []string{".wh..wh.plnk/", ".wh..wh.plnk/x ", "a 1"}},
		{"a file in place of a directory", []l{{reg("a/f", "1")}, {reg("a", "2")}}, []string{"a 2"}},
		{"a directory in place of a link", []l{{sym("a", "/etc"), reg("b", "1")}, {dir("a/"), reg("a/f", "2")}}, []string{"a/", "a/f 2", "b 1"}},
		{"a link in place of a directory", []l{{reg("a/f", "1")}, {sym("a", "/etc")}}, []string{"a -> /etc"}},
		{"a hard link to the layer below", []l{{reg("f", "1")}, {hard("h", "f")}}, []string{"f 1", "h 1"}},
		{"a hard link to what is hidden above it", []l{{reg("f", "1"), hard("h", "f")}, {reg(".wh.f", "")}}, []string{"h 1"}},
		{"a hard link to what is replaced above it", []l{{reg("f", "1"), hard("h", "f"), hard("i", "f")}, {reg("f", "2")}}, []string{"f 2", "h 1", "i 1"}},
		{"a hard link to a link to what is hidden", []l{{reg("f", "1"), hard("g", "f"), hard("h", "g")}, {reg(".wh.f", ""), reg(".wh.g", "")}}, []string{"h 1"}},
		{"a hard link to the layer below that is hidden above", []l{{reg("f", "1")}, {hard("h", "f")}, {reg(".wh.f", "")}}, []string{"h 1"}},
		{"hard links over two layers", []l{{reg("f", "1")}, {hard("g", "f")}, {hard("h", "g")}}, []string{"f 1", "g 1", "h 1"}},
		{"a hard link to a link", []l{{sym("s", "x")}, {hard("h", "s")}}, []string{"h -> x", "s -> x"}},
		{"a hard link that is replaced", []l{{reg("f", "1")}, {hard("h", "f"), reg("h", "2")}}, []string{"f 1", "h 2"}},
		{"absolute names are below the root", []l{{dir("/"), reg("/a/f", "1"), hard("/h", "/a/f")}}, []string{"a/", "a/f 1", "h 1"}},
		{"names of bytes", []l{{reg("\xff", "1"), reg(strings.Repeat("n", 250), "2")}}, []string{strings.Repeat("n", 250) + " 2", "\xff 1"}},
		{"a directory, a file in its place, a directory in its place", []l{{reg("a/f", "1")}, {reg("a", "2")}, {dir("a/"), reg("a/g", "3")}}, []string{"a/", "a/g 3"}},
		{"two of a name in a layer", []l{{reg("f", "1"), reg("f", "2")}}, []string{"f 2"}},
		{"an empty layer", []l{{reg("f", "1")}, {}}, []string{"f 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			var layers []v1.Layer
			for i, members := range c.layers {
				kind := []tarball.LayerOption{tarball.WithMediaType(types.OCILayer)}
				if i%2 == 1 {
					kind = []tarball.LayerOption{tarball.WithCompression(compression.ZStd), tarball.WithMediaType(types.OCILayerZStd)}
				}
				layers = append(layers, layerOf(archive(members...), kind...))
			}
			h.push(t, "x:1", imageOf(layers...))
			stream, config, err := h.pull(t, h.options("x:1"))
			check(t, err)
			if got := tree(t, stream); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if len(config.Layers) != len(c.layers) {
				t.Errorf("%+v, want %d layers", config, len(c.layers))
			}
			for digest, n := range h.blobs {
				if again := strings.Contains(c.name, "above") || strings.Contains(c.name, "what is hidden"); n > 1 && !again {
					t.Errorf("%s was fetched %d times", digest, n)
				}
			}
		})
	}
}

// TestRefused holds that images that cannot be flattened are refused, and how.
func TestRefused(t *testing.T) {
	type l = []tar.Header
	for _, c := range []struct {
		name   string
		layers []l
		kind   fstree.ErrKind
	}{
		{"dots upwards", []l{{reg("../born", "1")}}, fstree.KindName},
		{"a file below a link of its own layer", []l{{sym("d", "/etc"), reg("d/f", "1")}}, fstree.KindForm},
		{"a file below a link of the layer below", []l{{sym("d", "/etc")}, {reg("d/f", "1")}}, fstree.KindForm},
		{"a hard link to nothing", []l{{hard("h", "f")}}, fstree.KindLink},
		{"hard links to each other", []l{{hard("a", "b"), hard("b", "a")}}, fstree.KindLink},
		{"hard links to each other over layers", []l{{hard("b", "a")}, {hard("a", "b")}}, fstree.KindLink},
		{"a hard link to itself", []l{{hard("a", "a")}}, fstree.KindLink},
		{"a hard link upwards", []l{{hard("h", "../etc/passwd")}}, fstree.KindName},
		{"a whiteout of the directory above", []l{{reg("a/.wh...", "")}}, fstree.KindName},
		{"a file in place of the root", []l{{sym(".", "/etc")}}, fstree.KindName},
		{"more entries than there may be", []l{slices.Repeat(l{reg("f", "")}, 700), slices.Repeat(l{reg("f", "")}, 700)}, fstree.KindEntries},
		{"more layers than there may be", slices.Repeat([]l{{reg("f", "1")}}, 11), fstree.KindEntries},
		{"more bytes than there may be", []l{{reg("f", strings.Repeat("x", 40<<20))}, {reg("g", strings.Repeat("x", 40<<20))}}, fstree.KindBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			var layers []v1.Layer
			for _, members := range c.layers {
				layers = append(layers, layerOf(archive(members...)))
			}
			h.push(t, "x:1", imageOf(layers...))
			_, _, err := h.pull(t, h.options("x:1"))
			if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != c.kind {
				t.Errorf("got %v, want %q", err, c.kind)
			}
		})
	}
}

// TestResolved holds that what a reference names is told by digest.
func TestResolved(t *testing.T) {
	h := newHub(t)
	img := imageOf(layerOf(archive(reg("f", "1"))))
	digest := must(img.Digest()).String()
	h.push(t, "x:1", img)
	other := imageOf(layerOf(archive(reg("f", "arm"))))
	c := must(other.ConfigFile()).DeepCopy()
	c.Architecture = "arm64"
	other = must(mutate.ConfigFile(other, c))
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	check(t, remote.WriteIndex(h.ref(t, "x:many"), index, remote.WithTransport(h.client)))
	indexDigest := must(index.Digest()).String()
	for _, r := range []struct{ ref, platform, digest, manifest, has string }{
		{"x:1", "linux/amd64", digest, digest, "f 1"},
		{"x@" + digest, "linux/amd64", digest, digest, "f 1"},
		{"x:many", "linux/amd64", indexDigest, digest, "f 1"},
		{"x:many@" + indexDigest, "linux/arm64", indexDigest, must(other.Digest()).String(), "f arm"},
	} {
		o := h.options(r.ref)
		o.Platform = r.platform
		stream, got, err := h.pull(t, o)
		check(t, err)
		if got.Digest != r.digest || got.Manifest != r.manifest || got.Platform != r.platform {
			t.Errorf("%s: %+v, want %s and %s", r.ref, got, r.digest, r.manifest)
		}
		if got.Env[0] != "PATH=/bin" || got.WorkingDir != "/srv" || got.User != "app" {
			t.Errorf("%s: %+v", r.ref, got)
		}
		if lines := tree(t, stream); !slices.Equal(lines, []string{r.has}) {
			t.Errorf("%s: %q, want %q", r.ref, lines, r.has)
		}
	}
	for _, r := range []struct {
		ref, platform string
		kind          fstree.ErrKind
	}{
		{"x:many", "linux/s390x", fstree.KindPlatform},
		{"x:1", "linux/arm64", fstree.KindPlatform},
		{"x:none", "linux/amd64", fstree.KindSource},
		{"x@sha256:" + strings.Repeat("0", 64), "linux/amd64", fstree.KindSource},
		{"X:1", "linux/amd64", fstree.KindUsage},
	} {
		o := h.options(r.ref)
		o.Platform = r.platform
		_, _, err := h.pull(t, o)
		if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != r.kind {
			t.Errorf("%s for %s: %v, want %q", r.ref, r.platform, err, r.kind)
		}
	}
}

// answer replaces the answers to paths that contain part.
func answer(part string, with func(w http.ResponseWriter, r *http.Request, next http.Handler)) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, part) {
			with(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}
}

func endless(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	for chunk := make([]byte, 1<<20); ; {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// TestLyingRegistry holds that nothing is believed that a registry says of
// itself.
func TestLyingRegistry(t *testing.T) {
	img := imageOf(layerOf(archive(reg("f", strings.Repeat("layer", 1000)))))
	blob := must(must(img.Layers())[0].Digest())
	config := must(img.ConfigName())
	swap := imageOf(layerOf(archive(reg("f", "another"))))
	raw := must(swap.RawManifest())
	for _, c := range []struct {
		name   string
		ref    string
		tamper func(http.ResponseWriter, *http.Request, http.Handler)
		kind   fstree.ErrKind
	}{
		{"another manifest than the digest's", "x@" + must(img.Digest()).String(), answer("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
			w.Write(raw)
		}), fstree.KindSource},
		{"a manifest of the first form that names its own digest", "x@" + must(img.Digest()).String(), answer("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", string(types.DockerManifestSchema1Signed))
			w.Header().Set("Docker-Content-Digest", must(img.Digest()).String())
			w.Write([]byte("{}"))
		}), fstree.KindForm},
		{"another layer", "x:1", answer("/blobs/"+blob.String(), func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.(http.Flusher).Flush() // no length is told
			w.Write(archive(reg("f", "born")))
		}), fstree.KindDigest},
		{"a layer of another length", "x:1", answer("/blobs/"+blob.String(), func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Write(archive(reg("f", "born")))
		}), fstree.KindSource},
		{"an endless layer", "x:1", answer("/blobs/"+blob.String(), endless), fstree.KindDigest},
		{"an endless configuration", "x:1", answer("/blobs/"+config.String(), endless), fstree.KindSource},
		{"an endless manifest", "x:1", answer("/manifests/", endless), fstree.KindBytes},
		{"an endless refusal", "x:1", answer("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.WriteHeader(http.StatusTeapot)
			endless(w, r, next)
		}), fstree.KindSource},
		{"a layer that is cut", "x:1", answer("/blobs/"+blob.String(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.Header().Set("Content-Length", "100000")
			w.Write(make([]byte, 10))
		}), fstree.KindSource},
		{"deeply nested JSON", "x:1", answer("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			w.Write(bytes.Repeat([]byte("["), 4<<20))
		}), fstree.KindForm},
		{"a page", "x:1", answer("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte("<html>"))
		}), fstree.KindForm},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			h.push(t, "x:1", img)
			h.tamper = c.tamper
			_, _, err := h.pull(t, h.options(c.ref))
			if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != c.kind {
				t.Errorf("got %v, want %q", err, c.kind)
			}
		})
	}
}

// TestLyingImage holds that manifest, configuration and layers must agree.
func TestLyingImage(t *testing.T) {
	layer := layerOf(archive(reg("f", "1")))
	honest := imageOf(layer)
	edit := func(f func(m *v1.Manifest)) v1.Image {
		m := must(honest.Manifest()).DeepCopy()
		f(m)
		return edited{honest, m}
	}
	diff := func(ids ...v1.Hash) v1.Image {
		c := must(honest.ConfigFile()).DeepCopy()
		c.RootFS.DiffIDs = ids
		return must(mutate.ConfigFile(honest, c))
	}
	for _, c := range []struct {
		name string
		img  v1.Image
		kind fstree.ErrKind
	}{
		{"a layer shorter than the manifest says", edit(func(m *v1.Manifest) { m.Layers[0].Size++ }), fstree.KindSource},
		{"a layer longer than the manifest says", edit(func(m *v1.Manifest) { m.Layers[0].Size-- }), fstree.KindSource},
		{"a layer of no known size", edit(func(m *v1.Manifest) { m.Layers[0].Size = -1 }), fstree.KindBytes},
		{"a layer larger than there may be", edit(func(m *v1.Manifest) { m.Layers[0].Size = 1 << 40 }), fstree.KindBytes},
		{"sizes that overflow", edit(func(m *v1.Manifest) {
			m.Layers[0].Size = 1<<63 - 1
			m.Layers = append(m.Layers, m.Layers[0])
		}), fstree.KindBytes},
		{"a configuration of no known size", edit(func(m *v1.Manifest) { m.Config.Size = -1 }), fstree.KindBytes},
		{"a layer from elsewhere", edit(func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://169.254.169.254/x"} }), fstree.KindForm},
		{"a layer that may not be distributed", edit(func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer }), fstree.KindForm},
		{"a layer that is none", edit(func(m *v1.Manifest) { m.Layers[0].MediaType = "text/plain" }), fstree.KindForm},
		{"more layers in the manifest", edit(func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }), fstree.KindForm},
		{"more layers in the configuration", diff(must(layer.DiffID()), must(layer.DiffID())), fstree.KindForm},
		{"a layer that unpacks to something else", diff(v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}), fstree.KindDigest},
		{"a layer that is no archive", imageOf(static.NewLayer([]byte(strings.Repeat("text", 1000)), types.OCIUncompressedLayer)), fstree.KindMalformed},
		{"a damaged layer", imageOf(static.NewLayer([]byte("\x1f\x8b\x08\x00damaged, and not much of it"), types.OCILayer)), fstree.KindMalformed},
		{"a bomb", imageOf(layerOf(archive(reg("f", strings.Repeat("x", 65<<20))))), fstree.KindBytes},
		{"a bomb behind the end of the archive", imageOf(layerOf(append(archive(reg("f", "1")), make([]byte, 65<<20)...))), fstree.KindBytes},
		{"a bomb of a window", imageOf(static.NewLayer([]byte("\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00"), types.OCILayerZStd)), fstree.KindMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			h.push(t, "x:1", honest) // its blobs
			h.pushRaw(t, "x:1", c.img)
			_, _, err := h.pull(t, h.options("x:1"))
			if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != c.kind {
				t.Errorf("got %v, want %q", err, c.kind)
			}
		})
	}
}

// edited is an image with another manifest.
type edited struct {
	v1.Image
	m *v1.Manifest
}

// pushRaw puts a manifest and its blobs there, without asking whether they fit.
func (h *hub) pushRaw(t testing.TB, what string, img v1.Image) {
	t.Helper()
	e, ok := img.(edited)
	if !ok {
		h.push(t, what, img)
		return
	}
	h.tamper = answer("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", string(e.m.MediaType))
		fmt.Fprint(w, string(must(jsonOf(e.m))))
	})
}

// TestPlainHTTP holds that plain HTTP is spoken only when it was asked for.
func TestPlainHTTP(t *testing.T) {
	h := newHub(t)
	h.push(t, "x:1", imageOf(layerOf(archive(reg("f", "1")))))
	o := h.options("x:1")
	o.Insecure = false
	_, _, err := h.pull(t, o)
	if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != fstree.KindSource {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestNoCredentials holds that a registry that wants them gets none, of the
// files and variables that other tools keep them in.
func TestNoCredentials(t *testing.T) {
	h := newHub(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	ref, err := name.ParseReference(h.host + "/x:1")
	check(t, err)
	check(t, writeConfig(home, ref.Context().RegistryStr()))
	asked := 0
	h.tamper = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if asked++; r.Header.Get("Authorization") != "" {
			t.Errorf("credentials went out: %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
	if _, _, err := h.pull(t, h.options("x:1")); err == nil || asked == 0 {
		t.Errorf("got %v after %d requests, want a refusal", err, asked)
	}
}
