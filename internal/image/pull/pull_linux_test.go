package pull

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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

// mute is a listener that counts handshakes of TLS, and answers none.
type mute struct {
	net.Listener
	secure *atomic.Int64
}

func (m *mute) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	return &muteConn{Conn: c, of: m}, err
}

type muteConn struct {
	net.Conn
	of   *mute
	read bool
}

func (c *muteConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.read && p[0] == 0x16 {
		c.of.secure.Add(1)
		return 0, io.EOF // one that hangs would be waited for where this fails
	}
	c.read = c.read || n > 0
	return n, err
}

// TestPlainHTTPAlone holds that a registry that is to be spoken with in plain HTTP
// is not asked for TLS: one that never answers a handshake, or an error beside it,
// would be waited for, and tried again. What it says in plain HTTP is told.
func TestPlainHTTPAlone(t *testing.T) {
	h := newHub(t)
	h.push(t, "x:1", imageOf(layerOf(archive(reg("f", "1")))))
	var secure atomic.Int64
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(must(url.Parse("http://" + h.host))))
	server.Listener = &mute{server.Listener, &secure}
	server.Start()
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections() // the proxy's
	o := h.options("x:1")
	o.Ref = server.Listener.Addr().String() + "/x:1"
	if stream, _, err := h.pull(t, o); err != nil || !slices.Equal(tree(t, stream), []string{"f 1"}) {
		t.Errorf("%v", err)
	}
	h.client.CloseIdleConnections()
	h.tamper = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusTeapot) }
	_, _, err := h.pull(t, o)
	if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind != fstree.KindSource || !strings.Contains(err.Error(), "418") {
		t.Errorf("got %v, want what the registry said", err)
	}
	if n := secure.Load(); n != 0 {
		t.Errorf("TLS was tried %d times", n)
	}
}

// TestToken holds that a registry that gives everybody a token, as most do, is
// asked for one, without credentials.
func TestToken(t *testing.T) {
	h := newHub(t)
	h.push(t, "x:1", imageOf(layerOf(archive(reg("f", "1")))))
	tokens := 0
	h.tamper = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		auth := r.Header.Get("Authorization")
		switch {
		case r.URL.Path == "/token":
			if tokens++; auth != "" {
				t.Errorf("credentials went out: %q", auth)
			}
			fmt.Fprint(w, `{"token":"for-everybody"}`)
		case auth == "Bearer for-everybody":
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+h.host+`/token",service="hub"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	stream, _, err := h.pull(t, h.options("x:1"))
	check(t, err)
	if got := tree(t, stream); !slices.Equal(got, []string{"f 1"}) || tokens == 0 {
		t.Errorf("%q with %d tokens", got, tokens)
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
