package world

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"strings"

	reference "github.com/google/go-containerregistry/pkg/name"
	imagestore "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	layertar "github.com/google/go-containerregistry/pkg/v1/tarball"
)

func imageRegistry() http.Handler {
	return imagestore.New(imagestore.Logger(log.New(io.Discard, "", 0)))
}

// through hands requests to a handler.
type through struct{ to http.Handler }

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	asked := r.Clone(r.Context())
	if asked.Body == nil { // a server's request has one
		asked.Body = http.NoBody
	}
	t.to.ServeHTTP(w, asked)
	res := w.Result()
	res.Request = r
	return res, nil
}

// Push puts a small image into the registry of images, HOST/NAME:TAG, and
// returns the digest of its manifest. It has a shell and cat, in two layers, of
// which the second hides a file of the first.
func (w *World) Push(ref string) (digest string, err error) {
	base, err := programs("/bin/sh", "/bin/cat")
	if err != nil {
		return "", err
	}
	base = append(base, entry{name: "etc/greeting", text: "hello of the image\n"}, entry{name: "etc/gone", text: "hidden\n"}, entry{name: "usr/bin/suid", text: "#!/bin/sh\n", mode: 0o6755})
	top := []entry{{name: "etc/.wh.gone"}, {name: "data/table.csv", text: "a,b\n1,2\n"}}
	var layers [][]byte
	for _, entries := range [][]entry{base, top} {
		layer, err := archive(entries)
		if err != nil {
			return "", err
		}
		layers = append(layers, layer)
	}
	return w.PushLayers(ref, []string{"PATH=/bin", "GREETING=hi"}, layers...)
}

// PushLayers puts an image of these layers, tar streams, into the registry of
// images, and returns the digest of its manifest. env are variables, NAME=VALUE,
// of its programs.
func (w *World) PushLayers(ref string, env []string, layers ...[]byte) (digest string, err error) {
	to, err := reference.ParseReference(ref)
	if err != nil {
		return "", err
	}
	img := empty.Image
	for _, stream := range layers {
		layer, err := layertar.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(stream)), nil },
			layertar.WithCompressionLevel(gzip.NoCompression))
		if err != nil {
			return "", err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return "", err
		}
	}
	if img, err = configured(img, env); err != nil {
		return "", err
	}
	sum, err := img.Digest()
	return sum.String(), errors.Join(err, remote.Write(to, img, remote.WithTransport(through{w.services.images})))
}

func configured(img v1.Image, env []string) (v1.Image, error) {
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", runtime.GOARCH
	c.Config.Env = env
	return mutate.ConfigFile(img, c)
}

// An entry is one file of a layer.
type entry struct {
	name, text string
	mode       int64 // 0 is 0644
}

// programs are programs of this host and the libraries that they need.
func programs(names ...string) (all []entry, err error) {
	seen := map[string]bool{}
	add := func(name string, mode int64) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		text, err := os.ReadFile(name)
		all = append(all, entry{name: strings.TrimPrefix(path.Clean(name), "/"), text: string(text), mode: mode})
		return err
	}
	library := regexp.MustCompile(`(/\S+) \(0x`)
	for _, name := range names {
		out, err := exec.Command("ldd", name).Output()
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w", name, err)
		}
		errs := []error{add(name, 0o755)}
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			errs = append(errs, add(m[1], 0o755))
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func archive(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.mode == 0 {
			e.mode = 0o644
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.text))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close() // which writes the archive's end
	return b.Bytes(), err
}
