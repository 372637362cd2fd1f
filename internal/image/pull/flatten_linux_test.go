package pull

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"pgregory.net/rapid"

	"github.com/callcell/callcell/internal/image/fstree"
)

// flat flattens streams of layers, the lowest first, without a registry.
func flat(streams ...[]byte) ([]byte, error) {
	var out bytes.Buffer
	f := newFlattener(tar.NewWriter(&out), Options{Bytes: 1 << 20, Entries: 1000, Told: io.Discard})
	for i := len(streams) - 1; i >= 0; i-- {
		l := static.NewLayer(streams[i], types.OCIUncompressedLayer)
		if err := f.layer(i, layer{Layer: l, digest: must(l.Digest()), diff: must(l.DiffID()), size: must(l.Size()), name: "layer"}); err != nil {
			return nil, err
		}
	}
	err := f.end()
	return out.Bytes(), err
}

// A model is a tree by path: "/" for a directory, a file's contents after "=",
// a link's target after "->".
type model map[string]string

func (m model) remove(path string) {
	maps.DeleteFunc(m, func(p, _ string) bool { return p == path || strings.HasPrefix(p, path+"/") })
}

// apply puts a layer on top, as the specification tells it: from below. It
// reports whether every hard link of it names something that can be linked to.
func (m model) apply(members []tar.Header) bool {
	for _, h := range members {
		dir, name := fstree.Split(h.Name)
		hidden, cover := strings.CutPrefix(name, ".wh.")
		switch {
		case name == ".wh..wh..opq":
			maps.DeleteFunc(m, func(p, _ string) bool { return strings.HasPrefix(p, dir+"/") })
		case cover && dir == "":
			m.remove(hidden)
		case cover:
			m.remove(dir + "/" + hidden)
		}
	}
	for _, h := range members {
		if strings.Contains(h.Name, ".wh.") {
			continue
		}
		name := strings.TrimSuffix(h.Name, "/")
		for i, c := range name {
			if c == '/' {
				m[name[:i]] = "/"
			}
		}
		was := m[name]
		switch h.Typeflag {
		case tar.TypeDir:
			if was != "/" {
				m.remove(name)
			}
			m[name] = "/"
			continue
		case tar.TypeLink:
			was = m[h.Linkname]
			if was == "" || was == "/" || strings.HasPrefix(h.Linkname, name+"/") || strings.HasPrefix(name, h.Linkname+"/") {
				return false
			}
		case tar.TypeSymlink:
			was = "->" + h.Linkname
		default:
			was = "=" + h.Linkname
		}
		m.remove(name)
		m[name] = was
	}
	return true
}

// modelOf is what a stream makes.
func modelOf(t testing.TB, stream []byte) model {
	t.Helper()
	var members []tar.Header
	for tr := tar.NewReader(bytes.NewReader(stream)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		check(t, err)
		if h.Typeflag == tar.TypeReg {
			h.Linkname = string(must(io.ReadAll(tr)))
		}
		members = append(members, *h)
	}
	m := model{}
	if !m.apply(members) {
		t.Errorf("a hard link of the stream leads nowhere: %q", stream)
	}
	return m
}

// consistent reports whether a layer puts nothing below what is no directory,
// nothing where an earlier hard link of it leads to, and nothing twice: what
// archivers do not do, and each reader understands in its own way.
func consistent(members []tar.Header) bool {
	for i, a := range members {
		for j, b := range members {
			if j > i && (b.Name == a.Name || a.Typeflag == tar.TypeLink && b.Name == a.Linkname) {
				return false
			}
			if a.Typeflag != tar.TypeDir && strings.HasPrefix(b.Name, a.Name+"/") {
				return false
			}
		}
	}
	return true
}

// TestFromAboveAsFromBelow holds that layers read from above give what they
// give when each is put on the one below it.
func TestFromAboveAsFromBelow(t *testing.T) {
	names := []string{"a", "b", "c", "a/b", "a/c", "a/b/a", "a/b/c", "b/a", "b/c", "c/a/b"}
	good, bad := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var layers [][]tar.Header
		for range rapid.IntRange(1, 4).Draw(rt, "layers") {
			var members []tar.Header
			for i := range rapid.IntRange(0, 6).Draw(rt, "members") {
				name := rapid.SampledFrom(names).Draw(rt, "name")
				dir, last := fstree.Split(name)
				switch rapid.IntRange(0, 7).Draw(rt, "kind") {
				case 0, 1, 2:
					members = append(members, reg(name, string(rune('0'+len(layers)))+string(rune('0'+i))))
				case 3:
					members = append(members, tar.Header{Typeflag: tar.TypeDir, Name: name + "/"})
				case 4:
					members = append(members, hard(name, rapid.SampledFrom(names).Draw(rt, "to")))
				case 5:
					members = append(members, sym(name, "x"))
				case 6:
					members = append(members, reg(strings.TrimPrefix(dir+"/.wh."+last, "/"), ""))
				case 7:
					members = append(members, tar.Header{Typeflag: tar.TypeDir, Name: name + "/"}, reg(name+"/.wh..wh..opq", ""))
				}
			}
			layers = append(layers, members)
		}
		var streams [][]byte
		want := model{}
		for _, members := range layers {
			streams = append(streams, archive(members...))
			if !consistent(members) || !want.apply(members) {
				return
			}
		}
		stream, err := flat(streams...)
		if e := (*fstree.Error)(nil); err != nil {
			if !errors.As(err, &e) || e.Kind != fstree.KindForm && e.Kind != fstree.KindLink {
				rt.Fatalf("%v", err)
			}
			bad++
			return
		}
		good++
		if got := modelOf(t, stream); !maps.Equal(got, want) {
			rt.Errorf("got  %q\nwant %q", got, want)
		}
	})
	t.Logf("%d were flattened, %d refused", good, bad)
	if good < bad/10 {
		t.Errorf("%d were flattened, %d refused: it proves little", good, bad)
	}
}

// FuzzFlatten holds of any two layers that they are flattened, or refused with
// a kind, and that no hard link of what came out leads nowhere.
func FuzzFlatten(f *testing.F) {
	f.Add(archive(reg("f", "1"), hard("h", "f")), archive(reg(".wh.f", "")))
	f.Add(archive(sym("d", "/etc")), archive(reg("d/f", "1"), dir("d/"), reg("d/.wh..wh..opq", "")))
	f.Add([]byte{}, archive(hard("a", "b"), hard("b", "a")))
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		stream, err := flat(lower, upper)
		if err != nil {
			if e := (*fstree.Error)(nil); !errors.As(err, &e) || e.Kind == "" {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		there := map[string]bool{}
		for tr := tar.NewReader(bytes.NewReader(stream)); ; {
			h, err := tr.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeLink && !there[h.Linkname] {
				t.Errorf("%q is a hard link to %q, which has not come", h.Name, h.Linkname)
			}
			there[h.Name] = true
		}
	})
}
