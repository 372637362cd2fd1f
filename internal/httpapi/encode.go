package httpapi

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// encode returns a value of our own types as JSON; nil: it has none, which cannot
// be. What is large in a result is copied once, to where it stands: package json
// would have it five times and more on the way.
func encode(v any) []byte {
	r, ok := v.(*envelope.Result)
	if !ok {
		text, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return text
	}
	rest, parts := parted(r)
	text, err := json.Marshal(rest)
	if err != nil {
		return nil
	}
	if len(parts) == 0 {
		return text
	}
	size := len(text)
	for _, p := range parts {
		size += base64.StdEncoding.EncodedLen(len(p.data)) - len(p.name)
	}
	whole := make([]byte, 0, size)
	for _, p := range parts {
		before, after, _ := bytes.Cut(text, p.name)
		whole = base64.StdEncoding.AppendEncode(append(whole, before...), p.data)
		text = after
	}
	return append(whole, text...)
}

// A part is large, and stands in a text under another name, which nothing else
// there can have.
type part struct {
	name []byte
	data envelope.Data
}

// parted returns a result without what is large in it, and that, in the order in
// which it is written.
func parted(r *envelope.Result) (*envelope.Result, []part) {
	var parts []part
	take := func(d *envelope.Data) {
		if len(*d) < large {
			return
		}
		name := rand.Text()
		parts = append(parts, part{[]byte(base64.StdEncoding.EncodeToString([]byte(name))), *d})
		*d = envelope.Data(name)
	}
	rest := *r
	for _, s := range []*envelope.Stream{&rest.Stdout, &rest.Stderr} {
		take(&s.Head)
		take(&s.Tail)
	}
	rest.Outputs = slices.Clone(r.Outputs)
	for i := range rest.Outputs {
		take(&rest.Outputs[i].Data)
	}
	if r.Changes != nil {
		changes := *r.Changes
		changes.Files = slices.Clone(changes.Files)
		for i := range changes.Files {
			take(&changes.Files[i].Data)
		}
		rest.Changes = &changes
	}
	if r.Fetched != nil {
		fetched := *r.Fetched
		take(&fetched.Body)
		rest.Fetched = &fetched
	}
	return &rest, parts
}
