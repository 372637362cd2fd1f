package pull

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/callcell/callcell/internal/image/fstree"
	"github.com/callcell/callcell/internal/image/unpack"
	"github.com/callcell/callcell/internal/testing/leak"
)

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// must returns a value that was made without an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func reg(name, body string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: body, Mode: 0o644}
}
func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
func sym(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}
}
func hard(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}
}

// archive returns the stream of a layer. A file's Linkname is its contents.
func archive(members ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		body := ""
		if m.Typeflag == tar.TypeReg {
			body, m.Linkname, m.Size = m.Linkname, "", int64(len(m.Linkname))
		}
		if m.ModTime.IsZero() {
			m.ModTime = time.Unix(1_700_000_000, 0)
		}
		if err := w.WriteHeader(&m); err != nil {
			panic(err)
		}
		_ = must(io.WriteString(w, body))
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func layerOf(stream []byte, opts ...tarball.LayerOption) v1.Layer {
	return must(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(stream)), nil }, opts...))
}

// imageOf makes an image of layers, the lowest first.
func imageOf(layers ...v1.Layer) v1.Image {
	img := must(mutate.AppendLayers(empty.Image, layers...))
	c := must(img.ConfigFile()).DeepCopy()
	c.OS, c.Architecture = "linux", "amd64"
	c.Config.Env, c.Config.WorkingDir, c.Config.User = []string{"PATH=/bin"}, "/srv", "app"
	return must(mutate.ConfigFile(img, c))
}

// A hub is a registry in this process, that hands every answer to tamper.
type hub struct {
	host   string
	tamper func(w http.ResponseWriter, r *http.Request, next http.Handler)
	blobs  map[string]int // how often each was asked for
	client *http.Transport
}

func newHub(t testing.TB) *hub {
	t.Helper()
	leak.Check(t)
	h := &hub{blobs: map[string]int{}, client: &http.Transport{}}
	next := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, digest, ok := strings.Cut(r.URL.Path, "/blobs/sha256:"); ok && r.Method == http.MethodGet {
			h.blobs[digest]++
		}
		if h.tamper != nil && r.Method == http.MethodGet {
			h.tamper(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(h.client.CloseIdleConnections)
	h.host = strings.TrimPrefix(server.URL, "http://")
	return h
}

func (h *hub) ref(t testing.TB, what string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(h.host + "/" + what)
	check(t, err)
	return ref
}

// push puts an image there.
func (h *hub) push(t testing.TB, what string, img v1.Image) {
	t.Helper()
	check(t, remote.Write(h.ref(t, what), img, remote.WithTransport(h.client)))
}

func (h *hub) options(what string) Options {
	return Options{Ref: h.host + "/" + what, Platform: "linux/amd64", Insecure: true, Bytes: 64 << 20, Download: 64 << 20, Entries: 1000, Layers: 10, Transport: h.client}
}

// pull runs a pull and returns what came.
func (h *hub) pull(t testing.TB, o Options) (stream []byte, c Config, err error) {
	t.Helper()
	var out bytes.Buffer
	text, err := Run(context.Background(), &out, o)
	if err != nil {
		if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind == "" {
			t.Errorf("an error without a kind: %v", err)
		}
		if b := out.Bytes(); len(b) >= 1024 && len(bytes.Trim(b[len(b)-1024:], "\x00")) == 0 {
			t.Error("the stream of a pull that failed has an end mark")
		}
		return nil, c, err
	}
	check(t, json.Unmarshal(text, &c))
	return out.Bytes(), c, nil
}

// tree unpacks a stream and lists it: "name type what".
func tree(t testing.TB, stream []byte) (lines []string) {
	t.Helper()
	staging := t.TempDir()
	d, err := os.Open(staging)
	check(t, err)
	defer d.Close()
	_, err = unpack.Run(bytes.NewReader(stream), d, unpack.Options{Bytes: 64 << 20, Entries: 1000, Dir: true})
	check(t, err)
	root := filepath.Join(staging, unpack.RootName)
	check(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		line := strings.TrimPrefix(path, root+"/")
		switch {
		case d.IsDir():
			line += "/"
		case d.Type() == fs.ModeSymlink:
			line += " -> " + must(os.Readlink(path))
		default:
			line += " " + string(must(os.ReadFile(path)))
		}
		lines = append(lines, line)
		return nil
	}))
	return lines
}

func jsonOf(v any) ([]byte, error) { return json.Marshal(v) }

// writeConfig puts credentials where other tools look for them.
func writeConfig(home, host string) error {
	return os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"auths":{"`+host+`":{"auth":"c2VjcmV0OnNlY3JldA=="}}}`), 0o600)
}
