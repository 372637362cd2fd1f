package pull

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/callcell/callcell/internal/image/fstree"
)

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

// TestBrokenWay holds that a layer whose connection breaks is asked for anew, a
// few times, and that what came of two halves is compared as one.
func TestBrokenWay(t *testing.T) {
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 8)
	}
	first, second := archive(reg("f", string(noise))), archive(reg("f", strings.Repeat("x", len(noise))))
	img := imageOf(static.NewLayer(first, types.OCIUncompressedLayer))
	blob := must(must(img.Layers())[0].Digest())
	for _, c := range []struct {
		name   string
		breaks int
		half   []byte // of another layer, the first time
		kind   fstree.ErrKind
	}{
		{"once", 1, nil, ""},
		{"three times", 3, nil, ""},
		{"always", 100, nil, fstree.KindSource},
		{"once, after half of another layer", 1, second, fstree.KindDigest},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			h.push(t, "x:1", img)
			h.tamper = answer("/blobs/"+blob.String(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if h.blobs[blob.Hex] > c.breaks {
					next.ServeHTTP(w, r)
					return
				}
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				data := rec.Body.Bytes()
				w.Header().Set("Content-Length", strconv.Itoa(len(data)))
				if c.half != nil {
					data = c.half
				}
				w.Write(data[:700<<10])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			stream, _, err := h.pull(t, h.options("x:1"))
			e := &fstree.Error{}
			if errors.As(err, &e); e.Kind != c.kind {
				t.Fatalf("got %v, want %q", err, c.kind)
			}
			if got := h.blobs[blob.Hex]; got != min(c.breaks, 3)+1 {
				t.Errorf("asked for %d times", got)
			}
			if c.kind == "" {
				if got := tree(t, stream); !slices.Equal(got, []string{"f " + string(noise)}) {
					t.Error("another file came")
				}
			}
		})
	}
}

// TestToolAnswers holds the tool to its contract.
func TestToolAnswers(t *testing.T) {
	h := newHub(t)
	img := imageOf(layerOf(archive(reg("f", "1"))))
	h.push(t, "x:1", img)
	digest := must(img.Digest()).String()
	for _, c := range []struct {
		name string
		args []string
		last string // how the last line for people begins
	}{
		{"flags first", []string{"-insecure", "--", h.host + "/x:1"}, ""},
		{"flags last", []string{h.host + "/x@" + digest, "-insecure"}, ""},
		{"no reference", []string{"-insecure"}, "callcell-image pull: usage: "},
		{"two references", []string{"-insecure", "a", "b"}, "callcell-image pull: usage: "},
		{"none of that name", []string{"-insecure", h.host + "/y:1"}, "callcell-image pull: source: "},
		{"plain HTTP that was not asked for", []string{h.host + "/x:1"}, "callcell-image pull: source: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "image.json")
			flag := []string{"-config", file}
			if !strings.HasPrefix(c.args[0], "-") {
				c.args, flag = append(c.args, flag...), nil
			}
			var out, told bytes.Buffer
			code := Main(append(flag, c.args...), &out, &told)
			lines := strings.Split(strings.TrimSpace(told.String()), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.last) || (code == 0) != (c.last == "") {
				t.Errorf("exit code %d, %q", code, last)
			}
			text, err := os.ReadFile(file)
			if c.last != "" {
				if err == nil {
					t.Error("there is a configuration of what failed")
				}
				return
			}
			var got Config
			check(t, err, json.Unmarshal(text, &got))
			if got.Digest != digest || !slices.Equal(tree(t, out.Bytes()), []string{"f 1"}) {
				t.Errorf("%+v", got)
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
