package envelope

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Digest returns the digest of data as sha256:HEX.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Digest returns the digest of the envelope's canonical form as sha256:HEX,
// or "" where Canonical has an error. Envelopes that say the same in another
// spelling have one digest.
func (e *Envelope) Digest() string {
	data, err := e.Canonical()
	if err != nil {
		return ""
	}
	return Digest(data)
}

// Canonical returns the one JSON text of what the envelope says: keys sorted,
// no white space, no escapes but those that JSON demands (and of U+2028 and
// U+2029). Lists that are sets are sorted; each entry of network.allow stands
// once for each port, with its protocol; a header use has its port and
// format, and its header in lower case. The text decodes to an envelope that
// means the same.
//
// An envelope with a member that is not in its closed set, or with a negative
// quantity, has no such text: that is the error.
func (e *Envelope) Canonical() ([]byte, error) {
	plain := e.plain()
	typed, err := json.Marshal(plain)
	if err != nil {
		return nil, fmt.Errorf("no canonical form: %w", err)
	}
	var tree any // whose objects are maps, and maps are written in order
	dec := json.NewDecoder(bytes.NewReader(typed))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("no canonical form: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, fmt.Errorf("no canonical form: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// plain returns a copy of e in the one spelling of what it says.
func (e *Envelope) plain() Envelope {
	out := e.Clone()
	out.Environment = asSet(out.Environment)
	out.Network.Allow = plainAllow(e.Network.Allow)
	slices.SortFunc(out.Network.Private, func(a, b Private) int {
		return cmp.Or(cmp.Compare(a.CIDR, b.CIDR), cmp.Compare(a.Why, b.Why))
	})
	for name, c := range out.Credentials {
		c.Scopes, c.Use.Methods = asSet(c.Scopes), asSet(c.Use.Methods)
		if c.Use.Header != "" {
			c.Use.Header = strings.ToLower(c.Use.Header)
			c.Use.Port, c.Use.Format = c.Use.PortOrDefault(), c.Use.FormatOrDefault()
		}
		out.Credentials[name] = c
	}
	return out
}

// plainAllow writes one entry for each host, port, protocol and inspection.
func plainAllow(list []Allow) []Allow {
	out := []Allow{}
	for _, a := range list {
		for _, port := range a.Ports {
			out = append(out, Allow{Host: a.Host, Ports: []int{port}, Protocol: a.ProtocolOn(port), Inspect: a.InspectsOn(port)})
		}
		if len(a.Ports) == 0 {
			out = append(out, Allow{Host: a.Host, Ports: []int{}, Protocol: a.Protocol, Inspect: a.Inspect})
		}
	}
	key := func(a Allow) string {
		return fmt.Sprint(a.Host, "\x00", a.Ports, "\x00", a.Protocol, "\x00", a.Inspect)
	}
	slices.SortFunc(out, func(a, b Allow) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(out, func(a, b Allow) bool { return key(a) == key(b) })
}

// asSet sorts a list that it may change.
func asSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
