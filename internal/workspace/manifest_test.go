package workspace

import (
	"bytes"
	"errors"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// FuzzManifest: what is no manifest is an error that says so, and what is one
// is a tree that a call may have, and written again is the same.
func FuzzManifest(f *testing.F) {
	good := &Manifest{Version: 1, Files: []Entry{{Name: "a", Size: 1}, {Name: "b/c", Executable: true}}, Ignore: []envelope.Ignore{{Rules: "*.o"}}}
	text, err := good.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"files":[{"name":"../x","size":1}]}`))
	f.Add([]byte(`{"version":1,"files":[{"name":"a","size":1},{"name":"a","size":1}]}`))
	f.Add([]byte(`{"version":1,"files":[]} {}`))
	for _, more := range []string{"}", "]", "{}"} {
		if _, err := decodeManifest([]byte(string(text) + more)); err == nil {
			f.Errorf("a manifest, and after it %q", more)
		}
	}
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"files":[{"name":"a","size":9223372036854775807},{"name":"b","size":9223372036854775807}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || m != nil {
				t.Fatalf("%v, %+v", err, m)
			}
			return
		}
		room := int64(envelope.MaxTreeBytes)
		for i, e := range m.Files {
			if room -= e.Size; room < 0 {
				t.Fatalf("%q is more than a tree may have", e.Name)
			}
			if envelope.CheckName(e.Name) != nil || e.Size < 0 || i > 0 && m.Files[i-1].Name >= e.Name {
				t.Fatalf("%+v", e)
			}
		}
		text, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeManifest(text)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := again.encode(); err != nil || !bytes.Equal(text, second) {
			t.Fatal("it does not come back as it was")
		}
	})
}
