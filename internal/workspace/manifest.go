package workspace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/blob"
)

// maxManifest bounds a manifest, in bytes.
const maxManifest = 64 << 20

// Manifest is what is in a version.
type Manifest struct {
	Version int               `json:"version"` // of this form: 1
	Files   []Entry           `json:"files"`   // sorted by name
	Ignore  []envelope.Ignore `json:"ignore,omitempty"`
}

// Entry is one file of a version.
type Entry struct {
	Name       string      `json:"name"`
	Size       int64       `json:"size"`
	Executable bool        `json:"executable,omitempty"`
	SHA256     blob.Digest `json:"sha256"`
}

// Bytes is the size of all files together.
func (m *Manifest) Bytes() (n int64) {
	for _, e := range m.Files {
		n += e.Size
	}
	return n
}

func (m *Manifest) find(name string) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(m.Files, name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
	if !ok {
		return Entry{}, false
	}
	return m.Files[i], true
}

func (m *Manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(m)
	return buf.Bytes(), err
}

// decodeManifest reads a manifest. Whoever can write the store could have made
// it, so that it is held to what a call may hold.
func decodeManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: its manifest is of another form", ErrCorrupt)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}

// Check holds a manifest to what a call may hold. An error wraps ErrCorrupt.
func (m *Manifest) Check() error {
	if m.Version != 1 || len(m.Files) > envelope.MaxTreeFiles {
		return fmt.Errorf("%w: its manifest is of another form", ErrCorrupt)
	}
	room := int64(envelope.MaxTreeBytes)
	for i, e := range m.Files {
		if envelope.CheckName(e.Name) != nil || e.Size < 0 || i > 0 && m.Files[i-1].Name >= e.Name {
			return fmt.Errorf("%w: its manifest names what is no file", ErrCorrupt)
		}
		if room -= e.Size; room < 0 { // at once: a sum of all could come round
			return fmt.Errorf("%w: it is too large", ErrCorrupt)
		}
	}
	return nil
}
